// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process grows steadily and will fill memory, or the limit of its cgroup, within the hour.

use pagewise_model::{Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::facts::groups;
use crate::facts::growth::{self, Growth, Into};
use crate::proof::Proof;
use crate::text::{quoted, short, writes_and};

pub(super) const RULE: Rule = Rule {
    id: "memory-grows",
    doc: "A process grows steadily, between the two looks and since it began, and would fill memory or its cgroup's limit within the hour.",
    look,
};

/// Processes told each by itself.
const TOLD: usize = 3;

fn look(interval: &Interval) -> Vec<Finding> {
    let growing = growth::growing(interval);
    growing.iter().take(TOLD).map(|growth| finding(&interval.end, growth)).collect()
}

fn finding(host: &Snapshot, growth: &Growth<'_>) -> Finding {
    let name = short(growth.process.name.as_str());
    let rate = growth::rate(growth.per_second);
    let lasts = growth::told(growth.lasts_seconds);
    Finding {
        id: RULE.id,
        severity: if growth.level() >= Some(Level::Short) {
            Severity::Critical
        } else {
            Severity::Warning
        },
        title: format!("{name} (pid {}) grows by {rate}, full in {lasts}", growth.process.pid),
        what: what(growth),
        why: "A program that never frees memory fills any amount of it, so more memory or swap buys \
              time and does not help. Growth that goes on at the program's average rate is a leak, an \
              unbounded cache or queue, or a load that does not fit this machine."
            .to_owned(),
        evidence: proof(host, growth),
        next: next(host, growth),
    }
}

fn what(growth: &Growth<'_>) -> String {
    let into = match growth.into {
        Into::Host => "what the host has available and swap can take is used up".to_owned(),
        Into::Group(group, limit) => format!("{} reaches its limit of {limit}", group.path),
    };
    format!(
        "{} (pid {}) took {} more anonymous memory in {:.1} s and holds {} after {}; at that rate \
         {into} in about {}.",
        growth.process.name,
        growth.process.pid,
        growth.added,
        growth.seconds,
        growth.held,
        growth::told(growth.age_seconds.max(10.0)),
        growth::told(growth.lasts_seconds),
    )
}

fn proof(host: &Snapshot, growth: &Growth<'_>) -> Vec<pagewise_model::Evidence> {
    let process = growth.process;
    let proof = Proof::new().named("RssAnon", &process.rss_anon).named("VmSwap", &process.swap);
    match growth.into {
        Into::Host => proof
            .named("MemAvailable", &host.memory.available)
            .named("SwapFree", &host.memory.swap_free),
        Into::Group(group, _) => proof
            .named("max", &group.max)
            .named("current", &group.current)
            .named("anon", &group.anon),
    }
    .done()
}

fn next(host: &Snapshot, growth: &Growth<'_>) -> Vec<String> {
    let pid = growth.process.pid;
    let watch = format!("pagewise report --sort growth -n 5  # pid {pid} now");
    let group = growth.process.cgroup.value().and_then(|path| {
        host.cgroups.groups.iter().find(|group| group.path.as_str() == path.as_str())
    });
    let cap = group.and_then(groups::system_unit).map(|unit| {
        writes_and(
            format!("sudo systemctl set-property {} MemoryMax={}M", quoted(unit), cap_mib(growth)),
            "lasts; undo: MemoryMax=infinity; the unit is killed at that size instead of others",
        )
    });
    cap.into_iter().chain([watch]).collect()
}

/// Half as much again as it holds now.
fn cap_mib(growth: &Growth<'_>) -> u64 {
    (growth.held.get() + growth.held.get() / 2).div_ceil(1 << 20)
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, Limit, Millis, Reading, Source};

    use super::*;
    use crate::testing::{SECONDS, assert_silent, calm, file, gib, line, mib, only};

    /// A process that took so much in ten seconds, is so old and holds so much now.
    fn grown(added: Bytes, age_seconds: u64, held: Bytes) -> Interval {
        const UPTIME: u64 = 90_000_000;
        let mut interval = calm();
        let begun = Reading::found(
            Millis::new(UPTIME - age_seconds * 1000),
            Source::file("/proc/4121/stat"),
        );
        interval.end.taken.uptime = file("/proc/uptime", Millis::new(UPTIME));
        let start = interval.start.as_deref_mut().unwrap();
        start.taken.uptime = file("/proc/uptime", Millis::new(UPTIME - 10_000));
        for (host, held) in [(start, held.saturating_sub(added)), (&mut interval.end, held)] {
            let process = &mut host.processes.list[0];
            process.start_time = begun.clone();
            process.rss_anon = line("/proc/4121/status", 23, held);
            process.swap = line("/proc/4121/status", 27, Bytes::new(0));
            process.anon_huge = Reading::not_read();
        }
        interval
    }

    pub(crate) fn firing() -> Interval {
        grown(mib(500), 60, gib(3))
    }

    #[test]
    fn a_leak_is_told_with_its_rate_and_when_it_ends() {
        assert!((SECONDS - 10.0).abs() < 0.1);
        let finding = only(&RULE, &firing());
        assert_eq!(finding.severity, Severity::Warning);
        // 9 GiB available and 1.75 GiB of RAM by swapping
        assert_eq!(finding.title, "postgres (pid 4121) grows by 50.0 MiB/s, full in 4 minutes");
        assert!(
            finding
                .what
                .contains("took 500.0 MiB more anonymous memory in 10.0 s and holds 3.0 GiB")
        );
    }

    #[test]
    fn into_the_limit_of_its_group() {
        let mut interval = firing();
        let db = &mut interval.end.cgroups.groups[2];
        db.max = file("/sys/fs/cgroup/system.slice/db.service/memory.max", Limit::Bytes(gib(4)));
        db.current = file("/sys/fs/cgroup/system.slice/db.service/memory.current", gib(3));
        db.file = line("/sys/fs/cgroup/system.slice/db.service/memory.stat", 2, mib(10));
        db.swap_max =
            file("/sys/fs/cgroup/system.slice/db.service/memory.swap.max", Limit::Bytes(mib(0)));
        let own = db.path.clone();
        interval.end.processes.list[0].cgroup = file("/proc/4121/cgroup", own);
        let finding = only(&RULE, &interval);
        assert_eq!(finding.title, "postgres (pid 4121) grows by 50.0 MiB/s, full in 21 seconds");
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.what.contains("/system.slice/db.service reaches its limit of 4.0 GiB"));
        assert!(
            finding.next[0].starts_with("sudo systemctl set-property db.service MemoryMax=4608M")
        );
    }

    #[test]
    fn a_burst_of_an_old_process_and_a_program_that_starts_are_no_leaks() {
        // 3 GiB in ten hours: four times that average would last for hours
        assert_silent(&RULE, &grown(mib(500), 36_000, gib(3)));
        assert_silent(&RULE, &grown(mib(500), 10, mib(600)));
        assert_silent(&RULE, &calm());
    }
}
