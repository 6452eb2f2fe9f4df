// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel prints in each file, and how evidence must print it.

use pagewise_model::Bytes;

use super::{Place, number};

/// The unit of a number in the file, and in evidence.
#[derive(Clone, Copy)]
enum Unit {
    Plain,
    Pages,
    Size,
    Kib,
    Millis,
    Percent,
    Switch,
    /// A size, or the kernel's word for no limit.
    Limit,
}

/// A file, the name of a value in it, the index of its word, its unit.
type Row = (&'static str, &'static str, usize, Unit);

/// Files of one line, and lines with columns. A file is identified by the end of its path.
const COLUMNS: &[Row] = &[
    ("/proc/swaps", "size", 2, Unit::Kib),
    ("/proc/swaps", "used", 3, Unit::Kib),
    ("/proc/swaps", "priority", 4, Unit::Plain),
    ("/mm_stat", "original", 0, Unit::Size),
    ("/mm_stat", "memory used", 2, Unit::Size),
    ("/mm_stat", "mem_limit", 3, Unit::Size),
    ("/mm_stat", "huge_pages", 7, Unit::Pages),
    ("/io_stat", "failed_writes", 1, Unit::Plain),
    ("/merge_hits", "merge_hits", 0, Unit::Plain),
    ("/merge_misses", "merge_misses", 0, Unit::Plain),
    ("/merged_bytes", "", 0, Unit::Size),
    ("/index_bytes", "", 0, Unit::Size),
    ("/initstate", "initialised", 0, Unit::Switch),
    ("/disksize", "", 0, Unit::Size),
    ("/sys/vm/swappiness", "", 0, Unit::Plain),
    ("/zswap/parameters/enabled", "", 0, Unit::Switch),
    ("/zswap/parameters/shrinker_enabled", "", 0, Unit::Switch),
    ("/zswap/parameters/max_pool_percent", "", 0, Unit::Percent),
    ("/shrink_underused", "", 0, Unit::Switch),
    ("/max_ptes_none", "", 0, Unit::Plain),
    ("/pages_collapsed", "", 0, Unit::Plain),
    ("/nr_hugepages", "total", 0, Unit::Plain),
    ("/free_hugepages", "free", 0, Unit::Plain),
    ("/resv_hugepages", "reserved", 0, Unit::Plain),
    ("/surplus_hugepages", "surplus", 0, Unit::Plain),
    ("/memory.usage_in_bytes", "", 0, Unit::Size),
    ("/memory.usage_in_bytes", "current", 0, Unit::Size),
    ("/memory.limit_in_bytes", "max", 0, Unit::Limit),
    ("/memory.swap.max", "swap.max", 0, Unit::Limit),
    ("/memory.max", "max", 0, Unit::Limit),
    ("/memory.high", "high", 0, Unit::Limit),
    ("/memory.low", "low", 0, Unit::Limit),
    ("/memory.min", "min", 0, Unit::Limit),
    ("/sys/vm/overcommit_memory", "", 0, Unit::Plain),
    ("/sys/vm/min_free_kbytes", "", 0, Unit::Plain),
    ("/sys/vm/watermark_scale_factor", "", 0, Unit::Plain),
    ("/sys/vm/dirty_ratio", "", 0, Unit::Plain),
    ("/sys/vm/dirty_bytes", "", 0, Unit::Plain),
    ("/sys/vm/extfrag_threshold", "", 0, Unit::Plain),
    ("/power/resume", "", 0, Unit::Plain),
    ("/lru_gen/min_ttl_ms", "", 0, Unit::Millis),
    ("/ksm/run", "run", 0, Unit::Plain),
    ("/ksm/full_scans", "full_scans", 0, Unit::Plain),
    ("/ksm/general_profit", "general_profit", 0, Unit::Plain),
    ("/ksm/pages_sharing", "pages_sharing", 0, Unit::Pages),
    ("/ksm/pages_unshared", "pages_unshared", 0, Unit::Pages),
    ("/ksm/pages_volatile", "pages_volatile", 0, Unit::Pages),
    ("/memory.current", "current", 0, Unit::Size),
    ("/memory.swap.current", "swap.current", 0, Unit::Size),
    ("/memory.swappiness", "swappiness", 0, Unit::Plain),
    ("/memory.failcnt", "reached max", 0, Unit::Plain),
    ("/pids.current", "pids.current", 0, Unit::Plain),
    ("/pids.max", "pids.max", 0, Unit::Plain),
];

/// Counters that only grow, in files of one line: the file, the name, the index of the word.
const GROWING: &[(&str, &str, usize)] = &[
    ("/io_stat", "failed_writes", 1),
    ("/schedstat", "CPU time ns", 0),
    ("/schedstat", "run-queue wait ns", 1),
];

/// Columns of a line of `/proc/diskstats` that only grow: the name, the index of the word.
const REQUESTS: &[(&str, usize)] =
    &[("reads", 3), ("ms of reads", 6), ("writes", 7), ("ms of writes", 10), ("ms in queue", 13)];

/// All values that evidence at this place may have.
pub(super) fn expected(place: &Place<'_>, seconds: Option<f64>) -> Result<Vec<String>, String> {
    let path = place.path();
    let ends = |end: &str| path.ends_with(end);
    match () {
        () if place.said() == "no such file" => absent(place),
        () if path == "/dev/kmsg" => killed(place),
        () if place.said().starts_with("used (statfs) ") => used(place),
        () if path.contains("/fd/") => open_file(place),
        () if ends("/fdinfo") => Ok(gpu_clients(place)),
        () if ends("/map_files") => Ok(mapped_files(place)),
        () if ends("/cgroup.stat") => Ok(vec![place.there()?.to_owned()]),
        () if ends("/cgroup.events") => {
            let switch = if place.word(1)? == "1" { "on" } else { "off" };
            Ok(vec![format!("{} {switch}", place.word(0)?)])
        }
        () if path.starts_with("/proc/sysvipc/") => system_v(place),
        () if ends("/mountinfo") => file_system(place),
        () if ends("/loop/backing_file") => Ok(vec![place.there()?.trim_end().to_owned()]),
        () if path.starts_with("/sys/class/block/") && ends("/uevent") => {
            let name = place.there()?.strip_prefix("DEVNAME=").ok_or("no name of a device")?;
            Ok(vec![name.to_owned()])
        }
        () if ends("/io.max") => Ok(place
            .there()?
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter_map(|(name, value)| match name {
                "rbps" => Some(format!("rbps {}", shown(value, Unit::Limit).ok()?)),
                "riops" => Some(format!("riops {value}")),
                _ => None,
            })
            .collect()),
        () if ends("/proc/diskstats") => requests(place, seconds),
        () if ends("/proc/vmstat") => counters(place, seconds),
        () if ends("/proc/meminfo") || ends("/smaps_rollup") || ends("/status") => sizes(place),
        () if path.contains("pressure") => averages(place),
        () if ends(".rules") => rule(place),
        () if path.contains("/tmpfiles.d/") => written(place),
        () if path.contains("/zram-generator.conf") => generator(place),
        () if ends(".conf") || path.starts_with("/etc/sysctl.d/") => assignment(place),
        () if ends(".service") || path.contains("/system-generators/") => {
            place.there().map(|_| vec!["present".to_owned(), "set up".to_owned()])
        }
        () if ends("/zoneinfo") => zones(place),
        () if ends("/buddyinfo") => blocks(place),
        () if ends("/pids.events") => {
            let (before, after) = (place.keyed("start", "max")?, place.keyed("end", "max")?);
            Ok(vec![change("pids.events max", before, after, seconds)?])
        }
        () if path.ends_with("/limits") => process_limit(place),
        () if ends("/memory.stat") || ends("/memory.events") => group_counters(place, seconds),
        () if ends("/memory.memsw.limit_in_bytes") => swap_of_version_1(place),
        () if ends("/lru_gen/enabled") => bits(place),
        () if ["/transparent_hugepage/enabled", "/defrag", "/merge_mode", "/comp_algorithm"]
            .iter()
            .any(|end| ends(end)) =>
        {
            choice(place)
        }
        () if ends("/config.gz") => Ok(vec![place.there()?.to_owned()]),
        () if ends("/modules.dep") => Ok(vec![place.word(0)?.trim_end_matches(':').to_owned()]),
        () if ends("/run/systemd/container") => Ok(vec![format!("container {}", place.word(0)?)]),
        () if path.starts_with("/run/udev/") || path.starts_with("/dev/") => signature(place),
        () => columns(place, seconds),
    }
}

/// The used size of a file system in memory (tmpfs), by the device number of its mount.
fn used(place: &Place<'_>) -> Result<Vec<String>, String> {
    let mounts = place.scene.text("end", "proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    let devices = mounted.filter(|words| words.get(4) == Some(&place.path())).map(|words| words[2]);
    let listed = devices.filter_map(|device| {
        let text = place.scene.text("end", &format!("statfs/{device}"))?;
        let words: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Some(format!("used (statfs) {}", Bytes::new(words.first()? * words.get(2)?)))
    });
    Ok(listed.collect())
}

/// A deleted file, by the number of its descriptor.
fn open_file(place: &Place<'_>) -> Result<Vec<String>, String> {
    let (folder, descriptor) = place.path().rsplit_once('/').unwrap_or_default();
    let text = place.scene.text("end", folder).ok_or("no files of that process")?;
    let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    let words =
        lines.find(|words| words.first() == Some(&descriptor)).ok_or("no such descriptor")?;
    let size = Bytes::new(number(words.get(4).ok_or("no blocks")?)? * 512);
    Ok(["deleted", "open"].map(|kind| format!("{kind} file of {size}")).to_vec())
}

/// The memory of a process on each GPU; in the scenes each client is there once.
fn gpu_clients(place: &Place<'_>) -> Vec<String> {
    let text = place.scene.text("end", place.path()).unwrap_or_default();
    let clients = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let size = Bytes::new(words.get(3)?.parse().ok()?);
        Some(format!("{} {} {size}", words[0], words[1]))
    });
    clients.collect()
}

/// The deleted files that a process maps.
fn mapped_files(place: &Place<'_>) -> Vec<String> {
    let text = place.scene.text("end", place.path()).unwrap_or_default();
    let blocks = text.lines().filter_map(|line| line.split(' ').nth(4)?.parse::<u64>().ok());
    let sizes = blocks.map(|blocks| Bytes::new(blocks * 512));
    sizes.map(|size| format!("deleted file of {size}")).collect()
}

/// A segment or queue of System V IPC, by the names of its columns in the first line.
fn system_v(place: &Place<'_>) -> Result<Vec<String>, String> {
    let text = place.scene.text("end", place.path()).unwrap_or_default();
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    let column = |name: &str| {
        let at = head.iter().position(|known| *known == name).ok_or("no such column")?;
        number(place.word(at)?)
    };
    if head.contains(&"shmid") {
        let id = column("shmid")?;
        return Ok(vec![
            format!("segment {id} attachments {}", column("nattch")?),
            format!("segment {id} in RAM {}", Bytes::new(column("rss")?)),
            format!("segment {id} in swap {}", Bytes::new(column("swap")?)),
        ]);
    }
    let id = column("msqid")?;
    Ok(vec![
        format!("queue {id} bytes {}", Bytes::new(column("cbytes")?)),
        format!("queue {id} messages {}", column("qnum")?),
    ])
}

/// The type of the mounted file system, which follows a dash.
fn file_system(place: &Place<'_>) -> Result<Vec<String>, String> {
    let (_, after) = place.there()?.split_once(" - ").ok_or("no mount")?;
    Ok(vec![after.split(' ').next().unwrap_or_default().to_owned()])
}

fn absent(place: &Place<'_>) -> Result<Vec<String>, String> {
    if place.scene.has(place.path()) {
        Err(format!("{} is there", place.path()))
    } else {
        Ok(vec!["no such file".to_owned()])
    }
}

fn said(name: &str, value: &str) -> String {
    if name.is_empty() { value.to_owned() } else { format!("{name} {value}") }
}

fn kib(word: &str) -> Result<String, String> {
    Ok(Bytes::new(number(word)? * 1024).to_string())
}

fn shown(word: &str, unit: Unit) -> Result<String, String> {
    match unit {
        Unit::Plain => Ok(word.to_owned()),
        Unit::Pages => Ok(format!("{} pages", number(word)?)),
        Unit::Limit if word == "max" => Ok(word.to_owned()),
        Unit::Size | Unit::Limit => Ok(Bytes::new(number(word)?).to_string()),
        Unit::Kib => kib(word),
        Unit::Millis => Ok(format!("{} ms", number(word)?)),
        Unit::Percent => Ok(format!("{}.00 %", number(word)?)),
        Unit::Switch if ["1", "Y"].contains(&word) => Ok("on".to_owned()),
        Unit::Switch if ["0", "N"].contains(&word) => Ok("off".to_owned()),
        Unit::Switch => Err(format!("{word:?} is no switch")),
    }
}

/// Names may be prefixed with their subject: a tier or cgroup, found in the line or path.
fn with_subject(place: &Place<'_>, message: &str) -> Result<Vec<String>, String> {
    let file = place.path().strip_prefix("/sys/fs/cgroup").unwrap_or_default();
    let group = file.strip_prefix("/memory/").map_or(file.to_owned(), |rest| format!("/{rest}"));
    let group = group.rsplit_once('/').map_or("", |(group, _)| group);
    let subjects = [place.word(0)?, group];
    let long = subjects.iter().map(|subject| format!("{subject} {message}"));
    Ok(long.chain([message.to_owned()]).collect())
}

fn columns(place: &Place<'_>, seconds: Option<f64>) -> Result<Vec<String>, String> {
    let mut all = derived(place)?;
    for &(end, name, word, unit) in COLUMNS.iter().filter(|row| place.path().ends_with(row.0)) {
        if end == "/proc/swaps" {
            let head = place.scene.text("end", end).and_then(|text| text.lines().next());
            let column = head.and_then(|head| head.split_whitespace().nth(word));
            assert!(column.is_some_and(|column| column.eq_ignore_ascii_case(name)), "{name}");
        }
        all.extend(with_subject(place, &said(name, &shown(place.word(word)?, unit)?))?);
    }
    for &(_, name, word) in GROWING.iter().filter(|row| place.path().ends_with(row.0)) {
        let before = place.scene.text("start", place.path()).unwrap_or_default();
        let before = before.split_whitespace().nth(word).unwrap_or_default();
        all.push(change(name, number(before)?, number(place.word(word)?)?, seconds)?);
    }
    if all.is_empty() {
        Err(format!("{:?}: unknown to this test", place.evidence))
    } else {
        Ok(all)
    }
}

/// 16 bytes for each page of the zram device's size.
fn derived(place: &Place<'_>) -> Result<Vec<String>, String> {
    if !place.path().ends_with("/disksize") {
        return Ok(Vec::new());
    }
    let word = place.word(0)?;
    let slots = number(word)? / 4096;
    // kernels before 7 that record when a slot was accessed store a time in each slot
    let release = place.scene.text("end", "/proc/sys/kernel/osrelease").unwrap_or_default();
    let notes_times = place.scene.has("/sys/kernel/debug/zram/zram0/block_state");
    let each = if notes_times && release.starts_with("6.") { 24 } else { 16 };
    Ok(vec![format!("slot table {}", Bytes::new(slots * each)), word.to_owned()])
}

fn change(name: &str, before: u64, after: u64, seconds: Option<f64>) -> Result<String, String> {
    let seconds = seconds.ok_or("a change without an interval")?;
    let delta = after.checked_sub(before).ok_or("a counter that went back")?;
    let rate = delta as f64 / seconds;
    Ok(format!("{name} +{delta} in {seconds:.1} s ({rate:.0}/s)"))
}

/// The requests to the device of this line, and how many are in flight.
fn requests(place: &Place<'_>, seconds: Option<f64>) -> Result<Vec<String>, String> {
    let device = place.word(2)?;
    let text = place.scene.text("start", place.path()).unwrap_or_default();
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    let before = lines.find(|words| words.get(2) == Some(&device)).ok_or("no such device")?;
    let grown = REQUESTS.iter().map(|&(name, at)| {
        let before = number(before.get(at).ok_or("no such column")?)?;
        change(name, before, number(place.word(at)?)?, seconds)
    });
    let in_flight = Ok(format!("in flight {}", place.word(11)?));
    grown.chain([in_flight]).collect()
}

/// A counter, its change, or the sum of several counters of which this line is the first.
fn counters(place: &Place<'_>, seconds: Option<f64>) -> Result<Vec<String>, String> {
    let key = place.key()?;
    let (before, after) = (place.keyed("start", key)?, place.keyed("end", key)?);
    let mut all = vec![format!("{key} {after}"), change(key, before, after, seconds)?];
    match key {
        "pgpgin" => all.push(change("pgpgin (KiB)", before, after, seconds)?),
        "pgscan_kswapd" => {
            let sum = after + place.keyed("end", "pgscan_direct")?;
            all.push(format!("pgscan_kswapd + pgscan_direct {sum} since boot"));
        }
        "pgscan_anon" => {
            let sum = after + place.keyed("end", "pgscan_file")?;
            all.push(format!("pgscan_anon + pgscan_file {sum} since boot"));
        }
        _ if key.starts_with("allocstall") => {
            let text = place.scene.text("end", place.path()).unwrap_or_default();
            let stalls = text.lines().filter_map(|line| line.strip_prefix("allocstall_"));
            let sum: u64 =
                stalls.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
            all.push(format!("allocstall_* {sum} since boot"));
        }
        _ => {}
    }
    Ok(all)
}

/// A limit of a process: its name of several words, then the soft limit.
fn process_limit(place: &Place<'_>) -> Result<Vec<String>, String> {
    let names = [("Max address space ", "RLIMIT_AS"), ("Max data size ", "RLIMIT_DATA")];
    let line = place.there()?;
    let found = names.iter().find_map(|(words, name)| Some((line.strip_prefix(words)?, name)));
    let (rest, name) = found.ok_or("no limit of memory")?;
    let word = rest.split_whitespace().next().ok_or("no soft limit")?;
    Ok(vec![format!("{name} {}", shown(word, Unit::Size)?)])
}

/// Such as `Shmem:  8856 kB`, or `Threads: 4`, which is no size.
fn sizes(place: &Place<'_>) -> Result<Vec<String>, String> {
    if place.key()? == "Threads" {
        return Ok(vec![format!("Threads {}", place.word(1)?)]);
    }
    match place.word(2)? {
        "kB" => Ok(vec![format!("{} {}", place.key()?, kib(place.word(1)?)?)]),
        unit => Err(format!("{unit} is no unit of {}", place.path())),
    }
}

/// An assignment in a configuration file, such as `vm.swappiness = 10`.
fn assignment(place: &Place<'_>) -> Result<Vec<String>, String> {
    let (key, value) = place.there()?.split_once('=').ok_or("no assignment")?;
    Ok(vec![format!("{} {}", key.trim(), value.trim())])
}

/// A udev rule, such as `KERNEL=="zram0", ATTR{disksize}="1G"`.
fn rule(place: &Place<'_>) -> Result<Vec<String>, String> {
    let (_, device) = place.there()?.split_once("KERNEL==\"zram").ok_or("no zram device")?;
    let number = device.split('"').next().unwrap_or_default();
    let sets = place.there()?.split("ATTR{").skip(1).filter_map(|part| {
        let (name, value) = part.split_once("}=\"")?;
        Some((name, value.split('"').next()?))
    });
    let both =
        sets.flat_map(|(name, value)| [value.to_owned(), format!("zram.{name}[{number}] {value}")]);
    Ok(both.collect())
}

/// A line of tmpfiles.d, such as `w /sys/kernel/mm/ksm/run - - - - 1`.
fn written(place: &Place<'_>) -> Result<Vec<String>, String> {
    let (path, value) = (place.word(1)?.trim_start_matches('/'), place.word(6)?);
    let knob = pagewise_model::knob::KNOBS.iter().find(|knob| knob.path == path);
    Ok(vec![format!("{} {value}", knob.ok_or("no setting of the table")?.name)])
}

/// A line of zram-generator's file, named by its key or by the setting that results from it.
fn generator(place: &Place<'_>) -> Result<Vec<String>, String> {
    let line = place.evidence.line.unwrap_or_default() as usize;
    let text = place.scene.text("end", place.path()).unwrap_or_default();
    let sections = text.lines().take(line).filter(|line| line.starts_with('['));
    let number = sections.last().unwrap_or_default().trim_matches(['[', ']']);
    let number = number.trim_start_matches("zram");
    if place.there()?.starts_with('[') {
        return Ok(vec!["set up".to_owned(), format!("zram{number} set up")]);
    }
    let mut all = assignment(place)?;
    let names =
        [("zram-size ", "zram.disksize"), ("compression-algorithm ", "zram.comp_algorithm")];
    for (key, knob) in names {
        let value = all[0].strip_prefix(key).map(str::to_owned);
        all.extend(value.map(|value| format!("{knob}[{number}] {value}")));
    }
    Ok(all)
}

/// A line of PSI, such as `some avg10=0.00 avg60=…`.
fn averages(place: &Place<'_>) -> Result<Vec<String>, String> {
    let key = place.key()?;
    let pairs = place.there()?.split_whitespace().filter_map(|word| word.split_once('='));
    Ok(pairs.map(|(name, value)| format!("{key} {name} {value} %")).collect())
}

/// The zone whose free pages this line counts, and its low watermark.
fn zones(place: &Place<'_>) -> Result<Vec<String>, String> {
    let line = place.evidence.line.unwrap_or_default() as usize;
    let text = place.scene.text("end", place.path()).unwrap_or_default();
    let is_head = |line: &&str| line.starts_with("Node");
    let head = text.lines().take(line).filter(is_head).last().ok_or("no zone above")?;
    let zone: Vec<&str> = text.lines().skip(line).take_while(|line| !is_head(line)).collect();
    let mark = |name: &str| -> Result<u64, String> {
        let pages = zone.iter().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then(|| words.next()).flatten()
        });
        number(pages.ok_or("no watermark")?)
    };
    let (free, low) =
        (number(place.there()?.trim().trim_start_matches("pages free"))?, mark("low")?);
    let state = match free {
        _ if free <= mark("min")? => "direct reclaim",
        _ if free < low => "background reclaim",
        _ if free <= mark("high")? => "balanced",
        _ => "idle",
    };
    let pages = |pages: u64| Bytes::new(pages * 4096);
    let side = if free >= low { "above" } else { "below" };
    let (node, name) = head.trim_start_matches("Node ").split_once(", zone").ok_or("no zone")?;
    let (name, gap) = (name.trim(), pages(free.abs_diff(low)));
    Ok(vec![format!("node {node} {name}: free {}, {gap} {side} low: {state}", pages(free))])
}

fn blocks(place: &Place<'_>) -> Result<Vec<String>, String> {
    let counts: Vec<&str> = place.there()?.split_whitespace().skip(4).collect();
    Ok(vec![format!("free blocks by order: {}", counts.join(" "))])
}

/// Lines of a cgroup's files; v1 prefixes values that include descendants with `total_`.
fn group_counters(place: &Place<'_>, seconds: Option<f64>) -> Result<Vec<String>, String> {
    let value = place.word(1)?;
    let message = match place.key()? {
        "max" => {
            let grown =
                change("reached max", place.keyed("start", "max")?, number(value)?, seconds)?;
            return with_subject(place, &format!("reached max {value}"))
                .map(|all| all.into_iter().chain([grown]).collect());
        }
        // printed as "max" only if neither the cgroup nor one of its ancestors has a limit
        "hierarchical_memsw_limit" if number(value)? > u64::MAX / 4 => "swap.max max".to_owned(),
        "oom_kill" => format!("oom_kill {value}"),
        "anon" | "total_rss" => format!("anon {}", shown(value, Unit::Size)?),
        "shmem" | "total_shmem" => format!("shmem {}", shown(value, Unit::Size)?),
        "total_swap" => format!("swap.current {}", shown(value, Unit::Size)?),
        key => {
            let name = match key.trim_start_matches("total_") {
                "workingset_refault_file" | "workingset_refault_anon" => "refaults",
                "pgmajfault" => "pgmajfault",
                "oom_kill" => "oom_kill",
                _ => return Err(format!("{key} is unknown to this test")),
            };
            return Ok(vec![change(name, place.keyed("start", key)?, number(value)?, seconds)?]);
        }
    };
    with_subject(place, &message)
}

/// The swap limit in v1: the limit of memory and swap less that of memory.
fn swap_of_version_1(place: &Place<'_>) -> Result<Vec<String>, String> {
    let both = number(place.word(0)?)?;
    let memory = place.path().replace("memory.memsw.", "memory.");
    let memory = number(place.scene.text("end", &memory).ok_or("no limit of memory")?)?;
    let unlimited = both > u64::MAX / 4;
    let left = Bytes::new(both.saturating_sub(memory)).to_string();
    with_subject(place, &format!("swap.max {}", if unlimited { "max" } else { &left }))
}

fn bits(place: &Place<'_>) -> Result<Vec<String>, String> {
    let digits = place.word(0)?.trim_start_matches("0x");
    let bits = u32::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
    Ok(vec![bits.to_string()])
}

fn choice(place: &Place<'_>) -> Result<Vec<String>, String> {
    let inner = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    Ok(place.there()?.split_whitespace().filter_map(inner).collect())
}

/// An OOM kill: the record that ends a report, and the cgroup that the records before it name.
fn killed(place: &Place<'_>) -> Result<Vec<String>, String> {
    let text = place.there()?;
    let (head, said) = text.split_once(';').ok_or("no record")?;
    let micros = number(head.split(',').nth(2).ok_or("no time")?)?;
    let who = match said.split_once("Killed process ") {
        Some((_, rest)) => {
            format!("killed process {}", rest.split(" total-vm:").next().unwrap_or_default())
        }
        None => "no killable process".to_owned(),
    };
    let log = place.scene.text("end", "/dev/kmsg").unwrap_or_default();
    let before = log.split(text).next().unwrap_or_default();
    let last = |begin: &str, end: &str| {
        let (_, rest) = before.rsplit_once(begin)?;
        Some(rest.split(end).next().unwrap_or_default().to_owned())
    };
    let by_group = said.starts_with("Memory cgroup") || said.starts_with("Out of memory and");
    let group = last("Memory cgroup stats for ", ":\n").filter(|_| by_group);
    let limit = last(", limit ", "kB, failcnt").filter(|_| group.is_some());
    // the line with the limit of memory precedes that of swap
    let memory = before.rsplit_once("memory: usage").map(|(_, rest)| rest).unwrap_or_default();
    let limit =
        limit.and(memory.split_once(", limit ")).and_then(|(_, rest)| rest.split_once("kB"));
    let limit = limit.map(|(size, _)| kib(size)).transpose()?;
    let group = group.map_or_else(String::new, |group| format!(" in {group}"));
    let limit = limit.map_or_else(String::new, |limit| format!(", limit {limit}"));
    Ok(vec![format!("{who}{group}{limit}, {:.0} s after boot", micros as f64 / 1e6)])
}

/// What udev has detected, or the swap signature at the end of the first page.
fn signature(place: &Place<'_>) -> Result<Vec<String>, String> {
    let text = place.there()?;
    let is_swap = text == "E:ID_FS_TYPE=swap" || text.get(4086..4096) == Some("SWAPSPACE2");
    let used_as = if is_swap { "swap area, not switched on" } else { "nothing" };
    Ok(vec![format!("used as {used_as}")])
}
