// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of all parsers of host files, each with the files that it reads, for fuzzing.

use std::collections::BTreeSet;
use std::time::Duration;

use pagewise_hostfs::parser::{Parser, bytes, files, keep};
use pagewise_hostfs::{Entry, HostRoot, ReadHost};
use pagewise_model::{Counters, HostSummary, Snapshot};

use crate::{
    capability, cgroup, counters, damon, disk_stats, generations, gpu_memory, host, hugetlb,
    installation, kernel_log, knob, ksm, memory, memory_files, mglru, mounts, process, psi, sar,
    swap, thp, uptime, users, zfs, zmerge, zone, zram, zsmalloc, zswap,
};

/// Expands to the paths of several files in one folder.
macro_rules! below {
    ($folder:literal, $($file:literal),* $(,)?) => { &[$(concat!($folder, $file)),*] };
}

/// All parsers of kernel text, for the fuzzer and its tests.
pub static PARSERS: &[Parser] = &[
    files("memory", &["proc/meminfo"], |host| keep(memory::read(host))),
    files("zfs", &["proc/spl/kstat/zfs/arcstats"], |host| keep(zfs::read(host))),
    files("counters", &["proc/vmstat"], |host| {
        keep(counters::read(host, "proc/vmstat"));
    }),
    files("psi", below!("proc/pressure/", "cpu", "memory", "io"), |host| {
        keep(psi::read(host));
    }),
    files("zone", &["proc/zoneinfo"], |host| keep(zone::read_zones(host))),
    files("free-blocks", &["proc/buddyinfo"], |host| {
        keep(zone::read_free_blocks(host));
    }),
    files("mounts", &["proc/self/mountinfo"], |host| keep(mounts::read(host))),
    files(
        "memory-files",
        &[
            "proc/meminfo",
            "proc/self/mountinfo",
            "statfs/0:24",
            "proc/1/status",
            "proc/1/fd",
            "proc/1/map_files",
            "proc/sysvipc/shm",
            "proc/sysvipc/msg",
        ],
        |host| {
            let processes = process::read(host, None, Duration::ZERO, usize::MAX).list;
            keep(memory_files::read(host, &mounts::read(host), &memory::read(host), &processes));
        },
    ),
    files("gpu-memory", &["proc/meminfo", "proc/1/status", "proc/1/fdinfo"], |host| {
        let processes = process::read(host, None, Duration::ZERO, usize::MAX).list;
        keep(gpu_memory::read(host, &memory::read(host), &processes));
    }),
    bytes("fdinfo", gpu_memory::fuzz_fdinfo, gpu_memory::short_fdinfo),
    files(
        "swap",
        &[
            "proc/swaps",
            "proc/self/mountinfo",
            "sys/module/zswap/parameters/enabled",
            "sys/dev/block/254:0/uevent",
            "sys/block/vda/queue/rotational",
            "sys/class/block/loop0/uevent",
            "sys/block/loop0/loop/backing_file",
        ],
        |host| keep(swap::read(host, &mounts::read(host))),
    ),
    files("sar", &["sos_commands/sar/sar28", "var/log/sa/sa28"], |host| keep(sar::read(host))),
    files("disk-stats", &["proc/diskstats"], |host| keep(disk_stats::read(host))),
    files(
        "zram",
        below!(
            "sys/block/zram0/",
            "mm_stat",
            "io_stat",
            "bd_stat",
            "debug_stat",
            "comp_algorithm",
            "recomp_algorithm",
            "disksize",
            "initstate",
            "backing_dev",
            "dev",
        ),
        |host| keep(zram::read(host, &[], &mounts::read(host))),
    ),
    files("size-classes", &["sys/kernel/debug/zsmalloc/zram0/classes"], |host| {
        keep(zsmalloc::size_classes(host, 0));
    }),
    files(
        "zram-use",
        &[
            "sys/block/zram0/initstate",
            "sys/block/zram0/disksize",
            "sys/block/zram0/dev",
            "proc/swaps",
            "proc/self/mountinfo",
            "dev/zram0",
        ],
        |host| {
            let mounts = mounts::read(host);
            keep(zram::read(host, &swap::read(host, &mounts), &mounts));
        },
    ),
    files(
        "zmerge",
        below!(
            "sys/block/zmerge0/",
            "mm_stat",
            "io_stat",
            "comp_algorithm",
            "disksize",
            "initstate",
            "merge_mode",
            "merge",
            "merged_pages",
            "merged_bytes",
            "index_bytes",
            "merge_hits",
            "merge_misses",
        ),
        |host| keep(zmerge::read(host, &[], &mounts::read(host))),
    ),
    files(
        "zswap",
        below!(
            "sys/module/zswap/parameters/",
            "enabled",
            "compressor",
            "max_pool_percent",
            "accept_threshold_percent",
            "shrinker_enabled",
        ),
        |host| keep(zswap::read(host, &memory::read(host), &Counters::default())),
    ),
    files(
        "ksm",
        below!(
            "sys/kernel/mm/ksm/",
            "run",
            "pages_shared",
            "pages_sharing",
            "pages_unshared",
            "pages_volatile",
            "ksm_zero_pages",
            "full_scans",
            "general_profit",
            "pages_to_scan",
            "sleep_millisecs",
            "advisor_mode",
        ),
        |host| keep(ksm::read(host)),
    ),
    files(
        "hugetlb",
        &[
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages",
            "sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages",
            "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
            "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages",
        ],
        |host| keep(hugetlb::read(host)),
    ),
    files("generations", &["sys/kernel/debug/lru_gen"], |host| {
        keep(generations::generations(host));
    }),
    files("mglru", below!("sys/kernel/mm/lru_gen/", "enabled", "min_ttl_ms"), |host| {
        keep(mglru::read(host));
    }),
    files(
        "damon",
        &[
            "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
            "sys/kernel/mm/damon/admin/kdamonds/0/state",
            "sys/module/damon_reclaim/parameters/enabled",
            "sys/module/damon_stat/parameters/enabled",
            "sys/module/damon_stat/parameters/memory_idle_ms_percentiles",
            "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/targets/0/pid_target",
            "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/tried_regions/0/start",
            "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/tried_regions/0/end",
            "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/tried_regions/0/nr_accesses",
        ],
        |host| {
            keep(damon::read(host));
            keep((
                damon::idle_share(host, pagewise_model::Millis::new(1)),
                damon::read_targets(host),
            ));
            keep(damon::regions(host, 0));
        },
    ),
    files(
        "thp",
        below!(
            "sys/kernel/mm/transparent_hugepage/",
            "enabled",
            "defrag",
            "shmem_enabled",
            "use_zero_page",
            "shrink_underused",
            "hpage_pmd_size",
            "hugepages-64kB/enabled",
            "hugepages-64kB/shmem_enabled",
            "hugepages-64kB/stats/anon_fault_alloc",
            "khugepaged/max_ptes_none",
            "khugepaged/full_scans",
            "khugepaged/scan_sleep_millisecs",
        ),
        |host| keep(thp::read(host)),
    ),
    files(
        "khugepaged",
        &[
            "proc/2/comm",
            "proc/2/task/2/children",
            "proc/38/comm",
            "proc/38/stat",
            "proc/38/schedstat",
            "sys/kernel/mm/transparent_hugepage/khugepaged/full_scans",
        ],
        |host| keep(thp::read(host)),
    ),
    files(
        "cgroup-v2",
        below!(
            "sys/fs/cgroup/",
            "cgroup.controllers",
            "memory.stat",
            "a/memory.stat",
            "a/memory.current",
            "a/memory.peak",
            "a/memory.low",
            "a/memory.high",
            "a/memory.max",
            "a/memory.swap.current",
            "a/memory.swap.max",
            "a/memory.events",
            "a/memory.pressure",
            "a/io.max",
        ),
        |host| keep(cgroup::read(host, &mounts::read(host))),
    ),
    files(
        "cgroup-v1",
        below!(
            "sys/fs/cgroup/memory/",
            "memory.limit_in_bytes",
            "memory.stat",
            "a/memory.stat",
            "a/memory.usage_in_bytes",
            "a/memory.max_usage_in_bytes",
            "a/memory.limit_in_bytes",
            "a/memory.memsw.limit_in_bytes",
            "a/memory.oom_control",
            "a/memory.swappiness",
        ),
        |host| keep(cgroup::read(host, &mounts::read(host))),
    ),
    files(
        "process",
        below!(
            "proc/",
            "1/status",
            "1/cgroup",
            "1/smaps_rollup",
            "2/status",
            "2/smaps_rollup",
            "1/stat",
        ),
        |host| keep(process::read(host, None, Duration::from_millis(200), usize::MAX)),
    ),
    files(
        "process-sizes",
        below!("proc/", "1/statm", "1/stat", "1/status", "2/statm", "meminfo"),
        |host| {
            let at = Snapshot { memory: memory::read(host), ..Snapshot::default() };
            keep(process::read_earlier(host, &at, true));
        },
    ),
    files("installation", &["etc/os-release", "etc/machine-id"], |host| {
        keep(installation::installation(host));
    }),
    files("users", &["etc/passwd"], |host| {
        keep(users::user_names(host, &BTreeSet::from([0, 1000])));
    }),
    files("uptime", &["proc/uptime"], |host| keep(uptime::read(host))),
    files(
        "host",
        &[
            "sys/devices/system/cpu/online",
            "proc/sys/kernel/hostname",
            "proc/sys/kernel/arch",
            "proc/sys/kernel/osrelease",
            "proc/1/environ",
            "proc/1/cgroup",
            "run/systemd/container",
            "proc/cpuinfo",
            "sys/class/dmi/id/sys_vendor",
            "sys/class/dmi/id/product_name",
            "proc/self/mountinfo",
        ],
        |host| keep(host::read(host, &mounts::read(host))),
    ),
    files(
        "capability",
        &[
            "proc/config.gz",
            "proc/sys/kernel/osrelease",
            "lib/modules/6.12.1/modules.dep",
            "lib/modules/6.12.1/modules.builtin",
            "boot/config-6.12.1",
            "sys/module/zram/initstate",
            "sys/fs/cgroup/cgroup.controllers",
            "proc/pressure/memory",
            "sys/block/zram0/backing_dev",
        ],
        |host| keep(capability::read(host, &HostSummary::default())),
    ),
    files(
        "knobs",
        &[
            "proc/sys/vm/swappiness",
            "proc/sys/vm/lowmem_reserve_ratio",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/fs/cgroup/cgroup.controllers",
            "sys/fs/cgroup/a/memory.stat",
            "sys/fs/cgroup/a/memory.high",
        ],
        |host| keep(knob::read(host, &cgroup::read(host, &mounts::read(host)), None)),
    ),
    files("kernel-log", &["dev/kmsg", "journal/kernel", "journal/programs"], |host| {
        keep(kernel_log::read(host, &pagewise_model::Taken::default()));
    }),
    bytes("journald", journal, short_journal),
    bytes("log-text", log_text, short_log_text),
];

/// Reads a text of any form with the kernel's messages, packed or not.
fn log_text(bytes: &[u8]) {
    let Ok(text) = kernel_log::unpack_text(bytes) else { return };
    // a damaged packed text is an error
    if let Ok((log, about)) = kernel_log::read_text(text, "fuzz") {
        keep((log, about));
    }
}

/// A text with two reports, of an old kernel behind a syslog's prefix and of a new one as JSON.
fn short_log_text() -> Vec<u8> {
    let old = "Aug 12 03:54:03 a kernel: [  601.273226] ";
    let old = [
        "a invoked oom-killer: gfp_mask=0x24000c0, order=0, oom_score_adj=0",
        "Task in /docker/b killed as a result of limit of /docker",
        "memory: usage 2048kB, limit 2048kB, failcnt 4",
        "Memory cgroup stats for /docker: cache:1KB rss:9KB swap:0KB",
        "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
        "[   11]     0    11    90       46     113       5        0             0 a",
        "Memory cgroup out of memory: Kill process 11 (a) score 9 or sacrifice child",
        "Killed process 11 (a) total-vm:3kB, anon-rss:1kB, file-rss:1kB",
    ]
    .map(|message| format!("{old}{message}\n"));
    let new = "{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":\"Out of memory: Killed process 7 (b) total-vm:9kB\"}\n";
    let user = "Dec 18 19:34:56 a systemd-oomd[8]: Killed /a due to memory used (9) / total (10)\n";
    [old.concat().as_str(), new, user, "> [    1.000000] Node 0 DMA: 1*4kB 2*8kB = 20kB\n"]
        .concat()
        .into_bytes()
}

/// Reads a journal file and the kernel messages in it.
fn journal(bytes: &[u8]) {
    let path = "var/log/journal/0123456789abcdef0123456789abcdef/system.journal".to_owned();
    let host = HostRoot::memory([(path.clone(), Entry::File(bytes.to_vec()))]);
    keep(kernel_log::read(&host, &pagewise_model::Taken::default()));
    keep(host.pieces(&path).map(|file| kernel_log::read_journals(vec![file], "fuzz")));
}

/// A journal file that contains a short report.
fn short_journal() -> Vec<u8> {
    use pagewise_journald::written::{Packing, Variant, Written};
    let texts: [&[u8]; 7] = [
        b"a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        b"Call Trace:",
        b"Mem-Info:",
        b"Tasks state (memory values in pages):",
        b"[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        b"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=a,pid=7,uid=0",
        b"Out of memory: Killed process 7 (a) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
    ];
    let entries = texts.iter().zip(1..);
    let entries: Vec<Written> =
        entries.map(|(text, at)| Written::by_kernel([7; 16], 1 << 50, at, text)).collect();
    let variant =
        Variant { is_compact: true, packing: Packing::Plain, buckets: 8, ..Variant::default() };
    pagewise_journald::written::make_journal(&variant, &entries)
}

#[cfg(test)]
mod tests {
    use pagewise_hostfs::parser::is_private;
    use pagewise_hostfs::{Entry, HostRoot};

    use super::*;

    fn parser(name: &str) -> &'static Parser {
        PARSERS.iter().find(|parser| parser.name == name).unwrap()
    }

    #[test]
    fn what_is_private_is_in_no_input() {
        let secret = |path: &str| (path.to_owned(), Entry::File(b"secret".to_vec()));
        let plain = |path: &str| (path.to_owned(), Entry::File(b"1".to_vec()));
        let host = HostRoot::memory(
            PARSERS
                .iter()
                .flat_map(|parser| parser.paths)
                .map(|path| if is_private(path) { secret(path) } else { plain(path) }),
        );
        for name in ["zram-use", "host"] {
            let seed = parser(name).seed(&host).unwrap();
            assert!(!seed.windows(6).any(|window| window == b"secret"), "{name}");
            assert!(parser(name).paths.iter().any(|path| is_private(path)), "{name}");
        }
    }

    #[test]
    fn a_host_without_the_files_gives_no_input() {
        assert_eq!(parser("memory").seed(&HostRoot::memory([])), None);
    }

    #[test]
    fn parsers_have_a_name_and_files_of_their_own() {
        for (at, parser) in PARSERS.iter().enumerate() {
            assert!(PARSERS[..at].iter().all(|other| other.name != parser.name), "{}", parser.name);
            let repeated = |(at, path)| parser.paths[..at].contains(path);
            assert!(!parser.paths.iter().enumerate().any(repeated), "{}", parser.name);
        }
    }

    /// Every parser accepts empty input, which the fuzzer starts with, and odd bytes.
    #[test]
    fn every_parser_survives_nothing_and_odd_bytes() {
        for parser in PARSERS {
            for input in [&b""[..], b"\xff\xff", b"\xfe\xff\xfd", b"1\xff\x80\xff-1"] {
                parser.run(input);
            }
        }
    }
}
