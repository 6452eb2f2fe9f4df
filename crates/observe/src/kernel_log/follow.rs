// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the live kernel log from a given moment, to find kills that happen during an operation.

use std::os::fd::OwnedFd;

use pagewise_model::OomKill;
use rustix::fs::{Mode, OFlags, SeekFrom};

use super::record::records;
use super::report::Reports;
use pagewise_hostfs::read_records;

/// The kernel log of this machine, from the creation of this value on, for OOM kills.
#[derive(Debug)]
pub struct KillsSince {
    file: OwnedFd,
}

impl KillsSince {
    /// Starts at the end of the log; `None` if the log does not exist or may not be read.
    #[expect(
        clippy::disallowed_methods,
        reason = "followed while a program runs, and never recorded"
    )]
    pub fn now() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?;
        rustix::fs::seek(&file, SeekFrom::End(0)).ok()?;
        Some(Self { file })
    }

    /// The OOM kills logged since the last call (or since the start), oldest first; without a time
    /// of day.
    pub fn kills(&mut self) -> Vec<OomKill> {
        let mut reports = Reports::new(rustix::param::page_size() as u64, super::SHOWN);
        // records read before an error are still used
        let _ = read_records(&self.file, |raw| {
            records(raw).for_each(|record| drop(reports.take(&record)));
        });
        reports.finish().kills
    }
}
