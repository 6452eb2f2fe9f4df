// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: free memory is fragmented, and tasks stall while the kernel compacts it.

use pagewise_model::{Finding, FreeBlocks, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, mark_writing, trigger_command};

pub(super) const RULE: Rule = Rule {
    id: "fragmentation",
    doc: "Tasks stall in compaction while most free memory is in blocks too small for a huge page.",
    diagnose,
};

/// Minimum number of direct compactions per second, for which tasks stall. A single one is more
/// than an occasional large allocation.
const STALLS_PER_SECOND: f64 = 1.0;
/// Free memory counts as fragmented if at least this share of it is in blocks too small for a huge
/// page.
const UNUSABLE: f64 = 0.5;
/// Order of a huge page of 2 MiB with base pages of 4 KiB.
const USUAL_ORDER: usize = 9;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let stalls = interval.vmstat("compact_stall")?;
    let order = huge_order(host);
    let zone = largest(host)?;
    let unusable = zone.unusable_free_index.get(order).copied().flatten()?;
    if stalls.per_second < STALLS_PER_SECOND || unusable < UNUSABLE {
        return None;
    }
    let failed = interval.vmstat("compact_fail");
    let in_vain = failed.as_ref().map_or_else(String::new, |failed| {
        format!(", {} of them without success", count(failed.delta))
    });
    let percent = unusable * 100.0;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!(
            "tasks wait for compaction: {percent:.0} % of free memory is in small blocks"
        ),
        what: format!(
            "{} allocations had to wait for compaction in {:.1} s{in_vain}. In zone {} of node {}, \
             {percent:.0} % of the free memory is in blocks too small for a huge page (order {order}).",
            count(stalls.delta),
            stalls.seconds,
            zone.zone,
            zone.node
        ),
        why: "An allocation of several pages needs contiguous free memory, however much memory is free in \
              total. If no free block is large enough, the task that allocates has to wait while the kernel \
              moves other pages out of the way (compaction)."
            .to_owned(),
        evidence: EvidenceList::new()
            .change("compact_stall", &stalls)
            .changed("compact_fail", failed.as_ref())
            .named("free blocks by order:", &zone.blocks)
            .into_evidence(),
        next: vec![
            trigger_command(1, "/proc/sys/vm/compact_memory"),
            mark_writing("sudo sysctl vm.compaction_proactiveness=40"),
            "grep compact /proc/vmstat".to_owned(),
        ],
    })
}

/// The order of a PMD-sized huge page.
fn huge_order(host: &Snapshot) -> usize {
    let sizes = host.thp.pmd_size.get().zip(host.host.page_size.get());
    let pages = sizes.and_then(|(huge, page)| huge.get().checked_div(page.get()));
    pages.and_then(u64::checked_ilog2).map_or(USUAL_ORDER, |order| order as usize)
}

/// Returns the zone with the most free memory. Small low zones are not considered, because they are
/// always fragmented.
fn largest(host: &Snapshot) -> Option<&FreeBlocks> {
    host.free_blocks.iter().max_by_key(|zone| free_pages(zone))
}

fn free_pages(zone: &FreeBlocks) -> u128 {
    let blocks = zone.blocks.value().map_or(&[][..], Vec::as_slice);
    let sizes = blocks.iter().zip(0u32..).map(|(&count, order)| u128::from(count) << order.min(63));
    sizes.fold(0, u128::saturating_add)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, blocks, calm, grow, only, proof_of, with};

    fn in_pieces(host: &mut Snapshot) {
        host.free_blocks = vec![blocks([90_000, 40_000, 9_000, 900, 90, 9, 2, 1, 0, 0, 1])];
    }

    pub(crate) fn host_with_finding() -> Interval {
        let mut interval = with(in_pieces);
        grow(&mut interval, "compact_stall", 50);
        grow(&mut interval, "compact_fail", 30);
        interval
    }

    #[test]
    fn stalls_while_free_memory_is_in_pieces() {
        let finding = only(&RULE, &host_with_finding());
        let title = "tasks wait for compaction: 100 % of free memory is in small blocks";
        assert_eq!(finding.title, title);
        assert!(finding.what.starts_with(
            "50 allocations had to wait for compaction in 10.0 s, 30 of them without success. In zone Normal"
        ));
        assert!(
            proof_of(&finding).contains("/proc/buddyinfo:3 = free blocks by order: 90000 40000")
        );
    }

    #[test]
    fn pieces_without_stalls_and_stalls_without_pieces_are_silent() {
        assert_silent(&RULE, &with(in_pieces));
        let mut whole = calm();
        grow(&mut whole, "compact_stall", 50);
        assert_silent(&RULE, &whole);
    }

    #[test]
    fn the_zone_with_most_free_memory_speaks_for_the_host() {
        let mut interval = host_with_finding();
        let mut small = blocks([9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        small.zone = pagewise_model::Name::from("DMA");
        interval.end.free_blocks.push(small);
        assert!(only(&RULE, &interval).what.contains("zone Normal of node 0"));
    }
}
