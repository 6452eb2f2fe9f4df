// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a cgroup keeps much RAM by `memory.min` or `memory.low`, while everything else waits for
//! memory.
//!
//! Memory that is protected by `memory.min` is never reclaimed; memory protected by `memory.low` is
//! not reclaimed as long as other memory can be. All reclaim then concerns the other memory,
//! however little that is.

use pagewise_facts::protection::{self, Protected};
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Level, Percent, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{quoted, shorten_group};
use crate::verdict::{self, Cause};

pub(super) const RULE: Rule = Rule {
    id: "protection-starves",
    doc: "A cgroup keeps much of RAM by memory.min or memory.low, while the rest of the machine waits for memory.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    find(interval).into_iter().collect()
}

fn find(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let signals = verdict::signals(interval);
    let is_shortage =
        |cause: &Cause<'_>| matches!(cause, Cause::Pressure { .. } | Cause::Thrashing(_));
    let level = signals.iter().filter(|it| is_shortage(&it.cause)).map(|it| it.level).max()?;
    let total = host.memory.total.get()?;
    let protected = protection::largest(host)?;
    if does_most_waiting(host, protected.group) {
        return None;
    }
    let severity = if level == Level::Critical { Severity::Critical } else { Severity::Warning };
    Some(finding(host, &protected, total, severity))
}

/// Whether at least half of the waiting is done by the protected group itself: then its protection
/// is not the reason why others wait.
fn does_most_waiting(host: &Snapshot, group: &Cgroup) -> bool {
    let minute = |some: Option<Percent>| some.map(Percent::get);
    let own = minute(group.pressure.some.avg60.get());
    let all = minute(host.psi.memory.some.avg60.get());
    own.zip(all).is_some_and(|(own, all)| own * 2.0 >= all)
}

fn finding(
    host: &Snapshot,
    protected: &Protected<'_>,
    total: Bytes,
    severity: Severity,
) -> Finding {
    let Protected { group, kind, held } = protected;
    let (path, file) = (group.path.as_str(), kind.file);
    let set = kind.claim(group).unwrap_or_default();
    let folder = group.current.source.path().rsplit_once('/');
    let look = folder.map(|(folder, _)| {
        let folder = quoted(folder);
        format!("grep . {folder}/memory.min {folder}/memory.low {folder}/memory.current")
    });
    Finding {
        id: RULE.id,
        about: None,
        severity,
        title: format!("{file} keeps {held} for {} while others wait", shorten_group(path)),
        what: format!(
            "The kernel may not reclaim {} of RAM, because the cgroup {path} has {file} set to {set}. {} remain for \
             everything else{}.",
            held.part_of(total),
            total.saturating_sub(*held),
            name_waiting_group(host, group)
        ),
        why: "The kernel reclaims nothing of a cgroup up to its memory.min, nor up to its memory.low as long as it \
              can reclaim elsewhere. All other cgroups, and processes outside of any, have to share the rest of \
              RAM, and wait for memory if they need more. If the protected cgroup does not use all of its memory \
              regularly, a lower protection lets the others work; otherwise the machine is too small for both."
            .to_owned(),
        evidence: EvidenceList::new()
            .named(kind.file.trim_start_matches("memory."), (kind.reading)(group))
            .named("current", &group.current)
            .named("MemTotal", &host.memory.total)
            .named("some avg60", &host.psi.memory.some.avg60)
            .named("some avg60", &group.pressure.some.avg60)
            .into_evidence(),
        next: [format!("pagewise limits --cgroup {}", quoted(path))]
            .into_iter()
            .chain(look)
            .collect(),
    }
}

/// Names the cgroup that waited the most, if that is not the protected one.
fn name_waiting_group(host: &Snapshot, protected: &Cgroup) -> String {
    let most = verdict::most_waiting(host).filter(|(group, _)| group.path != protected.path);
    most.map_or_else(String::new, |(group, some)| {
        format!(
            "; of the other cgroups {} waited the most ({} of the last minute)",
            group.path,
            some.format_share_of_time()
        )
    })
}

#[cfg(test)]
#[path = "../../tests/rules/protection_starves.rs"]
pub(super) mod tests;
