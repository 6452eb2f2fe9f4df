// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted incidents: the finding that must be reported first, and findings that must not be
//! reported.
//!
//! Each row is a recorded host, unchanged or with an incident planted into its files, with the
//! finding that must come first, others that are allowed, and the level of the verdict. All other
//! findings are errors. `docs/troubles.md` is generated from this table: `BLESS=1 cargo test -p
//! pagewise-decide --test troubles` rewrites it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read and bless files")]

mod plant;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pagewise_decide::{diagnose, judge};
use pagewise_model::{Finding, HostVerdict, Level, Severity};
use pagewise_testkit::scene::{Scene, slugs};

use plant::*;

/// One row of the table.
struct Trouble {
    /// What happened to the machine, as its user would describe it.
    what: &'static str,
    host: &'static str,
    plant: fn(Scene) -> Scene,
    /// The finding that comes first; `None` if no finding of warning or above is allowed.
    first: Option<&'static str>,
    /// Other findings that are allowed.
    may: &'static [&'static str],
    level: Level,
}

const fn row(
    what: &'static str,
    host: &'static str,
    plant: fn(Scene) -> Scene,
    first: &'static str,
    may: &'static [&'static str],
    level: Level,
) -> Trouble {
    Trouble { what, host, plant, first: Some(first), may, level }
}

/// A row without any finding of warning or above.
const fn fine(what: &'static str, host: &'static str, plant: fn(Scene) -> Scene) -> Trouble {
    Trouble { what, host, plant, first: None, may: &[], level: Level::Calm }
}

use Level::{Calm, Critical, Short, Tight};

/// Findings that belong to the recorded hosts or follow from what was planted.
const OTHERS: &[&str] = &[
    "zram-unused",
    "swap-stuck",
    "tier-order",
    "cache-not-cache",
    "settings-differ",
    "generator-parameters",
    "thp-coverage",
    "hugetlb-unused",
    "swap-full",
    "swap-avoids-anon",
];

#[rustfmt::skip]
const TROUBLES: &[Trouble] = &[
    // memory of the host
    row("1.4 % of memory is available and there is no swap", PLAIN, |host| available(swap_off(host), 345_000), "memory-low", &["zram-unused"], Critical),
    row("1.4 % of memory is available, and gigabytes of a swap file are free", HUGE, |host| available(swap_file(busy(host), 8_000_000, 1_000_000), 345_000), "memory-low", &["zram-unused", "tier-order"], Short),
    row("4 % of memory is available and there is no swap", PLAIN, |host| available(swap_off(host), 980_000), "memory-low", &["zram-unused"], Short),
    row("8 % of memory is available and there is no swap", PLAIN, |host| available(swap_off(host), 1_900_000), "memory-low", &["zram-unused"], Tight),
    row("1.4 % of memory is available and swap is 96 % full", HUGE, |host| available(swap_file(host, 2_000_000, 1_920_000), 345_000), "memory-low", &["swap-full", "swap-stuck", "zram-unused", "tier-order"], Critical),
    row("6 % of memory is available and swap is 96 % full", HUGE, |host| available(swap_file(host, 2_000_000, 1_920_000), 1_480_000), "memory-low", &["swap-full", "swap-stuck", "zram-unused"], Short),
    row("swap is still 96 % full after an old peak of memory use, and much memory is available", HUGE, |host| swap_file(host, 2_000_000, 1_920_000), "zram-unused", &["swap-full"], Tight),
    row("programs wait for memory 20 % of the time, and 2 % of memory is available", ZRAM, |host| waiting(available(host, 490_000), "20.00", "1.00"), "memory-low", &["memory-pressure", "zram-unused"], Critical),
    row("no task makes progress for 30 % of the time (full memory pressure)", ZRAM, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", &["zram-unused"], Critical),
    row("programs wait for memory 12 % of the time", ZRAM, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", &["zram-unused"], Short),
    row("the working set does not fit into memory: dropped pages are read again (kernel without PSI)", ZRAM, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", &["zram-unused"], Short),
    row("dropped file pages are read again and again because swappiness is 0", ZRAM, |host| thrashing(low_zones(swappiness(host, 0))), "memory-pressure", &["swap-avoids-anon", "group-swappiness"], Short),
    row("dropped file pages are read again and again because swap is off", PLAIN, |host| thrashing(low_zones(swap_off(host))), "memory-pressure", &["swap-avoids-anon", "zram-unused"], Short),
    row("strict overcommit refuses allocations while 23 GiB are available", ZRAM, |host| strict(host, 99), "commit-limit", &[], Short),
    row("committed memory is at 92 % of the limit of strict overcommit", ZRAM, |host| strict(host, 92), "commit-limit", &[], Tight),
    row("strict overcommit would refuse the fork of a large process, although 42 % of the commit limit is left", HUGE, |host| cannot_fork(no_zram(host)), "commit-limit", &[], Calm),
    row("a process leaks 50 MiB/s", HUGE, |host| leak(host, 50), "memory-grows", &["zram-unused", "thp-coverage"], Tight),
    row("a process leaks 400 MiB/s: memory will be used up in a minute", HUGE, |host| leak(host, 400), "memory-grows", &["zram-unused", "thp-coverage"], Short),
    row("a process leaks 50 MiB/s and 3 % of memory is available", HUGE, |host| available(swap_off(leak(host, 50)), 740_000), "memory-grows", &["memory-low", "zram-unused", "thp-coverage"], Short),
    row("a process in a container with a memory limit leaks 50 MiB/s", HUGE, |host| leak_in_group(host, 50), "memory-grows", &["zram-unused", "thp-coverage"], Short),
    row("the memory of a container grows by 20 MiB/s, although no single process in it grows (its processes are short-lived)", HUGE, |host| workers(host, 20), "memory-grows", &["zram-unused"], Tight),
    row("the memory of a container grows by 60 MiB/s, and the container will reach its limit in half a minute", HUGE, |host| workers(host, 60), "memory-grows", &["zram-unused"], Short),
    fine("the memory of a container grows by 1 MiB/s, and the container will reach its limit in hours", HUGE, |host| workers(host, 1)),
    fine("a process that has run for ten hours allocates 50 MiB at once", HUGE, |host| burst(host, 50)),
    fine("a program maps and frees 30 MiB again and again, and had as much at its earlier peaks", V2_LIMIT, |host| sawtooth(calm_group(host))),
    fine("a program that started half a minute ago has grown to 1 GiB at a constant rate", HUGE, |host| starting(no_zram(host), 30)),
    row("a process in a unit with a limit of 200 MiB leaks less than 1 MiB in a second", V2_LIMIT, |host| leaking_unit(calm_group(host)), "memory-grows", &["swap-stuck", "zram-unused"], Tight),
    row("tasks waited for memory 23 % of the last minute, and the program at fault has ended", ZRAM, |host| waited(host, ["9.50", "22.81", "7.93"], ["9.44", "22.79", "7.92"], 0), "memory-pressure", &["zram-unused"], Short),
    row("nginx was killed because its unit reached its memory limit, and the unit no longer exists", "debian-trixie-6.12-x86_64-256m-oom-limit", removed_nginx, "oom-kills", &["zram-unused", "cache-not-cache"], Short),
    // kills
    row("the kernel killed a process for lack of memory while the report was made, and the user may not read the kernel log", ZRAM, |host| host.grow("oom_kill", 1), "oom-kills", &[], Critical),
    row("the machine ran out of memory and redis was killed (6.1)", "debian-bookworm-6.1-x86_64-256m-oom-host", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache", "mglru-off"], Critical),
    row("the machine ran out of memory and redis was killed (6.12)", "debian-trixie-6.12-x86_64-256m-oom-host", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("the machine ran out of memory and redis was killed (7.2)", "debian-sid-7.2-x86_64-256m-oom-host", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("a java process was killed while zram was full (6.12)", "debian-trixie-6.12-x86_64-256m-oom-zram-full", as_it_is, "oom-kills", &["memory-pressure", "cache-not-cache"], Critical),
    row("nginx was killed because its unit reached its memory limit; the unit is barred from swapping (6.12)", "debian-trixie-6.12-x86_64-256m-oom-limit", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("nginx was killed because its unit reached its memory limit; the unit is barred from swapping (6.1)", "debian-bookworm-6.1-x86_64-256m-oom-limit", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache", "mglru-off"], Critical),
    row("nginx was killed because its unit reached its memory limit; the unit is barred from swapping (7.2)", "debian-sid-7.2-x86_64-256m-oom-limit", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("all processes of postgres were killed together, because memory.oom.group is 1 (7.2)", "debian-sid-7.2-x86_64-256m-oom-group", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("all processes of postgres were killed together, because memory.oom.group is 1 (6.1)", "debian-bookworm-6.1-x86_64-256m-oom-group", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache", "mglru-off"], Critical),
    row("a cgroup is at its memory limit and none of its processes may be killed (6.1)", "debian-bookworm-6.1-x86_64-256m-oom-unkillable", as_it_is, "oom-kills", &["group-limit", "zram-unused", "cache-not-cache", "mglru-off"], Critical),
    row("a cgroup is at its memory limit and none of its processes may be killed (6.12)", "debian-trixie-6.12-x86_64-256m-oom-unkillable", as_it_is, "oom-kills", &["group-limit", "zram-unused", "cache-not-cache"], Critical),
    row("a process was killed because its container (cgroup version 1) reached its limit (6.18)", "debian12-6.18-x86_64-24g-oom-limit", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("a service may use only one of two NUMA nodes (cpuset), fills this node and is killed (6.12)", "debian-trixie-6.12-x86_64-512m-oom-cpuset", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("a service may use only one of two NUMA nodes (NUMA policy), fills this node and is killed (6.12)", "debian-trixie-6.12-x86_64-512m-oom-policy", as_it_is, "oom-kills", &["zram-unused", "cache-not-cache"], Critical),
    row("a service was killed at its memory limit, its cgroup was removed while the report was made, and the user may not read the kernel log", V2_LIMIT, |host| vanished(killed(calm_group(host))), "oom-kills", &["zram-unused", "swap-stuck"], Critical),
    row("a process was killed at the memory limit of its cgroup, one of 5,000 cgroups, while the report was made", V2_LIMIT, |host| crowded(killed(calm_group(host)), 5_000), "oom-kills", &["group-limit"], Critical),
    // the kernel's own memory, and settings
    row("a process uses few pages of a large mapping: its page tables take as much memory as its data (6.12)", "debian-trixie-6.12-x86_64-512m-page-tables", as_it_is, "kernel-memory", &["zram-unused"], Calm),
    row("100,000 empty files in a tmpfs take much of the kernel's slab memory (6.12)", "debian-trixie-6.12-x86_64-512m-kernel-slab", as_it_is, "kernel-memory", &["zram-unused"], Calm),
    row("committed memory is near the limit of strict overcommit (6.12)", "debian-trixie-6.12-x86_64-1g-commit-limit", as_it_is, "commit-limit", &["zram-unused"], Tight),
    row("an upload to a tmpfs fills memory, without swap (6.12)", "debian-trixie-6.12-x86_64-512m-tmpfs-full", as_it_is, "memory-low", &["zram-unused", "cache-not-cache"], Tight),
    row("a deleted file in a tmpfs fills memory, because a process still has it open (6.12)", "debian-trixie-6.12-x86_64-512m-deleted-file", as_it_is, "memory-low", &["deleted-files", "cache-not-cache", "zram-unused"], Tight),
    row("unreclaimable slab has grown to 3 GiB", ZRAM, |host| slab(host, 3_200_000), "kernel-memory", &[], Calm),
    row("KSM scans a service whose memory has no equal pages (6.12)", "debian-trixie-6.12-x86_64-512m-ksm-loss", as_it_is, "ksm-loss", &["zram-unused"], Calm),
    fine("sysctl's files disagree with each other and with the running settings (6.12)", SETTINGS, as_it_is),
    row("KSM scans memory that has no equal pages", ZRAM, |host| ksm_at_a_loss(host, 12), "ksm-loss", &[], Calm),
    fine("KSM was started a minute ago", ZRAM, |host| ksm_at_a_loss(host, 1)),
    row("vm.min_free_kbytes was set to 4 GiB", ZRAM, |host| set(host, "vm/min_free_kbytes", "4194304"), "watermarks-extreme", &[], Calm),
    row("vm.min_free_kbytes was set to 512", ZRAM, |host| set(host, "vm/min_free_kbytes", "512"), "watermarks-extreme", &[], Calm),
    row("2 GiB of dirty data wait for a slow disk, and programs wait for I/O", ZRAM, |host| writing(host, 2_100_000, "60.00"), "dirty-stall", &[], Calm),
    row("a program that has ended left 9 GiB of System V shared memory", ZRAM, |host| segment_left(host, 9_400_000), "shared-memory-left", &["cache-not-cache"], Calm),
    row("a program that has ended left 1 GiB of System V shared memory, which is 4 % of RAM", ZRAM, |host| segment_left(host, 1_000_000), "shared-memory-left", &[], Calm),
    row("a process maps a deleted file of 9 GiB in a tmpfs, and has closed it", ZRAM, maps_deleted_file, "deleted-files", &["cache-not-cache"], Calm),
    row("files of 9 GiB in a ramfs", ZRAM, |host| in_ramfs(host, 9_400_000), "memory-locked", &[], Calm),
    row("a driver has leaked 10 GiB of 24 GiB, which no counter of the kernel shows", ZRAM, |host| leaked_by_a_driver(host, 10_000_000), "memory-unexplained", &[], Calm),
    row("a game holds 8 of 24 GiB in GPU buffers, which no counter of the kernel shows", ZRAM, |host| gpu_buffers(leaked_by_a_driver(host, 9_000_000), 8_192), "memory-unexplained", &[], Calm),
    row("a virtual machine locked 14 GiB", ZRAM, |host| locked(host, 14_700_000), "memory-locked", &[], Calm),
    row("a service without a memory limit swaps in pages all the time", V2_LIMIT, unlimited, "memory-pressure", &["swap-heavy-group"], Critical),
    row("two services that set up zram are enabled", ZRAM, two_makers_of_swap, "managers-fight", &[], Calm),
    row("tuned and tlp are both enabled", ZRAM, |host| tlp(tuned(host, "10")), "managers-fight", &["settings-differ"], Calm),
    row("a udev rule and zram-generator set up the same zram device", ZRAM, udev_and_generator, "managers-fight", &["settings-differ"], Calm),
    row("a service is protected in a slice that is not", V2_LIMIT, |host| host.file("sys/fs/cgroup/system.slice/cg-2.service/memory.low", "33554432\n"), "group-limit", &["protection-limited"], Critical),
    row("sysctl.d contains a file whose name does not end in .conf", ZRAM, |host| host.file("etc/sysctl.d/99-swap", "vm.swappiness = 180\n"), "setting-unread", &[], Calm),
    row("zram-generator has a configuration file but is not installed", ZRAM, |host| host.file("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = ram\n"), "setting-unread", &[], Calm),
    row("running settings differ from those of the active profile of tuned", ZRAM, |host| tuned(host, "10"), "settings-differ", &[], Calm),
    fine("running settings equal those of the active profile of tuned", ZRAM, |host| tuned(swappiness(host, 10), "10")),
    fine("a sysctl was changed by hand, and no configuration file sets it", ZRAM, |host| set_by_hand(host, "vm/swappiness", "10")),
    fine("a laptop is set up to hibernate, and its only swap is zram", ZRAM, |host| host.file("sys/power/resume", "254:2\n")),
    // cgroups
    row("a service at its memory limit waits for memory while the host has free memory (7.2)", V2_LIMIT, as_it_is, "group-limit", &[], Critical),
    row("a service at its memory limit waits for memory while the host has free memory (6.1)", "debian-bookworm-6.1-x86_64-512m-zram-pressure", as_it_is, "group-limit", &["mglru-off"], Critical),
    row("a service at its memory limit waits for memory while the host has free memory, and multi-gen LRU is off (6.12)", "debian-trixie-6.12-x86_64-512m-zram-pressure-no-mglru", as_it_is, "group-limit", &["mglru-off"], Critical),
    row("a service at its memory limit reads its own program code again and again, without swap (6.12)", "debian-trixie-6.12-x86_64-512m-swap-off", as_it_is, "group-limit", &["swap-avoids-anon", "zram-unused", "cache-not-cache"], Short),
    row("a service at its memory limit reads its own program code again and again, and nothing of its idle data is swapped, although zram has room (6.12)", "debian-trixie-6.12-x86_64-512m-mglru-cgroup", as_it_is, "group-limit", &["zram-unused"], Short),
    row("a service at its memory limit waits for memory, and swap on a disk is filled before zram", "debian-bookworm-6.1-x86_64-512m-zram-behind-disk", as_it_is, "group-limit", &["tier-order"], Critical),
    row("a service at its memory limit waits for memory, and zswap compresses pages before zram does", "debian-sid-7.2-x86_64-512m-zswap-zram", as_it_is, "group-limit", &["zram-zswap-stacked"], Critical),
    row("a service at its memory limit waits for memory, and zram accepts no more pages", "debian-sid-7.2-x86_64-512m-zram-full", as_it_is, "group-limit", &["zram-full", "zram-incompressible", "zram-oversized"], Critical),
    row("a service without a memory limit waits for its pages from swap, because its io.max allows no more reads", V2_LIMIT, |host| reads_limited(unlimited(host), 25 << 20), "memory-pressure", &["swap-heavy-group", "zram-unused", "swap-stuck"], Critical),
    row("a service at its memory limit waits for its pages from swap, because its io.max allows no more reads", V2_LIMIT, |host| reads_limited(host, 25 << 20), "group-limit", &["zram-unused", "swap-stuck"], Critical),
    row("the kernel slows down a service that is above its memory.high", V2_LIMIT, high, "group-limit", &[], Critical),
    row("the kernel slows down a service that is above its memory.high, and all of its tasks slept during the report, so that no event was counted", V2_LIMIT, slowed, "group-limit", &[], Critical),
    row("memory.min of a service keeps 300 MiB of 461 MiB, and all other programs wait for memory", V2_LIMIT, |host| waiting(starved(host), "18.00", "11.00"), "protection-starves", &["memory-pressure", "zram-unused"], Critical),
    row("memory that cannot be dropped takes 99 % of a service's memory limit, and the service is barred from swapping", V2_LIMIT, |host| filled(calm_group(host), 99), "group-limit", &["zram-unused"], Short),
    row("memory that cannot be dropped takes 92 % of a service's memory limit, and the service is barred from swapping", V2_LIMIT, |host| filled(calm_group(host), 92), "group-limit", &["zram-unused"], Tight),
    row("a service was killed at its memory limit while the report was made", V2_LIMIT, |host| killed(calm_group(host)), "oom-kills", &["group-limit"], Critical),
    row("a service has as many tasks as its pids.max allows, and forks in it are refused", V2_LIMIT, |host| tasks(calm_group(host), 512, 40), "tasks-limit", &["zram-unused"], Calm),
    fine("a service uses 90 % of the tasks that its pids.max allows, and was refused forks yesterday", V2_LIMIT, |host| tasks(calm_group(host), 460, 0)),
    row("a process has 10 MiB of address space left below the limit that ulimit -v set, while memory is free", HUGE, |host| address_space(no_zram(host), 10), "process-limit", &[], Calm),
    fine("a process with a limit on its address space uses nine tenths of it", HUGE, |host| address_space(no_zram(host), 500)),
    fine("a service is at its memory limit because of page cache that can be dropped", V2_LIMIT, |host| cached(calm_group(host))),
    fine("a service reached its memory limit yesterday, and not since", V2_LIMIT, calm_group),
    row("a container (cgroup version 1) thrashes at its memory limit, which raises the memory pressure of the host", ZRAM_USED, |host| waiting(v1_thrashing(host), "44.00", "40.00"), "group-limit", &["zram-unused"], Critical),
    row("a container (cgroup version 1) thrashes at its memory limit", ZRAM_USED, v1_thrashing, "group-limit", &["zram-unused"], Short),
    row("the host and a service are short of memory at the same time", V2_LIMIT, |host| low_zones(available(host, 9_000)), "memory-pressure", &["group-limit", "memory-low", "swap-stuck"], Critical),
    // swap
    row("zram is full and there is no other swap", ZRAM, |host| zram_holds(host, 524_284), "zram-full", &[], Tight),
    row("zram is full and 2 % of memory is available", ZRAM, |host| available(zram_holds(host, 524_284), 490_000), "memory-low", &["zram-full"], Critical),
    row("a swap file has a higher priority than zram, and both are empty", BEHIND_FILE, as_it_is, "zram-unused", &[], Calm),
    row("a swap file is filled before zram, because its priority is higher", BEHIND_FILE_USED, as_it_is, "zram-unused", &["tier-order"], Calm),
    row("swap is on a loop device whose file is in a tmpfs, so that swapping frees no RAM", PLAIN, |host| swap_in_tmpfs(no_zram(host)), "swap-needs-memory", &["zram-unused"], Calm),
    row("zswap is on, so pages are compressed again when they reach zram", ZRAM_USED, zswap_on, "zram-zswap-stacked", &[], Calm),
    row("swap is on a spinning disk although zram is available", HUGE, |host| swap_file(host, 2_000_000, 800_000), "zram-unused", &["tier-order"], Calm),
    row("programs wait for memory 12 % of the time, because the disk with swap answers in 40 ms", HUGE, |host| low_zones(waiting(swap_on_disk(no_zram(busy(host)), 40), "12.00", "1.00")), "memory-pressure", &["swap-needs-memory", "thp-coverage", "zram-unused"], Short),
    row("programs wait for I/O 60 % of the time, because the disk with swap answers in 40 ms, and every zone is low", HUGE, |host| writing(low_zones(swap_on_disk(no_zram(busy(host)), 40)), 100, "60.00"), "memory-pressure", &["thp-coverage", "zram-unused"], Short),
    // huge pages and the rest
    row("a large process requested huge pages but has few", HUGE, |host| no_zram(host).line("proc/1774/smaps_rollup", "AnonHugePages:", "AnonHugePages:     20480 kB"), "thp-coverage", &[], Calm),
    row("4 GiB of hugetlb pages are in the pool and unused", ZRAM, hugetlb, "hugetlb-unused", &[], Calm),
    row("80 MiB of hugetlb pages are unused on a small machine (6.1)", "debian-bookworm-6.1-x86_64-1g-thp", as_it_is, "hugetlb-unused", &["zram-unused", "thp-coverage", "khugepaged-starves", "mglru-off"], Calm),
    row("80 MiB of hugetlb pages are unused on a small machine (6.12)", "debian-trixie-6.12-x86_64-1g-thp", as_it_is, "hugetlb-unused", &["zram-unused", "thp-coverage", "khugepaged-starves", "thp-bloat-guard-off"], Calm),
    row("a third of RAM is in tmpfs, little is available and swap is off", PLAIN, |host| tmpfs(available(swap_off(host), 2_000_000), 8_000_000), "memory-low", &["cache-not-cache", "zram-unused"], Tight),
    // healthy machines
    fine("the cache of ZFS holds 18 of 24 GiB, and gives them back when memory is short", ZRAM, |host| zfs_cache(available(host, 1_000_000), 18_000_000)),
    fine("an idle host", ZRAM, as_it_is),
    fine("an idle host without swap", PLAIN, as_it_is),
    fine("an idle host with huge pages", HUGE, as_it_is),
    fine("zram is in use and has no problem", ZRAM_USED, as_it_is),
    fine("a backup reads a large file: pages are dropped and not read again", ZRAM, backup),
    fine("slight memory pressure after a build", ZRAM, |host| waiting(host, "2.00", "0.50")),
    fine("34 MiB of shmem while 405 MiB are available", V2_LIMIT, |host| tmpfs(calm_group(available(host, 405_000)), 34_000)),
    fine("2.5 % of swap is in use, and 12 % of memory is available", HUGE, |host| available(swap_file(busy(no_zram(host)), 8_000_000, 200_000), 3_000_000)),
    // the same kinds on other machines
    row("1.4 % of memory is available and there is no swap, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| available(swap_off(host), 6_500), "memory-low", OTHERS, Critical),
    row("4 % of memory is available and there is no swap, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| available(swap_off(host), 19_000), "memory-low", OTHERS, Short),
    row("8 % of memory is available and there is no swap, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| available(swap_off(host), 37_000), "memory-low", OTHERS, Tight),
    row("the kernel killed a process while the report was made, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| host.grow("oom_kill", 1), "oom-kills", OTHERS, Critical),
    row("vm.min_free_kbytes was set to 100 MB, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| set(host, "vm/min_free_kbytes", "102400"), "watermarks-extreme", OTHERS, Calm),
    row("programs wait for memory 12 % of the time, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", OTHERS, Short),
    row("no task makes progress for 30 % of the time, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", OTHERS, Critical),
    row("dropped pages are read again and again (kernel without PSI), on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", OTHERS, Short),
    row("unreclaimable slab has grown to a third of RAM, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| slab(host, 150_000), "kernel-memory", OTHERS, Calm),
    row("nothing accounts for more than a third of RAM, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| leaked_by_a_driver(host, 200_000), "memory-unexplained", OTHERS, Calm),
    row("shared memory without a process takes more than a third of RAM, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| segment_left(host, 180_000), "shared-memory-left", OTHERS, Calm),
    row("files in a ramfs take more than a third of RAM, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| in_ramfs(host, 180_000), "memory-locked", OTHERS, Calm),
    row("more than half of RAM is locked, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| locked(host, 270_000), "memory-locked", OTHERS, Calm),
    row("KSM scans memory without equal pages, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| ksm_at_a_loss(host, 12), "ksm-loss", OTHERS, Calm),
    row("strict overcommit refuses allocations, on a machine of 512 MiB with cgroup version 2", SETTINGS, |host| strict(host, 99), "commit-limit", OTHERS, Short),
    row("programs wait for memory 12 % of the time, on a machine with a swap file before zram", BEHIND_FILE, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", OTHERS, Short),
    row("no task makes progress for 30 % of the time, on a machine with a swap file before zram", BEHIND_FILE, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", OTHERS, Critical),
    row("dropped pages are read again and again (kernel without PSI), on a machine with a swap file before zram", BEHIND_FILE, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", OTHERS, Short),
    row("unreclaimable slab has grown to a third of RAM, on a machine with a swap file before zram", BEHIND_FILE, |host| slab(host, 8_000_000), "kernel-memory", OTHERS, Calm),
    row("nothing accounts for more than a third of RAM, on a machine with a swap file before zram", BEHIND_FILE, |host| leaked_by_a_driver(host, 9_500_000), "memory-unexplained", OTHERS, Calm),
    row("shared memory without a process takes more than a third of RAM, on a machine with a swap file before zram", BEHIND_FILE, |host| segment_left(host, 9_000_000), "shared-memory-left", OTHERS, Calm),
    row("files in a ramfs take more than a third of RAM, on a machine with a swap file before zram", BEHIND_FILE, |host| in_ramfs(host, 9_000_000), "memory-locked", OTHERS, Calm),
    row("more than half of RAM is locked, on a machine with a swap file before zram", BEHIND_FILE, |host| locked(host, 14_000_000), "memory-locked", OTHERS, Calm),
    row("KSM scans memory without equal pages, on a machine with a swap file before zram", BEHIND_FILE, |host| ksm_at_a_loss(host, 12), "ksm-loss", OTHERS, Calm),
    row("strict overcommit refuses allocations, on a machine with a swap file before zram", BEHIND_FILE, |host| strict(host, 99), "commit-limit", OTHERS, Short),
    row("programs wait for memory 12 % of the time, while zram is in use", ZRAM_USED, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", OTHERS, Short),
    row("no task makes progress for 30 % of the time, while zram is in use", ZRAM_USED, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", OTHERS, Critical),
    row("dropped pages are read again and again (kernel without PSI), while zram is in use", ZRAM_USED, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", OTHERS, Short),
    row("unreclaimable slab has grown to a third of RAM, while zram is in use", ZRAM_USED, |host| slab(host, 8_000_000), "kernel-memory", OTHERS, Calm),
    row("nothing accounts for more than a third of RAM, while zram is in use", ZRAM_USED, |host| leaked_by_a_driver(host, 9_500_000), "memory-unexplained", OTHERS, Calm),
    row("shared memory without a process takes more than a third of RAM, while zram is in use", ZRAM_USED, |host| segment_left(host, 9_000_000), "shared-memory-left", OTHERS, Calm),
    row("files in a ramfs take more than a third of RAM, while zram is in use", ZRAM_USED, |host| in_ramfs(host, 9_000_000), "memory-locked", OTHERS, Calm),
    row("more than half of RAM is locked, while zram is in use", ZRAM_USED, |host| locked(host, 14_000_000), "memory-locked", OTHERS, Calm),
    row("KSM scans memory without equal pages, while zram is in use", ZRAM_USED, |host| ksm_at_a_loss(host, 12), "ksm-loss", OTHERS, Calm),
    row("strict overcommit refuses allocations, while zram is in use", ZRAM_USED, |host| strict(host, 99), "commit-limit", OTHERS, Short),
    row("programs wait for memory 12 % of the time, beside a process with huge pages", HUGE, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", OTHERS, Short),
    row("no task makes progress for 30 % of the time, beside a process with huge pages", HUGE, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", OTHERS, Critical),
    row("dropped pages are read again and again (kernel without PSI), beside a process with huge pages", HUGE, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", OTHERS, Short),
    row("unreclaimable slab has grown to a third of RAM, beside a process with huge pages", HUGE, |host| slab(host, 8_000_000), "kernel-memory", OTHERS, Calm),
    row("nothing accounts for more than a third of RAM, beside a process with huge pages", HUGE, |host| leaked_by_a_driver(host, 9_500_000), "memory-unexplained", OTHERS, Calm),
    row("shared memory without a process takes more than a third of RAM, beside a process with huge pages", HUGE, |host| segment_left(host, 9_000_000), "shared-memory-left", OTHERS, Calm),
    row("files in a ramfs take more than a third of RAM, beside a process with huge pages", HUGE, |host| in_ramfs(host, 9_000_000), "memory-locked", OTHERS, Calm),
    row("more than half of RAM is locked, beside a process with huge pages", HUGE, |host| locked(host, 14_000_000), "memory-locked", OTHERS, Calm),
    row("KSM scans memory without equal pages, beside a process with huge pages", HUGE, |host| ksm_at_a_loss(host, 12), "ksm-loss", OTHERS, Calm),
    row("strict overcommit refuses allocations, beside a process with huge pages", HUGE, |host| strict(host, 99), "commit-limit", OTHERS, Short),
    row("programs wait for memory 12 % of the time, on a machine without swap", PLAIN, |host| low_zones(waiting(host, "12.00", "1.00")), "memory-pressure", OTHERS, Short),
    row("no task makes progress for 30 % of the time, on a machine without swap", PLAIN, |host| low_zones(waiting(host, "40.00", "30.00")), "memory-pressure", OTHERS, Critical),
    row("dropped pages are read again and again (kernel without PSI), on a machine without swap", PLAIN, |host| thrashing(low_zones(host.without("proc/pressure"))), "memory-pressure", OTHERS, Short),
    row("unreclaimable slab has grown to a third of RAM, on a machine without swap", PLAIN, |host| slab(host, 8_000_000), "kernel-memory", OTHERS, Calm),
    row("nothing accounts for more than a third of RAM, on a machine without swap", PLAIN, |host| leaked_by_a_driver(host, 9_500_000), "memory-unexplained", OTHERS, Calm),
    row("shared memory without a process takes more than a third of RAM, on a machine without swap", PLAIN, |host| segment_left(host, 9_000_000), "shared-memory-left", OTHERS, Calm),
    row("files in a ramfs take more than a third of RAM, on a machine without swap", PLAIN, |host| in_ramfs(host, 9_000_000), "memory-locked", OTHERS, Calm),
    row("more than half of RAM is locked, on a machine without swap", PLAIN, |host| locked(host, 14_000_000), "memory-locked", OTHERS, Calm),
    row("KSM scans memory without equal pages, on a machine without swap", PLAIN, |host| ksm_at_a_loss(host, 12), "ksm-loss", OTHERS, Calm),
    row("strict overcommit refuses allocations, on a machine without swap", PLAIN, |host| strict(host, 99), "commit-limit", OTHERS, Short),
    // more healthy machines
    fine("a game holds 2 of 24 GiB in GPU buffers", ZRAM, |host| gpu_buffers(leaked_by_a_driver(host, 2_000_000), 1_900)),
    fine("a service has an io.max, and reads nothing back", V2_LIMIT, |host| calm_group(reads_limited(host, 25 << 20))),
    fine("pages are swapped to an SSD that answers in 1 ms, and no program waits", HUGE, |host| swap_on_disk(no_zram(busy(host)), 1)),
    fine("half of a swap file is in use since a peak long ago, nothing is read back, and much memory is available", HUGE, |host| swap_file(busy(no_zram(host)), 8_000_000, 4_000_000)),
    fine("a compile has waited a little for memory, and much is available", SETTINGS, |host| waiting(host, "3.00", "0.80")),
    row("the hypervisor's balloon holds 10 of 24 GiB, and MemTotal still has them", ZRAM, |host| ballooned(leaked_by_a_driver(host, 10_000_000), 10_000_000), "memory-unexplained", &[], Calm),
    row("the hypervisor's balloon holds 9 of 24 GiB, on a machine without swap", PLAIN, |host| ballooned(leaked_by_a_driver(host, 9_000_000), 9_000_000), "memory-unexplained", OTHERS, Calm),
    fine("the balloon of the hypervisor took 2 of 24 GiB", PLAIN, |host| ballooned(leaked_by_a_driver(host, 2_000_000), 2_000_000)),
    fine("the hypervisor's balloon took 10 of 24 GiB, and MemTotal is 14 GiB", PLAIN, |host| taken_by_a_balloon(host, 10_000_000)),
    fine("the hypervisor's balloon holds 6 GiB and ZFS's cache 10 of 24 GiB", ZRAM, |host| ballooned(zfs_cache(leaked_by_a_driver(available(host, 1_000_000), 6_000_000), 10_000_000), 6_000_000)),
    fine("a backup reads a large file on a machine of 512 MiB", SETTINGS, backup),
    fine("the cache of ZFS is full on a machine without swap", PLAIN, |host| zfs_cache(available(host, 2_000_000), 16_000_000)),
];

fn told(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.id).collect()
}

struct Outcome {
    verdict: HostVerdict,
    findings: Vec<Finding>,
}

fn outcome(trouble: &Trouble) -> Outcome {
    let interval = (trouble.plant)(Scene::load(trouble.host)).replay();
    Outcome { verdict: judge(&interval), findings: diagnose(&interval) }
}

/// The differences between the row and the outcome; empty if it passes.
fn misses(trouble: &Trouble, Outcome { verdict, findings }: &Outcome) -> Vec<String> {
    let mut misses = Vec::new();
    let ids = told(findings);
    let serious: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(|finding| finding.id)
        .collect();
    match trouble.first {
        Some(first) if ids.first() != Some(&first) => {
            misses.push(format!("{first} must come first, and {ids:?} came"));
        }
        Some(first) => {
            let strange: BTreeSet<&&str> =
                ids.iter().filter(|id| **id != first && !trouble.may.contains(id)).collect();
            if !strange.is_empty() {
                misses.push(format!("{strange:?} must not come"));
            }
        }
        None if !serious.is_empty() => {
            misses.push(format!("{serious:?} on a machine that is well"));
        }
        None => {}
    }
    if verdict.level != trouble.level {
        misses
            .push(format!("{:?} instead of {:?}: {}", verdict.level, trouble.level, verdict.line));
    }
    misses
}

#[test]
fn every_planted_trouble_is_told_first_and_nothing_else_is() {
    let mut failed = String::new();
    for trouble in TROUBLES {
        for miss in misses(trouble, &outcome(trouble)) {
            writeln!(failed, "{} ({}): {miss}", trouble.what, trouble.host).unwrap();
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}

/// Number of rows with an incident, how many of those are unchanged recordings, and number of
/// healthy hosts.
struct Totals {
    troubles: usize,
    recorded: usize,
    well: usize,
}

fn totals() -> Totals {
    let (troubles, well): (Vec<&Trouble>, Vec<&Trouble>) =
        TROUBLES.iter().partition(|row| row.first.is_some());
    let recorded = troubles.iter().filter(|row| is_as_recorded(row)).count();
    Totals { troubles: troubles.len(), recorded, well: well.len() }
}

/// Whether the recording is unchanged.
fn is_as_recorded(row: &Trouble) -> bool {
    let planted = (row.plant)(Scene::load(row.host));
    planted.into_files() == Scene::load(row.host).into_files()
}

#[test]
fn there_are_140_troubles_and_25_healthy_hosts_and_no_row_is_there_twice() {
    let Totals { troubles, recorded, well } = totals();
    assert!(well >= 25, "{well} healthy hosts");
    assert!(troubles >= 140, "{troubles} troubles");
    assert!(recorded >= 20, "{recorded} recordings of hosts in trouble");
    let hosts: BTreeSet<_> =
        TROUBLES.iter().map(|row| (row.plant)(Scene::load(row.host)).into_files()).collect();
    assert_eq!(hosts.len(), TROUBLES.len());
}

/// No command changes a slice, and each that changes a unit's limit has its undo.
#[test]
fn no_command_of_any_row_changes_a_slice_or_lacks_its_undo() {
    let mut changed = 0;
    for trouble in TROUBLES {
        let Outcome { findings, .. } = outcome(trouble);
        let commands = findings.iter().flat_map(|finding| &finding.next);
        for command in commands.filter(|command| command.contains("set-property")) {
            let (line, undo) = command.split_once("undo with ").expect(command);
            assert!(!line.contains(".slice") && undo.contains("set-property"), "{command}");
            changed += 1;
        }
    }
    assert!(changed >= 10, "{changed}");
}

/// The limit on reads is named in the finding and its command if the pages that are read back reach it.
#[test]
fn a_limit_on_reads_is_named_only_if_it_is_reached() {
    let first = |plant: fn(Scene) -> Scene, bytes: u64| {
        let host = reads_limited(plant(Scene::load(V2_LIMIT)), bytes);
        diagnose(&host.replay()).remove(0)
    };
    for plant in [unlimited, as_it_is] {
        let reached = first(plant, 25 << 20);
        let named =
            "cg-2.service waits because of its io.max on 254:0, which allows 25.0 MiB/s of reads";
        assert!(reached.what.contains(named), "{}", reached.what);
        let look = "cat /sys/fs/cgroup/system.slice/cg-2.service/io.max";
        assert!(reached.next.iter().any(|command| command.starts_with(look)), "{reached:#?}");
        let far = first(plant, 800 << 20);
        assert!(!far.what.contains("io.max"), "{}", far.what);
    }
}

/// Recordings of hosts without a problem.
const CALM: &[&str] = &[PLAIN, HUGE, ZRAM, ZRAM_USED, BEHIND_FILE, SETTINGS];

/// A kill in a group that no longer exists is not reported as a shortage of the machine.
#[test]
fn a_kill_whose_group_is_gone_does_not_make_the_machine_short() {
    let host = vanished(killed(calm_group(Scene::load(V2_LIMIT))));
    let line = judge(&host.replay()).line;
    assert!(
        line.starts_with("The kernel killed 1 process for lack of memory in the last "),
        "{line}"
    );
    assert!(
        line.contains("either because the machine ran out or because a cgroup was at its limit"),
        "{line}"
    );
}

/// Every recording is in one of two classes: calm, without a finding of warning or above, or not
/// calm, with one.
#[test]
fn calm_recordings_have_no_finding_of_warning_or_more_and_all_others_have_one() {
    let mut calm = 0;
    for slug in slugs() {
        let interval = Scene::load(&slug).replay();
        let findings = diagnose(&interval);
        let serious = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        let serious: Vec<&str> = serious.map(|finding| finding.id).collect();
        if CALM.contains(&slug.as_str()) {
            assert_eq!(serious, Vec::<&str>::new(), "{slug}");
            assert_eq!(judge(&interval).level, Level::Calm, "{slug}");
            calm += 1;
        } else {
            assert!(!serious.is_empty(), "{slug}: {:?}", told(&findings));
        }
    }
    assert_eq!(calm, CALM.len());
}

#[test]
fn every_recording_is_a_row() {
    let rows: BTreeSet<&str> = TROUBLES.iter().map(|trouble| trouble.host).collect();
    let missing: Vec<String> =
        slugs().into_iter().filter(|slug| !rows.contains(slug.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}

/// A finding of warning or above that means a shortage contradicts a calm host.
#[test]
fn a_calm_verdict_never_stands_beside_a_critical_finding() {
    for trouble in TROUBLES {
        let Outcome { verdict, findings } = outcome(trouble);
        let critical = findings.iter().any(|finding| finding.severity == Severity::Critical);
        assert!(
            !critical || verdict.level >= Level::Tight || trouble.first == Some("tier-order"),
            "{}: {} beside {:?}",
            trouble.what,
            verdict.line,
            told(&findings)
        );
    }
}

/// A strictly worse host never gets a milder verdict: every recording, made worse in one or two
/// ways.
#[test]
fn no_recording_gets_a_milder_verdict_by_being_worse() {
    let worse: [fn(Scene) -> Scene; 6] = [
        |host| available(host, 5_000),
        |host| waiting(host, "90.00", "80.00"),
        low_zones,
        |host| host.grow("oom_kill", 3),
        thrashing,
        |host| thrashing(waiting(available(host, 5_000), "90.00", "80.00")),
    ];
    let severity = |host: &Scene| diagnose(&host.replay()).first().map(|first| first.severity);
    let mut compared = 0;
    for slug in slugs() {
        let host = Scene::load(&slug);
        let (level, worst) = (judge(&host.replay()).level, severity(&host));
        for (number, worsen) in worse.iter().enumerate() {
            let after = worsen(host.clone());
            let verdict = judge(&after.replay());
            assert!(verdict.level >= level, "{slug}, {number}: {}", verdict.line);
            assert!(severity(&after) >= worst, "{slug}, {number}");
            compared += 1;
        }
        let all = worse[5](host);
        assert!(judge(&all.replay()).level >= Level::Short, "{slug}");
    }
    assert!(compared >= 90, "{compared}");
}

/// The end of the generated page.
const NOT_JUDGED: &str = "
## Not detected

Pagewise does not detect **program code that is in the page cache twice**. This happens if processes map two files
with the same contents, for example from flatpak, snap or container images. Two files in `/proc` could show it, but
neither is suitable:

- `/proc/PID/maps` does not show whether two processes share their pages. It shows the path and the device of each
  mapped file. Two containers that map the same path show two devices in both of these cases: if both use the same
  image through an overlay mount each, they share the pages; if each has its own copy of the file, they share none.
- `/proc/PID/smaps` distinguishes these cases by `Pss`. Reading it takes about 40 ms of CPU time for one process with
  900 mappings, more than half of the CPU time of a whole report
  ([measured/report.md](measured/report.md#code-that-is-cached-twice)).

To find out whether two files have the same contents, Pagewise would also have to read both files.
";

#[test]
fn the_page_is_this_table() {
    let mut page = String::from(
        "# Troubles\n\nThis page shows what Pagewise reports for machines with known memory problems, and for \
         healthy machines.\n\nEach row of the table is a host, recorded with `pagewise capture`. For many rows, \
         values in the recorded files were\nchanged so that the host has the problem. A number such as (6.12) is \
         the kernel version of the recording.\n\n\
         - The *verdict* says how short of memory the machine or one of its cgroups is, whichever is worse: calm, tight, \
         short or\n  critical.\n\
         - A *finding* is one problem that `pagewise doctor` reports. In the tables below, each finding is \
         the id of the rule\n  that reported it; the most severe finding comes first. On a healthy host, there may be findings \
         of severity info, but\n  none of severity warning or critical.\n\n\
         The test `crates/decide/tests/troubles.rs` prints this table, and fails if Pagewise reports something \
         else for a row.\n\n",
    );
    let Totals { troubles, recorded, well } = totals();
    write!(
        page,
        "The table has {troubles} hosts with a problem and {well} healthy hosts. Of the hosts with a problem, {recorded} are \
         unchanged\nrecordings.\n\n\
         | host | verdict | first finding | other findings |\n|---|---|---|---|\n"
    )
    .unwrap();
    for trouble in TROUBLES {
        let Outcome { verdict, findings } = outcome(trouble);
        let ids = told(&findings);
        let (first, others) = match ids.split_first() {
            Some((first, others)) => (format!("`{first}`"), others.join(", ")),
            None => ("none".to_owned(), String::new()),
        };
        let level = format!("{:?}", verdict.level).to_lowercase();
        writeln!(page, "| {} | {level} | {first} | {others} |", trouble.what).unwrap();
    }
    page.push_str(NOT_JUDGED);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubles.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, known, "docs/troubles.md: BLESS=1 rewrites it");
}
