// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of `name value` lines (`/proc/vmstat`, `memory.stat`, THP statistics) into
//! [`Counters`].

use pagewise_model::{Counters, Name, Reading};

use crate::root::HostRoot;
use crate::text::{Line, number};

/// The counters of a file; empty where it cannot be read.
pub(crate) fn read(host: &HostRoot, path: &str) -> Counters {
    let Ok(text) = host.text(path) else { return Counters::default() };
    text.lines().map(|line| counter(host, &line)).collect()
}

fn counter(host: &HostRoot, line: &Line<'_>) -> (Name, Reading<u64>) {
    let mut words = line.words();
    let name = Name::from_bytes(words.next().unwrap_or_default());
    let value = words.next().and_then(number).filter(|_| words.next().is_none());
    let reading = match value {
        Some(value) => Reading::found(value, line.source()),
        None => host.garbled(line.source(), "a name and a whole number", line.bytes),
    };
    (name, reading)
}
