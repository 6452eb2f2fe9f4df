// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory was short, and swappiness is so low that file pages always lose.

use pagewise_model::{Finding, Snapshot};

use super::{Case, RULE, holds_nothing, severity};
use crate::facts::swappiness::{self, Lru, Swappiness};
use crate::facts::{reclaim, zones};
use crate::text::writes;

/// Below this share of scanning, anonymous pages lose whenever there is a file page to take: of
/// the 32 pages of one batch it leaves fewer than two.
const LOSES_PERCENT: f64 = 5.0;
/// Multi-gen LRU takes 0 as never and 1 as files first; above that it weighs by refaults.
const GENERATIONS_LOW: u64 = 1;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    if !was_short(host) || reclaim::swapped_out(host).get()? > 0 {
        return None;
    }
    let swappiness = swappiness::of(host)?;
    let explained = explained(host, swappiness)?;
    let proof = holds_nothing(case)
        .value(swappiness.reading)
        .named("pswpout", &reclaim::swapped_out(host))
        .named("Active(anon)", &host.memory.active_anon)
        .named("Inactive(anon)", &host.memory.inactive_anon)
        .named("Active(file)", &host.memory.active_file)
        .named("Inactive(file)", &host.memory.inactive_file)
        .value(&host.mglru.enabled)
        .all(zones::distances(host));
    Some(Finding {
        id: RULE.id,
        severity: severity(host),
        title: format!(
            "{} holds nothing: with swappiness {} file pages always lose",
            case.device.name(),
            swappiness.value
        ),
        what: explained,
        why: "Swappiness weighs the cost of swapping against that of reading files again; its \
              default 60 suits a disk, and compressed RAM is far cheaper than that. Set this low, \
              reclaim drops code and cache first and leaves idle anonymous pages where they are."
            .to_owned(),
        evidence: proof.done(),
        next: vec![
            writes("sudo sysctl vm.swappiness=100"),
            "grep -E 'refault|pswpout|pgscan' /proc/vmstat".to_owned(),
        ],
    })
}

/// Whether reclaim ever had to look for pages, or has to now.
fn was_short(host: &Snapshot) -> bool {
    let scanned = reclaim::scanned(host).is_some_and(|scanned| scanned.count > 0);
    scanned || zones::all_above_low(host) == Some(false)
}

/// What the setting does here; `None` where it is not low.
fn explained(host: &Snapshot, swappiness: Swappiness<'_>) -> Option<String> {
    let value = swappiness.value;
    match swappiness::lru(host) {
        Lru::Classic => {
            let lists = swappiness::lists(host)?;
            let percent = lists.anon_percent(value).filter(|&share| share < LOSES_PERCENT)?;
            Some(format!(
                "At equal scan cost (assumed: the kernel exports none) anonymous pages get \
                 {value}/200 against {}/200, times {} of anonymous and {} of file lists: {percent:.1} % \
                 of scanning.",
                200u64.saturating_sub(value),
                lists.anon,
                lists.file
            ))
        }
        Lru::Generations => (value <= GENERATIONS_LOW).then(|| {
            format!(
                "vm.swappiness is {value}; multi-gen LRU is on, which does not use the classic \
                 cost formula: it takes 0 as never and 1 as files first."
            )
        }),
        Lru::Unknown => (value == 0)
            .then(|| format!("vm.swappiness is {value}, which either LRU takes as never.")),
    }
}
