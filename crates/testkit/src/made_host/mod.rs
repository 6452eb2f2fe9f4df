// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An invented healthy machine: no rule reports a finding on [`calm`]. Each test changes one thing
//! in it.

#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use pagewise_model::knob::{KNOBS, KnobReading};
use pagewise_model::{
    Algorithms, Bytes, Capability, Cgroup, Choice, Disk, DiskStats, Driver, FeatureState,
    FreeBlocks, Hierarchy, HugePool, Interval, Limit, Merging, Millis, Name, Nanos, Pages, Percent,
    Process, Quantity, Reading, Snapshot, Source, Stall, Tier, TierKind, Zone, Zram, ZramUse,
};

pub mod kills;

/// The length of every test interval in seconds.
pub const SECONDS: f64 = 10.0;

/// Converts MiB to bytes.
pub fn mib(mib: u64) -> Bytes {
    Bytes::new(mib << 20)
}

/// Converts GiB to bytes.
pub fn gib(gib: u64) -> Bytes {
    Bytes::new(gib << 30)
}

/// Makes a reading of a file that contains a single value.
pub fn file<T>(path: &str, value: T) -> Reading<T> {
    Reading::found(value, Source::file(path))
}

/// Makes a reading of one line of a file.
pub fn line<T>(path: &str, number: u32, value: T) -> Reading<T> {
    Reading::found(value, Source::line(path, number))
}

/// Makes a reading of a file that contains a single word.
pub fn word(path: &str, word: &str) -> Reading<Name> {
    file(path, Name::from(word))
}

/// Makes a reading of a file with several words, of which the active one is in brackets.
pub fn choice(path: &str, active: &str) -> Reading<Choice> {
    file(path, Choice { active: Name::from(active), available: vec![Name::from(active)] })
}

/// Sets a counter of `/proc/vmstat`.
pub fn set_knob(host: &mut Snapshot, name: &str, value: u64) {
    let others = host.vmstat.iter().filter(|(known, _)| known.as_str() != name);
    let others: Vec<_> = others.map(|(name, reading)| (name.clone(), reading.clone())).collect();
    let this =
        (Name::from(name), line("/proc/vmstat", 1 + u32::try_from(others.len()).unwrap(), value));
    host.vmstat = others.into_iter().chain([this]).collect();
}

/// Removes a counter of `/proc/vmstat`.
pub fn unset(host: &mut Snapshot, name: &str) {
    let others = host.vmstat.iter().filter(|(known, _)| known.as_str() != name);
    host.vmstat = others.map(|(name, reading)| (name.clone(), reading.clone())).collect();
}

/// Lets a counter of `/proc/vmstat` grow over the interval.
pub fn grow(interval: &mut Interval, name: &str, by: u64) {
    let before = interval.end.vmstat.get(name).get().unwrap_or(0);
    if let Some(start) = &mut interval.start {
        set_knob(start, name, before);
    }
    set_knob(&mut interval.end, name, before + by);
}

/// Sets `vm.swappiness`.
pub fn swappiness(host: &mut Snapshot, value: &str) {
    knob(host, "vm.swappiness", value);
}

/// Sets a setting that the host has once, by its name in the table of settings.
pub fn knob(host: &mut Snapshot, name: &str, value: &str) {
    let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
    let live = word(&format!("/{}", knob.path), value);
    host.knobs.retain(|reading| reading.knob.name != name);
    host.knobs.push(KnobReading { knob, instance: None, live, default: knob.default });
}

/// Sets whether the kernel has zram; whether it has other features is unknown.
pub fn capability(host: &mut Snapshot, state: FeatureState) {
    let evidence = word("/sys/module/zram", "probed").evidence().into_iter().collect();
    host.capabilities =
        vec![Capability { feature: "zram", doc: "compressed RAM", state, evidence }];
}

/// Sets the PSI averages over 10 and 60 seconds, in percent.
pub fn stall(stall: &mut Stall, ten: f64, sixty: f64) {
    stall.avg10 = line("/proc/pressure/memory", 1, Percent::new(ten));
    stall.avg60 = line("/proc/pressure/memory", 1, Percent::new(sixty));
}

/// Makes a swap area with a size of 4 GiB.
pub fn tier(path: &str, kind: TierKind, used: Bytes, priority: i32) -> Tier {
    let at = 2 + u32::try_from(path.len()).unwrap();
    Tier {
        path: Name::from(path),
        kind,
        size: line("/proc/swaps", at, gib(4)),
        used: line("/proc/swaps", at, used),
        priority: line("/proc/swaps", at, priority),
        disk: Disk::default(),
        zswap_in_front: Reading::not_read(),
    }
}

/// Sets what a block device did over the interval: number of reads, their total time in ms, number
/// of writes, their total time in ms. Each request is for one page. `in_flight` requests are
/// waiting at both ends of the interval.
pub fn set_disk(
    interval: &mut Interval,
    name: &str,
    [reads, read_ms, writes, write_ms]: [u64; 4],
    in_flight: u64,
    queue_ms: u64,
) {
    let stats = |times: u64| {
        let at = |value| line("/proc/diskstats", 3, value);
        DiskStats {
            name: Name::from(name),
            reads: at(reads * times),
            read: at(reads * times).map(|pages| Bytes::new(pages * 4096)),
            read_time: at(read_ms * times).map(Millis::new),
            writes: at(writes * times),
            written: at(writes * times).map(|pages| Bytes::new(pages * 4096)),
            write_time: at(write_ms * times).map(Millis::new),
            in_flight: at(in_flight),
            queue_time: at(queue_ms * times).map(Millis::new),
        }
    };
    let set = |host: &mut Snapshot, times| {
        host.disk_stats.retain(|disk| disk.name.as_str() != name);
        host.disk_stats.push(stats(times));
    };
    if let Some(start) = &mut interval.start {
        set(start, 1);
    }
    set(&mut interval.end, 2);
}

/// Replaces the swap on zram by 16 GiB of swap on an NVMe disk, on a kernel with zswap and its
/// shrinker, both of which are off.
pub fn on_nvme(host: &mut Snapshot, used: Bytes) {
    const FOLDER: &str = "/sys/module/zswap/parameters";
    let mut disk = tier("/dev/nvme0n1p3", TierKind::Partition, used, -2);
    disk.size = line("/proc/swaps", 2, gib(16));
    let at = "/sys/class/block/nvme0n1p3/uevent";
    disk.disk.name = word(at, "nvme0n1");
    disk.disk.lowest = word(at, "nvme0n1");
    disk.disk.encrypted = file(at, false);
    disk.disk.rotational = file("/sys/block/nvme0n1/queue/rotational", false);
    host.tiers = vec![disk];
    host.zram.clear();
    host.zswap.shrinker_enabled = file(&format!("{FOLDER}/shrinker_enabled"), false);
    host.zswap.compressor = word(&format!("{FOLDER}/compressor"), "lzo");
    host.zswap.max_pool_percent = file(&format!("{FOLDER}/max_pool_percent"), Percent::new(20.0));
    let accepts = format!("{FOLDER}/accept_threshold_percent");
    host.zswap.accept_threshold_percent = file(&accepts, Percent::new(90.0));
}

/// Makes a zram device with a disksize of 4 GiB.
pub fn zram(id: u32, used_as: ZramUse, stored: Bytes) -> Zram {
    let path = format!("/sys/block/zram{id}");
    let raw = used_as == ZramUse::NotInitialised;
    let mm_stat = |value| line(&format!("{path}/mm_stat"), 1, value);
    let mut zram = Zram {
        id,
        initialised: file(&format!("{path}/initstate"), !raw),
        disksize: file(&format!("{path}/disksize"), if raw { Bytes::new(0) } else { gib(4) }),
        algorithm: file(
            &format!("{path}/comp_algorithm"),
            Algorithms { active: Name::from("lz4"), available: vec![Name::from("lz4")] },
        ),
        slot_table: file(&format!("{path}/disksize"), if raw { Bytes::new(0) } else { mib(16) }),
        used_as: line("/proc/swaps", 2, used_as),
        ..Zram::default()
    };
    zram.mm_stat.original = mm_stat(stored);
    zram.mm_stat.compressed = mm_stat(Bytes::new(stored.get() / 3));
    zram.mm_stat.memory_used = mm_stat(Bytes::new(stored.get() / 2));
    zram.mm_stat.memory_limit = mm_stat(Bytes::new(0));
    zram.mm_stat.huge_pages = line(&format!("{path}/mm_stat"), 1, Pages::new(0));
    zram.io_stat.failed_writes = line(&format!("{path}/io_stat"), 1, 0);
    zram.backing_device = word(&format!("{path}/backing_dev"), "none");
    zram
}

/// Makes a zmerge device of 4 GiB in this mode that is used as swap. `hits` lookups found an
/// identical page, `misses` did not.
pub fn zmerge(mode: &str, hits: u64, misses: u64) -> Zram {
    const FOLDER: &str = "/sys/block/zmerge0";
    let at = |name: &str, value| file(&format!("{FOLDER}/{name}"), value);
    let merging = Merging {
        mode: choice(&format!("{FOLDER}/merge_mode"), mode),
        hits: at("merge_hits", hits),
        misses: at("merge_misses", misses),
        merged_bytes: file(&format!("{FOLDER}/merged_bytes"), mib(1)),
        index_bytes: file(&format!("{FOLDER}/index_bytes"), mib(2)),
        hit_percent: Some(Percent::new(hits as f64 * 100.0 / (hits + misses) as f64)),
        ..Merging::default()
    };
    let device = zram(0, ZramUse::Swap { priority: 100 }, mib(512));
    Zram { driver: Driver::Zmerge, merging: Some(merging), ..device }
}

/// Makes a zone of 8 GiB whose low watermark is 64 MiB.
pub fn zone(name: &str, free_pages: u64) -> Zone {
    let at = |number, pages| line("/proc/zoneinfo", number, Pages::new(pages));
    Zone {
        name: Name::from(name),
        free_pages: at(10, free_pages),
        min_pages: at(11, 13_107),
        low_pages: at(12, 16_384),
        high_pages: at(13, 19_660),
        managed_pages: at(14, 2 << 20),
        ..Zone::default()
    }
}

/// Makes a cgroup of version 2 with 1 GiB of memory, without a limit and without pressure.
pub fn group(path: &str) -> Cgroup {
    let folder = format!("/sys/fs/cgroup{path}");
    let mut group = Cgroup {
        path: Name::from(path),
        current: file(&format!("{folder}/memory.current"), gib(1)),
        max: file(&format!("{folder}/memory.max"), Limit::Max),
        swap_max: file(&format!("{folder}/memory.swap.max"), Limit::Max),
        anon: line(&format!("{folder}/memory.stat"), 1, mib(700)),
        ..Cgroup::default()
    };
    group.events.max = line(&format!("{folder}/memory.events"), 3, 0);
    stall(&mut group.pressure.some, 0.0, 0.0);
    stall(&mut group.pressure.full, 0.0, 0.0);
    group.pressure.some.avg60.source = Source::line(format!("{folder}/memory.pressure"), 1);
    group
}

/// Makes a process with this anonymous memory, of which `huge` bytes are in huge pages.
pub fn process(name: &str, anon: Bytes, huge: Bytes) -> Process {
    Process {
        pid: 4121,
        name: Name::from(name),
        rss_anon: line("/proc/4121/status", 23, anon),
        thp_allowed: line("/proc/4121/status", 30, true),
        anon_huge: line("/proc/4121/smaps_rollup", 12, huge),
        ..Process::default()
    }
}

/// Makes a hugetlb pool of 2 MiB pages; the arguments are numbers of pages.
pub fn pool(total: u64, free: u64, reserved: u64) -> HugePool {
    let at = |name: &str, count| {
        file(&format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}"), count)
    };
    HugePool {
        page_bytes: mib(2),
        node: None,
        total: at("nr_hugepages", total),
        free: at("free_hugepages", free),
        reserved: at("resv_hugepages", reserved),
        surplus: at("surplus_hugepages", 0),
    }
}

/// Makes a zone with these numbers of free blocks, one for each order.
pub fn blocks(blocks: [u64; 11]) -> FreeBlocks {
    FreeBlocks::new(0, Name::from("Normal"), line("/proc/buddyinfo", 3, blocks.to_vec()))
}

/// Makes a healthy machine of 16 GiB with zram swap that is in use.
pub fn host() -> Snapshot {
    let mut host = Snapshot::default();
    host.taken.boot_id = word("/proc/sys/kernel/random/boot_id", "b00t");
    host.host.page_size = file("/proc/self/auxv", Bytes::new(4096));
    fill_memory(&mut host);
    fill_counters(&mut host);
    fill_thp(&mut host);
    stall(&mut host.psi.memory.some, 0.4, 0.2);
    stall(&mut host.psi.memory.full, 0.1, 0.0);
    host.zones = vec![zone("DMA32", 300_000), zone("Normal", 700_000)];
    host.free_blocks = vec![blocks([900, 700, 500, 300, 200, 100, 90, 80, 70, 60, 900])];
    host.tiers = vec![tier("/dev/zram0", TierKind::Zram, mib(512), 100)];
    host.zram = vec![zram(0, ZramUse::Swap { priority: 100 }, mib(512))];
    host.zswap.enabled = file("/sys/module/zswap/parameters/enabled", false);
    host.zswap.stored = line("/proc/meminfo", 40, Bytes::new(0));
    host.zswap.pool = line("/proc/meminfo", 39, Bytes::new(0));
    host.hugetlb = vec![pool(0, 0, 0)];
    host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 7);
    host.cgroups.hierarchy = Hierarchy::V2;
    host.cgroups.groups = ["/", "/system.slice", "/system.slice/db.service"].map(group).into();
    host.processes.list = vec![process("postgres", gib(2), gib(1))];
    host.kernel_log.records = file("/dev/kmsg", 800);
    swappiness(&mut host, "60");
    capability(&mut host, FeatureState::Present);
    host
}

fn fill_memory(host: &mut Snapshot) {
    let memory = &mut host.memory;
    let fields = [
        (&mut memory.total, gib(16)),
        (&mut memory.free, gib(4)),
        (&mut memory.available, gib(9)),
        (&mut memory.buffers, mib(100)),
        (&mut memory.cached, gib(5)),
        (&mut memory.active_anon, gib(3)),
        (&mut memory.inactive_anon, gib(1)),
        (&mut memory.active_file, gib(3)),
        (&mut memory.inactive_file, gib(1)),
        (&mut memory.swap_total, gib(4)),
        (&mut memory.anon_pages, gib(4)),
        (&mut memory.shmem, mib(200)),
        (&mut memory.slab_reclaimable, mib(300)),
        (&mut memory.anon_huge_pages, mib(100)),
        (&mut memory.swap_free, mib(3584)),
    ];
    for (number, (field, bytes)) in (1..).zip(fields) {
        *field = line("/proc/meminfo", number, bytes);
    }
}

fn fill_counters(host: &mut Snapshot) {
    for (name, value) in [
        ("oom_kill", 0),
        ("allocstall_normal", 3),
        ("allocstall_movable", 4),
        ("compact_fail", 1),
        ("compact_stall", 2),
        ("oom_kill", 0),
        ("pgfault", 9_000_000),
        ("pgmajfault", 1_905),
        ("pgpgin", 3_423_065),
        ("pgscan_direct", 100),
        ("pgscan_kswapd", 900_000),
        ("pgsteal_direct", 80),
        ("pgsteal_file", 700_000),
        ("pgsteal_kswapd", 800_000),
        ("pswpout", 140_000),
        ("thp_fault_alloc", 900),
        ("thp_fault_fallback", 10),
        ("thp_underused_split_page", 0),
        ("workingset_refault_file", 5_000),
    ] {
        set_knob(host, name, value);
    }
}

fn fill_thp(host: &mut Snapshot) {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let thp = &mut host.thp;
    thp.enabled = choice(&format!("{FOLDER}/enabled"), "madvise");
    thp.defrag = choice(&format!("{FOLDER}/defrag"), "madvise");
    thp.shrink_underused = file(&format!("{FOLDER}/shrink_underused"), true);
    thp.pmd_size = file(&format!("{FOLDER}/hpage_pmd_size"), mib(2));
    thp.khugepaged.max_ptes_none = file(&format!("{FOLDER}/khugepaged/max_ptes_none"), 511);
    thp.khugepaged.pid = file("/proc/40/comm", 40);
    thp.khugepaged.cpu_time = file("/proc/40/schedstat", Nanos::new(1_000_000_000));
    thp.khugepaged.run_queue_wait = file("/proc/40/schedstat", Nanos::new(2_000_000_000));
}

/// Makes an interval with [`host`] at both ends, so that nothing changes.
pub fn calm() -> Interval {
    still(host())
}

/// Makes an interval with the same host at both ends, so that nothing changes.
pub fn still(host: Snapshot) -> Interval {
    let start = Some(Box::new(host.clone()));
    let mut end = host;
    end.taken.monotonic_seconds += SECONDS;
    Interval { start, end }
}

/// Makes an interval with [`host`] at both ends, to both of which `change` is applied.
pub fn with(change: impl FnOnce(&mut Snapshot)) -> Interval {
    let mut host = host();
    change(&mut host);
    still(host)
}

/// Makes a reading absent, as on a kernel without the file.
pub fn erase<T: Quantity>(reading: &mut Reading<T>) {
    *reading = Reading::absent("erased by a test", reading.source.clone());
}

/// The name of a reading, and a function that makes it absent.
pub type Eraser = (String, Box<dyn Fn(&mut Snapshot)>);

/// Returns an eraser for each reading that a rule may use.
pub fn erasers() -> Vec<Eraser> {
    let mut all: Vec<Eraser> = Vec::new();
    macro_rules! one {
        ($($($field:ident).+),* $(,)?) => { $(
            all.push((stringify!($($field).+).into(), Box::new(|host| erase(&mut host.$($field).+))));
        )* };
    }
    macro_rules! each {
        ($list:expr => $($($field:ident).+),* $(,)?) => { $(
            all.push((stringify!($($field).+).into(), Box::new(|host| {
                let list: fn(&mut Snapshot) -> &mut Vec<_> = $list;
                list(host).iter_mut().for_each(|item| erase(&mut item.$($field).+));
            })));
        )* };
    }
    macro_rules! merging {
        ($($field:ident),*) => { $(
            all.push((concat!("merging.", stringify!($field)).into(), Box::new(|host| {
                let devices = host.zmerge.iter_mut().filter_map(|device| device.merging.as_mut());
                devices.for_each(|merging| erase(&mut merging.$field));
            })));
        )* };
    }
    one!(
        memory.total,
        memory.free,
        memory.available,
        memory.buffers,
        memory.cached,
        memory.active_anon,
        memory.inactive_anon,
        memory.active_file,
        memory.inactive_file,
        memory.swap_total,
        memory.swap_free,
        memory.committed,
        memory.commit_limit,
        memory.anon_pages,
        memory.shmem,
        memory.slab_reclaimable,
        memory.anon_huge_pages,
        memory.swap_cached,
        memory.unevictable,
        memory.mlocked,
        memory.dirty,
        memory.writeback,
        memory.slab_unreclaimable,
        memory.page_tables,
        memory.percpu,
        psi.io.some.avg60,
        ksm.run,
        ksm.full_scans,
        ksm.pages_shared,
        ksm.pages_sharing,
        ksm.pages_unshared,
        ksm.pages_volatile,
        ksm.general_profit_bytes,
        mglru.min_ttl,
        psi.memory.some.avg10,
        psi.memory.some.avg60,
        psi.memory.full.avg10,
        psi.memory.full.avg60,
        zswap.enabled,
        zswap.stored,
        zswap.pool,
        zswap.shrinker_enabled,
        zswap.compressor,
        zswap.max_pool_percent,
        zswap.accept_threshold_percent,
        thp.enabled,
        thp.defrag,
        thp.shrink_underused,
        thp.pmd_size,
        thp.khugepaged.max_ptes_none,
        thp.khugepaged.pid,
        thp.khugepaged.cpu_time,
        thp.khugepaged.run_queue_wait,
        thp.khugepaged.pages_collapsed,
        mglru.enabled,
        host.page_size,
        host.container,
        cgroups.dying,
        taken.boot_id,
        kernel_log.records,
    );
    each!(|host| &mut host.tiers => size, used, priority, zswap_in_front,
        disk.name, disk.lowest, disk.rotational, disk.encrypted, disk.file_system,
        disk.backing_file, disk.backing_file_system);
    each!(|host| &mut host.disk_stats => reads, read, read_time, writes, written, write_time, in_flight,
        queue_time);
    each!(|host| &mut host.zram => initialised, disksize, algorithm, slot_table, backing_device,
        used_as, mm_stat.original, mm_stat.memory_used, mm_stat.memory_limit, mm_stat.huge_pages,
        io_stat.failed_writes);
    each!(|host| &mut host.zmerge => initialised, disksize, used_as, mm_stat.original);
    merging!(mode, hits, misses, index_bytes, merged_bytes);
    each!(|host| &mut host.zones => free_pages, min_pages, low_pages, high_pages, managed_pages);
    each!(|host| &mut host.free_blocks => blocks);
    each!(|host| &mut host.memory_files.mounts => used, limit, files);
    each!(|host| &mut host.memory_files.deleted => bytes);
    each!(|host| &mut host.gpu_memory => system);
    each!(|host| &mut host.memory_files.segments => resident, swapped, attached, uid, detached_at);
    each!(|host| &mut host.memory_files.queues => bytes, messages, uid, received_at);
    each!(|host| &mut host.hugetlb => total, free, reserved, surplus);
    each!(|host| &mut host.processes.list => rss_anon, thp_allowed, anon_huge,
        page_tables, locked, data, virtual_size, address_space_limit, data_limit, threads);
    each!(|host| &mut host.cgroups.groups => current, frozen, min, low, high, max, swap_max, swap_current, swappiness, anon,
        refault_anon, events.max, events.oom_kill, pids.current, pids.max, pids.refused,
        pressure.some.avg10, pressure.some.avg60, pressure.full.avg10, pressure.full.avg60);
    each!(|host| &mut host.knobs => live);
    each!(|host| &mut host.configuration.settings => value);
    each!(|host| &mut host.configuration.managers => found);
    one!(configuration.resume_device);
    all.push((
        "configuration.tuned".into(),
        Box::new(|host| {
            let Some(tuned) = &mut host.configuration.tuned else { return };
            erase(&mut tuned.profile);
        }),
    ));
    all.push(("capabilities".into(), Box::new(|host| host.capabilities.clear())));
    for (name, _) in host().vmstat.iter() {
        let name = name.clone();
        all.push((name.to_string(), Box::new(move |host| unset(host, name.as_str()))));
    }
    all
}
