// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every JSON document contains: which machine it is about, and what Pagewise itself used to
//! make it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// The machine, in short.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct HostSummary {
    /// The host's name; in a recording, a hash of it.
    pub name: Reading<Name>,
    /// The CPU architecture, such as `x86_64`.
    pub architecture: Reading<Name>,
    /// CPUs that are online.
    pub cpus: Reading<u32>,
    /// Base page size.
    pub page_size: Reading<Bytes>,
    /// The hypervisor, such as `kvm`; absent on bare metal.
    pub virtualization: Reading<Name>,
    /// The container runtime, such as `docker`; absent outside of a container.
    pub container: Reading<Name>,
    /// Where the values were read: `live`, or the recording's path.
    pub root: Name,
}

/// What this program used to read and compute the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// CPU time, helper processes included.
    pub cpu_seconds: f64,
    /// Elapsed time from the start of the program to its output.
    pub wall_seconds: f64,
    /// Bytes read from the host's files.
    pub bytes_read: u64,
    /// The program's largest resident set size.
    pub peak_memory_bytes: Bytes,
}
