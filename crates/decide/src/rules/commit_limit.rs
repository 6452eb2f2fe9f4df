// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: strict overcommit accounting is about to refuse allocations, or a fork of the largest
//! process.

use pagewise_model::{
    Bytes, Evidence, Finding, Interval, Level, Process, Reading, Severity, Snapshot,
};

use crate::Rule;
use crate::grade::commit::{self, NearLimit};
use crate::proof::EvidenceList;
use crate::text::{mark_writing_with_caution, process};

pub(super) const RULE: Rule = Rule {
    id: "commit-limit",
    doc: "vm.overcommit_memory is 2 and committed memory is near the commit limit, at which allocations fail \
          even if memory is free; or a process is so large that its fork would exceed the limit.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let near = commit::find_near_limit(host).map(|near| finding(host, &near));
    near.or_else(|| find_refused_fork(host)).into_iter().collect()
}

/// Returns the finding that a fork of the process with the most private writable memory would be
/// refused.
fn find_refused_fork(host: &Snapshot) -> Option<Finding> {
    let left = commit::remaining_commit(host)?;
    let known = host.processes.list.iter();
    let known = known.filter_map(|process| Some((process, process.data.get()?)));
    let refused: Vec<(&Process, Bytes)> = known.filter(|(_, data)| *data > left).collect();
    let (largest, data) = refused.iter().copied().max_by_key(|(_, data)| *data)?;
    let name = process(largest.name.as_str(), largest.pid);
    let others = match refused.len() - 1 {
        0 => String::new(),
        1 => "; 1 other process cannot fork either".to_owned(),
        more => format!("; {more} other processes cannot fork either"),
    };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("{name} cannot fork: {left} left to commit"),
        what: format!(
            "A fork of {name} commits its {data} of private writable memory again, but only {left} are left below the \
             commit limit (vm.overcommit_memory is 2){others}."
        ),
        why: WHY_FORK.to_owned(),
        evidence: proof(host).named("VmData", &largest.data).into_evidence(),
        next: next(),
    })
}

const WHY_FORK: &str = "With vm.overcommit_memory = 2, the kernel counts the private writable memory of a process \
    twice when it forks, although the copy shares all pages at first. A program that forks to save a snapshot, or \
    to start another program, then gets \"Cannot allocate memory\" even if memory is free. A program that never \
    forks, or uses vfork or posix_spawn, is not affected.";

fn finding(host: &Snapshot, near: &NearLimit) -> Finding {
    let available = host.memory.available.get();
    let available = available
        .map_or_else(String::new, |it| format!(", even though {it} of memory are available"));
    Finding {
        id: RULE.id,
        about: None,
        severity: if near.level >= Level::Short { Severity::Critical } else { Severity::Warning },
        title: format!("committed memory has reached {:.0} % of the commit limit", near.share.get().floor()),
        what: format!(
            "Programs have committed {} of memory, and the commit limit is {} (vm.overcommit_memory is 2). Beyond \
             this limit, allocations fail{available}.",
            near.committed, near.limit
        ),
        why: "With vm.overcommit_memory = 2, the kernel counts the memory that programs have requested, not \
              what they use, and refuses every request beyond the limit: malloc and fork fail. The commit \
              limit is the size of swap plus either a share of RAM (vm.overcommit_ratio) or a fixed amount \
              (vm.overcommit_kbytes)."
            .to_owned(),
        evidence: proof(host).into_evidence(),
        next: next(),
    }
}

fn proof(host: &Snapshot) -> EvidenceList {
    let mode: Vec<Evidence> =
        commit::strict_mode(host).and_then(Reading::evidence).into_iter().collect();
    EvidenceList::new()
        .named("Committed_AS", &host.memory.committed)
        .named("CommitLimit", &host.memory.commit_limit)
        .all(mode)
        .named("MemAvailable", &host.memory.available)
}

fn next() -> Vec<String> {
    vec![
        "grep -E 'Commit|MemAvailable|SwapTotal' /proc/meminfo".to_owned(),
        mark_writing_with_caution(
            "sudo sysctl vm.overcommit_memory=0",
            "until the next boot; undo with sudo sysctl vm.overcommit_memory=2",
        ),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Bytes;

    use super::*;
    use crate::testing::{assert_silent, calm, gib, knob, line, mib, only, with};

    fn strict(host: &mut Snapshot, committed: Bytes) {
        knob(host, "vm.overcommit_memory", "2");
        host.memory.commit_limit = line("/proc/meminfo", 32, gib(12));
        host.memory.committed = line("/proc/meminfo", 33, committed);
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| strict(host, mib(12_000)))
    }

    #[test]
    fn near_the_limit_with_memory_available() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "committed memory has reached 97 % of the commit limit");
        assert!(
            finding.what.contains("even though 9.0 GiB of memory are available"),
            "{}",
            finding.what
        );
    }

    /// A host on which 7 of 12 GiB are committed, and a database has 6 GiB of private writable
    /// memory.
    pub(crate) fn host_with_fork_finding() -> Interval {
        with(|host| {
            strict(host, gib(7));
            host.processes.list[0].data = line("/proc/4121/status", 20, gib(6));
        })
    }

    #[test]
    fn a_process_that_cannot_fork_is_named() {
        let finding = only(&RULE, &host_with_fork_finding());
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.title, "postgres (pid 4121) cannot fork: 5.0 GiB left to commit");
        assert_eq!(
            finding.what,
            "A fork of postgres (pid 4121) commits its 6.0 GiB of private writable memory again, but only 5.0 GiB \
             are left below the commit limit (vm.overcommit_memory is 2)."
        );
        let mut heuristic = host_with_fork_finding();
        knob(&mut heuristic.end, "vm.overcommit_memory", "0");
        assert_silent(&RULE, &heuristic);
        let mut smaller = host_with_fork_finding();
        smaller.end.processes.list[0].data = line("/proc/4121/status", 20, gib(4));
        assert_silent(&RULE, &smaller);
    }

    #[test]
    fn in_other_modes_the_limit_means_nothing() {
        let mut interval = host_with_finding();
        knob(&mut interval.end, "vm.overcommit_memory", "0");
        assert_silent(&RULE, &interval);
        assert_silent(&RULE, &with(|host| strict(host, gib(8))));
        assert_silent(&RULE, &calm());
    }
}
