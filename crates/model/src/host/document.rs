// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every JSON document contains: a description of the machine, and the time and memory that
//! Pagewise itself used to produce the document.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// A short description of the machine that a document describes.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct HostSummary {
    /// Name of the host; in a recording, a hash of the name.
    pub name: Reading<Name>,
    /// The CPU architecture, such as `x86_64`.
    pub architecture: Reading<Name>,
    /// Number of CPUs that are online.
    pub cpus: Reading<u32>,
    /// Size of a base page.
    pub page_size: Reading<Bytes>,
    /// The hypervisor, such as `kvm`; absent on bare metal.
    pub virtualization: Reading<Name>,
    /// The container runtime, such as `docker`; absent outside of a container.
    pub container: Reading<Name>,
    /// Where the values were read from: `live` for the running host, or the path of a recording.
    pub root: Name,
    /// Which program collected the files, if they are copies of some files of the machine that
    /// another program made; `None` for the running host and for recordings by Pagewise.
    pub copies: Option<Copies>,
}

/// Copies of some files of a machine, which a program other than Pagewise collected.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Copies {
    /// The kind of collection.
    pub kind: CopiesKind,
    /// The output of `date` when the files were collected; absent if it was not collected.
    pub date: Reading<Name>,
}

/// The kind of a collection of a machine's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopiesKind {
    /// An sosreport, made by the program `sos`.
    Sosreport,
    /// A supportconfig of SUSE.
    Supportconfig,
    /// A folder that contains a folder `proc`, or files of `/proc` directly.
    Folder,
}

/// Time, memory and reads that Pagewise needed to compute its output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// CPU time in seconds, helper processes included.
    pub cpu_seconds: f64,
    /// Elapsed time in seconds from the start of the program to the output.
    pub wall_seconds: f64,
    /// Number of bytes that were read from the host's files.
    pub bytes_read: u64,
    /// Largest resident set size of the program.
    pub peak_memory_bytes: Bytes,
}
