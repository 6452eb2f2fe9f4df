// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fuzz target for redaction, and the list of files that it changes.

use std::time::Duration;

use pagewise_hostfs::parser::{Parser, files, keep};
use pagewise_hostfs::{Entry, HostRoot, ReadHost};
use pagewise_observe::{Recording, Scope};

use crate::Capture;

/// The fuzz targets of this crate.
pub static PARSERS: &[Parser] = &[files("redaction", REDACTED, redaction)];

/// Files that redaction does not copy but rewrites, each with a function of its own.
const REDACTED: &[&str] = &[
    "proc/7/status",
    "proc/7/cgroup",
    "proc/7/smaps_rollup",
    "proc/swaps",
    "proc/self/mountinfo",
    "proc/sys/kernel/osrelease",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/a/memory.stat",
    "dev/kmsg",
    "journal/kernel",
    "journal/programs",
];

/// Redacts the files of a host.
fn redaction(host: &HostRoot) {
    let files = REDACTED.iter().filter_map(|path| {
        let bytes = host.bytes(path).ok()?;
        Some(((*path).to_owned(), Entry::File(bytes)))
    });
    let recording = Recording { start: None, end: HostRoot::memory(files) };
    let scope = Scope { settings: false, ..Scope::everything(Duration::ZERO) };
    if let Ok((_, tape)) = recording.record::<()>(&scope, || Ok(())) {
        keep(Capture::from_tape(tape));
    }
}
