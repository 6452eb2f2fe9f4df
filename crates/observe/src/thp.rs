// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads THP.

use pagewise_model::*;

use crate::root::HostRoot;

pub(crate) fn read(_host: &HostRoot) -> Thp {
    Thp::default()
}
