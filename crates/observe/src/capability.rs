// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Probes features.

use pagewise_model::*;

use crate::root::HostRoot;

pub(crate) fn read(_host: &HostRoot, _summary: &HostSummary) -> Vec<Capability> {
    Vec::new()
}
