// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads swap tiers.

use pagewise_model::*;

use crate::root::HostRoot;

use crate::mounts::Mounts;
pub(crate) fn read(_host: &HostRoot, _mounts: &Mounts) -> Vec<Tier> {
    Vec::new()
}
