// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules, in the order in which their findings are told.

use crate::Rule;

pub(crate) static ALL: &[Rule] = &[];
