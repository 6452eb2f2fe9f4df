// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads KSM.

use pagewise_model::*;

use crate::root::HostRoot;

pub(crate) fn read(_host: &HostRoot) -> Ksm {
    Ksm::default()
}
