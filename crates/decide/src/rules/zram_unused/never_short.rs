// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is wrong: free memory is not under the low watermark, so nothing was swapped.

use pagewise_model::{Finding, Severity, Snapshot};

use super::{Case, RULE, holds_nothing};
use crate::facts::reclaim::{self, Total};
use crate::facts::zones;
use crate::proof::Proof;
use crate::text::count;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    let swapped_out = reclaim::swapped_out(host);
    if !zones::all_above_low(host)? || swapped_out.get()? > 0 {
        return None;
    }
    let name = case.device.name();
    let (scanned, stalls) = (reclaim::scanned(host), reclaim::stalls(host));
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: match scanned.as_ref().map(|scanned| scanned.count) {
            Some(0) => format!("{name} is empty: memory was never short since boot"),
            Some(_) => format!("{name} is empty: dropping page cache has been enough so far"),
            None => format!("{name} is empty: no zone is under its low watermark"),
        },
        what: what(host, scanned.as_ref()),
        why:
            "kswapd starts to reclaim when a zone's free memory falls under its low watermark, and \
              only reclaim swaps. Until then an empty zram device is ready and costs its table of \
              slots, nothing else."
                .to_owned(),
        evidence: proof(case, scanned, stalls).all(zones::distances(host)).done(),
        next: vec!["pagewise status".to_owned(), "cat /proc/pressure/memory".to_owned()],
    })
}

fn what(host: &Snapshot, scanned: Option<&Total>) -> String {
    let zones = "Every zone is above its low watermark and no page was ever swapped out";
    match (scanned, host.memory.free.get()) {
        (Some(scanned), Some(free)) => format!(
            "{zones}; {free} are free and {} pages were scanned for reclaim since boot.",
            count(scanned.count)
        ),
        _ => format!("{zones} (pswpout 0)."),
    }
}

fn proof(case: Case<'_>, scanned: Option<Total>, stalls: Option<Total>) -> Proof {
    let host = &case.interval.end;
    let proof = holds_nothing(case)
        .named("pswpout", &reclaim::swapped_out(host))
        .named("MemFree", &host.memory.free);
    let totals = [("pgscan_kswapd + pgscan_direct", scanned), ("allocstall_*", stalls)];
    totals.into_iter().fold(proof, |proof, (name, total)| match total {
        Some(total) => proof.note(&total.source, format!("{name} {} since boot", total.count)),
        None => proof,
    })
}
