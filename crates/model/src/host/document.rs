// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands around every answer: which machine, and what looking cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// The machine, in a line.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct HostSummary {
    /// Its name; hashed in a recording.
    pub name: Reading<Name>,
    /// As `x86_64`.
    pub architecture: Reading<Name>,
    /// CPUs that are online.
    pub cpus: Reading<u32>,
    /// Base page size.
    pub page_size: Reading<Bytes>,
    /// What kind of virtual machine this is, as `kvm`; absent on bare metal.
    pub virtualization: Reading<Name>,
    /// What kind of container we are in, as `docker`; absent outside.
    pub container: Reading<Name>,
    /// Where the facts came from: `live` or the recording's path.
    pub root: Name,
}

/// What looking cost this program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// CPU time, helper processes included.
    pub cpu_seconds: f64,
    /// Time from start to print.
    pub wall_seconds: f64,
    /// Bytes read from the host's files.
    pub bytes_read: u64,
    /// The largest resident size the program had.
    pub peak_memory_bytes: Bytes,
}
