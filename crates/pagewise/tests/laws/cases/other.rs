// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cases of all rules except `zram-unused`.

use pagewise_model::Severity::{Critical, Info, Warning};

use super::hosts::{
    AT_LIMIT, BEHIND_FILE, OOM_LIMIT, PLAIN, SWAP_OFF, THP, ZRAM_SWAP, ZSWAP_OFF, mm_stat, mounted,
    pressure, rereading, swap_off, swaps,
};
use super::{Case, Near};
use crate::scene::Scene;

const SLICE: &str = "sys/fs/cgroup/system.slice";
const LIMITED: &str = "sys/fs/cgroup/system.slice/cg-2.service";
const EVENTS: &str = "sys/fs/cgroup/system.slice/cg-2.service/memory.events";
const KHUGEPAGED: &str = "sys/kernel/mm/transparent_hugepage/khugepaged";

/// The end of an OOM report, as Linux 6.12 prints it, with numbers of our own.
const KILLED: &str = "3,12,9000000,-;Out of memory: Killed process 7 (java) total-vm:8kB, \
    anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0\n";

pub(super) static CASES: &[Case] = &[
    Case {
        id: "memory-pressure",
        reason: "somebody waits for memory",
        host: ZRAM_SWAP,
        fires: |host| pressure(host, ["0.00", "5.00", "0.00", "0.00"]),
        severity: Warning,
        title: "tasks waited for memory 5.0 % of the last minute",
        also: &[],
        near: Near::Silent(|host| pressure(host, ["9.99", "4.99", "9.99", "4.99"])),
    },
    Case {
        id: "memory-pressure",
        reason: "nobody gets on",
        host: ZRAM_SWAP,
        fires: |host| pressure(host, ["30.00", "9.00", "20.00", "2.00"]),
        severity: Critical,
        title: "tasks waited for memory 9.0 % of the last minute",
        also: &[],
        near: Near::Told(
            |host| pressure(host, ["30.00", "9.00", "19.99", "2.00"]),
            Warning,
            "tasks waited for memory 9.0 % of the last minute",
        ),
    },
    Case {
        id: "memory-pressure",
        reason: "the disk with swap is slow to answer",
        host: ZRAM_SWAP,
        fires: |host| slow_swap(pressure(host, ["14.00", "11.20", "4.00", "3.00"]), 40),
        severity: Warning,
        title: "of the last minute: swap on sdb takes 40 ms",
        also: &[],
        near: Near::Told(
            |host| slow_swap(pressure(host, ["14.00", "11.20", "4.00", "3.00"]), 9),
            Warning,
            "tasks waited for memory 11 % of the last minute (all tasks at once: 3.0 %)",
        ),
    },
    Case {
        id: "group-limit",
        reason: "a group at its limit, on a machine with memory to spare",
        host: AT_LIMIT,
        fires: |host| host,
        severity: Critical,
        title: "/cg-2.service waits for memory at its limit of 64.0 MiB",
        also: &[],
        near: Near::But(
            |host| host.file(&format!("{LIMITED}/memory.max"), "max\n"),
            &["memory-pressure", "swap-heavy-group"],
        ),
    },
    Case {
        id: "group-limit",
        reason: "a group at its limit that may read no faster",
        host: AT_LIMIT,
        fires: |host| reads_limited(host, 25 << 20),
        severity: Critical,
        title: "/cg-2.service waits for memory at its limit of 64.0 MiB",
        also: &[],
        near: Near::Told(
            |host| reads_limited(host, 800 << 20),
            Critical,
            "/cg-2.service waits for memory at its limit of 64.0 MiB",
        ),
    },
    Case {
        id: "group-limit",
        reason: "a group above it has the limit",
        host: AT_LIMIT,
        fires: |host| {
            let events = |host: &Scene, end| host.text(end, EVENTS).unwrap().to_owned();
            let waited =
                host.text("end", &format!("{LIMITED}/memory.pressure")).unwrap().to_owned();
            let (start, end) = (events(&host, "start"), events(&host, "end"));
            host.file(&format!("{LIMITED}/memory.max"), "max\n")
                .file(&format!("{SLICE}/memory.max"), "67108864\n")
                .file_at("start", &format!("{SLICE}/memory.events"), start)
                .file_at("end", &format!("{SLICE}/memory.events"), end)
                .file(&format!("{SLICE}/memory.pressure"), waited)
        },
        severity: Critical,
        title: "/system.slice waits for memory at its limit of 64.0 MiB",
        also: &[],
        // the limit was reached before the interval
        near: Near::But(
            |host| {
                let end = host.text("end", EVENTS).unwrap().to_owned();
                host.file(EVENTS, end)
            },
            &["memory-pressure", "swap-heavy-group"],
        ),
    },
    Case {
        id: "memory-pressure",
        reason: "thrashing, on a kernel without PSI",
        host: ZRAM_SWAP,
        fires: |host| rereading(host.without("proc/pressure")).grow("pgpgin", 500_000),
        severity: Warning,
        title: "thrashing: 80 % of the data read from disk had just been dropped from memory",
        also: &[],
        near: Near::Silent(|host| rereading(host.without("proc/pressure"))),
    },
    Case {
        id: "swap-avoids-anon",
        reason: "swappiness 0 while files come back",
        host: ZRAM_SWAP,
        fires: |host| swappiness(rereading(host), "0"),
        severity: Warning,
        title: "files are read again right after the kernel dropped them from memory",
        also: &[],
        near: Near::Silent(|host| swappiness(rereading(host), "60")),
    },
    Case {
        id: "swap-avoids-anon",
        reason: "swappiness 1, and not one page was swapped",
        host: ZRAM_SWAP,
        fires: |host| swappiness(rereading(host), "1"),
        severity: Warning,
        title: "files are read again right after the kernel dropped them from memory",
        also: &[],
        near: Near::Silent(|host| swappiness(rereading(host), "1").grow("pswpout", 1)),
    },
    Case {
        id: "swap-avoids-anon",
        reason: "swap off while files come back",
        host: SWAP_OFF,
        fires: |host| host,
        severity: Warning,
        title: "files are read again right after the kernel dropped them from memory",
        also: &[],
        // the pages that are read again were dropped long ago
        near: Near::Silent(|host| host.grow("pgsteal_file", 1000)),
    },
    Case {
        id: "swap-avoids-anon",
        reason: "on a kernel before 5.9, which counts refaults and steals in one",
        host: PLAIN,
        fires: |host| rereading_before_5_9(host, 90_000),
        severity: Warning,
        title: "files are read again right after the kernel dropped them from memory",
        also: &[],
        near: Near::Silent(|host| rereading_before_5_9(host, 20_000)),
    },
    Case {
        id: "tier-order",
        reason: "a full swap file in front of zram in use",
        host: BEHIND_FILE,
        fires: |host| tiers(host, "524284 50", "307200 5"),
        severity: Warning,
        title: "swap fills /swap-1 before the faster /dev/zram1",
        also: &[],
        near: Near::Silent(|host| tiers(host, "524284 5", "307200 50")),
    },
    Case {
        id: "tier-order",
        reason: "a swap file in turn with zram",
        host: BEHIND_FILE,
        fires: |host| tiers(host, "0 -2", "307200 -2"),
        severity: Info,
        title: "swap fills /swap-1 and the faster /dev/zram1 in turn",
        also: &[],
        near: Near::Silent(|host| tiers(host, "0 -3", "307200 -2")),
    },
    Case {
        id: "tier-order",
        reason: "a spinning disk before flash",
        host: PLAIN,
        fires: |host| two_disks(host, ["1\n", "0\n"]),
        severity: Warning,
        title: "swap fills /dev/sda2 before the faster /dev/nvme0n1p3",
        also: &[],
        near: Near::Silent(|host| two_disks(host, ["0\n", "0\n"])),
    },
    Case {
        id: "zram-full",
        reason: "its size is used up, nothing is behind it, and little is available",
        host: ZRAM_SWAP,
        fires: |host| available(zram_holds(host, 524_284, &[]), 300_000),
        severity: Critical,
        title: "/dev/zram1 is full",
        also: &["memory-low"],
        near: Near::But(|host| available(zram_holds(host, 519_000, &[]), 300_000), &["memory-low"]),
    },
    Case {
        id: "zram-full",
        reason: "its size is used up, and a file is behind it",
        host: ZRAM_SWAP,
        fires: |host| zram_holds(host, 524_284, &["/swap-1 file 524284 0 -2"]),
        severity: Warning,
        title: "/dev/zram1 is full",
        also: &[],
        near: Near::Silent(|host| zram_holds(host, 519_000, &["/swap-1 file 524284 0 -2"])),
    },
    Case {
        id: "zram-full",
        reason: "near its memory limit",
        host: ZRAM_SWAP,
        fires: |host| at_limit(host, 1 << 30),
        severity: Warning,
        title: "zram1 uses 93 % of the memory that its mem_limit allows",
        also: &[],
        near: Near::Silent(|host| at_limit(host, 0)),
    },
    Case {
        id: "zram-full",
        reason: "near its memory limit, and writes fail",
        host: ZRAM_SWAP,
        fires: |host| {
            let failing = "       0        7 0        0\n";
            at_limit(host, 1 << 30).file_at("end", "sys/block/zram1/io_stat", failing)
        },
        severity: Critical,
        title: "zram1 uses 93 % of the memory that its mem_limit allows",
        also: &[],
        near: Near::Told(
            |host| {
                let failed_before = "       0        7 0        0\n";
                at_limit(host, 1 << 30).file("sys/block/zram1/io_stat", failed_before)
            },
            Warning,
            "zram1 uses 93 % of the memory that its mem_limit allows",
        ),
    },
    Case {
        id: "zram-zswap-stacked",
        reason: "zswap in front of zram",
        host: ZRAM_SWAP,
        fires: zswap_on,
        severity: Warning,
        title: "zswap is on in front of zram",
        also: &[],
        near: Near::But(
            |host| swaps(zswap_on(host), &["/swap-1 file 524284 0 -2"]),
            &["zram-unused"],
        ),
    },
    Case {
        id: "zswap-unused",
        reason: "off, and pages are on a disk",
        host: ZSWAP_OFF,
        fires: |host| on_nvme(host, 102_400),
        severity: Info,
        title: "zswap is off, so swapped pages go to a disk uncompressed",
        also: &[],
        near: Near::Silent(|host| on_nvme(host, 0)),
    },
    Case {
        id: "zswap-unused",
        reason: "its pool is full, and its shrinker is off",
        host: ZSWAP_OFF,
        fires: |host| full_pool(host, 40_000, 1_000),
        severity: Warning,
        title: "zswap's pool is full and its shrinker is off",
        also: &[],
        near: Near::Silent(|host| full_pool(host, 38_000, 1_000)),
    },
    Case {
        id: "zram-incompressible",
        reason: "most of what it takes does not compress",
        host: ZRAM_SWAP,
        fires: |host| mm_stat(host, "400000000 180000000 200000000 0 200000000 0 0 40000 40000"),
        severity: Warning,
        title: "incompressible pages take 81.9 % of the memory that zram1 uses",
        also: &[],
        near: Near::Silent(|host| {
            mm_stat(host, "400000000 180000000 200000000 0 200000000 0 0 24000 24000")
        }),
    },
    Case {
        id: "zram-oversized",
        reason: "more than twice RAM",
        host: ZRAM_SWAP,
        fires: |host| host.file("sys/block/zram1/disksize", "53687091200\n"),
        severity: Info,
        title: "the disksize of zram is 2.1 times the RAM of this machine",
        also: &[],
        // exactly twice RAM
        near: Near::Silent(|host| host.file("sys/block/zram1/disksize", "50553020416\n")),
    },
    Case {
        id: "zram-oversized",
        reason: "slot tables that cost 2 % of RAM by themselves",
        host: ZRAM_SWAP,
        fires: |host| host.file("sys/block/zram1/disksize", "137438953472\n"),
        severity: Warning,
        title: "the disksize of zram is 5.4 times the RAM of this machine",
        also: &[],
        near: Near::Told(
            |host| host.file("sys/block/zram1/disksize", "107374182400\n"),
            Info,
            "the disksize of zram is 4.2 times the RAM of this machine",
        ),
    },
    Case {
        id: "zmerge-few-copies",
        reason: "every page is looked for, and hardly any is found",
        host: ZRAM_SWAP,
        fires: |host| zmerge(host, "off request [inline] adaptive", 163),
        severity: Info,
        title: "zmerge0 searches for copies of each page, but only 0.99 % have one",
        also: &[],
        near: Near::Silent(|host| zmerge(host, "off request [inline] adaptive", 165)),
    },
    Case {
        id: "zmerge-few-copies",
        reason: "all of many pages were looked for in vain",
        host: ZRAM_SWAP,
        fires: |host| zmerge(host, "off request [inline] adaptive", 0),
        severity: Info,
        title: "zmerge0 searches for copies of each page, but only 0.00 % have one",
        also: &[],
        near: Near::Silent(|host| zmerge(host, "off request inline [adaptive]", 0)),
    },
    Case {
        id: "thp-coverage",
        reason: "a large process with small pages, though all memory asks",
        host: THP,
        fires: |host| low_coverage(host),
        severity: Info,
        title: "proc-21 has only 8 % of its memory in huge pages",
        also: &[],
        // unchanged: nearly all of it
        near: Near::Silent(|host| host),
    },
    Case {
        id: "thp-coverage",
        reason: "the same, where the process did not forbid it to itself",
        host: THP,
        fires: |host| low_coverage(host),
        severity: Info,
        title: "proc-21 has only 8 % of its memory in huge pages",
        also: &[],
        near: Near::Silent(|host| {
            low_coverage(host).line("proc/1774/status", "THP_enabled:", "THP_enabled:\t0")
        }),
    },
    Case {
        id: "thp-coverage",
        reason: "the same, where not only advised memory asks",
        host: THP,
        fires: |host| low_coverage(host),
        severity: Info,
        title: "proc-21 has only 8 % of its memory in huge pages",
        also: &[],
        near: Near::Silent(|host| {
            let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
            low_coverage(host).file(enabled, "always [madvise] never\n")
        }),
    },
    Case {
        id: "thp-coverage",
        reason: "faults that asked and got small pages",
        host: ZRAM_SWAP,
        fires: |host| host.grow("thp_fault_alloc", 100).grow("thp_fault_fallback", 900),
        severity: Info,
        title: "90 % of the page faults that requested a huge page got a small page",
        also: &[],
        near: Near::Silent(|host| {
            host.grow("thp_fault_alloc", 900).grow("thp_fault_fallback", 100)
        }),
    },
    Case {
        id: "thp-coverage",
        reason: "faults since boot that asked and got small pages",
        host: ZRAM_SWAP,
        fires: |host| host.counter("thp_fault_fallback", 9_000),
        severity: Info,
        title: "100 % of the page faults that requested a huge page got a small page",
        also: &[],
        // recent events count, not old ones
        near: Near::Silent(|host| {
            host.counter("thp_fault_fallback", 9_000).grow("thp_fault_alloc", 200)
        }),
    },
    Case {
        id: "khugepaged-starves",
        reason: "it waits longer for a CPU than it runs",
        host: ZRAM_SWAP,
        fires: |host| khugepaged_ran(host, 100_000_000, 900_000_000),
        severity: Info,
        title: "khugepaged waits for a CPU",
        also: &[],
        near: Near::Silent(|host| khugepaged_ran(host, 900_000_000, 899_000_000)),
    },
    Case {
        id: "thp-bloat-guard-off",
        reason: "max_ptes_none at its largest, with many huge pages",
        host: THP,
        fires: huge_pages,
        severity: Info,
        title: "max_ptes_none = 511: the kernel never splits",
        also: &[],
        near: Near::Silent(|host| {
            huge_pages(host).file(&format!("{KHUGEPAGED}/max_ptes_none"), "510\n")
        }),
    },
    Case {
        id: "thp-bloat-guard-off",
        reason: "the same, where the kernel has the guard and it is on",
        host: THP,
        fires: huge_pages,
        severity: Info,
        title: "max_ptes_none = 511: the kernel never splits",
        also: &[],
        // kernels before 6.12
        near: Near::Silent(|host| {
            huge_pages(host).without("sys/kernel/mm/transparent_hugepage/shrink_underused")
        }),
    },
    Case {
        id: "deleted-files",
        reason: "a process keeps deleted files of a tmpfs open",
        host: ZRAM_SWAP,
        fires: |host| shmem(host, 2_000_000).file("proc/1/fd", "7 tmpfs 24 99 1400000\n"),
        severity: Info,
        title: "of deleted files open",
        also: &[],
        near: Near::Silent(|host| {
            shmem(host, 2_000_000).file("proc/1/fd", "7 tmpfs 24 99 700000\n")
        }),
    },
    Case {
        id: "deleted-files",
        reason: "a process maps a deleted file of a tmpfs",
        host: ZRAM_SWAP,
        fires: |host| maps_deleted(shmem(host, 2_000_000), "0 tmpfs 24 99 1400000\n"),
        severity: Info,
        title: "of deleted files mapped",
        also: &[],
        near: Near::Silent(|host| maps_deleted(shmem(host, 2_000_000), "0 memfd 1 99 1400000\n")),
    },
    Case {
        id: "cache-not-cache",
        reason: "much of buff/cache is shmem",
        host: ZRAM_SWAP,
        fires: |host| shmem(cached(host, 9_000_000), 5_000_000),
        severity: Info,
        title: "in buff/cache cannot be dropped",
        also: &[],
        near: Near::Silent(|host| shmem(host, 2_000_000)),
    },
    Case {
        id: "cache-not-cache",
        reason: "less of it, with little available and swap off",
        host: PLAIN,
        fires: |host| shmem(available(swap_off(host), 300_000), 2_000_000),
        severity: Warning,
        title: "in buff/cache cannot be dropped",
        also: &["memory-low"],
        near: Near::But(
            |host| shmem(available(swap_off(host), 300_000), 1_200_000),
            &["memory-low"],
        ),
    },
    Case {
        id: "hugetlb-unused",
        reason: "a pool that nobody uses",
        host: ZRAM_SWAP,
        fires: |host| pool(host, 1024, 800, 288),
        severity: Info,
        title: "1.0 GiB in the hugetlb pool of 2.0 MiB huge pages are unused",
        also: &[],
        near: Near::Silent(|host| pool(host, 1024, 800, 720)),
    },
    Case {
        id: "hugetlb-unused",
        reason: "a large pool that nobody uses",
        host: ZRAM_SWAP,
        fires: |host| pool(host, 1024, 1024, 0),
        severity: Warning,
        title: "2.0 GiB in the hugetlb pool of 2.0 MiB huge pages are unused",
        also: &[],
        near: Near::Silent(|host| pool(host, 1024, 100, 0)),
    },
    Case {
        id: "fragmentation",
        reason: "tasks compact while free memory is in pieces",
        host: ZRAM_SWAP,
        fires: |host| in_pieces(host).grow("compact_stall", 50).grow("compact_fail", 30),
        severity: Warning,
        title: "tasks wait for compaction: 100 % of free memory is in small blocks",
        also: &[],
        near: Near::Silent(|host| whole(host).grow("compact_stall", 50)),
    },
    Case {
        id: "fragmentation",
        reason: "the same, where anybody stopped to compact",
        host: ZRAM_SWAP,
        fires: |host| in_pieces(host).grow("compact_stall", 50),
        severity: Warning,
        title: "tasks wait for compaction",
        also: &[],
        near: Near::Silent(|host| in_pieces(host).grow("compact_stall", 1)),
    },
    Case {
        id: "oom-kills",
        reason: "the kernel log says that the machine ran out",
        host: ZRAM_SWAP,
        fires: |host| host.file("dev/kmsg", KILLED),
        severity: Warning,
        title: "the kernel killed java (pid 7): the machine ran out of memory",
        also: &[],
        // the same text, written to /dev/kmsg by a program
        near: Near::Silent(|host| host.file("dev/kmsg", KILLED.replace("3,12,", "11,12,"))),
    },
    Case {
        id: "oom-kills",
        reason: "a group reached its limit",
        host: OOM_LIMIT,
        fires: |host| host,
        severity: Critical,
        title: "the kernel killed nginx (pid 147) at the limit of ",
        also: &[],
        near: Near::Told(
            |host| host.without("dev/kmsg"),
            Info,
            "1 process was killed for lack of memory since boot",
        ),
    },
    Case {
        id: "oom-kills",
        reason: "the counter grows and there is no log",
        host: ZRAM_SWAP,
        fires: |host| host.grow("oom_kill", 2),
        severity: Critical,
        title: "2 processes were killed for lack of memory since boot",
        also: &[],
        near: Near::Silent(|host| host.grow("oom_kill", 0)),
    },
    Case {
        id: "mglru-off",
        reason: "built in and off",
        host: ZRAM_SWAP,
        fires: |host| host.file("sys/kernel/mm/lru_gen/enabled", "0x0006\n"),
        severity: Info,
        title: "multi-gen LRU is available but off",
        also: &[],
        near: Near::Silent(|host| host.file("sys/kernel/mm/lru_gen/enabled", "0x0001\n")),
    },
    Case {
        id: "memory-low",
        reason: "little is available and swap is off",
        host: PLAIN,
        fires: |host| swap_off(available(host, 300_000)),
        severity: Critical,
        title: "of memory are available",
        also: &[],
        near: Near::Silent(|host| swap_off(available(host, 3_000_000))),
    },
    Case {
        id: "memory-low",
        reason: "little is available and swap has room",
        host: ZRAM_SWAP,
        fires: |host| available(big_swap(host), 1_100_000),
        severity: Warning,
        title: "of memory are available",
        also: &[],
        near: Near::Silent(|host| available(big_swap(host), 3_000_000)),
    },
    Case {
        id: "swap-full",
        reason: "after an old peak",
        host: ZRAM_SWAP,
        fires: |host| swap_used(host, 96),
        severity: Info,
        title: "swap is 96 % full",
        also: &[],
        near: Near::Silent(|host| swap_used(host, 80)),
    },
    Case {
        id: "commit-limit",
        reason: "strict overcommit at its limit",
        host: ZRAM_SWAP,
        fires: |host| strict(host, 98),
        severity: Critical,
        title: "committed memory has reached 98 % of the commit limit",
        also: &[],
        near: Near::Silent(|host| strict(host, 98).file("proc/sys/vm/overcommit_memory", "0\n")),
    },
    Case {
        id: "memory-grows",
        reason: "a process that has grown since it began",
        host: THP,
        fires: |host| grown(host, 100),
        severity: Warning,
        title: "will fill memory in",
        also: &[],
        // in one interval it grew by as much as in ten hours before
        near: Near::Silent(|host| grown(host, 36_000)),
    },
    Case {
        id: "swap-avoids-anon",
        reason: "swap was switched off, and files come back",
        host: ZRAM_SWAP,
        fires: |host| rereading(swap_off(host)),
        severity: Warning,
        title: "files are read again right after the kernel dropped them from memory",
        also: &["zram-unused"],
        near: Near::Silent(swap_off),
    },
    Case {
        id: "kernel-memory",
        reason: "page tables hold more than 5 % of RAM",
        host: PLAIN,
        fires: |host| meminfo(host, "PageTables:", 2_000_000),
        severity: Warning,
        title: "page tables hold 1.9 GiB: 8 % of RAM",
        also: &[],
        near: Near::Silent(|host| meminfo(host, "PageTables:", 1_200_000)),
    },
    Case {
        id: "kernel-memory",
        reason: "half of an unusual share, and it grows",
        host: PLAIN,
        fires: |host| slab_grew(host, 1_300_000, 1_400_000),
        severity: Warning,
        title: "unreclaimable slab holds 1.3 GiB: 6 % of RAM",
        also: &[],
        near: Near::Silent(|host| slab_grew(host, 1_390_000, 1_400_000)),
    },
    Case {
        id: "memory-locked",
        reason: "a quarter of RAM",
        host: PLAIN,
        fires: |host| locked(host, 6_200_000),
        severity: Info,
        title: "25 % of RAM is locked",
        also: &[],
        near: Near::Silent(|host| locked(host, 6_100_000)),
    },
    Case {
        id: "memory-locked",
        reason: "more than half of RAM",
        host: PLAIN,
        fires: |host| locked(host, 13_000_000),
        severity: Warning,
        title: "53 % of RAM is locked",
        also: &[],
        near: Near::Told(|host| locked(host, 12_300_000), Info, "50 % of RAM is locked"),
    },
    Case {
        id: "memory-locked",
        reason: "files in a ramfs",
        host: PLAIN,
        fires: |host| mounted(meminfo(host, "Unevictable:", 9_000_000), RAMFS),
        severity: Warning,
        title: "36 % of RAM cannot be reclaimed, and mlock is not the reason",
        also: &[],
        near: Near::Told(
            |host| mounted(meminfo(host, "Unevictable:", 6_800_000), RAMFS),
            Info,
            "28 % of RAM cannot be reclaimed, and mlock is not the reason",
        ),
    },
    Case {
        id: "memory-unexplained",
        reason: "8 GiB are in use that nothing accounts for",
        host: PLAIN,
        fires: |host| meminfo(host, "MemFree:", 12_000_000),
        severity: Warning,
        title: "nothing explains what ",
        also: &[],
        near: Near::Silent(|host| meminfo(host, "MemFree:", 14_000_000)),
    },
    Case {
        id: "memory-unexplained",
        reason: "most of it is in the GPU buffers of a process",
        host: PLAIN,
        fires: |host| gpu(meminfo(host, "MemFree:", 12_000_000), "amdgpu"),
        severity: Warning,
        title: "GPU buffers of ",
        also: &[],
        near: Near::Told(
            |host| gpu(meminfo(host, "MemFree:", 12_000_000), "i915"),
            Warning,
            "nothing explains what ",
        ),
    },
    Case {
        id: "memory-unexplained",
        reason: "the cache of ZFS would explain it",
        host: PLAIN,
        fires: |host| zfs_cache(meminfo(host, "MemFree:", 4_000_000), 4_000_000),
        severity: Warning,
        title: "nothing explains what ",
        also: &[],
        near: Near::Silent(|host| zfs_cache(meminfo(host, "MemFree:", 4_000_000), 14_000_000)),
    },
    Case {
        id: "memory-unexplained",
        reason: "the balloon of the hypervisor has it",
        host: PLAIN,
        fires: |host| meminfo(meminfo(host, "MemFree:", 4_000_000), "Balloon:", 16_000_000),
        severity: Warning,
        title: "the hypervisor's balloon holds 15.3 GiB: 65 % of RAM",
        also: &[],
        near: Near::Silent(|host| {
            meminfo(meminfo(host, "MemFree:", 13_000_000), "Balloon:", 7_000_000)
        }),
    },
    Case {
        id: "shared-memory-left",
        reason: "a segment without a process",
        host: ZRAM_SWAP,
        fires: |host| segment(host, 600_000, 0),
        severity: Info,
        title: "585.9 MiB of shared memory is attached to no process",
        also: &[],
        near: Near::Silent(|host| segment(host, 600_000, 1)),
    },
    Case {
        id: "shared-memory-left",
        reason: "messages that nobody receives",
        host: ZRAM_SWAP,
        fires: |host| messages(host, 600_000),
        severity: Info,
        title: "585.9 MiB of messages wait in System V message queues",
        also: &[],
        near: Near::Silent(|host| messages(host, 400_000)),
    },
    Case {
        id: "swap-needs-memory",
        reason: "a loop device whose file is in a tmpfs",
        host: ZRAM_SWAP,
        fires: |host| loop_swap(mounted(host, TMPFS), "/srv/fast/swap\n"),
        severity: Warning,
        title: "the swap area /dev/loop0 is itself in RAM",
        also: &[],
        near: Near::Told(
            |host| loop_swap(mounted(host, TMPFS), "/srv/swap\n"),
            Warning,
            "the kernel needs memory to write to the swap area /dev/loop0",
        ),
    },
    Case {
        id: "swap-needs-memory",
        reason: "a network block device",
        host: ZRAM_SWAP,
        fires: |host| disk_swap(host, "nbd0"),
        severity: Warning,
        title: "the kernel needs memory to write to the swap area /dev/nbd0",
        also: &[],
        near: Near::Silent(|host| disk_swap(host, "sdb")),
    },
    Case {
        id: "group-swappiness",
        reason: "a group of version 1 with a swappiness of its own",
        host: ZRAM_SWAP,
        fires: |host| own_swappiness(host, "10"),
        severity: Info,
        title: "vm.swappiness is 60, but /cg-",
        also: &[],
        near: Near::Silent(|host| own_swappiness(host, "51")),
    },
    Case {
        id: "groups-idle",
        reason: "a frozen group",
        host: AT_LIMIT,
        fires: |host| frozen(host, "populated 1\nfrozen 1\n"),
        severity: Info,
        title: "/cg-9 is frozen and holds 100.0 MiB",
        also: &[],
        near: Near::Silent(|host| frozen(host, "populated 1\nfrozen 0\n")),
    },
    Case {
        id: "groups-idle",
        reason: "many deleted groups",
        host: AT_LIMIT,
        fires: |host| dying(host, 2_000),
        severity: Info,
        title: "the kernel still keeps 2,000 deleted cgroups",
        also: &[],
        near: Near::Silent(|host| dying(host, 1_999)),
    },
    Case {
        id: "tasks-limit",
        reason: "forks are refused",
        host: AT_LIMIT,
        fires: |host| tasks(host, 100, 38),
        severity: Warning,
        title: "forks are refused in /cg-9: its pids.max is 100",
        also: &[],
        near: Near::Silent(|host| tasks(host, 98, 0)),
    },
    Case {
        id: "tasks-limit",
        reason: "the next fork but one will be refused",
        host: AT_LIMIT,
        fires: |host| tasks(host, 99, 0),
        severity: Info,
        title: "/cg-9 has 99 of at most 100 tasks",
        also: &[],
        near: Near::Silent(|host| tasks(host, 98, 0)),
    },
    Case {
        id: "process-limit",
        reason: "little is left of the address space",
        host: THP,
        fires: |host| limit_of_process(host, "address space", 10),
        severity: Warning,
        title: " of its RLIMIT_AS left",
        also: &[],
        near: Near::Silent(|host| limit_of_process(host, "address space", 110)),
    },
    Case {
        id: "process-limit",
        reason: "little is left of the private writable address space",
        host: THP,
        fires: |host| limit_of_process(host, "data size", 10),
        severity: Warning,
        title: " of its RLIMIT_DATA left",
        also: &[],
        near: Near::Silent(|host| limit_of_process(host, "data size", 110)),
    },
    Case {
        id: "protection-starves",
        reason: "memory.min of a group keeps more than a third of RAM",
        host: AT_LIMIT,
        fires: |host| protected(host, 209_715_200),
        severity: Critical,
        title: "memory.min keeps 200.0 MiB for /cg-9 while others wait",
        also: &["memory-pressure", "swap-heavy-group"],
        near: Near::But(
            |host| protected(host, 104_857_600),
            &["memory-pressure", "swap-heavy-group"],
        ),
    },
    Case {
        id: "group-limit",
        reason: "usage above memory.high, without an event during the interval",
        host: AT_LIMIT,
        fires: |host| above_high(host, "67108865\n"),
        severity: Critical,
        title: "/cg-2.service waits for memory above its memory.high of 64.0 MiB",
        also: &[],
        near: Near::But(
            |host| above_high(host, "67108863\n"),
            &["memory-pressure", "swap-heavy-group"],
        ),
    },
    Case {
        id: "commit-limit",
        reason: "the fork of a process would be refused",
        host: THP,
        fires: |host| strict(fork_of(host, 5_000_000), 60),
        severity: Warning,
        title: "cannot fork: 3.8 GiB left to commit",
        also: &[],
        near: Near::Silent(|host| strict(fork_of(host, 3_000_000), 60)),
    },
    Case {
        id: "ksm-loss",
        reason: "hardly any page has a copy",
        host: PLAIN,
        fires: |host| ksm(host, 2, "-30000000"),
        severity: Warning,
        title: "KSM uses 28.6 MiB more memory than it saves",
        also: &[],
        // it cannot have merged anything yet
        near: Near::Silent(|host| ksm(host, 1, "-30000000")),
    },
    Case {
        id: "ksm-loss",
        reason: "the same on a kernel that does not work out the profit",
        host: PLAIN,
        fires: |host| ksm(host, 9, "0").without("sys/kernel/mm/ksm/general_profit"),
        severity: Warning,
        title: "KSM uses 30.1 MiB more memory than it saves",
        also: &[],
        near: Near::Silent(|host| {
            let host = ksm(host, 9, "0").without("sys/kernel/mm/ksm/general_profit");
            host.file("sys/kernel/mm/ksm/pages_sharing", "9000\n")
        }),
    },
    Case {
        id: "watermarks-extreme",
        reason: "a tenth of RAM is kept free",
        host: PLAIN,
        fires: |host| host.file("proc/sys/vm/min_free_kbytes", "2468410\n"),
        severity: Warning,
        title: "the kernel keeps 2.4 GiB of memory free as a reserve: 10 % of RAM",
        also: &[],
        near: Near::Silent(|host| host.file("proc/sys/vm/min_free_kbytes", "1234204\n")),
    },
    Case {
        id: "watermarks-extreme",
        reason: "less is kept free than the kernel needs",
        host: PLAIN,
        fires: |host| host.file("proc/sys/vm/min_free_kbytes", "1023\n"),
        severity: Warning,
        title: "the kernel keeps only 1023.0 KiB of memory free as a reserve",
        also: &[],
        near: Near::Silent(|host| host.file("proc/sys/vm/min_free_kbytes", "1024\n")),
    },
    Case {
        id: "watermarks-extreme",
        reason: "the watermarks lie far apart",
        host: PLAIN,
        fires: |host| watermarks(host, 900_000),
        severity: Warning,
        title: "kswapd starts to reclaim while 3.4 GiB of memory are free: 15 % of RAM",
        also: &[],
        near: Near::Silent(|host| watermarks(host, 500_000)),
    },
    Case {
        id: "dirty-stall",
        reason: "gigabytes wait for the disk and tasks wait too",
        host: PLAIN,
        fires: |host| writing(host, 2_000_000, "10.00"),
        severity: Warning,
        title: "1.9 GiB of dirty data wait to be written",
        also: &[],
        near: Near::Silent(|host| writing(host, 2_000_000, "9.99")),
    },
    Case {
        id: "dirty-stall",
        reason: "the same, where that much waits",
        host: PLAIN,
        fires: |host| writing(host, 1_100_000, "80.00"),
        severity: Warning,
        title: "1.0 GiB of dirty data wait to be written",
        also: &[],
        near: Near::Silent(|host| writing(host, 1_000_000, "80.00")),
    },
    Case {
        id: "swap-heavy-group",
        reason: "a service without a limit works out of zram",
        host: AT_LIMIT,
        fires: |host| host.file(&format!("{LIMITED}/memory.max"), "max\n"),
        severity: Warning,
        title: "cg-2.service has 96.8 MiB in swap and keeps swapping pages in",
        also: &["memory-pressure"],
        // its pages stay in swap
        near: Near::But(
            |host| {
                let host = host.file(&format!("{LIMITED}/memory.max"), "max\n");
                [LIMITED, SLICE].iter().fold(host, |host, group| {
                    let stat = format!("{group}/memory.stat");
                    let end = host.text("end", &stat).unwrap().to_owned();
                    host.file(&stat, end)
                })
            },
            &["memory-pressure"],
        ),
    },
    Case {
        id: "swap-stuck",
        reason: "more in swap than is available",
        host: ZRAM_SWAP,
        fires: |host| available(big_swap_used(host, 7_000_000), 5_000_000),
        severity: Info,
        title: "swap cannot be switched off: 1.9 GiB would not fit into memory",
        also: &[],
        near: Near::Silent(|host| available(big_swap_used(host, 4_900_000), 5_000_000)),
    },
    Case {
        id: "min-ttl-set",
        reason: "as the kernel's documentation has it",
        host: AT_LIMIT,
        fires: |host| host.file("sys/kernel/mm/lru_gen/min_ttl_ms", "1000\n"),
        severity: Info,
        title: "the kernel kills a process rather than evict pages used in the last 1000 ms",
        also: &[],
        near: Near::Silent(|host| host.file("sys/kernel/mm/lru_gen/min_ttl_ms", "0\n")),
    },
    Case {
        id: "min-ttl-set",
        reason: "far longer",
        host: AT_LIMIT,
        fires: |host| host.file("sys/kernel/mm/lru_gen/min_ttl_ms", "10000\n"),
        severity: Warning,
        title: "the kernel kills a process rather than evict pages used in the last 10000 ms",
        also: &[],
        near: Near::Told(
            |host| host.file("sys/kernel/mm/lru_gen/min_ttl_ms", "3000\n"),
            Info,
            "the kernel kills a process rather than evict pages used in the last 3000 ms",
        ),
    },
    Case {
        id: "extfrag-threshold",
        reason: "the kernel never compacts",
        host: PLAIN,
        fires: |host| host.file("proc/sys/vm/extfrag_threshold", "1000\n"),
        severity: Info,
        title: "vm.extfrag_threshold is 1000: allocations never start compaction",
        also: &[],
        near: Near::Silent(|host| host.file("proc/sys/vm/extfrag_threshold", "500\n")),
    },
    Case {
        id: "settings-differ",
        reason: "a file is not in force",
        host: ZRAM_SWAP,
        fires: |host| sysctl_file(host, "90-swap", "# for zram\nvm.swappiness = 180\n"),
        severity: Info,
        title: "vm.swappiness is 60, but a file sets it to 180",
        also: &[],
        // the file that is applied later wins
        near: Near::Silent(|host| {
            let host = sysctl_file(host, "90-swap", "vm.swappiness = 60\n");
            host.file("usr/lib/sysctl.d/10-vendor.conf", "vm.swappiness = 180\n")
        }),
    },
    Case {
        id: "settings-differ",
        reason: "the profile of tuned is not in force",
        host: ZRAM_SWAP,
        fires: |host| tuned(host).file(TUNED, ""),
        severity: Info,
        title: "vm.swappiness is 60, but a file sets it to 30",
        also: &[],
        // tuned is not enabled
        near: Near::Silent(tuned),
    },
    Case {
        id: "managers-fight",
        reason: "two set vm settings",
        host: ZRAM_SWAP,
        fires: |host| {
            let host = swappiness(tuned(host).file(TUNED, ""), "30");
            host.file("etc/systemd/system/multi-user.target.wants/tlp.service", "")
        },
        severity: Info,
        title: "tuned and tlp both set vm settings",
        also: &[],
        near: Near::Silent(|host| {
            tuned(host).file("etc/systemd/system/multi-user.target.wants/tlp.service", "")
        }),
    },
    Case {
        id: "settings-differ",
        reason: "no file sets what runs",
        host: ZRAM_SWAP,
        fires: |host| {
            let host = sysctl_file(host, "90-other", "vm.max_map_count = 65530\n");
            host.file("proc/sys/vm/dirty_ratio", "40\n")
        },
        severity: Info,
        title: "1 setting differs from its default and is in no sysctl file",
        also: &[],
        // nothing is known about the configuration files
        near: Near::Silent(|host| host.file("proc/sys/vm/dirty_ratio", "40\n")),
    },
    Case {
        id: "settings-differ",
        reason: "two files of the administrator disagree",
        host: ZRAM_SWAP,
        fires: |host| {
            let host = sysctl_file(host, "10-bob", "vm.swappiness = 10\n");
            sysctl_file(host, "90-swap", "vm.swappiness = 60\n")
        },
        severity: Info,
        title: "two files set vm.swappiness to different values: 10 and 60",
        also: &[],
        near: Near::Silent(|host| {
            let host = sysctl_file(host, "10-bob", "vm.swappiness = 60\n");
            sysctl_file(host, "90-swap", "vm.swappiness = 60\n")
        }),
    },
    Case {
        id: "managers-fight",
        reason: "two make swap in zram",
        host: ZRAM_SWAP,
        fires: |host| enabled(generator(host, "[zram0]\n"), "zramswap"),
        severity: Warning,
        title: "zram-generator and zram-tools both set up zram0",
        also: &[],
        // a generator without anything to do
        near: Near::Silent(|host| enabled(generator(host, "# [zram0]\n"), "zramswap")),
    },
    Case {
        id: "managers-fight",
        reason: "two services make swap in zram, on different devices",
        host: ZRAM_SWAP,
        fires: |host| enabled(generator(host, "[zram1]\n"), "zramswap"),
        severity: Warning,
        title: "zram-generator and zram-tools both set up compressed swap",
        also: &[],
        near: Near::Silent(|host| enabled(generator(host, "[other]\n"), "zramswap")),
    },
    Case {
        id: "managers-fight",
        reason: "a rule of udev and the generator set up one device",
        host: ZRAM_SWAP,
        fires: |host| udev_rule(generator(host, "[zram0]\n"), "zram0"),
        severity: Warning,
        title: "udev rule and zram-generator both set up zram0",
        also: &["settings-differ"],
        near: Near::But(|host| udev_rule(generator(host, "[zram0]\n"), "sda"), &[]),
    },
    Case {
        id: "protection-limited",
        reason: "a service is protected, and its slice is not",
        host: AT_LIMIT,
        fires: |host| host.file(&format!("{LIMITED}/memory.low"), "33554432\n"),
        severity: Warning,
        title: "memory.low of /system.slice/cg-2.service is limited by a cgroup above it",
        also: &[],
        // less than 16 MiB are lost
        near: Near::Silent(|host| {
            host.file(&format!("{LIMITED}/memory.low"), "33554432\n")
                .file(&format!("{SLICE}/memory.low"), "17825792\n")
        }),
    },
    Case {
        id: "setting-unread",
        reason: "the file's name has no suffix",
        host: ZRAM_SWAP,
        fires: |host| host.file("etc/sysctl.d/99-swap", "vm.swappiness = 180\n"),
        severity: Info,
        title: "nothing reads vm.swappiness in /etc/sysctl.d/99-swap",
        also: &[],
        near: Near::Silent(|host| host.file("etc/sysctl.d/99-swap.bak", "vm.swappiness = 180\n")),
    },
    Case {
        id: "setting-unread",
        reason: "zram-generator is not installed",
        host: ZRAM_SWAP,
        fires: |host| host.file("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = ram\n"),
        severity: Info,
        title: "nothing reads disksize of zram0 in /etc/systemd/zram-generator.conf",
        also: &[],
        near: Near::Silent(|host| host.file("etc/systemd/zram-generator.conf", "#[zram0]\n")),
    },
    Case {
        id: "setting-unread",
        reason: "tmpfiles takes the first of two lines for one path",
        host: ZRAM_SWAP,
        fires: |host| {
            let run = "w /sys/kernel/mm/ksm/run - - - -";
            host.file("etc/tmpfiles.d/ksm.conf", format!("{run} 0\n{run} 1\n"))
        },
        severity: Info,
        title: "nothing reads ksm.run in /etc/tmpfiles.d/ksm.conf",
        also: &[],
        near: Near::Silent(|host| {
            host.file("etc/tmpfiles.d/ksm.conf", "w /sys/kernel/mm/ksm/run - - - - 0\n")
        }),
    },
    Case {
        id: "setting-unread",
        reason: "systemd does not read the old file",
        host: ZRAM_SWAP,
        fires: |host| {
            let host = host.file("run/systemd/notify", "");
            host.file("etc/sysctl.conf", "vm.swappiness = 180\n")
        },
        severity: Info,
        title: "nothing reads vm.swappiness in /etc/sysctl.conf",
        also: &[],
        near: Near::Silent(|host| {
            let host = host.file("run/systemd/notify", "");
            sysctl_file(host, "99-sysctl", "vm.swappiness = 60\n")
                .file("etc/sysctl.conf", "vm.swappiness = 60\n")
        }),
    },
    Case {
        id: "settings-differ",
        reason: "tmpfiles wants another policy of huge pages",
        host: ZRAM_SWAP,
        fires: |host| thp_line(host, "w", "never"),
        severity: Info,
        title: "thp.enabled is madvise, but a file sets it to never",
        also: &[],
        near: Near::Silent(|host| thp_line(host, "w", "madvise")),
    },
    Case {
        id: "managers-fight",
        reason: "two kill for memory",
        host: ZRAM_SWAP,
        fires: |host| enabled(enabled(host, "systemd-oomd"), "earlyoom"),
        severity: Info,
        title: "systemd-oomd and earlyoom both kill processes when memory is short",
        also: &[],
        near: Near::Silent(|host| enabled(enabled(host, "zramswap"), "earlyoom")),
    },
    Case {
        id: "generator-parameters",
        reason: "a second algorithm has a level",
        host: ZRAM_SWAP,
        fires: |host| {
            generator(host, "[zram0]\ncompression-algorithm = lzo-rle zstd(level=9) (type=idle)\n")
        },
        severity: Info,
        title: "zram-generator does not apply the parameters of zstd",
        also: &[],
        // the device has another algorithm, which is a finding of another rule
        near: Near::But(
            |host| {
                let algorithms = "compression-algorithm = zstd(level=9) lzo-rle (type=idle)";
                generator(host, &format!("[zram0]\n{algorithms}\n"))
            },
            &["settings-differ"],
        ),
    },
    Case {
        id: "hibernation-zram",
        reason: "a disk to resume from, and zram alone",
        host: ZRAM_SWAP,
        fires: |host| host.file("sys/power/resume", "254:2\n"),
        severity: Info,
        title: "hibernation is set up, but all swap is in compressed RAM",
        also: &[],
        near: Near::Silent(|host| host.file("sys/power/resume", "0:0\n")),
    },
];

/// A file of the administrator in `/etc/sysctl.d`.
fn sysctl_file(host: Scene, name: &str, text: &str) -> Scene {
    host.file(&format!("etc/sysctl.d/{name}.conf"), text)
}

/// A udev rule that gives a device a size.
fn udev_rule(host: Scene, device: &str) -> Scene {
    let rule = format!("KERNEL==\"{device}\", ATTR{{disksize}}=\"1G\"\n");
    host.file("etc/udev/rules.d/99-zram.rules", &rule)
}

/// A line of tmpfiles.d about huge pages.
fn thp_line(host: Scene, kind: &str, policy: &str) -> Scene {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    host.file("etc/tmpfiles.d/thp.conf", format!("{kind} {path} - - - - {policy}\n"))
}

/// zram-generator, and its configuration.
fn generator(host: Scene, text: &str) -> Scene {
    host.file("usr/lib/systemd/system-generators/zram-generator", "")
        .file("etc/systemd/zram-generator.conf", text)
}

/// A unit that `systemctl enable` has enabled.
fn enabled(host: Scene, unit: &str) -> Scene {
    host.file(&format!("etc/systemd/system/multi-user.target.wants/{unit}.service"), "")
}

/// The large process, `age` seconds old, grew to 4,000 MiB by 40 MiB in each second of the interval,
/// and was never larger.
fn grown(host: Scene, age: u64) -> Scene {
    const UPTIME: u64 = 50_000;
    let seconds = host.replay().seconds().expect("two ends");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MiB")]
    let before = 4000 - (40.0 * seconds) as u64;
    let stat =
        format!("1774 (x) S 1 1 1 0 -1 0 9 0 0 0 5 5 0 0 20 0 1 0 {} 9 9\n", (UPTIME - age) * 100);
    host.file("proc/uptime", format!("{UPTIME}.00 9000.00\n"))
        .file("proc/1774/cgroup", "4:memory:/\n")
        .file_at("start", "proc/1774/statm", format!("999999 {} 0 9 0 9 0\n", before * 256))
        .file("proc/1774/stat", stat)
        .line("proc/1774/status", "RssAnon:", "RssAnon:\t 4096000 kB")
        .line("proc/1774/status", "VmHWM:", "VmHWM:\t 4096000 kB")
        .line("proc/1774/smaps_rollup", "AnonHugePages:", "AnonHugePages:   3900000 kB")
}

/// Sets a size of meminfo in KiB.
fn meminfo(host: Scene, key: &str, kib: u64) -> Scene {
    host.line("proc/meminfo", key, &format!("{key} {kib} kB"))
}

/// Unevictable memory, all of which is locked.
fn locked(host: Scene, kib: u64) -> Scene {
    meminfo(meminfo(host, "Unevictable:", kib), "Mlocked:", kib)
}

const RAMFS: &str = "990 1 0:190 / /srv/scratch rw - ramfs ramfs rw";
const TMPFS: &str = "990 1 0:190 / /srv/fast rw - tmpfs tmpfs rw";

fn zfs_cache(host: Scene, kib: u64) -> Scene {
    let text = format!(
        "13 1 0x01 147 39984 5303291826 11405279345683\nname type data\nc_min 4 1073741824\nc_max 4 {0}\nsize 4 {0}\n",
        kib * 1024
    );
    host.file("proc/spl/kstat/zfs/arcstats", text)
}

/// A segment of System V shared memory, with this number of attachments.
fn segment(host: Scene, kib: u64, attached: u64) -> Scene {
    let bytes = kib * 1024;
    host.file(
        "proc/sysvipc/shm",
        format!(
            "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n\
             0 4 600 {bytes} 97 97 {attached} 26 26 26 26 0 0 0 {bytes} 0\n"
        ),
    )
}

fn messages(host: Scene, kib: u64) -> Scene {
    let bytes = kib * 1024;
    host.file(
        "proc/sysvipc/msg",
        format!(
            "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n\
             0 4 600 {bytes} 9000 97 97 26 26 26 26 0 0 0\n"
        ),
    )
}

/// The recorded swap on zram, and swap on this disk with a lower priority.
fn disk_swap(host: Scene, disk: &str) -> Scene {
    let area = format!("/dev/{disk} partition 1048572 0 -2");
    swaps(host, &["/dev/zram1 partition 524284 0 100", &area])
        .file(
            &format!("sys/class/block/{disk}/uevent"),
            format!("MAJOR=7\nMINOR=0\nDEVNAME={disk}\nDEVTYPE=disk\n"),
        )
        .file(&format!("sys/block/{disk}/queue/rotational"), "0\n")
}

/// The first process has buffers of 7 GiB in system memory on a GPU with this driver.
fn gpu(host: Scene, driver: &str) -> Scene {
    host.file("proc/1/fdinfo", format!("{driver} 0000:0b:00.0 30 7516192768\n"))
}

/// The first process has no files open and maps these.
fn maps_deleted(host: Scene, files: &str) -> Scene {
    host.line("proc/1/status", "RssShmem:", "RssShmem:\t  700000 kB")
        .file("proc/1/fd", "")
        .file("proc/1/map_files", files)
}

/// The service swaps to a disk, and may read this many bytes per second from it.
fn reads_limited(host: Scene, bytes: u64) -> Scene {
    let limit = format!("254:0 rbps={bytes} wbps=max riops=max wiops=max\n");
    swaps(host, &["/dev/vda2 partition 262140 98992 -2"])
        .file("sys/module/zswap/parameters/enabled", "N\n")
        .file(&format!("{LIMITED}/io.max"), limit)
}

/// Swap on the disk sdb, which completes 600 requests over the interval, each `ms` after it was
/// submitted.
fn slow_swap(host: Scene, ms: u64) -> Scene {
    let line = |times: u64| {
        let (count, spent) = (300 * times, 300 * times * ms);
        let queue = 2 * spent;
        let zram = "252 1 zram1 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0\n";
        format!(
            "{zram}   8 16 sdb {count} 0 2400 {spent} {count} 0 2400 {spent} 31 900 {queue} 0 0 0 0\n"
        )
    };
    disk_swap(host, "sdb")
        .file_at("start", "proc/diskstats", line(1))
        .file_at("end", "proc/diskstats", line(2))
        .grow("pswpin", 600)
        .grow("pswpout", 300)
}

fn loop_swap(host: Scene, file: &str) -> Scene {
    disk_swap(host, "loop0").file("sys/block/loop0/loop/backing_file", file)
}

/// A group beside the others that holds as much as its memory.min, while the service, which has no
/// limit any more, waits.
fn protected(host: Scene, bytes: u64) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/cg-9/memory";
    host.file(&format!("{LIMITED}/memory.max"), "max\n")
        .file(&format!("{GROUP}.stat"), format!("anon {bytes}\n"))
        .file(&format!("{GROUP}.current"), format!("{bytes}\n"))
        .file(&format!("{GROUP}.min"), format!("{bytes}\n"))
}

/// A group with this many of at most 100 tasks, in which this many forks were refused during the
/// interval.
fn tasks(host: Scene, current: u64, refused: u64) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/cg-9";
    host.file(&format!("{GROUP}/memory.stat"), "anon 4096\n")
        .file(&format!("{GROUP}/memory.current"), "4096\n")
        .file(&format!("{GROUP}/pids.current"), format!("{current}\n"))
        .file(&format!("{GROUP}/pids.max"), "100\n")
        .file_at("start", &format!("{GROUP}/pids.events"), "max 7\n")
        .file_at("end", &format!("{GROUP}/pids.events"), format!("max {}\n", 7 + refused))
}

/// The largest process has 2,000 MiB of address space, all of it private and writable, and a limit
/// of this many MiB more.
fn limit_of_process(host: Scene, name: &str, more: u64) -> Scene {
    let limit = (2_000 + more) << 20;
    let limits = format!("Limit Soft Hard Units\nMax {name}   {limit}   unlimited   bytes\n");
    host.line("proc/1774/status", "VmSize:", "VmSize: 2048000 kB")
        .line("proc/1774/status", "VmData:", "VmData: 2048000 kB")
        .file("proc/1774/limits", limits)
}

/// A group of 100 MiB beside the others.
fn frozen(host: Scene, events: &str) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/cg-9";
    host.file(&format!("{GROUP}/memory.stat"), "anon 104857600\n")
        .file(&format!("{GROUP}/memory.current"), "104857600\n")
        .file(&format!("{GROUP}/cgroup.events"), events)
}

/// All cgroups of version 1 have this swappiness.
pub(super) fn own_swappiness(mut host: Scene, value: &str) -> Scene {
    let files = host.clone().into_files();
    let paths = files.keys().filter_map(|path| path.strip_prefix("end/"));
    for path in paths.filter(|path| path.ends_with("/memory.swappiness")) {
        host = host.file(path, format!("{value}\n"));
    }
    host
}

fn dying(host: Scene, number: u64) -> Scene {
    let text = format!("nr_descendants 9\nnr_dying_descendants {number}\n");
    host.file("sys/fs/cgroup/cgroup.stat", text)
}

/// The service has a memory.high of 64 MiB instead of its memory.max, and no event is counted.
fn above_high(host: Scene, current: &str) -> Scene {
    let events = host.text("end", EVENTS).unwrap().to_owned();
    host.file(&format!("{LIMITED}/memory.max"), "max\n")
        .file(&format!("{LIMITED}/memory.high"), "67108864\n")
        .file(&format!("{LIMITED}/memory.current"), current)
        .file(EVENTS, events)
}

/// The private writable memory of the largest process.
fn fork_of(host: Scene, kib: u64) -> Scene {
    host.line("proc/1774/status", "VmData:", &format!("VmData: {kib} kB"))
}

/// Sets unreclaimable slab at both ends of the interval, in KiB.
fn slab_grew(host: Scene, before: u64, after: u64) -> Scene {
    let host = meminfo(host, "SUnreclaim:", before);
    let text = host.text("end", "proc/meminfo").expect("meminfo is recorded");
    let text =
        text.replace(&format!("SUnreclaim: {before} kB"), &format!("SUnreclaim: {after} kB"));
    host.file_at("end", "proc/meminfo", text)
}

/// KSM after this many scans of half a million pages.
fn ksm(host: Scene, scans: u64, profit: &str) -> Scene {
    let file = |host: Scene, name: &str, text: &str| {
        host.file(&format!("sys/kernel/mm/ksm/{name}"), format!("{text}\n"))
    };
    let host = file(host, "run", "1");
    let host = file(host, "full_scans", &scans.to_string());
    let host = file(host, "pages_shared", "50");
    let host = file(host, "pages_sharing", "100");
    let host = file(host, "pages_unshared", "500000");
    file(host, "general_profit", profit)
}

/// The largest zone's high watermark is this many pages above its low one.
fn watermarks(host: Scene, distance: u64) -> Scene {
    let text = host.text("end", "proc/zoneinfo").expect("zones are recorded");
    let (before, zone) = text.split_once("zone   Normal").expect("a large zone");
    let value = |key: &str| -> u64 {
        let mut words = zone.split_whitespace().skip_while(|word| *word != key);
        words.nth(1).expect("a number").parse().expect("a number")
    };
    let high = format!("high     {}", value("low") + distance);
    let zone = zone.replacen(&format!("high     {}", value("high")), &high, 1);
    let text = format!("{before}zone   Normal{zone}");
    let host = host.file_at("end", "proc/zoneinfo", text);
    host.file("proc/sys/vm/watermark_scale_factor", "1500\n")
}

/// Sets dirty memory in KiB, and the share of the last minute in which a task waited for I/O.
fn writing(host: Scene, dirty: u64, stalled: &str) -> Scene {
    let text = format!(
        "some avg10={stalled} avg60={stalled} avg300=0.00 total=37273968\n\
         full avg10=0.00 avg60=0.00 avg300=0.00 total=17810168\n"
    );
    meminfo(host, "Dirty:", dirty).file("proc/pressure/io", text)
}

/// A swap file of 8 GiB that holds this many KiB.
fn big_swap_used(host: Scene, used: u64) -> Scene {
    let file = format!("/swap-1 file 8388604 {used} -2");
    let host = swaps(host, &["/dev/zram1 partition 524284 0 100", &file]);
    let host = meminfo(host, "SwapTotal:", 8_912_888);
    meminfo(host, "SwapFree:", 8_912_888 - used)
}

fn available(host: Scene, kib: u64) -> Scene {
    host.line("proc/meminfo", "MemAvailable:", &format!("MemAvailable:    {kib} kB"))
}

fn cached(host: Scene, kib: u64) -> Scene {
    host.line("proc/meminfo", "Cached:", &format!("Cached:          {kib} kB"))
}

/// A swap file of 8 GiB that is nearly empty.
fn big_swap(host: Scene) -> Scene {
    let host = swaps(host, &["/dev/zram1 partition 524284 0 100", "/swap-1 file 8388604 1024 -2"]);
    let host = host.line("proc/meminfo", "SwapTotal:", "SwapTotal:       8912888 kB");
    host.line("proc/meminfo", "SwapFree:", "SwapFree:        8911864 kB")
}

/// Swap of 1,000,000 KiB on a disk, filled to this percentage.
fn swap_used(host: Scene, percent: u64) -> Scene {
    let used = percent * 10_000;
    let file = format!("/swap-1 file 1000000 {used} -2");
    let host = swaps(host, &["/dev/zram1 partition 524284 4096 100", &file]);
    let host = host.line("proc/meminfo", "SwapTotal:", "SwapTotal:       1000000 kB");
    host.line("proc/meminfo", "SwapFree:", &format!("SwapFree:        {} kB", 1_000_000 - used))
}

/// Strict overcommit accounting with this percentage of the limit committed.
fn strict(host: Scene, percent: u64) -> Scene {
    let host = host.file("proc/sys/vm/overcommit_memory", "2\n");
    let host = host.line("proc/meminfo", "CommitLimit:", "CommitLimit:    10000000 kB");
    let committed = format!("Committed_AS:    {} kB", percent * 100_000);
    host.line("proc/meminfo", "Committed_AS:", &committed)
}

/// As sysctl sets it at boot, before there are cgroups: those of version 1 copy it.
pub(super) fn swappiness(host: Scene, value: &str) -> Scene {
    own_swappiness(host.file("proc/sys/vm/swappiness", format!("{value}\n")), value)
}

fn rereading_before_5_9(host: Scene, dropped: u64) -> Scene {
    let mut host = rereading(host).grow("pgsteal_kswapd", dropped);
    for end in crate::scene::ENDS {
        let text = host.text(end, "proc/vmstat").expect("vmstat is recorded").to_owned();
        let is_newer = |line: &&str| line.starts_with("pgsteal_file") || line.contains("_anon ");
        let lines = text.lines().filter(|line| !is_newer(line));
        let older: String = lines.flat_map(|line| [line, "\n"]).collect();
        let older = older.replace("workingset_refault_file ", "workingset_refault ");
        host = host.file_at(end, "proc/vmstat", older);
    }
    host
}

/// Sets used size and priority of both tiers, each of 512 MiB.
fn tiers(host: Scene, file: &str, zram: &str) -> Scene {
    let file = format!("/swap-1 file 524284 {file}");
    swaps(host, &[&file, &format!("/dev/zram1 partition 524284 {zram}")])
}

/// Swap of 1 GiB on NVMe that holds this many KiB.
pub(crate) fn on_nvme(host: Scene, used: u64) -> Scene {
    let host = swaps(host, &[&format!("/dev/nvme0n1p3 partition 1048572 {used} -2")]);
    let host = meminfo(host, "SwapTotal:", 1_048_572);
    meminfo(host, "SwapFree:", 1_048_572 - used)
        .file("sys/class/block/nvme0n1p3/uevent", "DEVNAME=nvme0n1p3\nPARTN=3\n")
        .file("sys/block/nvme0n1/queue/rotational", "0\n")
}

/// zswap in front of it, with a pool of this many KiB (its limit is 42,927), while pages are read
/// from the disk.
fn full_pool(host: Scene, pool: u64, reads: u64) -> Scene {
    let host = meminfo(on_nvme(zswap_on(host), 90_000), "Zswap:", pool);
    meminfo(host, "Zswapped:", 80_000).grow("pswpin", reads)
}

/// Two swap partitions, the first used first; and whether each disk is rotational.
fn two_disks(host: Scene, spins: [&str; 2]) -> Scene {
    let disks = [("sda", "sda2", 2), ("nvme0n1", "nvme0n1p3", 3)];
    let partitions =
        ["/dev/sda2 partition 1048572 524 -2", "/dev/nvme0n1p3 partition 1048572 0 -3"];
    let host = swaps(host, &partitions);
    disks.iter().zip(spins).fold(host, |host, ((disk, partition, number), spins)| {
        let uevent =
            format!("MAJOR=8\nMINOR=2\nDEVNAME={partition}\nDEVTYPE=partition\nPARTN={number}\n");
        host.file(&format!("sys/class/block/{partition}/uevent"), uevent)
            .file(&format!("sys/block/{disk}/queue/rotational"), spins)
    })
}

fn zram_holds(host: Scene, used: u32, others: &[&str]) -> Scene {
    let zram = format!("/dev/zram1 partition 524284 {used} 100");
    let tiers: Vec<&str> = [zram.as_str()].into_iter().chain(others.iter().copied()).collect();
    swaps(host, &tiers)
}

/// A device that uses 950 MiB.
fn at_limit(host: Scene, limit: u64) -> Scene {
    let host = zram_holds(host, 200_000, &[]);
    mm_stat(host, &format!("2000000000 900000000 996147200 {limit} 996147200 0 0 0 0"))
}

/// A zmerge device with 64 MiB in it; this many pages were found to be copies when they were
/// written.
fn zmerge(host: Scene, mode: &str, found: u32) -> Scene {
    let file = |host: Scene, name: &str, text: String| {
        host.file(&format!("sys/block/zmerge0/{name}"), text + "\n")
    };
    let merged = [("merged_pages", found), ("merged_bytes", found * 1500), ("merge_hits", found)];
    let numbers =
        [("initstate", 1), ("disksize", 134_217_728), ("merge", 0), ("index_bytes", 408_576)];
    let numbers = numbers.into_iter().chain(merged).chain([("merge_misses", 16_384 - found)]);
    let host = numbers.fold(host, |host, (name, number)| file(host, name, number.to_string()));
    let host = file(host, "comp_algorithm", "[lz4] zstd".to_owned());
    let host = file(host, "mm_stat", "67108864 24000000 25000000 0 25000000 0 0 0 0".to_owned());
    let host = file(host, "io_stat", "0 0 0 0".to_owned());
    file(host, "merge_mode", mode.to_owned())
}

fn zswap_on(host: Scene) -> Scene {
    host.file("sys/module/zswap/parameters/enabled", "Y\n")
}

/// 20 MiB of 256 MiB are in huge pages.
fn low_coverage(host: Scene) -> Scene {
    host.line("proc/1774/smaps_rollup", "AnonHugePages:", "AnonHugePages:     20480 kB")
}

/// khugepaged's time on a CPU and waiting for one during the interval, in ns.
fn khugepaged_ran(host: Scene, on_cpu: u64, waiting: u64) -> Scene {
    host.file("proc/38/schedstat", "660820 916004 22\n").file_at(
        "end",
        "proc/38/schedstat",
        format!("{} {} 30\n", 660_820 + on_cpu, 916_004 + waiting),
    )
}

/// 2 GiB in huge pages.
fn huge_pages(host: Scene) -> Scene {
    host.line("proc/meminfo", "AnonHugePages:", "AnonHugePages:   2097152 kB")
}

const TUNED: &str = "etc/systemd/system/multi-user.target.wants/tuned.service";

/// tuned with an active profile, not enabled.
fn tuned(host: Scene) -> Scene {
    host.file("etc/tuned/active_profile", "virtual-guest\n")
        .file("usr/lib/tuned/virtual-guest/tuned.conf", "[sysctl]\nvm.swappiness = 30\n")
}

fn shmem(host: Scene, kib: u64) -> Scene {
    host.line("proc/meminfo", "Shmem:", &format!("Shmem:           {kib:7} kB"))
}

fn pool(host: Scene, total: u32, free: u32, reserved: u32) -> Scene {
    let files = [("nr", total), ("free", free), ("resv", reserved)];
    files.iter().fold(host, |host, (name, pages)| {
        let path = format!("sys/kernel/mm/hugepages/hugepages-2048kB/{name}_hugepages");
        host.file(&path, format!("{pages}\n"))
    })
}

fn in_pieces(host: Scene) -> Scene {
    host.file("proc/buddyinfo", "Node 0, zone   Normal  90000  40000   9000    900     90      9      2      1      0      0      1 \n")
}

fn whole(host: Scene) -> Scene {
    host.file("proc/buddyinfo", "Node 0, zone   Normal    900    400     90      9      9      9      2      1      0      0    900 \n")
}
