// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the order of findings, and the severity of findings about memory that nobody can use.
//!
//! Among findings of equal severity, the one whose problem costs more comes first. The cost is
//! memory as a share of RAM, or time as a share of the last minute; a kill counts as 1, because all
//! the work of a process is lost. A finding whose cost is not known comes after those with a cost,
//! in the order of [`RULES`].

use std::cmp::Ordering;

use pagewise_facts::growth::{self, Grower};
use pagewise_facts::{memory_files, tiers, unexplained};
use pagewise_model::{Bytes, DeletedKind, Finding, Interval, Percent, Severity, Stall};

use crate::rules::{BALLOON_TITLE, kernel_memory_in};
use crate::text::shorten_group;
use crate::{RULES, grade, verdict};

/// Raises the severity of findings about much memory that nobody can use, and sorts all findings.
pub(crate) fn arrange(interval: &Interval, findings: &mut Vec<Finding>) {
    for finding in findings.iter_mut() {
        if is_much_stranded(interval, finding) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    let mut keyed: Vec<(Key, Finding)> = std::mem::take(findings)
        .into_iter()
        .map(|finding| (Key::new(interval, &finding), finding))
        .collect();
    // a stable sort keeps the order in which a rule returns its own findings
    keyed.sort_by(|(a, _), (b, _)| a.compare(b));
    findings.extend(keyed.into_iter().map(|(_, finding)| finding));
}

/// The values by which a finding is sorted.
#[derive(Debug, Clone, Copy)]
struct Key {
    severity: Severity,
    cost: f64,
    rule: usize,
}

impl Key {
    fn new(interval: &Interval, finding: &Finding) -> Self {
        Self {
            severity: finding.severity,
            cost: cost(interval, finding).unwrap_or(0.0),
            rule: RULES.iter().position(|rule| rule.id == finding.id).unwrap_or(RULES.len()),
        }
    }

    /// Returns `Less` if this finding comes before the other.
    fn compare(&self, other: &Self) -> Ordering {
        let severity = other.severity.cmp(&self.severity);
        severity.then(other.cost.total_cmp(&self.cost)).then(self.rule.cmp(&other.rule))
    }
}

/// Returns the cost of the problem that a finding is about, as a share of RAM or of the last
/// minute; `None` if it is not known.
fn cost(interval: &Interval, finding: &Finding) -> Option<f64> {
    let host = &interval.end;
    let total = host.memory.total.get()?;
    let of_ram = |bytes: Bytes| bytes.percent_of(total).map(|percent| percent.get() / 100.0);
    let of_time = |percent: Percent| percent.get() / 100.0;
    let memory = &host.psi.memory.some;
    match finding.id {
        "oom-kills" => Some(1.0),
        "memory-low" => of_ram(total.saturating_sub(host.memory.available.get()?)),
        // the group's pressure is a part of the host's, but was read a moment later
        "memory-pressure" => {
            let groups = host.cgroups.groups.iter().map(|group| &group.pressure.some);
            let averages = groups.chain([memory]).filter_map(|stall| stall.avg60.get());
            averages.map(of_time).max_by(f64::total_cmp)
        }
        "group-limit" => group_cost(interval, finding),
        // it is why other groups wait, so it comes before the finding that they do
        "protection-starves" => Some(1.0),
        // tasks wait because memory cannot be swapped out
        "zram-full" => worst_average(memory).map(of_time),
        "dirty-stall" => host.psi.io.some.avg60.get().map(of_time),
        "memory-grows" => of_ram(memory_of_grower(interval, finding)?),
        // deleted files are reported by a rule of their own
        "cache-not-cache" => {
            let deleted: Bytes = memory_in_deleted_files(interval).unwrap_or_default();
            of_ram(host.memory.shmem.get()?.saturating_sub(deleted))
        }
        "memory-locked" => of_ram(host.memory.unevictable.get()?),
        "swap-full" => of_ram(tiers::stored_on_disk(host)),
        _ => of_ram(stranded_memory(interval, finding)?),
    }
}

fn worst_average(stall: &Stall) -> Option<Percent> {
    let averages = [stall.avg10.get(), stall.avg60.get()].into_iter().flatten();
    averages.max_by(|a, b| a.get().total_cmp(&b.get()))
}

/// Returns the share of time that the group of this finding waited; 1 if a process in it was
/// killed.
fn group_cost(interval: &Interval, finding: &Finding) -> Option<f64> {
    let troubled = verdict::find_troubled(interval);
    let of_finding =
        |path: &str| finding.title.contains(&shorten_group(path)) && finding.what.contains(path);
    let group = troubled.iter().find(|group| of_finding(group.limited.path.as_str()))?;
    if group.troubles.iter().any(|(_, trouble)| matches!(trouble, verdict::Trouble::Kills(_))) {
        return Some(1.0);
    }
    group.limited.pressure.some.avg60.get().map(|percent| percent.get() / 100.0)
}

/// Returns the memory of the process or group that this finding is about.
fn memory_of_grower(interval: &Interval, finding: &Finding) -> Option<Bytes> {
    let growing = growth::find_growing(interval).into_iter();
    let is_it = |name: &str| finding.what.contains(name);
    let found = growing.filter(|growth| match growth.grower {
        Grower::Process(process) => is_it(&format!("(pid {})", process.pid)),
        Grower::Group(group) => is_it(&format!("cgroup {} ", group.path)),
    });
    found.map(|growth| growth.held).max()
}

/// Returns how much memory that nobody can use this finding is about; `None` if it is about
/// something else.
///
/// Locked memory counts only if mlock is not the reason: databases and virtual machines lock
/// memory on purpose.
fn stranded_memory(interval: &Interval, finding: &Finding) -> Option<Bytes> {
    let host = &interval.end;
    match finding.id {
        "deleted-files" => memory_in_deleted_files(interval),
        "hugetlb-unused" => {
            let pools = host.hugetlb.iter().filter(|pool| pool.node.is_none());
            let unused = pools.filter_map(|pool| {
                let pages = pool.free.get()?.saturating_sub(pool.reserved.get()?);
                Some(Bytes::new(pages.saturating_mul(pool.page_bytes.get())))
            });
            unused.filter(|bytes| finding.title.starts_with(&bytes.to_string())).max()
        }
        "kernel-memory" => kernel_memory_in(interval, finding),
        "memory-locked" => {
            Some(host.memory.unevictable.get()?.saturating_sub(host.memory.mlocked.get()?))
        }
        "shared-memory-left" => {
            let left = host.memory_files.segments.iter().filter(|it| it.attached.get() == Some(0));
            Some(left.filter_map(pagewise_model::SharedSegment::held_bytes).sum())
        }
        "memory-unexplained" if finding.title.starts_with(BALLOON_TITLE) => {
            host.balloon()?.size_in_total()
        }
        "memory-unexplained" => unexplained::unexplained_memory(host),
        _ => None,
    }
}

/// Returns the memory in deleted files that are kept open by the process with the most of them.
fn memory_in_deleted_files(interval: &Interval) -> Option<Bytes> {
    let files = &interval.end.memory_files;
    let holders = memory_files::find_holders(files, |kind| kind == DeletedKind::Tmpfs);
    holders.first().map(|holder| holder.bytes)
}

fn is_much_stranded(interval: &Interval, finding: &Finding) -> bool {
    stranded_memory(interval, finding)
        .is_some_and(|size| grade::stranded::is_much(&interval.end, size))
}

#[cfg(test)]
#[path = "../tests/unit/order.rs"]
mod tests;
