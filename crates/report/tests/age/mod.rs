// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Agings of a cgroup: a run whose second aging helped, and a record whose run was killed.

use pagewise_model::{AgedNode, Aging, AgingEnd, AgingRecord, AgingReport, Bytes, Refaults};

const GROUP: &str = "/system.slice/db.service";

fn refaults(file: u64, anon: u64, swap_mib: u64) -> Refaults {
    Refaults { seconds: 10.0, file, anon, swap: Some(Bytes::new(swap_mib << 20)) }
}

fn record(round: u32, after: Option<Refaults>) -> AgingRecord {
    let node = |group: &str, node, from: u64| AgedNode {
        group: group.to_owned(),
        node,
        from: from + u64::from(round),
        to: after.map(|_| from + u64::from(round) + 1),
    };
    AgingRecord {
        unix_seconds: 1_795_700_000 + u64::from(round) * 10,
        boot_id: Some("6e3b".to_owned()),
        group: GROUP.to_owned(),
        round,
        nodes: vec![node(GROUP, 0, 2), node("/system.slice/db.service/worker", 0, 5)],
        before: refaults(84_230, 70, 0),
        after,
    }
}

pub(crate) fn aging(ended: AgingEnd) -> Aging {
    let last = match ended {
        AgingEnd::Fell => Some(refaults(280, 56, 14)),
        AgingEnd::Stopped => None,
        _ => Some(refaults(82_000, 0, 0)),
    };
    let rounds = match ended {
        AgingEnd::FewRefaults => Vec::new(),
        _ => vec![record(1, Some(refaults(84_000, 10, 0))), record(2, last)],
    };
    let before = match ended {
        AgingEnd::FewRefaults => refaults(0, 0, 0),
        _ => refaults(84_230, 70, 0),
    };
    Aging { group: GROUP.to_owned(), before, rounds, ended }
}

pub(crate) fn report() -> AgingReport {
    AgingReport { aging: Some(aging(AgingEnd::Fell)), ..history() }
}

pub(crate) fn history() -> AgingReport {
    let history = vec![record(1, Some(refaults(84_000, 10, 0))), record(2, None)];
    AgingReport { aging: None, history, damaged_lines: vec![3] }
}
