// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads MGLRU.

use pagewise_model::*;

use crate::root::HostRoot;

pub(crate) fn read(_host: &HostRoot) -> Mglru {
    Mglru::default()
}
