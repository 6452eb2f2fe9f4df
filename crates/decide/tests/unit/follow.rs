// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What begins, worsens and ends, against a second implementation that keeps a list of what is open.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::{Name, Severity};
use proptest::prelude::*;

use super::*;
use crate::rules::FIRING;
use crate::testing::calm;

const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

fn known(id: u8, about: Option<u8>, severity: usize, newest_event: Option<u64>) -> KnownFinding {
    KnownFinding {
        id: format!("rule-{id}"),
        about: about.map(|about| format!("/group-{about}")),
        unit: None,
        severity: SEVERITIES[severity],
        title: format!("title {id}"),
        evidence: vec![format!("/proc/{id}")],
        newest_event,
    }
}

fn any_run() -> impl Strategy<Value = KnownFindings> {
    let about = proptest::option::of(0..2_u8);
    let one = (0..4_u8, about, 0..3_usize, proptest::option::of(0..3_u64));
    let one = one.prop_map(|(id, about, severity, event)| known(id, about, severity, event));
    let findings = proptest::collection::vec(one, 0..8);
    (proptest::option::of("[ab]"), findings)
        .prop_map(|(boot_id, findings)| KnownFindings { boot_id, findings })
}

/// Of these rules it is not known whether a missing finding is over.
fn find_reason_unless(unknown: &BTreeSet<u8>) -> impl Fn(&KnownFinding) -> Option<EndReason> + '_ {
    |missing| {
        let is_unknown = unknown.iter().any(|id| missing.id == format!("rule-{id}"));
        (!is_unknown).then_some(EndReason::Gone)
    }
}

type Key = (String, Option<String>);

fn key(finding: &KnownFinding) -> Key {
    (finding.id.clone(), finding.about.clone())
}

/// The second implementation: what is open, and the worst that was seen of it.
#[derive(Debug, Default)]
struct Oracle {
    boot: Option<String>,
    open: BTreeMap<Key, (Severity, Option<u64>)>,
}

impl Oracle {
    fn next(&mut self, now: &KnownFindings, unknown: &BTreeSet<u8>) -> BTreeSet<(Key, char)> {
        let mut said = BTreeSet::new();
        if self.boot != now.boot_id {
            self.open.values_mut().for_each(|(_, event)| *event = None);
            self.boot.clone_from(&now.boot_id);
        }
        let mut met = BTreeSet::new();
        for finding in &now.findings {
            if !met.insert(key(finding)) {
                continue;
            }
            let entry = self.open.get_mut(&key(finding));
            let Some((severity, event)) = entry else {
                said.insert((key(finding), 'b'));
                self.open.insert(key(finding), (finding.severity, finding.newest_event));
                continue;
            };
            if finding.severity > *severity || finding.newest_event > *event {
                said.insert((key(finding), 'w'));
            }
            *severity = finding.severity.max(*severity);
            *event = finding.newest_event.max(*event);
        }
        let is_kept = |key: &Key| unknown.iter().any(|id| key.0 == format!("rule-{id}"));
        let over: Vec<Key> =
            self.open.keys().filter(|key| !met.contains(*key) && !is_kept(key)).cloned().collect();
        for key in over {
            self.open.remove(&key);
            said.insert((key, 'e'));
        }
        said
    }
}

fn letter(change: FindingChange) -> char {
    match change {
        FindingChange::Begins => 'b',
        FindingChange::Worsens => 'w',
        FindingChange::Ends(_) => 'e',
    }
}

proptest! {
    /// Over any course of runs, each finding begins, worsens and ends exactly as in the naive list of
    /// what is open, and an equal run says nothing.
    #[test]
    fn any_course_is_as_in_a_list_of_what_is_open(
        runs in proptest::collection::vec((any_run(), proptest::collection::btree_set(0..4_u8, 0..3)), 1..8)
    ) {
        let (mut known, mut oracle) = (KnownFindings::default(), Oracle::default());
        for (now, unknown) in runs {
            let followed = compare(&known, now.clone(), &find_reason_unless(&unknown));
            let said: BTreeSet<(Key, char)> = followed
                .changes
                .iter()
                .map(|it| (key(&it.known), letter(it.change)))
                .collect();
            prop_assert_eq!(said.len(), followed.changes.len(), "said once");
            prop_assert_eq!(&said, &oracle.next(&now, &unknown));
            let open: BTreeSet<Key> = followed.known.findings.iter().map(key).collect();
            prop_assert_eq!(&open, &oracle.open.keys().cloned().collect());
            known = followed.known;
            let again = compare(&known, known.clone(), &find_reason_unless(&unknown));
            prop_assert_eq!(&again.changes, &vec![]);
            prop_assert_eq!(&again.known, &known);
        }
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let many = |from: u32| KnownFindings {
        boot_id: None,
        findings: (from..from + 300)
            .map(|at| KnownFinding { id: format!("rule-{at}"), ..known(0, None, 1, None) })
            .collect(),
    };
    let unknown = |_: &KnownFinding| None;
    let first = compare(&KnownFindings::default(), many(0), &unknown);
    assert_eq!((first.changes.len(), first.known.findings.len()), (MOST_FOLLOWED, MOST_FOLLOWED));
    let second = compare(&first.known, many(1000), &unknown);
    assert_eq!(second.known.findings.len(), MOST_FOLLOWED);
}

fn followed(before: &KnownFindings, interval: &Interval) -> Followed {
    let all = crate::diagnose(interval);
    follow(
        before,
        &Found { interval, all: &all, shown: &all, ignored: &[], is_unreadable: &|_| false },
    )
}

/// No two findings of one run are the same to the next run; if two were, one of them would never be
/// reported.
#[test]
fn findings_of_one_run_are_told_apart() {
    for (id, host_with_finding) in FIRING {
        let findings = crate::diagnose(&host_with_finding());
        let keys: BTreeSet<_> = findings.iter().map(|it| (it.id, it.about.clone())).collect();
        assert_eq!(keys.len(), findings.len(), "{id}: {findings:#?}");
    }
}

#[test]
fn each_rule_begins_once_and_ends_when_the_machine_is_calm() {
    for (id, host_with_finding) in FIRING {
        let spoilt = host_with_finding();
        let first = followed(&KnownFindings::default(), &spoilt);
        let begun = |it: &ChangedFinding| it.known.id == *id && it.finding.is_some();
        // pressure that has ended is not reported
        let is_over = first.changes.is_empty();
        assert!(is_over || first.changes.iter().any(begun), "{id}: {first:#?}");
        assert!(first.changes.iter().all(|it| it.change == FindingChange::Begins), "{id}");
        assert_eq!(followed(&first.known, &spoilt).changes, [], "{id}");
        let last = followed(&first.known, &calm());
        assert_eq!(last.changes.len(), first.changes.len(), "{id}");
        let ends = FindingChange::Ends(EndReason::Gone);
        assert!(last.changes.iter().all(|it| it.change == ends && it.finding.is_none()), "{id}");
    }
}

#[test]
fn an_end_is_not_claimed_without_the_proof() {
    let (_, host_with_finding) = FIRING.iter().find(|(id, _)| *id == "zram-full").unwrap();
    let known = followed(&KnownFindings::default(), &host_with_finding()).known;
    let calm = calm();
    let found = |ignored, is_unreadable| Found {
        interval: &calm,
        all: &[],
        shown: &[],
        ignored,
        is_unreadable,
    };
    let kept = follow(&known, &found(&[], &|_| true));
    assert_eq!((kept.changes.len(), kept.known.findings.len()), (0, known.findings.len()));
    let over = follow(&known, &found(&[], &|_| false));
    assert!(over.known.findings.is_empty() && !over.changes.is_empty());
}

#[test]
fn what_is_hidden_ends_with_its_reason() {
    let (_, host_with_finding) = FIRING.iter().find(|(id, _)| *id == "zram-full").unwrap();
    let interval = host_with_finding();
    let known = followed(&KnownFindings::default(), &interval).known;
    let all = crate::diagnose(&interval);
    let reasons = |ignored: &[String]| {
        let found = Found {
            interval: &interval,
            all: &all,
            shown: &[],
            ignored,
            is_unreadable: &|_| false,
        };
        let changes = follow(&known, &found).changes;
        changes.iter().map(|it| it.change).collect::<Vec<_>>()
    };
    let ignored: Vec<String> = all.iter().map(|it| it.id.to_owned()).collect();
    assert_eq!(
        reasons(&ignored),
        vec![FindingChange::Ends(EndReason::Ignored); known.findings.len()]
    );
    let lower = FindingChange::Ends(EndReason::Below(all[0].severity));
    assert_eq!(reasons(&[])[0], lower);
}

/// The list of a rule with a limit may be full: then one that is missing may be there all the same.
#[test]
fn one_that_a_full_list_may_hide_has_not_ended() {
    let (_, host_with_finding) = FIRING.iter().find(|(id, _)| *id == "group-limit").unwrap();
    let finding = crate::diagnose(&host_with_finding())
        .into_iter()
        .find(|it| it.id == "group-limit")
        .unwrap();
    let of_group = |at: usize| {
        let path = Name::from(&*format!("/system.slice/a{at}.service"));
        Finding { about: Some(pagewise_model::Subject::Cgroup(path)), ..finding.clone() }
    };
    let most = rules::most_findings("group-limit").unwrap();
    let six: Vec<Finding> = (0..=most).map(of_group).collect();
    let calm = calm();
    let run = |before: &KnownFindings, all: &[Finding]| {
        follow(
            before,
            &Found { interval: &calm, all, shown: all, ignored: &[], is_unreadable: &|_| false },
        )
    };
    let before = run(&KnownFindings::default(), &six[..1]).known;
    assert_eq!(before.findings[0].unit.as_deref(), Some("a0.service"));
    let full = run(&before, &six[1..]);
    assert!(full.changes.iter().all(|it| it.change == FindingChange::Begins));
    assert_eq!(full.known.findings.len(), most + 1);
    let fewer = run(&before, &six[2..]);
    assert_eq!(fewer.changes.iter().filter(|it| it.change != FindingChange::Begins).count(), 1);
}

/// A second kill in the same group is an event of its own, although the finding has not ended.
#[test]
fn another_kill_worsens_the_finding() {
    let host_with_finding = FIRING
        .iter()
        .filter(|(id, _)| *id == "oom-kills")
        .map(|(_, host_with_finding)| host_with_finding());
    let mut interval = host_with_finding
        .into_iter()
        .find(|it| it.end.kernel_log.kills.iter().any(|kill| kill.earlier_boot.is_none()))
        .unwrap();
    let first = followed(&KnownFindings::default(), &interval);
    assert_eq!(followed(&first.known, &interval).changes, []);
    let mut another = interval.end.kernel_log.kills.last().unwrap().clone();
    another.boot_seconds += 0.5;
    interval.end.kernel_log.kills.push(another);
    let second = followed(&first.known, &interval);
    let worse: Vec<_> = second.changes.iter().map(|it| (&*it.known.id, it.change)).collect();
    assert_eq!(worse, [("oom-kills", FindingChange::Worsens)]);
}

/// An end that is held is reported once, when it is not recent any more, and nothing begins again in
/// between.
#[test]
fn an_end_is_held_while_the_finding_was_present_recently() {
    let runs = [
        KnownFindings { boot_id: None, findings: vec![known(1, None, 1, None)] },
        KnownFindings::default(),
    ];
    let mut before = KnownFindings::default();
    let mut said = Vec::new();
    for (at, is_recent) in [(0, true), (1, true), (0, true), (1, true), (1, false), (1, false)] {
        let mut followed = compare(&before, runs[at].clone(), &|_| Some(EndReason::Gone));
        followed.hold_ends(&|_| is_recent);
        said.push(followed.changes.iter().map(|changed| changed.change).collect::<Vec<_>>());
        before = followed.known;
    }
    let (none, ends) = (Vec::new(), vec![FindingChange::Ends(EndReason::Gone)]);
    let begins = vec![FindingChange::Begins];
    assert_eq!(said, [begins, none.clone(), none.clone(), none.clone(), ends, none]);
}
