// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live log from a moment on: what was killed while something else was done.

use std::os::fd::OwnedFd;

use pagewise_model::OomKill;
use rustix::fs::{Mode, OFlags, SeekFrom};

use super::record::records;
use super::report::Reports;
use pagewise_hostfs::read_records;

/// The log of this machine since this was made.
#[derive(Debug)]
pub struct KillsSince {
    file: OwnedFd,
}

impl KillsSince {
    /// From now on; `None` where the log may not be read, or there is none.
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

    /// Reports until now that have not been told, oldest first; without a time of day.
    pub fn kills(&mut self) -> Vec<OomKill> {
        let mut reports = Reports::new(rustix::param::page_size() as u64, super::SHOWN);
        // what was read until an error stands
        let _ = read_records(&self.file, |raw| {
            records(raw).for_each(|record| drop(reports.take(&record)));
        });
        reports.done().0
    }
}
