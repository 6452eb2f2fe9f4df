// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads processes.

use pagewise_model::*;

use crate::root::HostRoot;

pub(crate) fn read(_host: &HostRoot, _budget: std::time::Duration) -> Processes {
    Processes::default()
}
