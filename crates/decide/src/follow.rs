// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the findings of two runs of `doctor`: which findings began, became worse, or ended.
//! Pure: the caller reads what the last run saved, and saves what this module returns for the next
//! run.
//!
//! A finding ends only if it is certain that the problem is over. A finding that is missing is
//! therefore kept if a file that proved it could not be read this time, or if its rule reports a
//! limited number of findings and has reached that number. Each finding that begins ends exactly
//! once, however often it becomes worse, so that a monitoring system can keep a list of open
//! findings.

use pagewise_model::{
    ChangedFinding, EndReason, Finding, FindingChange, Interval, KnownFinding, KnownFindings,
    unit_of,
};

use crate::{ended_seconds_ago, oom, rules};

/// Maximum number of findings that are compared between runs; the most severe are preferred.
pub const MOST_FOLLOWED: usize = 256;
/// Maximum number of files that are saved as evidence for each finding.
const MOST_EVIDENCE: usize = 8;
/// Maximum length in bytes of a path that is saved.
const LONGEST_EVIDENCE: usize = 512;

/// The findings of this run, and what is needed to compare them.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Found<'a> {
    /// The readings from which the findings were derived.
    pub interval: &'a Interval,
    /// All findings, including those that the user does not want to see.
    pub all: &'a [Finding],
    /// The findings that the user wants to see: those of a sufficient severity whose rule is not
    /// ignored.
    pub shown: &'a [Finding],
    /// The ids of the rules that the user ignores.
    pub ignored: &'a [String],
    /// Returns whether the file with this path exists and could not be read in this run.
    pub is_unreadable: &'a dyn Fn(&str) -> bool,
}

/// The changes since the last run, and what to save for the next run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Followed {
    /// Findings that began or became worse, most severe first; then findings that ended.
    pub changes: Vec<ChangedFinding>,
    /// The findings to save, with which the next run compares its own.
    pub known: KnownFindings,
}

impl Followed {
    /// Keeps findings that have ended in the list, without reporting the end, if `is_recent` says
    /// that they were present a short time ago. Otherwise a caller that runs every few seconds
    /// would report the same problem again and again.
    pub fn hold_ends(&mut self, is_recent: &dyn Fn(&KnownFinding) -> bool) {
        let is_held = |changed: &ChangedFinding| {
            changed.change == FindingChange::Ends(EndReason::Gone) && is_recent(&changed.known)
        };
        let changes = std::mem::take(&mut self.changes).into_iter();
        let (held, reported): (Vec<_>, Vec<_>) = changes.partition(is_held);
        self.changes = reported;
        let room = MOST_FOLLOWED.saturating_sub(self.known.findings.len());
        self.known.findings.extend(held.into_iter().take(room).map(|changed| changed.known));
    }
}

/// Compares the findings of this run with those of the last one.
pub fn follow(before: &KnownFindings, found: &Found<'_>) -> Followed {
    let interval = found.interval;
    let is_present = |finding: &&Finding| ended_seconds_ago(interval, finding).is_none();
    let present: Vec<&Finding> = found.shown.iter().filter(is_present).collect();
    let now = KnownFindings {
        boot_id: interval.end.taken.boot_id.value().map(ToString::to_string),
        findings: present.iter().map(|finding| keep_for_next_run(interval, finding)).collect(),
    };
    let mut followed = compare(before, now, &|missing| find_reason(found, missing));
    for changed in &mut followed.changes {
        if !matches!(changed.change, FindingChange::Ends(_)) {
            let it = present.iter().find(|finding| is_same(&changed.known, finding));
            changed.finding = it.map(|finding| (*finding).clone());
        }
    }
    followed
}

/// Compares the findings of two runs. `find_reason` returns why a finding of the last run is
/// missing, or `None` if it is not known whether the finding has ended.
fn compare(
    before: &KnownFindings,
    now: KnownFindings,
    find_reason: &dyn Fn(&KnownFinding) -> Option<EndReason>,
) -> Followed {
    let is_same_boot = before.boot_id == now.boot_id;
    let (mut changes, mut known): (Vec<ChangedFinding>, Vec<KnownFinding>) = Default::default();
    for finding in now.findings {
        if known.len() == MOST_FOLLOWED || known.iter().any(|it| it.key() == finding.key()) {
            continue;
        }
        let earlier = before.findings.iter().find(|earlier| earlier.key() == finding.key());
        let (change, finding) = match earlier {
            None => (Some(FindingChange::Begins), finding),
            Some(earlier) => compare_continued(earlier, finding, is_same_boot),
        };
        let changed = |change| ChangedFinding { change, known: finding.clone(), finding: None };
        changes.extend(change.map(changed));
        known.push(finding);
    }
    for earlier in &before.findings {
        if known.iter().any(|it| it.key() == earlier.key()) {
            continue;
        }
        match find_reason(earlier) {
            None if known.len() < MOST_FOLLOWED => known.push(KnownFinding {
                newest_event: earlier.newest_event.filter(|_| is_same_boot),
                ..earlier.clone()
            }),
            reason => {
                let change = FindingChange::Ends(reason.unwrap_or(EndReason::Gone));
                changes.push(ChangedFinding { change, known: earlier.clone(), finding: None });
            }
        }
    }
    Followed { changes, known: KnownFindings { boot_id: now.boot_id, findings: known } }
}

/// Returns whether a finding that continues has become worse, and what to save of it.
fn compare_continued(
    earlier: &KnownFinding,
    mut now: KnownFinding,
    is_same_boot: bool,
) -> (Option<FindingChange>, KnownFinding) {
    let event_before = earlier.newest_event.filter(|_| is_same_boot);
    let worsens = now.severity > earlier.severity || now.newest_event > event_before;
    now.severity = now.severity.max(earlier.severity);
    now.newest_event = now.newest_event.max(event_before);
    (worsens.then_some(FindingChange::Worsens), now)
}

/// Returns why a finding of the last run is missing in this run; `None` if it is not known whether
/// the finding has ended.
fn find_reason(found: &Found<'_>, missing: &KnownFinding) -> Option<EndReason> {
    if let Some(finding) = found.all.iter().find(|finding| is_same(missing, finding)) {
        let is_over = ended_seconds_ago(found.interval, finding).is_some();
        return Some(if is_over {
            EndReason::Gone
        } else if found.ignored.contains(&missing.id) {
            EndReason::Ignored
        } else {
            EndReason::Below(finding.severity)
        });
    }
    let reported = found.all.iter().filter(|finding| finding.id == missing.id).count();
    let is_full = rules::most_findings(&missing.id).is_some_and(|most| reported >= most);
    let is_unknown = missing.evidence.iter().any(|path| (found.is_unreadable)(path));
    (!is_full && !is_unknown).then_some(EndReason::Gone)
}

fn is_same(known: &KnownFinding, finding: &Finding) -> bool {
    let about = finding.about.as_ref().map(ToString::to_string);
    known.key() == (finding.id, about.as_deref())
}

fn keep_for_next_run(interval: &Interval, finding: &Finding) -> KnownFinding {
    let mut evidence: Vec<String> = finding.evidence.iter().map(|it| it.path.clone()).collect();
    evidence.retain(|path| path.len() <= LONGEST_EVIDENCE);
    evidence.dedup();
    evidence.truncate(MOST_EVIDENCE);
    let group = finding.about.as_ref().and_then(pagewise_model::Subject::cgroup);
    KnownFinding {
        id: finding.id.to_owned(),
        about: finding.about.as_ref().map(ToString::to_string),
        unit: group.and_then(unit_of),
        severity: finding.severity,
        title: finding.title.clone(),
        evidence,
        newest_event: (finding.id == oom::RULE)
            .then(|| rules::newest_kill(interval, finding))
            .flatten(),
    }
}

#[cfg(test)]
#[path = "../tests/unit/follow.rs"]
mod tests;
