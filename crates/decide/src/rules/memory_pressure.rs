// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: tasks stall on memory, or the machine reads pages again that it has just dropped.
//!
//! PSI measures the time that tasks lose. On a kernel without PSI, only thrashing is reported: the
//! share of refaults in all reads from disk, and the share of page faults that had to wait for a
//! disk.
//!
//! If a cgroup's own limit explains the stalls, the rule `group-limit` reports them instead.

use pagewise_facts::groups;
use pagewise_facts::io_limit::{self as facts_io_limit, Throttled};
use pagewise_facts::reclaim::{self, Thrashing};
use pagewise_facts::swap_disk::{self, SwapDisk};
use pagewise_model::{Cgroup, Finding, Interval, Percent, Reading, Severity, Snapshot};

use crate::Rule;
use crate::grade::pressure::{self, GradedPressure};
use crate::io_limit;
use crate::oom;
use crate::proof::EvidenceList;
use crate::text::{self, quoted, rate};
use crate::verdict::{self, Cause};

pub(crate) const ID: &str = "memory-pressure";

pub(super) const RULE: Rule = Rule {
    id: ID,
    doc: "Tasks lose time waiting for memory or for a slow disk with swap, or most data that is read from disk had \
          been dropped from memory a moment before (refaults).",
    diagnose,
};

/// Maximum number of cgroups listed as evidence.
const NAMED: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let signals = verdict::signals(interval);
    let waits = signals.iter().any(|signal| matches!(signal.cause, Cause::Pressure { .. }));
    let graded = pressure::grade(interval).filter(|_| waits);
    let (level, ended) =
        (graded.map(|graded| graded.severity), graded.and_then(|graded| graded.ended));
    let thrashes = signals.iter().any(|signal| matches!(signal.cause, Cause::Thrashing(_)));
    let thrashing = reclaim::measure_thrashing(interval);
    let most = thrashing.as_ref().filter(|_| thrashes);
    let waits_for_disk = signals.iter().any(|signal| matches!(signal.cause, Cause::SwapDisk(_)));
    let disk = swap_disk::find_slow_disk(interval).filter(|_| ended.is_none());
    let disk = disk.as_ref().filter(|_| level.is_some() || waits_for_disk);
    let severity = level.or(most.map(|_| Severity::Warning)).or(disk.map(|_| Severity::Warning));
    let finding = severity.map(|severity| Finding {
        id: RULE.id,
        about: None,
        severity,
        title: match ended {
            Some(ended) => ended_title(&interval.end, ended),
            None => title(&interval.end, level, most, disk),
        },
        what: describe(interval, graded.as_ref(), thrashing.as_ref(), disk),
        why: if disk.is_some() { format!("{WHY} {WHY_DISK}") } else { WHY.to_owned() },
        evidence: proof(interval, thrashing.as_ref(), disk).into_evidence(),
        next: next(interval, disk),
    });
    finding.into_iter().collect()
}

const WHY: &str = "When no memory is free, a task that needs a page has to wait until the kernel has dropped \
    or swapped out another page; PSI measures this time. If the pages that programs use do not all fit into \
    memory, each page that is read evicts another page that is needed again soon: this is thrashing.";

const WHY_DISK: &str = "A page in swap on a disk is back when the disk has answered, behind the requests of everybody who \
    uses it; swap in compressed RAM (zram) needs no disk.";

fn title(
    host: &Snapshot,
    level: Option<Severity>,
    thrashes: Option<&Thrashing>,
    disk: Option<&SwapDisk<'_>>,
) -> String {
    let minute = host.psi.memory.some.avg60.get();
    let everybody = host.psi.memory.full.avg60.get().filter(|full| full.get() >= 1.0);
    let everybody = everybody.map_or_else(String::new, |full| {
        format!(" (all tasks at once: {})", full.format_share_of_time())
    });
    let everybody = match disk {
        Some(SwapDisk { name, latency_ms: Some(latency), .. }) => {
            format!(": swap on {name} takes {latency:.0} ms")
        }
        Some(SwapDisk { name, latency_ms: None, .. }) => format!(": swap on {name} hangs"),
        None => everybody,
    };
    match (level, minute, thrashes.and_then(|thrashing| thrashing.of_read)) {
        (Some(_), Some(some), _) => {
            format!(
                "tasks waited for memory {} of the last minute{everybody}",
                some.format_share_of_time()
            )
        }
        (None, _, Some(share)) => {
            format!(
                "thrashing: {share:.0} % of the data read from disk had just been dropped from memory"
            )
        }
        _ => match disk {
            Some(disk) => format!("tasks wait for {}", text::swap_disk(disk)),
            None => "tasks wait for memory".to_owned(),
        },
    }
}

fn ended_title(host: &Snapshot, ended: f64) -> String {
    let minute = host.psi.memory.some.avg60.get();
    let minute = minute.map_or_else(String::new, |some| {
        format!(" ({} of the last minute)", some.format_share_of_time())
    });
    format!("tasks waited for memory until about {} ago{minute}", oom::format_age(ended))
}

fn describe(
    interval: &Interval,
    graded: Option<&GradedPressure>,
    thrashing: Option<&Thrashing>,
    disk: Option<&SwapDisk<'_>>,
) -> String {
    let disk = disk.map(|disk| describe_disk(interval, disk));
    let waited = graded.and_then(|_| describe_waits(interval));
    let reread = thrashing.map(|thrashing| describe_rereading(&interval.end, thrashing));
    let over = graded.and_then(|graded| graded.ended).zip(interval.seconds());
    let over = over.map(|(_, seconds)| {
        let total = interval.change(|host| host.psi.memory.some.total_us.clone());
        let still = match total {
            Some(_) => "the total time in which tasks waited has not grown",
            None => "the kernel has not reclaimed any page",
        };
        format!("This has ended: {still} in the last {seconds:.1} s.")
    });
    let lines: Vec<String> = [over, waited, disk, reread].into_iter().flatten().collect();
    lines.join(" ")
}

fn describe_disk(interval: &Interval, disk: &SwapDisk<'_>) -> String {
    let lowest = disk.lowest.map_or_else(String::new, |lowest| format!(" (on {lowest})"));
    let answered = match disk.latency_ms {
        Some(latency) => format!(
            "answered {:.0} requests per second, each {latency:.0} ms after it was submitted, while {:.0} \
             waited on average",
            disk.per_second, disk.queue
        ),
        None => format!("answered no request in that time, while {:.0} waited", disk.queue),
    };
    let page = interval.end.page_size().get() as f64;
    let seconds = interval.seconds().unwrap_or_default();
    format!(
        "Over {seconds:.1} s the disk {}{lowest}, on which swap is, {answered}; {} were read back from swap on \
         disks, and {} written to it.",
        disk.name,
        rate(disk.pages_in * page),
        rate(disk.pages_out * page)
    )
}

fn describe_waits(interval: &Interval) -> Option<String> {
    let memory = &interval.end.psi.memory;
    let shown = |name: &str, ten: Option<f64>, sixty: Option<f64>| match (ten, sixty) {
        (Some(ten), Some(sixty)) => {
            Some(format!("{name} {ten:.1} % of the last 10 s and {sixty:.1} % of the last 60 s"))
        }
        (Some(one), None) => Some(format!("{name} {one:.1} % of the last 10 s")),
        (None, Some(one)) => Some(format!("{name} {one:.1} % of the last 60 s")),
        (None, None) => None,
    };
    let average = |reading: &Reading<Percent>| reading.get().map(Percent::get);
    let lines =
        [("at least one task waited", &memory.some), ("all tasks waited at once", &memory.full)];
    let listed =
        lines.map(|(name, stall)| shown(name, average(&stall.avg10), average(&stall.avg60)));
    let lines: Vec<String> = listed.into_iter().flatten().collect();
    let worst = verdict::most_waiting(&interval.end).map_or_else(String::new, |(group, some)| {
        let (some, cause) = (some.format_share_of_time(), describe_cause_of_wait(interval, group));
        format!(
            "; the cgroup that waited the most is {} ({some} of the last minute){cause}",
            group.path
        )
    });
    let throttled =
        find_throttling_limit(interval).map_or_else(String::new, |it| io_limit::describe(&it));
    (!lines.is_empty())
        .then(|| format!("Memory pressure (PSI): {}{worst}.{throttled}", lines.join("; ")))
}

/// Returns the limit on reads that the group with the longest waits has reached; `None` if it has
/// not reached any.
fn find_throttling_limit(interval: &Interval) -> Option<Throttled<'_>> {
    let (group, _) = verdict::most_waiting(&interval.end)?;
    facts_io_limit::find_throttling_limit(interval, group)
}

/// Returns a clause about what the group waits for, from the pages that it read back over the
/// interval; empty if it read back none, or if this is not known.
fn describe_cause_of_wait(interval: &Interval, group: &Cgroup) -> String {
    let pair = groups::pairs(interval).into_iter().find(|pair| pair.now.path == group.path);
    let refaults = |pick: fn(&Cgroup) -> &Reading<u64>| {
        pair.and_then(|pair| pair.change(pick)).filter(|refaults| refaults.delta > 0)
    };
    let of_file = refaults(|group| &group.refault_file);
    let of_anon = refaults(|group| &group.refault_anon);
    let (what, refaults) = match (of_file, of_anon) {
        (Some(file), Some(anon)) if file.delta < anon.delta => (FROM_SWAP, anon),
        (Some(file), _) => (FROM_FILES, file),
        (None, Some(anon)) => (FROM_SWAP, anon),
        (None, None) => return String::new(),
    };
    let page = interval.end.page_size().get() as f64;
    format!(", which waits for {what} ({})", rate(refaults.per_second * page))
}

const FROM_SWAP: &str = "its own pages from swap";
const FROM_FILES: &str = "pages of files that had just been dropped from memory";

fn describe_rereading(host: &Snapshot, thrashing: &Thrashing) -> String {
    let share = |share: Option<f64>, of: &str| {
        share.map_or_else(String::new, |percent| format!("; {percent:.0} % of {of}"))
    };
    format!(
        "Programs read back {}/s from disk that the kernel had just dropped from memory (refaults){}{}.",
        thrashing.rereading.bytes_per_second(host),
        share(thrashing.of_read, "all data read from disk are refaults"),
        share(thrashing.of_faults, "all page faults waited for a disk")
    )
}

fn proof(
    interval: &Interval,
    thrashing: Option<&Thrashing>,
    disk: Option<&SwapDisk<'_>>,
) -> EvidenceList {
    let memory = &interval.end.psi.memory;
    let proof = EvidenceList::new()
        .named("some avg10", &memory.some.avg10)
        .named("some avg60", &memory.some.avg60)
        .named("full avg10", &memory.full.avg10)
        .named("full avg60", &memory.full.avg60);
    let proof = verdict::groups_under_pressure(&interval.end, NAMED).into_iter().fold(
        proof,
        |proof, group| {
            proof
                .named("some avg60", &group.pressure.some.avg60)
                .named("full avg60", &group.pressure.full.avg60)
        },
    );
    let proof = match disk {
        Some(disk) => prove_disk(interval, disk, proof),
        None => proof,
    };
    let proof = match find_throttling_limit(interval) {
        Some(throttled) => io_limit::add_evidence(&throttled, proof),
        None => proof,
    };
    let Some(Thrashing { rereading, .. }) = thrashing else { return proof };
    proof
        .change(rereading.refaults.name, &rereading.refaults.change)
        .change(rereading.dropped.name, &rereading.dropped.change)
        .change("pgmajfault", &rereading.major_faults)
        .changed("pgfault", interval.vmstat("pgfault").as_ref())
        .changed("pgpgin (KiB)", interval.vmstat("pgpgin").as_ref())
}

fn prove_disk(interval: &Interval, disk: &SwapDisk<'_>, proof: EvidenceList) -> EvidenceList {
    let io = &interval.end.psi.io.some;
    let proof = disk
        .changes
        .iter()
        .fold(proof, |proof, (name, change)| proof.change(name, change))
        .named("in flight", &disk.now.in_flight)
        .named("some avg10", &io.avg10)
        .named("some avg60", &io.avg60);
    let swapped = ["pswpin", "pswpout"];
    swapped.iter().fold(proof, |proof, name| proof.changed(name, interval.vmstat(name).as_ref()))
}

fn next(interval: &Interval, disk: Option<&SwapDisk<'_>>) -> Vec<String> {
    let of_limit =
        find_throttling_limit(interval).map(|throttled| io_limit::command_that_shows(&throttled));
    let whole = disk.map(|disk| quoted(&format!("/dev/{}", disk.name)).to_string());
    let of_disk = whole.map(|path| {
        format!("lsblk -o NAME,TYPE,ROTA,SIZE,MOUNTPOINTS {path}  # what else is on the disk")
    });
    let worst = events_command(&interval.end);
    let tasks = "ps -eo pid,rss,comm --sort=-rss | head".to_owned();
    let causes = of_limit.into_iter().chain(of_disk).chain(worst);
    causes.chain([tasks, "pagewise status".to_owned()]).collect()
}

/// Returns the command that shows the limit events of the group with the highest pressure.
fn events_command(host: &Snapshot) -> Option<String> {
    let worst = verdict::groups_under_pressure(host, NAMED).into_iter().next()?;
    let path = worst.pressure.some.avg60.source.path().replace("memory.pressure", "memory.events");
    Some(format!("cat {}", quoted(&path)))
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::TierKind;

    use super::*;
    use crate::testing::{
        assert_silent, calm, grow, line, mib, only, proof_of, set_disk, stall, tier, with, word,
    };

    /// A host with PSI above its thresholds, one group worse than the others, and a working set
    /// that is refaulted from disk.
    pub(crate) fn host_with_finding() -> Interval {
        let mut interval = with(|host| {
            stall(&mut host.psi.memory.some, 14.0, 11.2);
            stall(&mut host.psi.memory.full, 4.0, 3.0);
            let db = &mut host.cgroups.groups[2].pressure.some.avg60;
            *db = line(
                "/sys/fs/cgroup/system.slice/db.service/memory.pressure",
                1,
                Percent::new(43.0),
            );
        });
        grow(&mut interval, "workingset_refault_file", 78_112);
        grow(&mut interval, "pgsteal_file", 78_000);
        grow(&mut interval, "pgmajfault", 5_000);
        grow(&mut interval, "pgpgin", 400_000);
        grow(&mut interval, "pgfault", 50_000);
        interval
    }

    #[test]
    fn tells_the_time_lost_and_what_comes_back_and_who_waits() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.title,
            "tasks waited for memory 11 % of the last minute (all tasks at once: 3.0 %)"
        );
        assert_eq!(
            finding.what,
            "Memory pressure (PSI): at least one task waited 14.0 % of the last 10 s and 11.2 % of the last \
             60 s; all tasks waited at once 4.0 % of the last 10 s and 3.0 % of the last 60 s; the cgroup \
             that waited the most is /system.slice/db.service (43 % of the last minute). Programs read back 30.5 MiB/s from disk that \
             the kernel had just dropped from memory (refaults); 78 % of all data read from disk are \
             refaults; 10 % of all page faults waited for a disk."
        );
        assert!(proof_of(&finding).contains("db.service/memory.pressure:1 = some avg60 43.00 %"));
    }

    /// The host of [`host_with_finding`], with swap on a disk whose requests take 40 ms, with 60 requests in
    /// its queue.
    pub(crate) fn host_with_disk_finding() -> Interval {
        let mut interval = with(|host| {
            stall(&mut host.psi.memory.some, 14.0, 11.2);
            stall(&mut host.psi.memory.full, 4.0, 3.0);
            on_disk(host);
        });
        swapping(&mut interval, [300, 12_000, 200, 8_000]);
        interval
    }

    fn on_disk(host: &mut Snapshot) {
        let mut area = tier("/dev/sda2", TierKind::Partition, mib(0), -2);
        area.disk.name = word("/sys/class/block/sda2/uevent", "sda");
        area.disk.lowest = area.disk.name.clone();
        host.tiers.push(area);
    }

    fn swapping(interval: &mut Interval, requests: [u64; 4]) {
        set_disk(interval, "sda", requests, 60, 600_000);
        set_disk(interval, "zram0", [1, 0, 0, 0], 0, 0);
        grow(interval, "pswpin", 2_561);
        grow(interval, "pswpout", 5_120);
    }

    #[test]
    fn a_slow_swap_disk_is_named_with_its_latency_and_queue() {
        let finding = only(&RULE, &host_with_disk_finding());
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.title,
            "tasks waited for memory 11 % of the last minute: swap on sda takes 40 ms"
        );
        let sentence = "Over 10.0 s the disk sda, on which swap is, answered 50 requests per second, each 40 ms after \
                        it was submitted, while 60 waited on average; 1.0 MiB/s were read back from swap on disks, and \
                        2.0 MiB/s written to it.";
        assert!(finding.what.contains(sentence), "{}", finding.what);
        assert!(proof_of(&finding).contains("/proc/diskstats:3 = reads +300 in 10.0 s (30/s)"));
        assert!(finding.next[0].starts_with("lsblk "), "{:?}", finding.next);
        let mut fast = host_with_disk_finding();
        swapping(&mut fast, [30_000, 12_000, 200, 8_000]);
        assert!(only(&RULE, &fast).title.ends_with("(all tasks at once: 3.0 %)"));
    }

    /// A host whose tasks wait for I/O, while PSI of memory is calm.
    pub(crate) fn host_with_disk_io_finding() -> Interval {
        let mut interval = with(|host| {
            stall(&mut host.psi.memory.some, 0.5, 0.4);
            for (stall, ten, sixty) in
                [(&mut host.psi.io.some, 71.0, 55.0), (&mut host.psi.io.full, 9.0, 8.0)]
            {
                stall.avg10 = line("/proc/pressure/io", 1, Percent::new(ten));
                stall.avg60 = line("/proc/pressure/io", 1, Percent::new(sixty));
            }
            for zone in &mut host.zones {
                zone.free_pages = line("/proc/zoneinfo", 10, pagewise_model::Pages::new(15_000));
            }
            on_disk(host);
        });
        swapping(&mut interval, [300, 12_000, 200, 8_000]);
        interval
    }

    #[test]
    fn tasks_that_wait_for_swap_by_io_alone_are_told_if_memory_is_low() {
        let finding = only(&RULE, &host_with_disk_io_finding());
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.title, "tasks wait for the swap device sda, which answers in 40 ms");
        assert!(proof_of(&finding).contains("/proc/pressure/io:1 = some avg60 55.00 %"));
        let mut spared = host_with_disk_io_finding();
        spared.end.zones = calm().end.zones;
        assert_silent(&RULE, &spared);
        let mut quiet = host_with_disk_io_finding();
        quiet.end.psi.io = pagewise_model::Pressure::default();
        assert_silent(&RULE, &quiet);
    }

    /// A host whose pressure ended some seconds ago: the total stall time does not grow, and
    /// nothing is reclaimed.
    pub(crate) fn host_with_ended_finding() -> Interval {
        with(|host| {
            let memory = &mut host.psi.memory;
            stall(&mut memory.some, 23.5, 22.81);
            stall(&mut memory.full, 23.44, 22.79);
            memory.some.avg300 = line("/proc/pressure/memory", 1, Percent::new(6.73));
            memory.some.total_us =
                line("/proc/pressure/memory", 1, pagewise_model::Micros::new(21_877_367));
        })
    }

    #[test]
    fn what_has_ended_is_past_and_one_level_milder() {
        let interval = host_with_ended_finding();
        let finding = only(&RULE, &interval);
        assert_eq!(finding.severity, Severity::Warning);
        let title = "tasks waited for memory until about 10 seconds ago (23 % of the last minute)";
        assert_eq!(finding.title, title);
        let what = "This has ended: the total time in which tasks waited has not grown in the last 10.0 s.";
        assert!(finding.what.starts_with(what), "{}", finding.what);
        assert!(crate::ended_seconds_ago(&interval, &finding).is_some());
        let verdict = crate::judge(&interval);
        assert_eq!(verdict.level, pagewise_model::Level::Short);
        let words = "Memory was critically short until about 10 seconds ago: programs waited";
        assert!(verdict.line.starts_with(words), "{}", verdict.line);
        // the same host while tasks wait
        let mut present = host_with_ended_finding();
        present.end.psi.memory.some.total_us =
            line("/proc/pressure/memory", 1, pagewise_model::Micros::new(23_877_367));
        let finding = only(&RULE, &present);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(crate::ended_seconds_ago(&present, &finding), None);
    }

    #[test]
    fn nobody_getting_on_is_critical() {
        let stopped = with(|host| stall(&mut host.psi.memory.full, 25.0, 2.0));
        assert_eq!(only(&RULE, &stopped).severity, Severity::Critical);
    }

    #[test]
    fn without_psi_thrashing_is_told_alone() {
        let mut interval = host_with_finding();
        interval.end.psi = pagewise_model::Psi::default();
        let finding = only(&RULE, &interval);
        assert_eq!(
            finding.title,
            "thrashing: 78 % of the data read from disk had just been dropped from memory"
        );
    }

    #[test]
    fn reading_much_that_is_new_is_no_pressure() {
        let mut interval = calm();
        grow(&mut interval, "workingset_refault_file", 2_000);
        grow(&mut interval, "pgsteal_file", 2_000);
        grow(&mut interval, "pgmajfault", 5_000);
        grow(&mut interval, "pgpgin", 4_000_000);
        assert_silent(&RULE, &interval);
        assert_silent(&RULE, &calm());
    }
}
