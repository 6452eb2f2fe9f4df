// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads all parts of a [`Snapshot`], one after the other.

use std::time::Duration;

use pagewise_model::{Driver, KernelThread, Memory, Processes, Reading, Snapshot, Taken};

use crate::kconfig::{self, CHAIN_SIZE};
use crate::known::Known;
use crate::mounts::Mounts;
use crate::process::Look;
use crate::{
    capability, cgroup, counters, damon, disk_stats, gpu_memory, host, hugetlb, kernel_log, knob,
    ksm, memory, memory_files, mglru, mounts, process, psi, swap, thp, thread_cpu, uptime, zfs,
    zmerge, zone, zram, zswap,
};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// How much of a host is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// How much is read of each process.
    pub processes: ProcessScope,
    /// Whether CPU time and faults of each process are read at the start of an interval too, so
    /// that they have rates.
    pub process_rates: bool,
    /// Time limit for reading proportional sizes (PSS); zero reads none.
    pub smaps_budget: Duration,
    /// Proportional sizes are no longer read when no process that is left can be among this many
    /// largest ones.
    pub smaps_enough: usize,
    /// Whether every memory cgroup is read.
    pub cgroups: bool,
    /// Whether a cgroup that did nothing with its memory since an earlier reading ([`Known`]) is taken
    /// from there. A changed limit is then missed until the next reading with another scope.
    pub changed_cgroups_only: bool,
    /// Whether the whole knob table is read and the kernel's features are probed.
    pub settings: bool,
    /// Whether the OOM kills in the kernel log are read.
    pub kernel_log: bool,
    /// Whether the CPU time of the kernel threads for reclaim, compaction and khugepaged is read.
    pub kernel_threads: bool,
    /// Whether only what changes from second to second is read: configuration files, features of the
    /// kernel and journald's files are left out, even if `settings` and `kernel_log` ask for them. See
    /// [`keep_slow_parts`].
    pub volatile_only: bool,
}

/// How much is read of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessScope {
    /// Processes are not read.
    Nothing,
    /// All processes are read in full.
    Everything,
    /// All processes are read, but not those whose `stat` is as it was at an earlier reading
    /// ([`Known`]): what was read then is used again.
    Changed,
    /// As [`Self::Changed`], but of a process whose `stat` was the same at the last readings, not even
    /// `stat` is read: what it does is missed until the next reading with another scope.
    Awake,
    /// At most this many processes are read, those with the most memory in RAM.
    Largest(usize),
}

impl ProcessScope {
    fn has_all(self) -> bool {
        matches!(self, Self::Everything | Self::Changed | Self::Awake)
    }
}

impl Scope {
    /// A scope with everything except rates of processes and kernel threads.
    pub const fn everything(smaps_budget: Duration) -> Self {
        Self {
            processes: ProcessScope::Everything,
            process_rates: false,
            smaps_budget,
            smaps_enough: usize::MAX,
            cgroups: true,
            changed_cgroups_only: false,
            settings: true,
            kernel_log: true,
            kernel_threads: false,
            volatile_only: false,
        }
    }

    /// A scope with only values of the host as a whole.
    pub const fn glance() -> Self {
        Self {
            processes: ProcessScope::Nothing,
            process_rates: false,
            smaps_budget: Duration::ZERO,
            smaps_enough: 0,
            cgroups: false,
            changed_cgroups_only: false,
            settings: false,
            kernel_log: false,
            kernel_threads: false,
            volatile_only: false,
        }
    }
}

pub(crate) const VMSTAT: &str = "proc/vmstat";

/// Reads a host. Never fails as a whole: a value that cannot be read is absent or denied.
pub fn snapshot(host: &HostRoot, scope: &Scope) -> Snapshot {
    snapshot_after(host, scope, None)
}

/// Reads a host as [`snapshot`] does, but takes processes and cgroups that did nothing since an earlier
/// snapshot from it, as far as the scope allows that; `known` belongs to that snapshot, and to this one
/// afterwards.
pub(crate) fn snapshot_after(
    host: &HostRoot,
    scope: &Scope,
    mut known: Option<(&mut Known, &Snapshot)>,
) -> Snapshot {
    let mounts = mounts::read(host);
    let khugepaged = known.as_ref().and_then(|(known, _)| known.khugepaged);
    let mut snapshot =
        Snapshot { thp: thp::read_with(host, khugepaged), ..glance_without_thp(host, &mounts) };
    if let Some((known, _)) = &mut known {
        known.khugepaged = snapshot.thp.khugepaged.pid.get();
    }
    if scope.cgroups {
        snapshot.cgroups = match &mut known {
            Some((known, before)) => {
                let keeps = scope.changed_cgroups_only;
                cgroup::read_after(host, &mounts, &mut known.groups, &before.cgroups, keeps)
            }
            None => cgroup::read(host, &mounts),
        };
    }
    if scope.settings {
        snapshot.knobs = knob::read(host, &snapshot.cgroups, snapshot.memory.total.get());
        if !scope.volatile_only {
            snapshot.configuration = pagewise_settings::read(host);
            snapshot.capabilities = capability::read(host, &snapshot.host);
            snapshot.zsmalloc_chain_size = kconfig::kconfig(host).number(CHAIN_SIZE);
        }
    }
    if scope.kernel_log {
        snapshot.kernel_log = if scope.volatile_only {
            kernel_log::read_buffer(host, &snapshot.taken)
        } else {
            kernel_log::read(host, &snapshot.taken)
        };
    }
    snapshot.processes = match scope.processes {
        ProcessScope::Nothing => Processes::default(),
        ProcessScope::Everything | ProcessScope::Changed | ProcessScope::Awake => {
            let look = match scope.processes {
                ProcessScope::Awake => Look::AtAwake,
                _ => Look::AtAll,
            };
            let reads_all = scope.processes == ProcessScope::Everything;
            let known = known.as_mut().map(|(known, before)| {
                if reads_all {
                    known.processes.forget_all();
                }
                (&mut known.processes, &*before.processes.list, look)
            });
            process::read(host, known, scope.smaps_budget, scope.smaps_enough)
        }
        ProcessScope::Largest(most) => process::read_largest(host, most),
    };
    if scope.processes.has_all() {
        let (memory, processes) = (&snapshot.memory, &snapshot.processes.list);
        snapshot.memory_files = memory_files::read(host, &mounts, memory, processes);
        snapshot.gpu_memory = gpu_memory::read(host, memory, processes);
    }
    if scope.kernel_threads {
        // a memory node that is added has threads of its own, which the next complete reading finds
        let among = known.as_ref().filter(|_| scope.volatile_only);
        let among = among.and_then(|(known, _)| known.threads.as_deref());
        let found = thread_cpu::memory_threads(host, among);
        let (ids, threads): (Vec<u32>, Vec<KernelThread>) = found.unzip();
        snapshot.kernel_threads = threads;
        if let Some((known, _)) = &mut known {
            known.threads = Some(ids);
        }
    }
    finish(host, snapshot)
}

/// Moves from an earlier snapshot of the same boot what a reading with
/// [`Scope::volatile_only`] leaves out: configuration files, features of the kernel, and the kernel
/// log with what journald's files add to it. The start of an interval needs none of them.
pub fn keep_slow_parts(snapshot: &mut Snapshot, before: &mut Snapshot) {
    snapshot.configuration = std::mem::take(&mut before.configuration);
    snapshot.capabilities = std::mem::take(&mut before.capabilities);
    snapshot.zsmalloc_chain_size =
        std::mem::replace(&mut before.zsmalloc_chain_size, Reading::not_read());
    snapshot.kernel_log = std::mem::take(&mut before.kernel_log);
    let clocks = snapshot.taken.awake_seconds.zip(before.taken.awake_seconds);
    let passed = clocks.map_or(0.0, |(now, then)| (now - then).max(0.0));
    for kill in &mut snapshot.kernel_log.kills {
        kill.seconds_ago = kill.seconds_ago.map(|ago| ago + passed);
    }
}

/// Reads what the start of an interval needs if `scope` is read at its end: the counters from
/// which rates are computed, the sizes that are compared, and what shows that both are of the same
/// boot.
///
/// Everything else is [`Reading::not_read`](pagewise_model::Reading::not_read) or empty. A value
/// that a rule or a page compares over an interval must be read here; the test
/// `an_interval_needs_nothing_but_counters_at_its_start` fails if it is missing.
pub(crate) fn read_counters(host: &HostRoot, scope: &Scope) -> Snapshot {
    let mut snapshot = Snapshot {
        taken: read_taken(host),
        memory: memory::read(host),
        vmstat: counters::read(host, VMSTAT),
        disk_stats: if swap::has_disk(host) { disk_stats::read(host) } else { Vec::new() },
        psi: psi::read_memory(host),
        zram: zram::read_counters(Driver::Zram, host),
        zmerge: zram::read_counters(Driver::Zmerge, host),
        thp: thp::read_counters(host),
        ..Snapshot::default()
    };
    snapshot.host.page_size = host::page_size(host);
    if scope.cgroups {
        snapshot.cgroups = cgroup::read_counters(host, &mounts::read(host));
    }
    if scope.processes.has_all() {
        snapshot.processes = process::read_earlier(host, &snapshot, scope.process_rates);
    }
    finish(host, snapshot)
}

/// Adds the cost of reading and the Problems that `host` has collected.
fn finish(host: &HostRoot, mut snapshot: Snapshot) -> Snapshot {
    host.close_held_folders();
    snapshot.problems = host.take_problems();
    snapshot.bytes_read = host.take_bytes_read();
    snapshot
}

/// Reads only the values that [`Scope::glance`] asks for, which are part of every scope.
pub(crate) fn glance(host: &HostRoot, mounts: &Mounts) -> Snapshot {
    Snapshot { thp: thp::read(host), ..glance_without_thp(host, mounts) }
}

fn glance_without_thp(host: &HostRoot, mounts: &Mounts) -> Snapshot {
    let taken = Taken { kernel: host::kernel(host), ..read_taken(host) };
    let memory = read_memory(host);
    let vmstat = counters::read(host, VMSTAT);
    let tiers = swap::read(host, mounts);
    let has_disk = tiers.iter().any(|tier| !tier.kind.is_ram());
    Snapshot {
        disk_stats: if has_disk { disk_stats::read(host) } else { Vec::new() },
        taken,
        host: host::read(host, mounts),
        psi: psi::read(host),
        zones: zone::read_zones(host),
        free_blocks: zone::read_free_blocks(host),
        zram: zram::read(host, &tiers, mounts),
        zmerge: zmerge::read(host, &tiers, mounts),
        zswap: zswap::read(host, &memory, &vmstat),
        ksm: ksm::read(host),
        hugetlb: hugetlb::read(host),
        mglru: mglru::read(host),
        damon: damon::read(host),
        memory,
        vmstat,
        tiers,
        ..Snapshot::default()
    }
}

/// The memory of the host, with ZFS's cache, which meminfo does not count.
pub(crate) fn read_memory(host: &HostRoot) -> Memory {
    Memory { zfs_cache: zfs::read(host), ..memory::read(host) }
}

/// The time of this reading, and the boot: an interval needs both at its start. The time since boot distinguishes a
/// process from a later one with the same id.
pub(crate) fn read_taken(host: &HostRoot) -> Taken {
    let facts = host.facts();
    Taken {
        unix_seconds: facts.unix_seconds,
        monotonic_seconds: facts.monotonic_seconds,
        uptime: uptime::read(host),
        awake_seconds: facts.awake_seconds,
        boot_id: host.name_at("proc/sys/kernel/random/boot_id"),
        ..Taken::default()
    }
}
