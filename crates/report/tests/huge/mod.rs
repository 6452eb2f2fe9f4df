// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages that were read, collapsed and restrained: a made-up Redis.

#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::allow_attributes, reason = "each test program uses a part of this")]

use pagewise_model::{
    Blocks, ByAccess, Bytes, Collapse, CollapsedProcess, Coverage, Failed, Interval, LeftAlone,
    MappingCoverage, MappingKind, Name, PageWalks, Percent, ProcessCoverage, Reading, Restrain,
    Snapshot, Source,
};
use pagewise_report::{Collapsed, HugeSeen, Restrained};

use super::host;

const MIB: u64 = 1 << 20;

fn mib(mebibytes: u64) -> Bytes {
    Bytes::new(mebibytes * MIB)
}

pub(crate) fn looked() -> ProcessCoverage {
    let coverage = Coverage {
        anon: mib(364),
        anon_huge: mib(18),
        file: mib(7),
        swapped: mib(3),
        zero: mib(1),
        ..Coverage::default()
    };
    let blocks = Blocks {
        huge: 9,
        full: 160,
        half: 8,
        eighth: 2,
        sparse: 3,
        growth_of_half: mib(2),
        growth_of_all: mib(11),
    };
    let source = Source::file("/proc/4121/smaps");
    let heap = MappingCoverage {
        start: 0x7f9c_8000_0000,
        size: mib(512),
        name: Name::from("[anon:jemalloc]"),
        kind: MappingKind::Anonymous,
        eligible: Reading::found(false, source.clone()),
        advised: Reading::absent("the program asked for nothing", source),
        coverage,
        blocks,
    };
    ProcessCoverage {
        pid: 4121,
        name: Name::from("redis-server"),
        block: mib(2),
        coverage,
        blocks,
        mappings: 96,
        largest: vec![heap],
        seconds: 0.0021,
        ..ProcessCoverage::default()
    }
}

/// Multiplexed counters, on a CPU that does not report the duration of page walks.
pub(crate) fn walks() -> PageWalks {
    let found = |count: u64| Reading::found(count, Source::file("perf event"));
    PageWalks {
        seconds: 2.0,
        counted: 5,
        left_out: 0,
        user_only: false,
        counting: Some(Percent::new(83.4)),
        cycles: found(6_400_000_000),
        instructions: found(3_200_000_000),
        load_misses: found(45_440_000),
        store_misses: found(960_000),
        fetch_misses: Reading::absent("this machine shows no such counter", Source::none()),
        walking: found(723_200_000),
    }
}

pub(crate) fn seen<'a>(
    interval: &'a Interval,
    looked: &'a [ProcessCoverage],
    walks: &'a PageWalks,
) -> HugeSeen<'a> {
    let not_looked = &[];
    HugeSeen {
        interval,
        pids: None,
        cgroup: None,
        looked,
        not_looked,
        page_walks: Some(walks),
        cost: host::cost(),
    }
}

fn redis() -> Vec<CollapsedProcess> {
    vec![CollapsedProcess { pid: 4121, name: Name::from("redis-server"), left_out: None }]
}

pub(crate) fn collapse() -> Collapse {
    Collapse {
        processes: redis(),
        memory_before: mib(363),
        memory_limit: mib(399),
        memory_after: mib(364),
        memory_peak: mib(365),
        growth: Bytes::new(1_527_808),
        huge_before: mib(18),
        anon_before: mib(362),
        huge_after: mib(354),
        anon_after: mib(364),
        collapsed: 168,
        left_alone: LeftAlone { shared: 4, sparse: 5, not_reached: 12, ..LeftAlone::default() },
        failed: Failed { no_memory: 0, busy: 2 },
        cpu_seconds: 0.19,
        wall_seconds: 0.5,
        passes: 1,
        by_access: Some(ByAccess { blocks: 185, used: 61, unknown: None }),
        stopped: Some("tasks wait for memory 14 % of the time (at most 10 %)".to_owned()),
        ..Collapse::default()
    }
}

pub(crate) fn collapsed<'a>(snapshot: &'a Snapshot, collapse: &'a Collapse) -> Collapsed<'a> {
    Collapsed { snapshot, collapse, cost: host::cost() }
}

pub(crate) fn restrain() -> Restrain {
    Restrain {
        processes: redis(),
        huge_pages: 177,
        bloated: 16,
        zeros: mib(30),
        zeros_in_bloated: mib(28),
        split: Some(16),
        memory_before: Some(mib(364)),
        memory_after: Some(mib(336)),
        partial: None,
    }
}

pub(crate) fn restrained<'a>(snapshot: &'a Snapshot, restrain: &'a Restrain) -> Restrained<'a> {
    Restrained { snapshot, restrain, cost: host::cost() }
}
