// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host with a value for everything: a database server that is short of memory. The numbers are
//! realistic, but not from one real machine.

use std::sync::LazyLock;

use pagewise_model::knob::{KNOBS, KnobReading};
use pagewise_model::*;

pub(crate) mod oom;

pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn found<T>(value: T, path: &str) -> Reading<T> {
    Reading::found(value, Source::file(path))
}

pub(crate) fn at<T>(value: T, path: &str, line: u32) -> Reading<T> {
    Reading::found(value, Source::line(path, line))
}

pub(crate) fn none<T>(path: &str) -> Reading<T> {
    Reading::absent("no such file", Source::file(path))
}

pub(crate) fn denied<T>(path: &str) -> Reading<T> {
    Reading::denied("run as root", Source::file(path))
}

fn name(text: &str) -> Reading<Name> {
    found(Name::from(text), "/sys/name")
}

fn size(tenths_of_gib: u64) -> Reading<Bytes> {
    at(Bytes::new(tenths_of_gib * GIB / 10), "/proc/meminfo", 1)
}

fn mib(mib: u64) -> Reading<Bytes> {
    at(Bytes::new(mib * MIB), "/proc/meminfo", 2)
}

fn pages(mib: u64) -> Reading<Pages> {
    at(Pages::new(mib * MIB / 4096), "/proc/zoneinfo", 7)
}

fn percent(percent: f64) -> Reading<Percent> {
    at(Percent::new(percent), "/proc/pressure/memory", 1)
}

fn choice(active: &str) -> Reading<Choice> {
    let available = ["always", "madvise", "never"].map(Name::from).to_vec();
    found(
        Choice { active: Name::from(active), available },
        "/sys/kernel/mm/transparent_hugepage/enabled",
    )
}

fn algorithms(active: &str) -> Reading<Algorithms> {
    let available = ["lzo", "lz4", "zstd"].map(Name::from).to_vec();
    found(Algorithms { active: Name::from(active), available }, "/sys/block/zram0/comp_algorithm")
}

pub(crate) fn counters(all: &[(&str, u64)]) -> Counters {
    let lines = (1..).zip(all);
    lines
        .map(|(line, (name, value))| (Name::from(*name), at(*value, "/proc/vmstat", line)))
        .collect()
}

fn memory() -> Memory {
    let mut memory = Memory {
        total: size(628),
        free: mib(716),
        available: size(63),
        buffers: mib(310),
        cached: size(108),
        swap_cached: mib(12),
        swap_total: size(394),
        swap_free: size(315),
        dirty: mib(118),
        anon_pages: size(437),
        shmem: size(11),
        slab_reclaimable: mib(640),
        slab_unreclaimable: mib(420),
        kernel_stack: mib(38),
        page_tables: mib(402),
        secondary_page_tables: mib(0),
        percpu: mib(51),
        mlocked: mib(19),
        commit_limit: size(708),
        committed: size(913),
        anon_huge_pages: size(21),
        shmem_huge_pages: mib(0),
        file_huge_pages: mib(12),
        hugetlb: size(10),
        ..Memory::default()
    };
    memory.other.insert(Name::from("Zswapped"), mib(0));
    memory.counts.insert(Name::from("HugePages_Total"), found(512, "/proc/meminfo"));
    memory
}

fn stall(shares: [f64; 3]) -> Stall {
    let [avg10, avg60, avg300] = shares.map(percent);
    Stall {
        avg10,
        avg60,
        avg300,
        total_us: found(Micros::new(88_123_456), "/proc/pressure/memory"),
    }
}

fn pressure(some: [f64; 3], full: [f64; 3]) -> Pressure {
    Pressure { some: stall(some), full: stall(full) }
}

fn psi() -> Psi {
    Psi {
        memory: pressure([14.2, 11.02, 4.77], [3.9, 3.1, 0.84]),
        io: pressure([22.51, 18.4, 9.2], [12.0, 9.94, 5.5]),
        cpu: pressure([3.2, 2.81, 2.02], [0.0, 0.0, 0.0]),
    }
}

fn zone(zone: &str, managed: u64, free: u64, marks: [u64; 3]) -> Zone {
    let [min, low, high] = marks.map(pages);
    Zone {
        node: 0,
        name: Name::from(zone),
        managed_pages: pages(managed),
        free_pages: pages(free),
        min_pages: min,
        low_pages: low,
        high_pages: high,
        lowmem_reserve_pages: at(vec![Pages::new(0), Pages::new(2741)], "/proc/zoneinfo", 12),
        ..Zone::default()
    }
}

fn free_blocks(zone: &str, blocks: &[u64]) -> FreeBlocks {
    FreeBlocks::new(0, Name::from(zone), at(blocks.to_vec(), "/proc/buddyinfo", 3))
}

fn memory_files() -> MemoryFiles {
    let mount = |point: &str, used, limit| TmpfsMount {
        point: Name::from(point),
        used: found(used, point),
        limit: found(limit, point),
        files: found(31, point),
    };
    MemoryFiles {
        mounts: vec![
            mount("/dev/shm", Bytes::new(2 * GIB), Bytes::new(16 * GIB)),
            mount("/run", Bytes::new(3 * MIB), Bytes::new(3 * GIB)),
        ],
        processes_searched: 12,
        ..MemoryFiles::default()
    }
}

fn tiers() -> Vec<Tier> {
    let disk = Disk {
        name: name("nvme0n1"),
        lowest: name("nvme0n1"),
        rotational: found(false, "/sys/block/nvme0n1/queue/rotational"),
        encrypted: found(false, "/sys/class/block/nvme0n1p2/uevent"),
        file_system: name("ext4"),
        backing_file: Reading::not_read(),
        backing_file_system: Reading::not_read(),
    };
    vec![
        Tier {
            path: Name::from("/swapfile"),
            kind: TierKind::File,
            size: size(80),
            used: at(Bytes::new(8 * GIB - 4 * MIB), "/proc/swaps", 2),
            priority: at(50, "/proc/swaps", 2),
            disk,
            zswap_in_front: found(false, "/sys/module/zswap/parameters/enabled"),
        },
        Tier {
            path: Name::from("/dev/zram0"),
            kind: TierKind::Zram,
            size: size(314),
            used: at(Bytes::new(12_400 * MIB), "/proc/swaps", 3),
            priority: at(5, "/proc/swaps", 3),
            disk: Disk::default(),
            zswap_in_front: found(false, "/sys/module/zswap/parameters/enabled"),
        },
    ]
}

fn zram() -> Vec<Zram> {
    let mm = |value: u64| found(Bytes::new(value), "/sys/block/zram0/mm_stat");
    let count = |value: u64| found(Pages::new(value), "/sys/block/zram0/mm_stat");
    let busy = Zram {
        id: 0,
        initialised: found(true, "/sys/block/zram0/initstate"),
        disksize: mm(314 * GIB / 10),
        algorithm: algorithms("lz4"),
        slot_table: mm(125 * MIB),
        mm_stat: MmStat {
            original: mm(12_400 * MIB),
            compressed: mm(4_397 * MIB),
            memory_used: mm(4_592 * MIB),
            memory_limit: mm(0),
            memory_used_max: mm(5_100 * MIB),
            same_filled_pages: count(38_912),
            compacted_pages: count(0),
            huge_pages: count(107_931),
            huge_pages_since: none("/sys/block/zram0/mm_stat"),
        },
        original_per_compressed: Ratio::from_sizes(Bytes::new(12_400), Bytes::new(4_397)),
        original_per_memory_used: Ratio::from_sizes(Bytes::new(12_400), Bytes::new(4_592)),
        used_as: found(ZramUse::Swap { priority: 5 }, "/proc/swaps"),
        backing_device: name("none"),
        size_classes: found(size_classes(), "/sys/kernel/debug/zsmalloc/zram0/classes"),
        ..Zram::default()
    };
    let empty = Zram {
        id: 1,
        initialised: found(false, "/sys/block/zram1/initstate"),
        used_as: found(ZramUse::NotInitialised, "/sys/block/zram1/initstate"),
        ..Zram::default()
    };
    vec![busy, empty]
}

/// Size classes whose pages add up to `memory_used` of the busy device, and whose largest class has
/// its huge pages.
fn size_classes() -> SizeClasses {
    let class = |class: u32, size: u64, [allocated, used, pages, per_zspage]: [u64; 4]| SizeClass {
        class,
        object_size: Bytes::new(size),
        objects_allocated: allocated,
        objects_used: used,
        pages_used: Pages::new(pages),
        pages_per_zspage: per_zspage,
    };
    SizeClasses::new([
        class(30, 512, [912_000, 900_000, 114_000, 1]),
        class(62, 1024, [1_060_000, 1_027_557, 265_000, 1]),
        class(126, 2048, [680_000, 650_000, 340_000, 1]),
        class(190, 3072, [464_828, 450_000, 348_621, 3]),
        class(254, 4096, [107_931, 107_931, 107_931, 1]),
    ])
}

/// 512 MiB on a zmerge device, a quarter of which are duplicates that `merge` finds; `merged` of
/// its pages are merged.
pub(crate) fn zmerge_device(id: u32, mode: &str, merged: u64) -> Zram {
    let folder = format!("/sys/block/zmerge{id}");
    let at = |name: &str| format!("{folder}/{name}");
    let mm = |value: u64| found(Bytes::new(value), &at("mm_stat"));
    let count = |value: u64| found(Pages::new(value), &at("mm_stat"));
    let available = ["off", "request", "inline", "adaptive"].map(Name::from).to_vec();
    let looked_for = if mode == "inline" { 131_072 } else { 0 };
    let mode = found(Choice { active: Name::from(mode), available }, &at("merge_mode"));
    let domains = ["device", "cgroup"].map(Name::from).to_vec();
    let domain = Choice { active: domains[0].clone(), available: domains };
    let merging = Merging {
        mode,
        domain: found(domain, &at("merge_domain")),
        budget: found(Bytes::new(MIB), &at("merge_budget")),
        rate: found(0, &at("merge_rate")),
        slots_left: found(0, &at("merge")),
        merged_pages: found(Pages::new(merged), &at("merged_pages")),
        merged_bytes: found(Bytes::new(merged * 1500), &at("merged_bytes")),
        index_bytes: found(Bytes::new(merged * 2), &at("index_bytes")),
        hits: found(looked_for / 4, &at("merge_hits")),
        misses: found(looked_for / 4 * 3, &at("merge_misses")),
        hit_percent: (looked_for > 0).then(|| Percent::new(25.0)),
    };
    let compressed = 196_608_000 - merged * 1500;
    Zram {
        driver: Driver::Zmerge,
        id,
        initialised: found(true, &at("initstate")),
        disksize: mm(GIB),
        algorithm: algorithms("lz4"),
        slot_table: mm(4 * MIB),
        mm_stat: MmStat {
            original: mm(512 * MIB),
            compressed: mm(compressed),
            memory_used: mm(compressed + 2 * MIB),
            memory_limit: mm(0),
            memory_used_max: mm(200 * MIB),
            same_filled_pages: count(1024),
            compacted_pages: count(merged / 4),
            huge_pages: count(100),
            huge_pages_since: count(100),
        },
        original_per_compressed: Ratio::from_sizes(Bytes::new(512 * MIB), Bytes::new(compressed)),
        original_per_memory_used: Ratio::from_sizes(
            Bytes::new(512 * MIB),
            Bytes::new(compressed + 2 * MIB),
        ),
        used_as: found(ZramUse::FileSystem { kind: Name::from("ext4") }, "/proc/self/mountinfo"),
        merging: Some(merging),
        ..Zram::default()
    }
}

fn thp() -> Thp {
    let thp_size = |bytes: u64, policy: &str, used: u64| ThpSize {
        bytes: Bytes::new(bytes),
        enabled: choice(policy),
        shmem_enabled: choice("never"),
        stats: counters(&[
            ("anon_fault_alloc", used * 40),
            ("anon_fault_fallback", used * 3),
            ("nr_anon", used),
            ("split", used / 2),
            ("swpout", 0),
        ]),
    };
    Thp {
        enabled: choice("madvise"),
        defrag: choice("madvise"),
        shmem_enabled: choice("never"),
        use_zero_page: found(true, "/sys/kernel/mm/transparent_hugepage/use_zero_page"),
        shrink_underused: found(true, "/sys/kernel/mm/transparent_hugepage/shrink_underused"),
        pmd_size: found(Bytes::new(2 * MIB), "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"),
        sizes: vec![
            thp_size(64 << 10, "never", 0),
            thp_size(128 << 10, "never", 0),
            thp_size(2 * MIB, "inherit", 1_075),
        ],
        khugepaged: Khugepaged {
            pages_to_scan: found(4096, "/sys/x"),
            scan_sleep: found(Millis::new(10_000), "/sys/x"),
            max_ptes_none: found(511, "/sys/x"),
            pages_collapsed: found(12_345, "/sys/x"),
            full_scans: found(42, "/sys/x"),
            cpu_time: found(Nanos::new(1_230_000_000), "/proc/57/schedstat"),
            run_queue_wait: found(Nanos::new(16_020_000_000), "/proc/57/schedstat"),
            ..Khugepaged::default()
        },
    }
}

fn knobs() -> Vec<KnobReading> {
    KNOBS
        .iter()
        .filter(|knob| knob.name == "vm.swappiness")
        .map(|knob| KnobReading {
            knob,
            instance: None,
            live: found(Name::from("0"), "/proc/sys/vm/swappiness"),
            default: knob.default,
        })
        .collect()
}

fn capabilities() -> Vec<Capability> {
    let one = |feature, state| Capability { feature, doc: "a use", state, evidence: vec![] };
    vec![
        one("zram", FeatureState::Present),
        one("zram.writeback", FeatureState::NotBuilt { option: "CONFIG_ZRAM_WRITEBACK" }),
        one("zram.multi-comp", FeatureState::NotBuilt { option: "CONFIG_ZRAM_MULTI_COMP" }),
        one("damon.reclaim", FeatureState::NotBuilt { option: "CONFIG_DAMON_RECLAIM" }),
        one("crypto.zstd", FeatureState::Loadable { module: "zstd" }),
        one("psi", FeatureState::Off { switch: "psi=1 on the kernel command line" }),
        one("lru_gen.debugfs", FeatureState::Denied),
        one("pagemap.scan", FeatureState::Missing),
    ]
}

fn process(pid: u32, comm: &str, sizes: [u64; 5], smaps: SmapsOutcome) -> Process {
    let path = format!("/proc/{pid}/status");
    let [virtual_size, anon, file, shmem, swap] =
        sizes.map(|mib| found(Bytes::new(mib * MIB), &path));
    let read = smaps == SmapsOutcome::Read;
    let rest = |mib: u64| match smaps {
        SmapsOutcome::Denied => denied(&path),
        _ if read => found(Bytes::new(mib * MIB), &path),
        _ => Reading::not_read(),
    };
    Process {
        pid,
        name: Name::from(comm),
        uid: found(1000, &path),
        start_time: found(Millis::new(u64::from(pid) * 500), &path),
        cpu_time: found(Millis::new(u64::from(pid) * 100), &path),
        major_faults: found(u64::from(pid), &path),
        cgroup: name("/system.slice"),
        virtual_size,
        rss_anon: anon,
        rss_file: file,
        rss_shmem: shmem,
        peak: found(Bytes::new((sizes[1] + sizes[2] + sizes[3]) * MIB), &path),
        swap,
        locked: found(Bytes::new(0), &path),
        page_tables: found(Bytes::new(sizes_in_tables(sizes[1])), &path),
        data: Reading::not_read(),
        address_space_limit: Reading::not_read(),
        data_limit: Reading::not_read(),
        threads: found(u64::from(pid) % 7 + 1, &path),
        thp_allowed: found(true, &path),
        proportional: rest(sizes[1] + sizes[2] / 3 + sizes[3] / 9),
        swap_proportional: rest(sizes[4]),
        anon_huge: rest(sizes[1] / 20),
        shmem_huge: rest(0),
        file_huge: rest(0),
        smaps,
    }
}

/// Page tables of 8 bytes for each small page.
fn sizes_in_tables(anon_mib: u64) -> u64 {
    anon_mib * MIB / 512
}

/// The processes a second after the start of the interval, when redis had 24 MiB less in swap and
/// java 50 MiB less in RAM.
fn processes(moment: u64) -> Processes {
    let since_start = 1 - moment;
    use SmapsOutcome::{Denied, NotRead, Read, Stuck};
    Processes {
        list: vec![
            process(1, "systemd", [166, 8, 5, 0, 2], Denied),
            process(812, "postgres", [9_412, 38, 22, 901, 0], Read),
            process(813, "postgres", [9_420, 12, 14, 122, 0], Read),
            process(
                4121,
                "redis-server",
                [16_102, 14_544, 3, 0, 1_204 - 24 * since_start],
                NotRead,
            ),
            process(5010, "java", [38_112, 20_480 - 50 * since_start, 71, 0, 4_096], NotRead),
            process(5544, "node", [11_744, 890, 44, 0, 310], Read),
            process(6001, "python3", [1_200, 422, 9, 0, 31], Read),
            process(7007, "Isolated Web Co", [2_720, 310, 88, 12, 0], Stuck),
        ],
        kernel_threads: 211,
        vanished: 1,
        left_out: 0,
        smaps: SmapsTally {
            budget: Millis::new(200),
            read: 104,
            not_read: 2,
            denied: 1,
            stuck: 1,
            gone: 0,
            smaller: 0,
        },
    }
}

fn group(path: &str, current: u64, max: Limit, refaults: u64) -> Cgroup {
    let found_in = |value: u64| found(value, "/sys/fs/cgroup/memory.stat");
    Cgroup {
        path: Name::from(path),
        current: found(Bytes::new(current * MIB), "/sys/fs/cgroup/memory.current"),
        max: found(max, "/sys/fs/cgroup/memory.max"),
        swap_current: found(Bytes::new(current * MIB / 10), "/sys/fs/cgroup/memory.swap.current"),
        swap_max: found(Limit::Max, "/sys/fs/cgroup/memory.swap.max"),
        refault_anon: found_in(refaults / 10),
        refault_file: found_in(refaults),
        events: CgroupEvents { oom_kill: found_in(0), ..CgroupEvents::default() },
        ..Cgroup::default()
    }
}

fn cgroups(refaults: u64) -> Cgroups {
    Cgroups {
        hierarchy: Hierarchy::V2,
        dying: Reading::not_read(),
        groups: vec![
            group("/", 0, Limit::Max, 0),
            group("/system.slice", 41_200, Limit::Max, refaults),
            group("/system.slice/postgresql.service", 3_900, Limit::Bytes(Bytes::new(4 * GIB)), 12),
            group(
                "/system.slice/redis-server.service",
                14_700,
                Limit::Bytes(Bytes::new(16 * GIB)),
                refaults,
            ),
            group("/user.slice", 2_811, Limit::Max, 0),
            group(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5f3c1d0e_77aa_4c7e_b1d3_2f6f3e0c9a11.slice",
                1_220,
                Limit::Bytes(Bytes::new(2 * GIB)),
                3,
            ),
        ],
        left_out: 0,
    }
}

/// One end of the interval; `moment` is its time in seconds.
fn end(moment: u64) -> Snapshot {
    let grown = |start: u64, by: u64| start + by * moment;
    Snapshot {
        memory_files: memory_files(),
        disk_stats: Vec::new(),
        gpu_memory: Vec::new(),
        zsmalloc_chain_size: found(8, "/proc/config.gz"),
        taken: Taken {
            unix_seconds: 1_795_183_353.25 + moment as f64,
            monotonic_seconds: 5_000.0 + moment as f64,
            awake_seconds: Some(5_000.0 + moment as f64),
            boot_id: name("7e0f3c52-6f5e-4b0e-9d5b-0a9c6d1f2b11"),
            uptime: found(Millis::new(5_100_000 + moment * 1000), "/proc/uptime"),
            kernel: name("6.12.107"),
        },
        host: HostSummary {
            name: name("web-07"),
            architecture: name("x86_64"),
            cpus: found(16, "/sys/devices/system/cpu/online"),
            page_size: found(Bytes::new(4096), ""),
            virtualization: name("kvm"),
            container: Reading::absent("not in a container", Source::file("/proc/1/environ")),
            root: Name::from("live"),
            copies: None,
        },
        memory: memory(),
        vmstat: counters(&[
            ("compact_stall", 77),
            ("pgmajfault", grown(12_000, 310)),
            ("pgscan_direct", grown(900, 1_024)),
            ("pgscan_kswapd", grown(1_000, 91_000)),
            ("pswpin", grown(5_000, 2_200)),
            ("pswpout", grown(700, 0)),
            ("workingset_refault_anon", grown(40, 0)),
            ("workingset_refault_file", grown(1_000_000, 78_112)),
        ]),
        psi: psi(),
        kernel_log: oom::kernel_log(),
        kernel_threads: Vec::new(),
        zones: vec![
            zone("DMA", 15, 11, [0, 0, 0]),
            zone("DMA32", 2_970, 260, [68, 85, 102]),
            zone("Normal", 61_300, 445, [360, 450, 540]),
            zone("Movable", 0, 0, [0, 0, 0]),
        ],
        free_blocks: vec![
            free_blocks("DMA", &[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3]),
            free_blocks("DMA32", &[10, 20, 40, 20, 50, 40, 30, 30, 40, 20, 20]),
            free_blocks("Normal", &[20_110, 9_021, 7_780, 902, 201, 99, 12, 3, 1, 0, 1]),
        ],
        tiers: tiers(),
        zram: zram(),
        zmerge: vec![zmerge_device(0, "inline", 32_768)],
        zswap: Zswap {
            enabled: found(false, "/sys/module/zswap/parameters/enabled"),
            compressor: name("zstd"),
            ..Zswap::default()
        },
        ksm: Ksm {
            run: found(1, "/sys/kernel/mm/ksm/run"),
            pages_shared: found(Pages::new(1_200), "/sys/kernel/mm/ksm/pages_shared"),
            pages_sharing: found(Pages::new(51_000), "/sys/kernel/mm/ksm/pages_sharing"),
            general_profit_bytes: found(187_432_960, "/sys/kernel/mm/ksm/general_profit"),
            full_scans: found(71, "/sys/kernel/mm/ksm/full_scans"),
            ..Ksm::default()
        },
        hugetlb: vec![
            HugePool {
                page_bytes: Bytes::new(2 * MIB),
                node: None,
                total: found(512, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
                free: found(512, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"),
                reserved: found(0, "/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages"),
                surplus: found(0, "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages"),
            },
            HugePool {
                page_bytes: Bytes::new(GIB),
                node: None,
                total: found(0, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"),
                free: found(0, "/sys/x"),
                reserved: found(0, "/sys/x"),
                surplus: found(0, "/sys/x"),
            },
        ],
        thp: thp(),
        mglru: Mglru {
            enabled: found(7, "/sys/kernel/mm/lru_gen/enabled"),
            min_ttl: found(Millis::new(0), "/sys/kernel/mm/lru_gen/min_ttl_ms"),
        },
        damon: Damon {
            kdamonds: none("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"),
            ..Damon::default()
        },
        knobs: knobs(),
        configuration: Configuration::default(),
        capabilities: capabilities(),
        processes: processes(moment),
        cgroups: cgroups(grown(90_000, 77_000)),
        problems: vec![Problem::new(
            &Source::line("/proc/buddyinfo", 3),
            "whole numbers",
            b"12 x9 \x1b[2J",
        )],
        bytes_read: 2_201_334,
    }
}

pub(crate) fn interval() -> Interval {
    Interval { start: Some(Box::new(end(0))), end: end(1) }
}

/// Owners of settings on such a host: a value that was changed later, one that two files set, and
/// lines that nothing reads.
pub(crate) fn owners() -> Vec<KnobOwnership> {
    let line = |mechanism, target, path: &str, value: &str, effect| PersistentSetting {
        mechanism,
        target,
        value: Reading::found(Name::from(value), Source::line(path, 2)),
        effect,
    };
    let swappiness = || Target::of_knob("vm.swappiness");
    let zram = || Target::ZramDevice(Name::from("zram0"));
    let not_read = Effect::Ignored("its name does not end in .conf".into());
    let mut snapshot = end(1);
    snapshot.configuration.settings = vec![
        line(
            Mechanism::Sysctl,
            swappiness(),
            "/usr/lib/sysctl.d/10-vendor.conf",
            "10",
            Effect::Applied,
        ),
        line(Mechanism::Sysctl, swappiness(), "/etc/sysctl.d/90-swap.conf", "150", Effect::Applied),
        line(Mechanism::Sysctl, swappiness(), "/etc/sysctl.d/99-swap", "180", not_read),
        line(Mechanism::Udev, zram(), "/etc/udev/rules.d/99-zram.rules", "4G", Effect::Applied),
        line(
            Mechanism::ZramGenerator,
            zram(),
            "/etc/systemd/zram-generator.conf",
            "set up",
            Effect::Applied,
        ),
    ];
    ownership(&snapshot)
}

/// A verdict on this host.
pub(crate) fn verdict() -> &'static HostVerdict {
    static VERDICT: LazyLock<HostVerdict> = LazyLock::new(|| {
        HostVerdict {
        level: Level::Short,
        line: "Memory is short: programs waited for it 11 % of the last minute; 6.3 of 62.8 GiB are \
               available. /system.slice/web.service is nearly full by its own limit: 61.0 of 64.0 MiB \
               cannot be dropped, and swap has no room for it."
            .to_owned(),
        host: Level::Short,
        groups: vec![GroupVerdict {
            group: Name::from("/system.slice/web.service"),
            level: Level::Tight,
            line: "61.0 of 64.0 MiB cannot be dropped, and swap has no room for it".to_owned(),
        }],
        unknown: vec!["how long programs wait for memory".to_owned()],
    }
    });
    &VERDICT
}

pub(crate) fn cost() -> Cost {
    Cost {
        cpu_seconds: 0.384,
        wall_seconds: 1.21,
        bytes_read: 2_201_334,
        peak_memory_bytes: Bytes::new(11_744_051),
    }
}

fn proof(path: &str, line: Option<u32>, value: &str) -> Evidence {
    Evidence { path: path.to_owned(), line, value: value.to_owned() }
}

/// A finding of the rule about memory pressure.
pub(crate) fn waiting() -> Finding {
    Finding {
        id: "memory-pressure",
        about: None,
        severity: Severity::Critical,
        title: "somebody waited for memory 11 % of the last minute".to_owned(),
        what: "Memory pressure: some 14.0 % (10 s) and 11.0 % (60 s).".to_owned(),
        why: "When free memory is gone, tasks that need a page wait until the kernel has dropped or swapped another one. PSI adds up that time.".to_owned(),
        evidence: vec![proof("/proc/pressure/memory", Some(1), "some avg60 11.00 %")],
        next: vec!["cat /proc/pressure/memory".to_owned()],
    }
}

pub(crate) fn findings() -> Vec<Finding> {
    vec![
        Finding {
            id: "tier-order",
            about: None,
            severity: Severity::Critical,
            title: "zram0 stands behind a disk: /swapfile is filled first (priority 50 against 5)".to_owned(),
            what: "/swapfile holds 8.0 of 8.0 GiB and zram0 12.1 of 31.4 GiB.".to_owned(),
            why: "The kernel fills the tier with the highest priority until it is full. Compressed RAM behind a disk is reached only when the disk is full, and by then every swap has waited for the disk.".to_owned(),
            evidence: vec![proof("/proc/swaps", Some(2), "priority 50"), proof("/proc/swaps", Some(3), "priority 5")],
            next: vec!["pagewise plan --only swap-priority".to_owned()],
        },
        Finding {
            id: "swap-avoids-anon",
            about: None,
            severity: Severity::Warning,
            title: "the kernel re-reads files that it dropped a moment ago".to_owned(),
            what: "workingset_refault_file grew by 78,112 pages in 1.0 s; 310 major faults a second.".to_owned(),
            why: "When memory runs short the kernel drops file pages or swaps anonymous ones; swappiness weighs the two. With 0, anonymous pages stay until reclaim is nearly failing, whatever it costs; running code is file pages.".to_owned(),
            evidence: vec![
                proof("/proc/vmstat", Some(8), "+78112 in 1.0 s (78112/s)"),
                proof("/proc/sys/vm/swappiness", None, "0"),
            ],
            next: vec![
                "pagewise trial --a vm.swappiness=0 --b vm.swappiness=60 -- your-benchmark --with some --long options".to_owned(),
                "pagewise plan --only swappiness".to_owned(),
            ],
        },
        Finding {
            id: "thp-coverage",
            about: None,
            severity: Severity::Info,
            title: "14.2 GiB of redis-server asked for huge pages and 5 % has them".to_owned(),
            what: "AnonHugePages is 0.7 of 14.2 GiB.".to_owned(),
            why: "A fork with copy-on-write splits huge pages. The kernel's own thread puts them together again slowly.".to_owned(),
            evidence: vec![proof("/proc/4121/status", Some(22), "14.2 GiB")],
            next: vec!["pagewise thp collapse --name redis-server --max-growth 5%".to_owned()],
        },
    ]
}
