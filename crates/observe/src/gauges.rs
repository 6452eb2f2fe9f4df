// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads single values of a host for code that measures, each at the moment it is asked for and
//! without a full [`Snapshot`](pagewise_model::Snapshot).
//!
//! A value that the host does not provide is `None`: a measurement continues without it.

use std::collections::BTreeSet;

use pagewise_model::{Bytes, Ksm, Micros, MmStat, Zram};

use crate::counters::find_number;
use crate::snapshot::VMSTAT;
use crate::{ksm, memory, psi, zram, zswap};
use pagewise_hostfs::text::{number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// Reads single values of a host.
#[derive(Debug, Clone, Copy)]
pub struct HostGauges<'h>(pub &'h HostRoot);

/// Time of all CPUs together since boot, in ticks of [`rustix::param::clock_ticks_per_second`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// Time that the CPUs spent running something, in clock ticks.
    pub busy: u64,
    /// The part of the busy time that programs spent outside of the kernel, in clock ticks.
    pub user: u64,
    /// Steal: clock ticks in which the hypervisor ran other guests instead.
    pub stolen: u64,
    /// Total time of all CPUs in clock ticks, idle included.
    pub all: u64,
    /// Number of CPUs whose ticks are counted.
    pub processors: u64,
}

/// Bytes transferred from and to a block device since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Bytes read from the device since it was created.
    pub read: Bytes,
    /// Bytes written to the device since it was created.
    pub written: Bytes,
}

/// A pool of compressed pages in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// RAM that the pool of compressed pages uses.
    pub taken: Bytes,
    /// Size of the stored pages before compression.
    pub original: Bytes,
}

impl HostGauges<'_> {
    /// Swap in use on the whole host: `SwapTotal` minus `SwapFree`.
    #[must_use]
    pub fn swap_used(self) -> Option<Bytes> {
        let memory = memory::read(self.0);
        let free = memory.swap_free.get()?.get();
        memory.swap_total.get()?.get().checked_sub(free).map(Bytes::new)
    }

    /// Memory that programs can still take without swapping: `MemAvailable`.
    #[must_use]
    pub fn available(self) -> Option<Bytes> {
        let text = self.0.bytes("proc/meminfo").ok()?;
        Some(Bytes::new(find_number(&text, b"MemAvailable:")?.checked_mul(1024)?))
    }

    /// Settings and counters of kernel same-page merging.
    #[must_use]
    pub fn ksm(self) -> Ksm {
        ksm::read(self.0)
    }

    /// Whether any swap area is active.
    #[must_use]
    pub fn has_swap(self) -> bool {
        self.0.text("proc/swaps").is_ok_and(|areas| areas.lines().count() > 1)
    }

    /// Bytes read from and written to a block device since boot; `name` as `vda` or `zram1`. `None`
    /// if there is no such device. The kernel counts sectors of 512 bytes
    /// (Documentation/block/stat.rst).
    #[must_use]
    pub fn device_traffic(self, name: &str) -> Option<DeviceTraffic> {
        self.0.close_held_folders();
        let text = self.0.bytes(&format!("sys/block/{name}/stat")).ok()?;
        let numbers: Vec<u64> = words(&text).map(number).collect::<Option<_>>()?;
        let [_, _, read, _, _, _, written, ..] = numbers[..] else { return None };
        let bytes = |sectors: u64| sectors.checked_mul(512).map(Bytes::new);
        Some(DeviceTraffic { read: bytes(read)?, written: bytes(written)? })
    }

    /// RAM used by zswap's pool (`Zswap:` of meminfo).
    #[must_use]
    pub fn zswap_pool(self) -> Option<Bytes> {
        memory::find_other(&memory::read(self.0), "Zswap").get()
    }

    /// Use of zswap's pool: `Zswap:` and `Zswapped:` of meminfo.
    #[must_use]
    pub fn zswap_use(self) -> Option<PoolUse> {
        let memory = memory::read(self.0);
        let size = |name| memory::find_other(&memory, name).get();
        Some(PoolUse { taken: size("Zswap")?, original: size("Zswapped")? })
    }

    /// What a zram device stores and the RAM that this uses (`mm_stat`), excluding its slot table.
    #[must_use]
    pub fn zram_use(self, number: u32) -> Option<PoolUse> {
        let mm_stat = self.mm_stat(number);
        Some(PoolUse { taken: mm_stat.memory_used.get()?, original: mm_stat.original.get()? })
    }

    /// What a zram device stores, and what it could do with unused pages; of the other values none is
    /// read. `None` if there is no such device.
    #[must_use]
    pub fn zram_device(self, number: u32) -> Option<Zram> {
        self.0.close_held_folders();
        zram::read_stored(self.0, number)
    }

    /// The size of a block device; `None` if there is no such device. The kernel counts sectors of 512
    /// bytes.
    #[must_use]
    pub fn device_size(self, name: &str) -> Option<Bytes> {
        self.0.close_held_folders();
        let sectors: u64 = self.0.number_at(&format!("sys/class/block/{name}/size")).get()?;
        sectors.checked_mul(512).map(Bytes::new)
    }

    /// Whether zswap is on.
    #[must_use]
    pub fn is_zswap_on(self) -> bool {
        zswap::is_enabled(self.0).get() == Some(true)
    }

    /// Total time in which all tasks were stalled on memory (PSI `full`).
    #[must_use]
    pub fn memory_stall(self) -> Option<Micros> {
        psi::pressure(self.0, "proc/pressure/memory").full.total_us.get()
    }

    /// Total time in which some task was stalled on memory (PSI `some`).
    #[must_use]
    pub fn memory_wait(self) -> Option<Micros> {
        psi::pressure(self.0, "proc/pressure/memory").some.total_us.get()
    }

    /// Number of processes that the kernel killed for lack of memory since boot, of the host or of a
    /// cgroup (`oom_kill` of `/proc/vmstat`).
    #[must_use]
    pub fn oom_kills(self) -> Option<u64> {
        find_number(&self.0.bytes(VMSTAT).ok()?, b"oom_kill")
    }

    /// CPU time of the host from `/proc/stat`, in clock ticks.
    #[must_use]
    pub fn processor_ticks(self) -> Option<ProcessorTicks> {
        let text = self.0.text("proc/stat").ok()?;
        let mut lines = text.lines();
        let first = lines.next()?;
        let numbers = first.bytes.strip_prefix(b"cpu ")?;
        let numbers: Vec<u64> = words(numbers).map(number).collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = numbers[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        let processors = lines.take_while(|line| line.bytes.starts_with(b"cpu")).count() as u64;
        let all = busy + idle + iowait + stolen;
        Some(ProcessorTicks { busy, user: user + nice, stolen, all, processors })
    }

    /// The load averages of the host over 1, 5 and 15 minutes.
    #[must_use]
    pub fn load(self) -> Option<[f64; 3]> {
        let text = self.0.bytes("proc/loadavg").ok()?;
        let mut numbers = words(&text).map_while(number);
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    }

    /// The clock source of the kernel, as `tsc`.
    #[must_use]
    pub fn clocksource(self) -> Option<String> {
        self.word("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// The cpufreq governors in use, as `performance`, each once.
    #[must_use]
    pub fn governors(self) -> BTreeSet<String> {
        const PROCESSORS: &str = "sys/devices/system/cpu";
        let processors = self.0.list_numbers(PROCESSORS, "cpu").into_iter();
        let governor = |id| self.word(&format!("{PROCESSORS}/cpu{id}/cpufreq/scaling_governor"));
        processors.filter_map(governor).collect()
    }

    /// Peak memory used by a zram device since it was created or the peak was reset (`mm_stat`).
    #[must_use]
    pub fn zram_peak(self, number: u32) -> Option<Bytes> {
        self.mm_stat(number).memory_used_max.get()
    }

    fn mm_stat(self, number: u32) -> MmStat {
        // on a live host, the values must be read again: they are cached until they are released
        self.0.close_held_folders();
        zram::mm_stat(self.0, &format!("sys/block/zram{number}/mm_stat"))
    }

    fn word(self, path: &str) -> Option<String> {
        self.0.name_at(path).value().map(ToString::to_string)
    }
}
