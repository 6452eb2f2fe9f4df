// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the counters of one memory cgroup for code that measures in it. Each file is read at the
//! moment it is asked for; both versions of cgroups are supported.

use std::path::Path;

use pagewise_model::{Bytes, Counters, Micros};

use crate::counters::find_number;
use crate::{counters, psi};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// The counters of a memory cgroup.
#[derive(Debug, Clone)]
pub struct CgroupCounters {
    folder: String,
    unified: bool,
}

impl CgroupCounters {
    /// Finds the counters of the cgroup with this folder; `unified` says whether it belongs to
    /// cgroup version 2.
    #[must_use]
    pub fn new(folder: &Path, unified: bool) -> Self {
        let folder = folder.to_string_lossy().trim_start_matches('/').to_owned();
        Self { folder, unified }
    }

    /// All counters of the cgroup's `memory.stat`.
    #[must_use]
    pub fn stat(&self, host: &HostRoot) -> Counters {
        counters::read(host, &self.path("memory.stat"))
    }

    /// The memory usage of the cgroup and its descendants.
    #[must_use]
    pub fn usage(&self, host: &HostRoot) -> Option<Bytes> {
        let file = if self.unified { "memory.current" } else { "memory.usage_in_bytes" };
        host.bytes_at(&self.path(file)).get()
    }

    /// Contents of files that the kernel drops when the cgroup reaches its limit: the pages of files
    /// on the two LRU lists, which tmpfs is not part of.
    #[must_use]
    pub fn page_cache(&self, host: &HostRoot) -> Option<Bytes> {
        let names = if self.unified {
            ["active_file", "inactive_file"]
        } else {
            ["total_active_file", "total_inactive_file"]
        };
        let stat = host.bytes(&self.path("memory.stat")).ok()?;
        names.into_iter().map(|name| find_number(&stat, name.as_bytes()).map(Bytes::new)).sum()
    }

    /// The peak memory usage of the cgroup. Version 2 has no such file before Linux 5.19.
    #[must_use]
    pub fn peak(&self, host: &HostRoot) -> Option<Bytes> {
        let file = if self.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
        host.bytes_at(&self.path(file)).get()
    }

    /// Number of processes of this cgroup that the OOM killer has killed; 0 if unknown.
    #[must_use]
    pub fn oom_kills(&self, host: &HostRoot) -> u64 {
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        counters::read(host, &self.path(file)).get("oom_kill").get().unwrap_or(0)
    }

    /// CPU time, including that of processes that were never waited for; version 2 only.
    #[must_use]
    pub fn cpu(&self, host: &HostRoot) -> Option<Micros> {
        let micros = || counters::read(host, &self.path("cpu.stat")).get("usage_usec").get();
        self.of_version_2(micros).map(Micros::new)
    }

    /// Memory of this cgroup in swap. In version 1 it is read from `memory.stat`, which lags by
    /// some pages. The difference of the two usage files would be worse: they are read one after
    /// the other, and memory charged in between would look like swap.
    #[must_use]
    pub fn swap(&self, host: &HostRoot) -> Option<Bytes> {
        if self.unified {
            return host.bytes_at(&self.path("memory.swap.current")).get();
        }
        self.stat(host).get("total_swap").get().map(Bytes::new)
    }

    /// The peak swap usage of the cgroup; only in version 2 of newer kernels (`memory.swap.peak`,
    /// Linux 6.5).
    #[must_use]
    pub fn swap_peak(&self, host: &HostRoot) -> Option<Bytes> {
        self.of_version_2(|| host.bytes_at(&self.path("memory.swap.peak")).get())
    }

    /// Compressed size in zswap of the pages of this cgroup; version 2 only.
    #[must_use]
    pub fn zswap(&self, host: &HostRoot) -> Option<Bytes> {
        self.of_version_2(|| host.bytes_at(&self.path("memory.zswap.current")).get())
    }

    /// Total time in which all tasks of this cgroup were stalled on memory (PSI `full`); version 2
    /// only.
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
