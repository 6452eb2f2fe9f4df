// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every rule and every finding.

use std::collections::BTreeSet;

use pagewise_model::{Name, Snapshot};
use proptest::prelude::*;

use super::*;
use crate::rules::FIRING;
use crate::testing::{calm, erasers, still};

/// Checks the properties that every finding must have.
fn check(finding: &Finding) {
    let sentences = |text: &str| text.matches(". ").count() + 1;
    assert!(finding.title.chars().count() <= 80, "{finding:#?}");
    assert!(!finding.title.ends_with('.'), "{finding:#?}");
    assert!(sentences(&finding.what) <= 3 && finding.what.ends_with('.'), "{finding:#?}");
    assert!(matches!(sentences(&finding.why), 2..=3) && finding.why.ends_with('.'), "{finding:#?}");
    assert!(!finding.evidence.is_empty() && !finding.next.is_empty(), "{finding:#?}");
    let places = || finding.evidence.iter().map(|evidence| evidence.path.as_str());
    assert!(places().all(|path| path.starts_with('/')), "{finding:#?}");
    let writes = [
        "| sudo tee",
        "swapon -p",
        "swapoff",
        "modprobe",
        "sudo sysctl",
        "renice",
        "systemctl disable",
        "systemctl daemon-reload",
        "sudo ln -s",
        "sudo mv",
        "ipcrm",
    ];
    for command in &finding.next {
        let marked = command.contains("# writes");
        assert_eq!(
            marked,
            writes.iter().any(|word| command.contains(word)) || command.contains("set-property"),
            "{command}"
        );
    }
}

#[test]
fn nothing_known_means_nothing_said() {
    assert_eq!(diagnose(&Interval::default()), []);
    assert_eq!(diagnose(&still(Snapshot::default())), []);
}

#[test]
fn a_healthy_machine_has_no_findings() {
    assert_eq!(diagnose(&calm()), []);
}

#[test]
fn each_rule_fires_and_proves_it_in_few_words() {
    for (id, host_with_finding) in FIRING {
        let findings = diagnose(&host_with_finding());
        assert!(findings.iter().any(|finding| finding.id == *id), "{id}: {findings:#?}");
        findings.iter().for_each(check);
    }
}

#[test]
fn no_machine_spoilt_in_one_way_has_two_names_for_it() {
    for (id, host_with_finding) in FIRING {
        let mut interval = host_with_finding();
        if *id != "mglru-off" {
            // low swappiness is explained for the classic LRU, whose use is a finding of its own
            crate::testing::erase(&mut interval.end.mglru.enabled);
        }
        let ids: BTreeSet<&str> = diagnose(&interval).iter().map(|finding| finding.id).collect();
        let with_pressure = BTreeSet::from([*id, "memory-pressure"]);
        assert!(ids.is_subset(&with_pressure), "{id}: {ids:?}");
    }
}

#[test]
fn rows_are_unique_and_speak_in_a_sentence_and_have_a_machine() {
    let ids: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), RULES.len());
    let fired: BTreeSet<&str> = FIRING.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, fired);
    assert!(RULES.iter().all(|rule| rule.doc.ends_with('.') && rule.doc.len() > 20));
}

#[test]
fn the_most_severe_comes_first() {
    let mut interval = FIRING[0].1();
    interval.end.mglru.enabled = crate::testing::file("/sys/kernel/mm/lru_gen/enabled", 0);
    interval.end.zram[0].mm_stat.memory_limit = interval.end.zram[0].mm_stat.memory_used.clone();
    let ids: Vec<&str> = diagnose(&interval).iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["zram-full", "memory-pressure", "mglru-off"]);
}

/// Gives everything names as long and strange as a host can have.
fn renamed(mut interval: Interval) -> Interval {
    let strange =
        Name::from("/a very long 'name'. With $(sentences) in it/and \u{1b}[2Jescapes; rm -rf /");
    let host = &mut interval.end;
    host.tiers
        .iter_mut()
        .filter(|tier| !tier.path.as_str().contains("zram"))
        .for_each(|tier| tier.path = strange.clone());
    host.processes.list.iter_mut().for_each(|process| process.name = strange.clone());
    host.cgroups.groups.iter_mut().skip(1).for_each(|group| group.path = strange.clone());
    interval
}

#[test]
fn long_names_do_not_burst_a_title() {
    for (id, host_with_finding) in FIRING {
        for finding in diagnose(&renamed(host_with_finding())) {
            assert!(finding.title.chars().count() <= 80, "{id}: {}", finding.title);
            assert!(finding.next.iter().all(|command| !command.contains('\u{1b}')));
        }
    }
}

proptest! {
    /// With any Readings missing, no rule panics, and no finding is without evidence.
    #[test]
    fn rules_bear_the_loss_of_any_readings(
        case in 0..FIRING.len(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        at_both_ends in any::<bool>(),
    ) {
        let mut interval = FIRING[case].1();
        let erasers = erasers();
        for index in lost {
            let (_, erase) = index.get(&erasers);
            erase(&mut interval.end);
            if let Some(start) = interval.start.as_deref_mut().filter(|_| at_both_ends) {
                erase(start);
            }
        }
        diagnose(&interval).iter().for_each(check);
    }
}

#[test]
fn rules_bear_the_loss_of_each_reading() {
    for (id, host_with_finding) in FIRING {
        for (lost, erase) in erasers() {
            let mut interval = host_with_finding();
            erase(&mut interval.end);
            for finding in diagnose(&interval) {
                check(&finding);
                let erased = finding.evidence.iter().any(|e| e.value.contains("erased"));
                assert!(!erased, "{id} without {lost}: {finding:#?}");
            }
        }
    }
}

#[test]
fn one_snapshot_alone_has_no_rates() {
    for (_, host_with_finding) in FIRING {
        let alone = Interval::single(host_with_finding().end);
        let rates = ["swap-avoids-anon", "khugepaged-starves", "fragmentation"];
        assert!(diagnose(&alone).iter().all(|finding| !rates.contains(&finding.id)));
    }
}
