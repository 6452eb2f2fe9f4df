// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a host has memory to spare, so that waiting in it can come from the limit of a cgroup.

use pagewise_facts::zones;
use pagewise_model::{Level, Snapshot};

use super::{headroom, pressure};

/// Whether the host itself has memory to spare, so that waiting can come from a cgroup's limit.
pub(crate) fn is_spared(host: &Snapshot) -> bool {
    headroom::level_of_host(host) == Some(Level::Calm) && zones::all_above_low(host) == Some(true)
}

/// How bad the waiting is on a host that has memory to spare.
pub(crate) fn waiting_of_spared(host: &Snapshot) -> Option<Level> {
    pressure::shortage(&host.psi.memory).filter(|_| is_spared(host))
}
