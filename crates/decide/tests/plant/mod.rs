// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Incidents, written into the files of a recorded host as the kernel would show them.

use pagewise_testkit::scene::{ENDS, Scene};

/// 24 GiB, cgroup v1, no swap, idle.
pub(crate) const PLAIN: &str = "debian12-6.18-x86_64-24g-plain";
/// The same with a large process whose memory is in huge pages.
pub(crate) const HUGE: &str = "debian12-6.18-x86_64-24g-thp";
/// The same with an empty zram swap tier of 512 MiB.
pub(crate) const ZRAM: &str = "debian12-6.18-x86_64-24g-zram-swap";
/// The same while a cgroup with a limit of 64 MiB swaps 130 MiB to it.
pub(crate) const ZRAM_USED: &str = "debian12-6.18-x86_64-24g-zram-swap-used";
/// A swap file with a higher priority than zram, neither in use.
pub(crate) const BEHIND_FILE: &str = "debian12-6.18-x86_64-24g-zram-behind-file";
/// A swap file with a higher priority than zram, in use.
pub(crate) const BEHIND_FILE_USED: &str = "debian12-6.18-x86_64-24g-zram-behind-file-used";
/// 512 MiB, cgroup v2, 7.2: a service with a limit of 64 MiB uses 160 MiB, the rest of which is in
/// zram.
pub(crate) const V2_LIMIT: &str = "debian-sid-7.2-x86_64-512m-zram-pressure";

/// 512 MiB, 6.12, systemd: sysctl files that disagree with each other and with the running
/// settings.
pub(crate) const SETTINGS: &str = "debian-trixie-6.12-x86_64-512m-settings";

const SERVICE: &str = "sys/fs/cgroup/system.slice/cg-2.service";
/// The largest process of [`HUGE`].
const LARGE: u32 = 1774;

pub(crate) fn as_it_is(host: Scene) -> Scene {
    host
}

fn meminfo(host: Scene, name: &str, kib: u64) -> Scene {
    host.line("proc/meminfo", &format!("{name}:"), &format!("{name}: {kib} kB"))
}

pub(crate) fn available(host: Scene, kib: u64) -> Scene {
    meminfo(host, "MemAvailable", kib)
}

/// Most of memory is anonymous.
pub(crate) fn busy(host: Scene) -> Scene {
    meminfo(meminfo(host, "Inactive(anon)", 16_000_000), "AnonPages", 16_000_000)
}

pub(crate) fn swap_off(host: Scene) -> Scene {
    let host = host.file("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    meminfo(meminfo(host, "SwapTotal", 0), "SwapFree", 0)
}

/// A kernel without zram.
pub(crate) fn no_zram(host: Scene) -> Scene {
    host.without("sys/block/zram0").without("sys/class/zram-control").line(
        "proc/config.gz",
        "CONFIG_ZRAM=y",
        "# CONFIG_ZRAM is not set",
    )
}

/// Only a swap file on disk: its size and its used part, in KiB.
pub(crate) fn swap_file(host: Scene, size: u64, used: u64) -> Scene {
    let text = format!(
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swap-1 file {size} {used} -2\n"
    );
    let host = meminfo(meminfo(host, "SwapTotal", size), "SwapFree", size - used);
    host.file("proc/swaps", text)
}

/// The used part of the zram tier of 512 MiB, in KiB.
pub(crate) fn zram_holds(host: Scene, used: u64) -> Scene {
    let text = format!(
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram1 partition 524284 {used} 100\n"
    );
    let (stored, taken) = (used * 1024, used * 400);
    meminfo(host, "SwapFree", 524_284 - used)
        .file("proc/swaps", text)
        .file("sys/block/zram1/mm_stat", format!("{stored} {taken} {taken} 0 {taken} 0 0 0 0\n"))
}

/// Shares of the last ten seconds and the last minute in which some and all tasks were stalled, and
/// still are.
pub(crate) fn waiting(host: Scene, some: &str, full: &str) -> Scene {
    waited(host, [some, some, "0.00"], [full, full, "0.00"], 200_000)
}

/// Pressure with these averages over 10, 60 and 300 s, and `more` microseconds of stalls between
/// the two readings.
pub(crate) fn waited(mut host: Scene, some: [&str; 3], full: [&str; 3], more: u64) -> Scene {
    for (end, more) in ENDS.into_iter().zip([0, more]) {
        let line = |name: &str, [ten, sixty, long]: [&str; 3], total: u64| {
            format!("{name} avg10={ten} avg60={sixty} avg300={long} total={}\n", total + more)
        };
        let text = line("some", some, 1_541_868) + &line("full", full, 814_414);
        host = host.file_at(end, "proc/pressure/memory", text);
    }
    host
}

/// Every zone is below its min watermark.
pub(crate) fn low_zones(mut host: Scene) -> Scene {
    for end in ENDS {
        let text = host.text(end, "proc/zoneinfo").unwrap_or_default().to_owned();
        let lines = text.lines().map(|line| {
            if line.trim_start().starts_with("pages free") { "  pages free     1" } else { line }
        });
        let changed: String = lines.flat_map(|line| [line, "\n"]).collect();
        host = host.file_at(end, "proc/zoneinfo", changed);
    }
    host
}

pub(crate) fn swappiness(host: Scene, value: u32) -> Scene {
    host.file("proc/sys/vm/swappiness", format!("{value}\n"))
}

/// Most of what is read from disk was dropped shortly before, and tasks wait for it.
pub(crate) fn thrashing(host: Scene) -> Scene {
    host.grow("workingset_refault_file", 100_000)
        .grow("pgsteal_file", 90_000)
        .grow("pgmajfault", 500)
        .grow("pgpgin", 500_000)
}

/// Much is read and dropped, but nothing is refaulted.
pub(crate) fn backup(host: Scene) -> Scene {
    host.grow("pgsteal_file", 900_000).grow("pgscan_kswapd", 900_000).grow("pgpgin", 4_000_000)
}

pub(crate) fn strict(host: Scene, percent: u64) -> Scene {
    let host = host.file("proc/sys/vm/overcommit_memory", "2\n");
    meminfo(meminfo(host, "CommitLimit", 10_000_000), "Committed_AS", percent * 100_000)
}

/// 5.5 of 9.5 GiB are committed under strict overcommit, and the large process has 4.5 GiB of private
/// writable memory.
pub(crate) fn cannot_fork(host: Scene) -> Scene {
    strict(host, 58).line(&format!("proc/{LARGE}/status"), "VmData:", "VmData:\t 4700000 kB")
}

/// The large process, `age` seconds old, grew by `mib_per_second` MiB in each second of the
/// interval.
fn grown(host: Scene, mib_per_second: u64, age: u64, held_mib: u64) -> Scene {
    let seconds = host.replay().seconds().expect("two ends");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MiB")]
    let before = held_mib - (mib_per_second as f64 * seconds) as u64;
    let stat = format!(
        "{LARGE} (leaky) S 1 1 1 0 -1 4194304 9 0 0 0 5 5 0 0 20 0 1 0 {} 9 9\n",
        (5000 - age) * 100
    );
    let folder = format!("proc/{LARGE}");
    host.file("proc/uptime", "5000.00 9000.00\n")
        .file(&format!("{folder}/cgroup"), "4:memory:/\n")
        .file_at(
            "start",
            &format!("{folder}/statm"),
            format!("999999 {} 0 9 0 9 0\n", before * 256),
        )
        .file_at("start", &format!("{folder}/stat"), &stat)
        .file_at("end", &format!("{folder}/stat"), stat)
        .line(
            &format!("{folder}/status"),
            "RssAnon:",
            &format!("RssAnon:\t {} kB", held_mib * 1024),
        )
        .line(&format!("{folder}/status"), "VmHWM:", &format!("VmHWM:\t {} kB", held_mib * 1024))
}

/// A process with its sizes in KiB at both readings.
struct Program {
    pid: u32,
    group: &'static str,
    /// Seconds since it started.
    age: u64,
    anon: [u64; 2],
    peak: [u64; 2],
}

fn program(host: Scene, program: &Program) -> Scene {
    let Program { pid, group, age, anon: [before, now], peak } = program;
    let started = (5000 - age) * 100;
    let folder = format!("proc/{pid}");
    let stat =
        format!("{pid} (worker) S 1 1 1 0 -1 4194304 9 0 0 0 5 5 0 0 20 0 1 0 {started} 9 9\n");
    let status = |anon: u64, peak: u64| {
        format!(
            "Name:\tworker\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\nVmSize:\t999999 kB\n\
             VmHWM:\t{peak} kB\nVmRSS:\t{anon} kB\nRssAnon:\t{anon} kB\nRssFile:\t0 kB\n\
             RssShmem:\t0 kB\nVmSwap:\t0 kB\n"
        )
    };
    host.file("proc/uptime", "5000.00 9000.00\n")
        .file(&format!("{folder}/stat"), stat)
        .file(&format!("{folder}/cgroup"), format!("0::{group}\n"))
        .file_at("start", &format!("{folder}/statm"), format!("250000 {} 0 9 0 9 0\n", before / 4))
        .file_at("start", &format!("{folder}/status"), status(*before, peak[0]))
        .file_at("end", &format!("{folder}/status"), status(*now, peak[1]))
}

/// A program of 32 seconds maps and frees 30 MiB every two seconds.
pub(crate) fn sawtooth(host: Scene) -> Scene {
    let group = "/system.slice/cg-2.service";
    let (anon, peak) = ([13_048, 29_436], [31_476, 31_480]);
    program(host, &Program { pid: 4837, group, age: 32, anon, peak })
}

/// The large process started 34 seconds ago and has grown by this many MiB in each second since.
pub(crate) fn starting(host: Scene, mib_per_second: u64) -> Scene {
    grown(host, mib_per_second, 34, mib_per_second * 34)
}

/// A unit with a limit of 200 MiB and without swap, in which a process of 70 seconds grows by about
/// 1 MiB per second.
pub(crate) fn leaking_unit(mut host: Scene) -> Scene {
    const GROUP: &str = "/system.slice/cg-9.service";
    let file = |name: &str| format!("sys/fs/cgroup{GROUP}/memory.{name}");
    let seconds = host.replay().seconds().expect("two ends");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MiB")]
    let before = 69_600 - (980.0 * seconds) as u64;
    let (anon, peak) = ([before, 69_600], [before, 69_600]);
    for (end, kib) in ENDS.into_iter().zip(anon) {
        let stat = format!("anon {}\nfile 0\nshmem 0\npgsteal 0\n", kib * 1024);
        host = host.file_at(end, &file("stat"), stat);
    }
    let none = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n";
    let current = anon[1] * 1024;
    let host = [("max", "209715200"), ("high", "max"), ("swap.max", "0"), ("swap.current", "0")]
        .iter()
        .fold(host, |host, (name, value)| host.file(&file(name), format!("{value}\n")))
        .file(&file("events"), none)
        .file(&file("current"), format!("{current}\n"))
        .file(&file("peak"), format!("{current}\n"));
    program(host, &Program { pid: 4838, group: GROUP, age: 70, anon, peak })
}

/// The unit of nginx, whose process was killed at its limit, was removed.
pub(crate) fn removed_nginx(host: Scene) -> Scene {
    host.without("sys/fs/cgroup/system.slice/nginx.service")
}

pub(crate) fn leak(host: Scene, mib_per_second: u64) -> Scene {
    grown(host, mib_per_second, 100, mib_per_second * 100)
}

/// The same in a cgroup with a limit of 8 GiB.
pub(crate) fn leak_in_group(host: Scene, mib_per_second: u64) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/memory/cg-1";
    let held = mib_per_second * 100 * (1 << 20);
    let stat = format!(
        "cache 0\nhierarchical_memory_limit 8589934592\ntotal_cache 0\ntotal_rss {held}\ntotal_shmem 0\n"
    );
    leak(host, mib_per_second)
        .file(&format!("proc/{LARGE}/cgroup"), "4:memory:/cg-1\n")
        .file(&format!("{GROUP}/memory.stat"), stat)
        .file(&format!("{GROUP}/memory.limit_in_bytes"), "8589934592\n")
        .file(&format!("{GROUP}/memory.usage_in_bytes"), format!("{held}\n"))
}

/// A cgroup with a limit of 8 GiB grows by `mib_per_second` MiB per second, through short-lived
/// workers: the only process that exists at both times has not grown for 100 seconds.
pub(crate) fn workers(host: Scene, mib_per_second: u64) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/memory/cg-1";
    let seconds = host.replay().seconds().expect("two ends");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MiB")]
    let added = (mib_per_second as f64 * seconds) as u64;
    let held = mib_per_second * 100;
    let mut host = grown(host, 0, 100, 300)
        .file(&format!("proc/{LARGE}/cgroup"), "4:memory:/cg-1\n")
        .file(&format!("{GROUP}/memory.limit_in_bytes"), "8589934592\n");
    for (end, mib) in ENDS.into_iter().zip([held - added, held]) {
        let bytes = mib << 20;
        let stat = format!(
            "cache 0\nhierarchical_memory_limit 8589934592\ntotal_cache 0\ntotal_rss {bytes}\ntotal_shmem 0\n"
        );
        host = host.file_at(end, &format!("{GROUP}/memory.stat"), stat).file_at(
            end,
            &format!("{GROUP}/memory.usage_in_bytes"),
            format!("{bytes}\n"),
        );
    }
    host
}

pub(crate) fn burst(host: Scene, mib_per_second: u64) -> Scene {
    grown(host, mib_per_second, 4_900, 300)
}

pub(crate) fn service(host: Scene, file: &str, text: impl AsRef<[u8]>) -> Scene {
    host.file(&format!("{SERVICE}/memory.{file}"), text)
}

/// The service has this many of at most 512 tasks, and this many forks were refused during the
/// interval.
pub(crate) fn tasks(host: Scene, current: u64, refused: u64) -> Scene {
    host.file(&format!("{SERVICE}/pids.current"), format!("{current}\n"))
        .file(&format!("{SERVICE}/pids.max"), "512\n")
        .file_at("start", &format!("{SERVICE}/pids.events"), "max 1200\n")
        .file_at("end", &format!("{SERVICE}/pids.events"), format!("max {}\n", 1200 + refused))
}

/// The largest process has a limit on its address space that is this many MiB higher than what it
/// has.
pub(crate) fn address_space(host: Scene, left_mib: u64) -> Scene {
    let limit = (4_500 + left_mib) << 20;
    let limits = format!(
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max data size             unlimited            unlimited            bytes     \n\
         Max address space         {limit}           {limit}           bytes     \n"
    );
    host.line(&format!("proc/{LARGE}/status"), "VmSize:", "VmSize:\t 4608000 kB")
        .line(&format!("proc/{LARGE}/status"), "VmData:", "VmData:\t 4600000 kB")
        .file(&format!("proc/{LARGE}/limits"), limits)
}

/// The service on a quiet day: no stalls, and its limit is not reached.
pub(crate) fn calm_group(host: Scene) -> Scene {
    let none = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
    let events = "low 0\nhigh 0\nmax 9000\noom 0\noom_kill 0\noom_group_kill 0\n";
    let stat = host.text("end", &format!("{SERVICE}/memory.stat")).unwrap().to_owned();
    let host = service(service(service(host, "pressure", none), "events", events), "stat", stat);
    let slice = host.text("end", "sys/fs/cgroup/system.slice/memory.stat").unwrap().to_owned();
    let host = host
        .file("sys/fs/cgroup/system.slice/memory.pressure", none)
        .file("sys/fs/cgroup/system.slice/memory.stat", slice);
    waiting(host.file("sys/fs/cgroup/memory.pressure", none), "0.00", "0.00")
}

/// The service's limit is memory.high.
pub(crate) fn high(host: Scene) -> Scene {
    let limit = host.text("end", &format!("{SERVICE}/memory.max")).unwrap().to_owned();
    let host = service(service(host, "high", limit), "max", "max\n");
    let events =
        |times| format!("low 0\nhigh {times}\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n");
    host.file_at("start", &format!("{SERVICE}/memory.events"), events(10)).file_at(
        "end",
        &format!("{SERVICE}/memory.events"),
        events(900),
    )
}

/// The service is above its memory.high, and its throttled tasks slept through the interval, so that
/// no event was counted.
pub(crate) fn slowed(host: Scene) -> Scene {
    let host = service(service(host, "high", "50331648\n"), "max", "max\n");
    let host = service(host, "current", "67108864\n");
    service(host, "events", "low 0\nhigh 900\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")
}

/// memory.min of the service and of its slice keeps 300 MiB of 461 MiB, and all others wait.
pub(crate) fn starved(host: Scene) -> Scene {
    const SLICE: &str = "sys/fs/cgroup/system.slice";
    let some = "some avg10=1.00 avg60=1.60 avg300=0.57 total=2\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
    let host = service(service(calm_group(host), "max", "max\n"), "min", "367001600\n");
    service(service(host, "current", "314572800\n"), "pressure", some)
        .file(&format!("{SLICE}/memory.min"), "367001600\n")
        .file(&format!("{SLICE}/memory.current"), "320000000\n")
}

/// `percent` of the limit are anonymous memory, and the service is barred from swapping.
pub(crate) fn filled(host: Scene, percent: u64) -> Scene {
    let held = (64 << 20) / 100 * percent;
    let stat = format!("anon {held}\nfile 0\nshmem 0\n");
    let host = service(service(host, "stat", stat), "current", format!("{held}\n"));
    service(service(host, "swap.max", "0\n"), "swap.current", "0\n")
}

pub(crate) fn cached(host: Scene) -> Scene {
    let stat = "anon 1000000\nfile 66000000\nshmem 0\n";
    let host = service(service(host, "stat", stat), "current", "67108864\n");
    service(host, "swap.current", "0\n")
}

/// A task of the service was killed at its limit during the interval.
pub(crate) fn killed(host: Scene) -> Scene {
    let events = |times| {
        format!("low 0\nhigh 0\nmax {times}9\noom {times}\noom_kill {times}\noom_group_kill 0\n")
    };
    host.file_at("start", &format!("{SERVICE}/memory.events"), events(1))
        .file_at("end", &format!("{SERVICE}/memory.events"), events(2))
        .grow("oom_kill", 1)
}

/// The limited group of version 1 refaults pages that were just dropped.
pub(crate) fn v1_thrashing(mut host: Scene) -> Scene {
    const GROUP: &str = "sys/fs/cgroup/memory/cg-2/cg-3";
    for (end, times) in ENDS.into_iter().zip([1u64, 2]) {
        let stat = host.text(end, &format!("{GROUP}/memory.stat")).expect("a group").to_owned();
        let value = |line: &str| match line.split_whitespace().next() {
            Some(key @ "total_workingset_refault_file") => format!("{key} {}\n", 90_000 * times),
            Some(key @ "total_pgmajfault") => format!("{key} {}\n", 900 * times),
            Some(key @ "hierarchical_memory_limit") => format!("{key} 67108864\n"),
            _ => format!("{line}\n"),
        };
        let changed: String = stat.lines().map(value).collect();
        host = host
            .file_at(end, &format!("{GROUP}/memory.stat"), changed)
            .file_at(end, &format!("{GROUP}/memory.limit_in_bytes"), "67108864\n")
            .file_at(end, &format!("{GROUP}/memory.usage_in_bytes"), "67100000\n")
            .file_at(end, &format!("{GROUP}/memory.failcnt"), format!("{}\n", 1_000 * times));
    }
    host
}

pub(crate) fn zswap_on(host: Scene) -> Scene {
    host.file("sys/module/zswap/parameters/enabled", "Y\n")
}

pub(crate) fn hugetlb(host: Scene) -> Scene {
    let file = |name: &str| format!("sys/kernel/mm/hugepages/hugepages-2048kB/{name}_hugepages");
    host.file(&file("nr"), "2048\n").file(&file("free"), "2048\n").file(&file("resv"), "0\n")
}

pub(crate) fn tmpfs(host: Scene, kib: u64) -> Scene {
    let host = meminfo(host, "Shmem", kib);
    meminfo(host, "Cached", kib + kib / 3)
}

/// A System V segment of `kib` KiB to which no process is attached.
pub(crate) fn segment_left(host: Scene, kib: u64) -> Scene {
    let bytes = kib * 1024;
    let text = format!(
        "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n\
         0 4 600 {bytes} 97 97 0 26 26 26 26 0 0 0 {bytes} 0\n"
    );
    let host = meminfo(host, "Shmem", kib + 40_000);
    meminfo(host, "Cached", kib * 2).file("proc/sysvipc/shm", text)
}

/// Files of `kib` KiB in a ramfs.
pub(crate) fn in_ramfs(host: Scene, kib: u64) -> Scene {
    let mounts = host.text("end", "proc/self/mountinfo").unwrap_or_default().to_owned();
    let line = "990 1 0:190 / /srv/scratch rw - ramfs ramfs rw\n";
    meminfo(meminfo(host, "Unevictable", kib), "Mlocked", 0)
        .file("proc/self/mountinfo", mounts + line)
}

/// A process has `mib` MiB of GPU buffers in system memory.
pub(crate) fn gpu_buffers(host: Scene, mib: u64) -> Scene {
    host.file("proc/1/fdinfo", format!("amdgpu 0000:0b:00.0 30 {}\n", mib << 20))
}

/// A process maps a deleted file of 9 GiB in /dev/shm and has no descriptor of it.
pub(crate) fn maps_deleted_file(host: Scene) -> Scene {
    meminfo(meminfo(host, "Shmem", 9_600_000), "Cached", 12_000_000)
        .line("proc/1/status", "RssShmem:", "RssShmem:\t 9400000 kB")
        .file("proc/1/fd", "")
        .file("proc/1/map_files", "0 tmpfs 23 99 18874368\n")
}

/// A driver leaked `kib` KiB: they are in use, and no counter has them.
pub(crate) fn leaked_by_a_driver(host: Scene, kib: u64) -> Scene {
    let free = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
        line.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok())
    };
    let before = host.text("end", "proc/meminfo").and_then(free).expect("free memory");
    meminfo(host, "MemFree", before - kib)
}

/// A balloon driver of the hypervisor holds `kib` KiB.
pub(crate) fn ballooned(host: Scene, kib: u64) -> Scene {
    let pages = kib / 4;
    let host = host.counter("balloon_inflate", pages + 512).counter("balloon_deflate", 512);
    meminfo(host, "Balloon", kib)
}

/// A balloon driver holds `kib` KiB and has lowered `MemTotal` by as much, as virtio's does.
pub(crate) fn taken_by_a_balloon(host: Scene, kib: u64) -> Scene {
    meminfo(ballooned(leaked_by_a_driver(host, kib), kib), "MemTotal", 24_684_092 - kib)
}

/// ZFS's cache holds `kib` KiB, of which it keeps 1 GiB in any case; they are neither free nor
/// available.
pub(crate) fn zfs_cache(host: Scene, kib: u64) -> Scene {
    let text = format!(
        "13 1 0x01 147 39984 5303291826 11405279345683\nname type data\nc_min 4 1073741824\nc_max 4 {0}\nsize 4 {0}\n",
        kib * 1024
    );
    leaked_by_a_driver(host, kib).file("proc/spl/kstat/zfs/arcstats", text)
}

/// Swap on a loop device whose file is on a tmpfs.
pub(crate) fn swap_in_tmpfs(host: Scene) -> Scene {
    let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/loop0 partition 2000000 700000 -2\n";
    let mounts = host.text("end", "proc/self/mountinfo").unwrap_or_default().to_owned();
    let line = "990 1 0:190 / /srv/fast rw - tmpfs tmpfs rw\n";
    meminfo(meminfo(host, "SwapTotal", 2_000_000), "SwapFree", 1_300_000)
        .file("proc/swaps", text)
        .file("proc/self/mountinfo", mounts + line)
        .file("sys/class/block/loop0/uevent", "MAJOR=7\nMINOR=0\nDEVNAME=loop0\nDEVTYPE=disk\n")
        .file("sys/block/loop0/queue/rotational", "0\n")
        .file("sys/block/loop0/loop/backing_file", "/srv/fast/swap\n")
}

/// Sets a sysctl, given by its path below `/proc/sys`.
pub(crate) fn set(host: Scene, path: &str, value: &str) -> Scene {
    host.file(&format!("proc/sys/{path}"), format!("{value}\n"))
}

/// Unreclaimable slab of `kib` KiB.
pub(crate) fn slab(host: Scene, kib: u64) -> Scene {
    meminfo(host, "SUnreclaim", kib)
}

/// Unevictable, locked memory of `kib` KiB.
pub(crate) fn locked(host: Scene, kib: u64) -> Scene {
    meminfo(meminfo(host, "Unevictable", kib), "Mlocked", kib)
}

/// KSM after `scans` scans of 2 GiB, in which 100 pages had a duplicate.
pub(crate) fn ksm_at_a_loss(host: Scene, scans: u64) -> Scene {
    let files = [
        ("run", "1".to_owned()),
        ("full_scans", scans.to_string()),
        ("pages_shared", "50".to_owned()),
        ("pages_sharing", "100".to_owned()),
        ("pages_unshared", "500000".to_owned()),
        ("general_profit", "-31600000".to_owned()),
    ];
    files.iter().fold(host, |host, (name, value)| {
        host.file(&format!("sys/kernel/mm/ksm/{name}"), format!("{value}\n"))
    })
}

/// `kib` KiB are dirty, and some task was stalled on I/O for the share `stalled` of the last
/// minute.
pub(crate) fn writing(host: Scene, kib: u64, stalled: &str) -> Scene {
    let text = format!(
        "some avg10={stalled} avg60={stalled} avg300=0.00 total=37273968\n\
         full avg10=0.00 avg60=0.00 avg300=0.00 total=17810168\n"
    );
    meminfo(host, "Dirty", kib).file("proc/pressure/io", text)
}

/// Swap of 8 GB on the disk sda, of which half is in use. Over the interval the disk completes 600
/// requests, each `ms` after it was submitted, and 900 pages are swapped in and out.
pub(crate) fn swap_on_disk(host: Scene, ms: u64) -> Scene {
    let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2 partition 8000000 4000000 -2\n";
    let line = |times: u64| {
        let (count, spent) = (300 * times, 300 * times * ms);
        let queue = 2 * spent;
        format!(
            "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n   \
             8       0 sda {count} 0 2400 {spent} {count} 0 2400 {spent} 31 900 {queue} 0 0 0 0\n   \
             8       2 sda2 {count} 0 2400 {spent} {count} 0 2400 {spent} 31 900 {queue} 0 0 0 0\n"
        )
    };
    meminfo(meminfo(host, "SwapTotal", 8_000_000), "SwapFree", 4_000_000)
        .file("proc/swaps", text)
        .file(
            "sys/class/block/sda2/uevent",
            "MAJOR=8\nMINOR=2\nDEVNAME=sda2\nDEVTYPE=partition\nPARTN=2\n",
        )
        .file("sys/block/sda/queue/rotational", "1\n")
        .file_at("start", "proc/diskstats", line(1))
        .file_at("end", "proc/diskstats", line(2))
        .grow("pswpin", 600)
        .grow("pswpout", 300)
}

/// The service of [`V2_LIMIT`] swaps to a disk, and may read this many bytes per second from it.
pub(crate) fn reads_limited(host: Scene, bytes: u64) -> Scene {
    let swaps =
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/vda2 partition 262140 98992 -2\n";
    let limit = format!("254:0 rbps={bytes} wbps=max riops=max wiops=max\n");
    host.file("proc/swaps", swaps)
        .file("sys/module/zswap/parameters/enabled", "N\n")
        .file(&format!("{SERVICE}/io.max"), limit)
}

/// The service of [`V2_LIMIT`] without its limit.
pub(crate) fn unlimited(host: Scene) -> Scene {
    host.file("sys/fs/cgroup/system.slice/cg-2.service/memory.max", "max\n")
}

/// A sysctl that no file sets, on a host whose files are known.
pub(crate) fn set_by_hand(host: Scene, path: &str, value: &str) -> Scene {
    set(host, path, value).file("etc/sysctl.d/90-maps.conf", "vm.max_map_count = 65530\n")
}

/// zram-generator with a device, and zram-tools enabled.
pub(crate) fn two_makers_of_swap(host: Scene) -> Scene {
    host.file("usr/lib/systemd/system-generators/zram-generator", "")
        .file("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = ram / 2\n")
        .file("etc/systemd/system/multi-user.target.wants/zramswap.service", "")
}

/// zram-generator with a device, and a udev rule that sets its size.
pub(crate) fn udev_and_generator(host: Scene) -> Scene {
    let rule = "KERNEL==\"zram0\", ACTION==\"add\", ATTR{disksize}=\"512M\"\n";
    host.file("usr/lib/systemd/system-generators/zram-generator", "")
        .file("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = ram / 2\n")
        .file("etc/udev/rules.d/99-zram.rules", rule)
}

/// The service of [`V2_LIMIT`] ended during the interval, and its group was removed.
pub(crate) fn vanished(host: Scene) -> Scene {
    host.without_at("end", SERVICE)
}

/// `many` more groups, each with a little memory.
pub(crate) fn crowded(host: Scene, many: usize) -> Scene {
    let none = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n";
    (0..many).fold(host, |host, at| {
        let folder = format!("sys/fs/cgroup/cg-{at}.slice/memory");
        host.file(&format!("{folder}.stat"), "anon 4096\n")
            .file(&format!("{folder}.current"), "4096\n")
            .file(&format!("{folder}.events"), none)
    })
}

/// tuned is enabled with a profile that sets this swappiness.
pub(crate) fn tuned(host: Scene, swappiness: &str) -> Scene {
    let profile = format!("[main]\n\n[sysctl]\nvm.swappiness = {swappiness}\n");
    host.file("etc/systemd/system/multi-user.target.wants/tuned.service", "")
        .file("etc/tuned/active_profile", "virtual-guest\n")
        .file("usr/lib/tuned/virtual-guest/tuned.conf", profile)
}

/// tlp is enabled.
pub(crate) fn tlp(host: Scene) -> Scene {
    host.file("etc/systemd/system/multi-user.target.wants/tlp.service", "")
}
