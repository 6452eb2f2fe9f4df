// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why a device is empty that is not a problem: no zone is below its low watermark, and
//! nothing was swapped out since boot.

use pagewise_facts::reclaim::{self, Total};
use pagewise_facts::zones;
use pagewise_model::{Finding, Severity, Snapshot};

use super::zones::distances;
use super::{Case, RULE, pages_swapped_out, prove_emptiness};
use crate::proof::EvidenceList;
use crate::text::count;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    let swapped_out_pages = pages_swapped_out(host);
    if !zones::all_above_low(host)? || swapped_out_pages.get()? > 0 {
        return None;
    }
    let name = case.device.name();
    let (scanned, stalls) = (reclaim::scanned_pages(host), count_direct_reclaims(host));
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: match scanned.as_ref().map(|scanned| scanned.count) {
            Some(0) => format!("{name} is empty: memory was never short since boot"),
            Some(_) => format!("{name} is empty: dropping page cache has been enough so far"),
            None => format!("{name} is empty: no memory zone is below its low watermark"),
        },
        what: describe(host, scanned.as_ref()),
        why: format!(
            "The kernel swaps pages out only when it reclaims memory; kswapd starts to reclaim when a memory \
             zone has less free memory than its low watermark. Until then, an empty {} device costs only the \
             memory of its slot table (one entry for each page that the device can hold).",
            case.device.driver.name()
        ),
        evidence: proof(case, scanned, stalls).all(distances(host)).into_evidence(),
        next: vec!["pagewise status".to_owned(), "cat /proc/pressure/memory".to_owned()],
    })
}

fn describe(host: &Snapshot, scanned: Option<&Total>) -> String {
    let zones = "Every memory zone has more free memory than its low watermark, and no page was swapped out since boot";
    match (scanned, host.memory.free.get()) {
        (Some(scanned), Some(free)) => format!(
            "{zones}. {free} of memory are free, and the kernel has scanned {} pages for reclaim since boot.",
            count(scanned.count)
        ),
        _ => format!("{zones} (pswpout 0)."),
    }
}

fn proof(case: Case<'_>, scanned: Option<Total>, stalls: Option<Total>) -> EvidenceList {
    let host = &case.interval.end;
    let proof = prove_emptiness(case)
        .named("pswpout", &pages_swapped_out(host))
        .named("MemFree", &host.memory.free);
    [scanned, stalls].into_iter().flatten().fold(proof, |proof, total| {
        proof.note(&total.source, format!("{} {} since boot", total.names, total.count))
    })
}

/// Number of direct reclaims since boot, over all zones.
fn count_direct_reclaims(host: &Snapshot) -> Option<Total> {
    let mut counters =
        host.vmstat.iter().filter(|(name, _)| name.as_str().starts_with("allocstall"));
    let (_, first) = counters.next()?;
    let rest: Option<Vec<u64>> = counters.map(|(_, counter)| counter.get()).collect();
    let count = rest?.into_iter().fold(first.get()?, u64::saturating_add);
    Some(Total { names: "allocstall_*", count, source: first.source.clone() })
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Interval;

    use super::super::tests::empty_tier;
    use super::*;
    use crate::testing::{assert_silent, only, proof_of, set_knob, still, unset, zone};

    fn never() -> Snapshot {
        let mut host = empty_tier();
        for name in ["pgscan_kswapd", "pgscan_direct", "allocstall_normal", "allocstall_movable"] {
            set_knob(&mut host, name, 0);
        }
        host
    }

    pub(crate) fn host_with_finding() -> Interval {
        still(never())
    }

    #[test]
    fn no_zone_was_ever_short() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "zram0 is empty: memory was never short since boot");
        assert_eq!(finding.severity, Severity::Info);
        let proof = proof_of(&finding);
        for said in [
            "pswpout 0",
            "pgscan_kswapd + pgscan_direct 0 since boot",
            "allocstall_* 0 since boot",
            "node 0 DMA32: free 1.1 GiB, 1.1 GiB above low: idle",
            "node 0 Normal: free 2.7 GiB, 2.6 GiB above low: idle",
        ] {
            assert!(proof.contains(said), "{said} in {proof}");
        }
    }

    #[test]
    fn what_was_never_counted_is_not_called_never() {
        let mut uncounted = never();
        unset(&mut uncounted, "pgscan_kswapd");
        let title = only(&RULE, &still(uncounted)).title;
        assert_eq!(title, "zram0 is empty: no memory zone is below its low watermark");
    }

    #[test]
    fn a_short_zone_or_pages_swapped_before_are_silent() {
        let mut short = never();
        short.zones = vec![zone("DMA32", 300_000), zone("Normal", 14_000)];
        assert_silent(&RULE, &still(short));
        let mut swapped = never();
        set_knob(&mut swapped, "pswpout", 9);
        assert_silent(&RULE, &still(swapped));
    }
}
