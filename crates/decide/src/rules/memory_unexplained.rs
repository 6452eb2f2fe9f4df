// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Much RAM is in use that no counter of the kernel explains.
//!
//! The kernel has no list of such pages. On kernels that were built with allocation profiling,
//! `/proc/allocinfo` has them by the line of code that allocated them.

use pagewise_facts::unexplained::unexplained;
use pagewise_model::{Bytes, Evidence, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;

pub(super) const RULE: Rule = Rule {
    id: "memory-unexplained",
    doc: "A large share of RAM is in use that neither processes nor page cache nor the kernel's own counters explain.",
    diagnose,
};

/// Share of RAM from which on, in percent, unexplained memory is a finding. On the recorded
/// hosts of this project it is at most 9.4 %.
const WORTH_PERCENT: f64 = 30.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let total = host.memory.total.get()?;
    let size = unexplained(host)?;
    let percent = size.percent_of(total)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    let balloon = balloon(host).map_or_else(String::new, |bytes| {
        format!(" The balloon of the hypervisor holds {bytes}, which may be a part of this.")
    });
    Some(Finding {
        id: RULE.id,
        severity: Severity::Warning,
        title: format!("nothing explains what {size} are used for: {percent:.0} % of RAM"),
        what: format!(
            "{} of RAM are in use that neither processes, page cache, shared memory, slab, page tables, vmalloc, \
             hugetlb pools, ZFS nor compressed swap account for.{balloon}",
            size.part_of(total)
        ),
        why: "A driver can take pages directly from the kernel, which then counts them nowhere: buffers of a GPU or \
              network card, a balloon with which the hypervisor takes memory back, or pages that a driver leaks. Such \
              pages belong to no process, and can be neither dropped nor swapped."
            .to_owned(),
        evidence: proof(host),
        next: vec![
            "sudo sort -g -r /proc/allocinfo | head -20  # from Linux 6.10 on, if built with allocation profiling"
                .to_owned(),
            "sudo grep -s -H -E 'drm-(total|resident)' /proc/[0-9]*/fdinfo/* | sort -k2 -n -r | head -20  # GPU"
                .to_owned(),
            "grep balloon /proc/vmstat; lsmod | head -40".to_owned(),
        ],
    })
}

/// What a balloon driver has taken since boot and not given back; `None` if that is nothing.
fn balloon(host: &Snapshot) -> Option<Bytes> {
    let count = |name| host.vmstat.get(name).get();
    let pages = count("balloon_inflate")?.checked_sub(count("balloon_deflate")?)?;
    // the counters are in pages of 4 KiB on every architecture
    Some(Bytes::new(pages.saturating_mul(4096))).filter(|bytes| *bytes > Bytes::new(0))
}

fn proof(host: &Snapshot) -> Vec<Evidence> {
    let memory = &host.memory;
    EvidenceList::new()
        .named("MemTotal", &memory.total)
        .named("MemFree", &memory.free)
        .named("AnonPages", &memory.anon_pages)
        .named("Cached", &memory.cached)
        .named("SwapCached", &memory.swap_cached)
        .named("SUnreclaim", &memory.slab_unreclaimable)
        .named("SReclaimable", &memory.slab_reclaimable)
        .named("PageTables", &memory.page_tables)
        .named("VmallocUsed", &memory.vmalloc_used)
        .into_evidence()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, mib, only, set_knob, with};

    fn memory(host: &mut Snapshot, anon: Bytes) {
        let memory = &mut host.memory;
        memory.free = line("/proc/meminfo", 2, gib(4));
        memory.anon_pages = line("/proc/meminfo", 17, anon);
        memory.cached = line("/proc/meminfo", 5, gib(3));
        memory.swap_cached = line("/proc/meminfo", 6, Bytes::new(0));
        memory.slab_unreclaimable = line("/proc/meminfo", 23, mib(200));
        memory.page_tables = line("/proc/meminfo", 25, mib(40));
        memory.vmalloc_used = line("/proc/meminfo", 36, mib(40));
    }

    pub(crate) fn firing() -> Interval {
        with(|host| memory(host, gib(2)))
    }

    #[test]
    fn the_size_is_told_and_where_to_look() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.title.starts_with("nothing explains what 6."), "{}", finding.title);
        assert!(!finding.what.contains("balloon"), "{}", finding.what);
        let mut ballooned = firing();
        set_knob(&mut ballooned.end, "balloon_inflate", 300_000);
        set_knob(&mut ballooned.end, "balloon_deflate", 44_000);
        let what = only(&RULE, &ballooned).what;
        assert!(
            what.ends_with(
                "The balloon of the hypervisor holds 1000.0 MiB, which may be a part of this."
            ),
            "{what}"
        );
    }

    #[test]
    fn what_is_explained_is_no_trouble() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &with(|host| memory(host, gib(6))));
        let mut zfs = firing();
        zfs.end.memory.zfs_cache.size = line("/proc/spl/kstat/zfs/arcstats", 7, gib(5));
        assert_silent(&RULE, &zfs);
        let mut unknown = firing();
        crate::testing::erase(&mut unknown.end.memory.swap_cached);
        assert_silent(&RULE, &unknown);
    }
}
