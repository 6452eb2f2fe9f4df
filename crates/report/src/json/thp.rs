// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents of `thp` and of `thp collapse`.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, Cgroup, Memory, Name, PageWalks, Process, ProcessCoverage, Reading};
use schemars::JsonSchema;
use serde::Serialize;

use super::head::{Head, Noun, print_document};
use crate::{Collapsed, HugeSeen, Restrained, huge};

/// Where huge pages are used.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Thp<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Settings, sizes with their counters, and khugepaged.
    thp: &'a pagewise_model::Thp,
    memory: &'a Memory,
    /// Counters of `/proc/vmstat` about transparent huge pages, since boot.
    vmstat: BTreeMap<&'a Name, &'a Reading<u64>>,
    /// The work of khugepaged between two readings; left out if the host was read only once, or if
    /// the thread was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    khugepaged: Option<Khugepaged>,
    /// Memory cgroups with anonymous memory.
    cgroups: Vec<Group<'a>>,
    /// Processes that have memory (no kernel threads).
    processes: Vec<&'a Process>,
    /// The named processes, mapping by mapping.
    looked: &'a [ProcessCoverage],
    /// The named processes whose mappings could not be read, and why.
    not_looked: &'a [String],
    /// The cost of page walks of the named processes, or of the machine if none was named; left out
    /// if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    page_walks: Option<&'a PageWalks>,
}

/// Times of khugepaged over an interval.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct Khugepaged {
    /// Time between the readings.
    seconds: f64,
    /// CPU time that it used.
    cpu_seconds: f64,
    /// Time that it waited for a CPU.
    waited_seconds: f64,
}

/// The anonymous memory of a cgroup.
#[derive(Debug, Serialize, JsonSchema)]
struct Group<'a> {
    path: &'a Name,
    anon: &'a Reading<Bytes>,
    anon_thp: &'a Reading<Bytes>,
    /// Huge pages allocated in a page fault since the cgroup was created.
    thp_fault_alloc: Reading<u64>,
    /// Huge pages allocated to collapse small pages into, by khugepaged or on request, since the
    /// cgroup was created.
    thp_collapse_alloc: Reading<u64>,
}

/// The result of a collapse.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Collapse<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    collapse: &'a pagewise_model::Collapse,
}

/// What `thp --json` prints, with a trailing newline.
pub fn thp(seen: &HugeSeen<'_>) -> String {
    let end = &seen.interval.end;
    let about_thp = |(name, _): &(&Name, &Reading<u64>)| name.as_str().starts_with("thp_");
    print_document(&Thp {
        head: Head::new(Noun::Thp, end, seen.cost),
        thp: &end.thp,
        memory: &end.memory,
        vmstat: end.vmstat.iter().filter(about_thp).collect(),
        khugepaged: khugepaged(seen),
        cgroups: huge::groups(seen).into_iter().map(Group::from_group).collect(),
        processes: huge::processes(seen),
        looked: seen.looked,
        not_looked: seen.not_looked,
        page_walks: seen.page_walks,
    })
}

fn khugepaged(seen: &HugeSeen<'_>) -> Option<Khugepaged> {
    let (cpu, waited) = huge::khugepaged(seen.interval)?;
    let seconds = seen.interval.seconds()?;
    Some(Khugepaged { seconds, cpu_seconds: cpu, waited_seconds: waited })
}

impl<'a> Group<'a> {
    fn from_group(group: &'a Cgroup) -> Self {
        let made = huge::count_made(group);
        Self {
            path: &group.path,
            anon: &group.anon,
            anon_thp: &group.anon_thp,
            thp_fault_alloc: made.at_fault,
            thp_collapse_alloc: made.by_collapse,
        }
    }
}

/// What `thp collapse --json` prints, with a trailing newline.
pub fn collapse(done: &Collapsed<'_>) -> String {
    let head = Head::new(Noun::Collapse, done.snapshot, done.cost);
    print_document(&Collapse { head, collapse: done.collapse })
}

/// Huge pages that are mostly empty.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Restrain<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    restrain: &'a pagewise_model::Restrain,
}

/// What `thp restrain --json` prints, with a trailing newline.
pub fn restrain(done: &Restrained<'_>) -> String {
    let head = Head::new(Noun::Restrain, done.snapshot, done.cost);
    print_document(&Restrain { head, restrain: done.restrain })
}
