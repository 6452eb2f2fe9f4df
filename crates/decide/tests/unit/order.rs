// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of findings.

use pagewise_model::{DeletedFile, Evidence};
use proptest::prelude::*;

use super::*;
use crate::diagnose;
use crate::rules::FIRING;
use crate::testing::{calm, file, gib, line, mib, stall, with};

/// The order does not depend on the order in which rules run, and it is that of severity and cost:
/// the findings of all hosts on which a rule fires, together on each of these hosts.
#[test]
fn the_order_follows_severity_and_cost_on_every_host_on_which_a_rule_fires() {
    let all: Vec<Finding> =
        FIRING.iter().flat_map(|(_, host_with_finding)| diagnose(&host_with_finding())).collect();
    let mut differ = 0;
    for (id, host_with_finding) in FIRING {
        let interval = host_with_finding();
        let (mut findings, mut reversed) = (all.clone(), all.clone());
        reversed.reverse();
        arrange(&interval, &mut findings);
        arrange(&interval, &mut reversed);
        let keys = |all: &[Finding]| {
            let keys = all.iter().map(|finding| Key::new(&interval, finding));
            keys.map(|key| (key.severity, key.cost.to_bits(), key.rule)).collect::<Vec<_>>()
        };
        assert_eq!(keys(&reversed), keys(&findings), "{id}");
        for pair in findings.windows(2) {
            let [a, b] = [&pair[0], &pair[1]].map(|finding| Key::new(&interval, finding));
            assert_ne!(a.compare(&b), Ordering::Greater, "{id}");
            let is_dearer = a.severity == b.severity && a.cost >= b.cost;
            assert!(a.severity > b.severity || is_dearer, "{id}");
            differ += u32::from(is_dearer && a.cost > b.cost);
        }
    }
    assert!(differ > 100, "{differ}");
}

fn any_key() -> impl Strategy<Value = Key> {
    let severity =
        prop_oneof![Just(Severity::Info), Just(Severity::Warning), Just(Severity::Critical)];
    (severity, prop_oneof![0.0f64..1.0, Just(0.0), Just(0.5), Just(1.0)], 0usize..4)
        .prop_map(|(severity, cost, rule)| Key { severity, cost, rule })
}

proptest! {
    /// The order is total: antisymmetric and transitive.
    #[test]
    fn the_order_is_total(a in any_key(), b in any_key(), c in any_key()) {
        prop_assert_eq!(a.compare(&b), b.compare(&a).reverse());
        if a.compare(&b) != Ordering::Greater && b.compare(&c) != Ordering::Greater {
            prop_assert_ne!(a.compare(&c), Ordering::Greater);
        }
        if a.compare(&b) == Ordering::Equal {
            prop_assert_eq!((a.severity, a.cost, a.rule), (b.severity, b.cost, b.rule));
        }
    }
}

fn ids(interval: &Interval) -> Vec<(&'static str, Severity)> {
    diagnose(interval).iter().map(|finding| (finding.id, finding.severity)).collect()
}

/// A host of 16 GiB on which a process keeps a deleted file of this size open.
fn deleted(size: Bytes) -> Interval {
    with(|host| {
        host.memory_files.deleted = vec![DeletedFile {
            kind: DeletedKind::Tmpfs,
            bytes: file("/proc/812/fd/3", size),
            pid: 812,
            process: "rsyslogd".into(),
            others: 0,
            mapped: false,
        }];
    })
}

#[test]
fn three_tenths_of_ram_of_no_use_are_a_warning() {
    let total = calm().end.memory.total.get().unwrap();
    let tenths = |tenths: u64| Bytes::new(total.get() / 10 * tenths + 4096);
    assert_eq!(ids(&deleted(tenths(2))), [("deleted-files", Severity::Info)]);
    assert_eq!(ids(&deleted(tenths(3))), [("deleted-files", Severity::Warning)]);
}

#[test]
fn locked_memory_is_of_no_use_only_if_no_process_locked_it() {
    let locked = |by_process: Bytes| {
        let interval = with(|host| {
            host.memory.unevictable = line("/proc/meminfo", 12, gib(6));
            host.memory.mlocked = line("/proc/meminfo", 13, by_process);
            for process in &mut host.processes.list {
                process.locked = line("/proc/1/status", 19, Bytes::new(0));
            }
            host.processes.list[0].locked = line("/proc/4121/status", 19, by_process);
        });
        ids(&interval)
    };
    assert_eq!(locked(gib(6)), [("memory-locked", Severity::Info)]);
    assert_eq!(locked(mib(10)), [("memory-locked", Severity::Warning)]);
}

#[test]
fn the_dearer_of_two_warnings_comes_first() {
    let both = |stalled: f64, dirty: f64| {
        let mut interval = crate::rules::FIRING
            .iter()
            .find(|(id, _)| *id == "memory-pressure")
            .map(|(_, host_with_finding)| host_with_finding())
            .unwrap();
        stall(&mut interval.end.psi.memory.some, stalled, stalled);
        interval.end.psi.io.some.avg60 = line("/proc/pressure/io", 1, Percent::new(dirty));
        let finding = |id| Finding {
            id,
            about: None,
            severity: Severity::Warning,
            title: id.to_owned(),
            what: String::new(),
            why: String::new(),
            evidence: Vec::<Evidence>::new(),
            next: Vec::new(),
        };
        let mut findings = vec![finding("memory-pressure"), finding("dirty-stall")];
        arrange(&interval, &mut findings);
        findings.iter().map(|finding| finding.id).collect::<Vec<_>>()
    };
    assert_eq!(both(12.0, 50.0), ["dirty-stall", "memory-pressure"]);
    assert_eq!(both(60.0, 50.0), ["memory-pressure", "dirty-stall"]);
    // equal costs: the order of the rules
    assert_eq!(both(50.0, 50.0), ["memory-pressure", "dirty-stall"]);
}
