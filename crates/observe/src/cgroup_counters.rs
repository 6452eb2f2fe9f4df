// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one memory cgroup has counted, for whoever measures in it: each file is read when it is asked
//! for, in either version of cgroups.

use std::path::Path;

use pagewise_model::{Bytes, Counters, Micros};

use crate::{counters, psi};
use pagewise_hostfs::{HostRoot, ReadValues};

/// The counters of a memory cgroup.
#[derive(Debug, Clone)]
pub struct CgroupCounters {
    folder: String,
    unified: bool,
}

impl CgroupCounters {
    /// `unified`: it is of version 2.
    #[must_use]
    pub fn new(folder: &Path, unified: bool) -> Self {
        let folder = folder.to_string_lossy().trim_start_matches('/').to_owned();
        Self { folder, unified }
    }

    /// `memory.stat`.
    #[must_use]
    pub fn stat(&self, host: &HostRoot) -> Counters {
        counters::read(host, &self.path("memory.stat"))
    }

    /// The most memory that it has used. Kernels before 6.0 do not tell it of version 2.
    #[must_use]
    pub fn peak(&self, host: &HostRoot) -> Option<Bytes> {
        let file = if self.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
        host.bytes_at(&self.path(file)).get()
    }

    /// Processes that the kernel has killed in it for lack of memory.
    #[must_use]
    pub fn oom_kills(&self, host: &HostRoot) -> u64 {
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        counters::read(host, &self.path(file)).get("oom_kill").get().unwrap_or(0)
    }

    /// Processor time of version 2, also of processes for which nobody waited.
    #[must_use]
    pub fn cpu(&self, host: &HostRoot) -> Option<Micros> {
        let micros = || counters::read(host, &self.path("cpu.stat")).get("usage_usec").get();
        self.of_version_2(micros).map(Micros::new)
    }

    /// Its memory in swap. Version 1 tells it among its statistics, which lag by some pages: its two
    /// usages are read one after the other, and what is charged in between would look like swap.
    #[must_use]
    pub fn swap(&self, host: &HostRoot) -> Option<Bytes> {
        if self.unified {
            return host.bytes_at(&self.path("memory.swap.current")).get();
        }
        self.stat(host).get("total_swap").get().map(Bytes::new)
    }

    /// The most memory that it has had in swap; newer kernels tell it of version 2.
    #[must_use]
    pub fn swap_peak(&self, host: &HostRoot) -> Option<Bytes> {
        self.of_version_2(|| host.bytes_at(&self.path("memory.swap.peak")).get())
    }

    /// Memory that its pages take in zswap's pool.
    #[must_use]
    pub fn zswap(&self, host: &HostRoot) -> Option<Bytes> {
        self.of_version_2(|| host.bytes_at(&self.path("memory.zswap.current")).get())
    }

    /// The time in which all its tasks waited for memory (PSI, full).
    #[must_use]
    pub fn memory_stall(&self, host: &HostRoot) -> Option<Micros> {
        let pressure = || psi::pressure(host, &self.path("memory.pressure"));
        self.of_version_2(|| pressure().full.total_us.get())
    }

    fn of_version_2<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.unified { read() } else { None }
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }
}
