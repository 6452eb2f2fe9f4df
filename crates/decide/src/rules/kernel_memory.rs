// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: the kernel uses an unusually large share of RAM for one purpose.
//!
//! Such memory can be neither swapped nor dropped, and it belongs to no process in `ps` or `top`.
//! If memory seems to be missing in their output, the kernel often has it. The thresholds are a
//! judgement: on the recorded hosts, each purpose takes less than 3 % of RAM. If the memory grew
//! during the interval, half of a threshold is sufficient for a finding.

use std::collections::BTreeMap;

use pagewise_model::{
    Bytes, Evidence, Finding, Interval, Memory, Name, Process, Reading, Severity, Snapshot, Subject,
};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: "kernel-memory",
    doc: "Unreclaimable slab, page tables, vmalloc, per-CPU memory or kernel stacks hold an unusual share of RAM.",
    diagnose,
};

/// Minimum size for a finding, because on a small host even little memory is a large share.
const WORTH: Bytes = Bytes::new(32 << 20);
/// If the kernel's memory for one purpose grew by more than this within the interval, the growth is
/// not noise.
const GROWN: Bytes = Bytes::new(16 << 20);

/// A purpose for which the kernel uses memory.
#[derive(Debug)]
struct Purpose {
    /// Name of the purpose's line in `/proc/meminfo`.
    key: &'static str,
    name: &'static str,
    /// Share of RAM, in percent, from which on the use for this purpose is unusual.
    percent: f64,
    pick: fn(&Memory) -> &Reading<Bytes>,
    why: &'static str,
    next: &'static str,
}

static PURPOSES: &[Purpose] = &[
    Purpose {
        key: "SUnreclaim",
        name: "unreclaimable slab",
        percent: 10.0,
        pick: |memory| &memory.slab_unreclaimable,
        why: "Unreclaimable slab holds small kernel objects that reclaim cannot free, such as inodes of a \
              tmpfs, sockets, cgroups and file locks. The kernel frees such an object only when the file, \
              socket or cgroup that it describes is closed or deleted. Objects that a driver leaks are never \
              freed.",
        next: "sudo slabtop --once --sort=c | head -20",
    },
    Purpose {
        key: "PageTables",
        name: "page tables",
        percent: 5.0,
        pick: |memory| &memory.page_tables,
        why: "With pages of 4 KiB, each process needs a page table of 4 KiB for each 2 MiB of address space in \
              which it has accessed a page, even if the memory is shared. If many processes map the same large \
              shared memory, or if the accessed pages are far apart, page tables can become as large as the \
              data; pages of a hugetlb pool need no such tables.",
        next: "grep -H VmPTE /proc/[0-9]*/status | sort -k2 -n -r | head",
    },
    Purpose {
        key: "VmallocUsed",
        name: "vmalloc memory",
        percent: 10.0,
        pick: |memory| &memory.vmalloc_used,
        why: "The kernel uses vmalloc for large areas such as kernel stacks, BPF maps, firewall rules, \
              buffers of drivers and slot tables of zram devices. Only the code that allocated such an area \
              can free it; /proc/vmallocinfo names the function that allocated each area.",
        next: "sudo sort -k2 -n -r /proc/vmallocinfo | head -20",
    },
    Purpose {
        key: "Percpu",
        name: "per-CPU memory",
        percent: 5.0,
        pick: |memory| &memory.percpu,
        why: "Per-CPU memory is allocated once for each possible CPU, mostly for cgroups, network interfaces \
              and BPF maps. A deleted cgroup keeps its per-CPU memory as long as any page is charged to it.",
        next: "grep -H dying /sys/fs/cgroup/cgroup.stat; ls /sys/class/net | wc -l",
    },
    Purpose {
        key: "KernelStack",
        name: "kernel stacks",
        percent: 3.0,
        pick: |memory| &memory.kernel_stack,
        why: "Each thread has a kernel stack of 16 KiB, whether the thread runs or sleeps. If kernel stacks \
              take much memory in total, a program usually starts more and more threads.",
        next: "ps -eo nlwp,pid,comm --sort=-nlwp | head",
    },
];

/// A purpose for which the kernel uses more RAM than its threshold.
struct Excess {
    purpose: &'static Purpose,
    bytes: Bytes,
    percent: f64,
    grown: Bytes,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let excess = PURPOSES.iter().filter_map(|purpose| find_excess(interval, purpose));
    excess.map(|excess| finding(interval, &excess)).collect()
}

/// Returns the size of the kernel memory that this finding is about.
pub(crate) fn bytes_in(interval: &Interval, finding: &Finding) -> Option<Bytes> {
    let purpose = PURPOSES.iter().find(|purpose| finding.title.starts_with(purpose.name))?;
    (purpose.pick)(&interval.end.memory).get()
}

fn find_excess(interval: &Interval, purpose: &'static Purpose) -> Option<Excess> {
    let bytes = (purpose.pick)(&interval.end.memory).get()?;
    let percent = bytes.percent_of(interval.end.memory.total.get()?)?.get();
    let before = interval.seconds().and(interval.start.as_deref());
    let before = before.and_then(|start| (purpose.pick)(&start.memory).get());
    let grown = before.map_or(Bytes::new(0), |before| bytes.saturating_sub(before));
    let unusual = percent >= purpose.percent || percent >= purpose.percent / 2.0 && grown >= GROWN;
    (unusual && bytes >= WORTH).then_some(Excess { purpose, bytes, percent, grown })
}

fn finding(interval: &Interval, excess: &Excess) -> Finding {
    let host = &interval.end;
    let owner = largest(host).filter(|_| excess.purpose.key == "PageTables");
    let many = owner.as_ref().filter(|owner| owner.count > 1);
    let many = many.map_or_else(String::new, |owner| {
        format!(", of {} × {}", count(owner.count), shorten_name(owner.largest.name.as_str()))
    });
    Finding {
        id: RULE.id,
        about: Some(Subject::part(excess.purpose.key)),
        severity: Severity::Warning,
        title: format!(
            "{} hold {}: {:.0} % of RAM{many}",
            excess.purpose.name, excess.bytes, excess.percent
        )
        .replace("slab hold", "slab holds")
        .replace("memory hold", "memory holds"),
        what: describe(interval, excess, owner.as_ref()),
        why: excess.purpose.why.to_owned(),
        evidence: proof(host, excess, owner.as_ref()),
        next: vec![
            excess.purpose.next.to_owned(),
            "grep -E 'Slab|SUnreclaim|PageTables|Vmalloc|Percpu|KernelStack' /proc/meminfo"
                .to_owned(),
        ],
    }
}

fn describe(interval: &Interval, excess: &Excess, owner: Option<&Owner<'_>>) -> String {
    let grown =
        interval.seconds().filter(|_| excess.grown >= GROWN).map_or_else(String::new, |seconds| {
            format!(", {} more than {seconds:.1} s ago", excess.grown)
        });
    let owner = owner.map_or_else(String::new, |owner| {
        let Owner { largest, count: many, bytes } = owner;
        let name = shorten_name(largest.name.as_str());
        match many {
            1 => format!(
                "; the process with the largest page tables is {name} (pid {}), with {bytes}",
                largest.pid
            ),
            many => format!(
                "; the {} processes named {name} have {bytes} of page tables together, up to {} each",
                count(*many),
                largest.page_tables.get().unwrap_or_default()
            ),
        }
    });
    let total = interval.end.memory.total.get().unwrap_or_default();
    format!(
        "The kernel uses {} of RAM for {} ({} in /proc/meminfo){grown}{owner}.",
        excess.bytes.part_of(total),
        excess.purpose.name,
        excess.purpose.key
    )
}

/// The processes with the same name whose page tables together are the largest.
struct Owner<'a> {
    /// The process with the largest page tables among them.
    largest: &'a Process,
    count: u64,
    /// Size of the page tables of all these processes together.
    bytes: Bytes,
}

fn largest(host: &Snapshot) -> Option<Owner<'_>> {
    let mut by_name: BTreeMap<&Name, Owner<'_>> = BTreeMap::new();
    for process in &host.processes.list {
        let Some(bytes) = process.page_tables.get() else { continue };
        let none = || Owner { largest: process, count: 0, bytes: Bytes::new(0) };
        let owner = by_name.entry(&process.name).or_insert_with(none);
        owner.count += 1;
        owner.bytes = owner.bytes.saturating_add(bytes);
        if Some(bytes) > owner.largest.page_tables.get() {
            owner.largest = process;
        }
    }
    by_name.into_values().max_by_key(|owner| owner.bytes)
}

fn proof(host: &Snapshot, excess: &Excess, owner: Option<&Owner<'_>>) -> Vec<Evidence> {
    let proof = EvidenceList::new()
        .named(excess.purpose.key, (excess.purpose.pick)(&host.memory))
        .named("MemTotal", &host.memory.total);
    match owner {
        Some(owner) => proof.named("VmPTE", &owner.largest.page_tables).into_evidence(),
        None => proof.into_evidence(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, mib, only, with};

    fn tables(held: Bytes) -> Interval {
        with(|host| {
            host.memory.page_tables = line("/proc/meminfo", 24, held);
            host.processes.list[0].page_tables = line("/proc/4121/status", 28, mib(700));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        tables(gib(1))
    }

    pub(crate) fn host_with_growing_finding() -> Interval {
        let mut interval =
            with(|host| host.memory.slab_unreclaimable = line("/proc/meminfo", 22, gib(1)));
        interval.end.memory.slab_unreclaimable = line("/proc/meminfo", 22, mib(1100));
        interval
    }

    #[test]
    fn page_tables_are_named_with_their_largest_owner() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "page tables hold 1.0 GiB: 6 % of RAM");
        assert!(finding.what.contains(
            "; the process with the largest page tables is postgres (pid 4121), with 700.0 MiB"
        ));
        assert_eq!(finding.severity, Severity::Warning);
    }

    /// A process with large page tables, and many processes with small page tables that are larger
    /// in total.
    #[test]
    fn page_tables_of_equal_processes_are_counted_together() {
        let mut interval = host_with_finding();
        for pid in 5000..5200 {
            let mut worker = interval.end.processes.list[0].clone();
            (worker.pid, worker.name) = (pid, "worker".into());
            worker.page_tables = line("/proc/5000/status", 28, mib(4));
            interval.end.processes.list.push(worker);
        }
        let finding = only(&RULE, &interval);
        assert_eq!(finding.title, "page tables hold 1.0 GiB: 6 % of RAM, of 200 × worker");
        assert!(
            finding.what.contains(
                "; the 200 processes named worker have 800.0 MiB of page tables together, up to 4.0 MiB each"
            ),
            "{}",
            finding.what
        );
    }

    #[test]
    fn half_a_share_is_enough_while_it_grows() {
        let finding = only(&RULE, &host_with_growing_finding());
        assert_eq!(finding.title, "unreclaimable slab holds 1.1 GiB: 7 % of RAM");
        assert!(finding.what.contains("76.0 MiB more than 10.0 s ago"), "{}", finding.what);
        let mut still = host_with_growing_finding();
        still.start = Some(Box::new(still.end.clone()));
        assert_silent(&RULE, &still);
    }

    #[test]
    fn usual_shares_are_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &tables(mib(800)));
        let small = with(|host| {
            host.memory.total = line("/proc/meminfo", 1, mib(128));
            host.memory.percpu = line("/proc/meminfo", 25, mib(12));
        });
        assert_silent(&RULE, &small);
    }
}
