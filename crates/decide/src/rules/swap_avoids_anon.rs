// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap off or swappiness 0, while files that were just dropped are read again.
//!
//! Swappiness 1 does not avoid swapping by itself: measured, it behaves like 60. It counts here
//! only where, over the interval, files came back and not one page was swapped out.

use pagewise_model::{Evidence, FeatureState, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::facts::reclaim::{self, Rereading};
use crate::facts::swappiness::{self, Swappiness};
use crate::facts::{pressure, tiers};
use crate::proof::Proof;
use crate::text::{count, writes};

pub(super) const RULE: Rule = Rule {
    id: "swap-avoids-anon",
    doc: "Swap is off or swappiness keeps anonymous pages at any price, and dropped files are read again and again.",
    look,
};

enum Avoids<'a> {
    SwapOff,
    Swappiness(Swappiness<'a>),
}

fn look(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let rereading = reclaim::rereading(interval)?;
    let avoids = avoids(interval)?;
    Some(Finding {
        id: RULE.id,
        severity: pressure::level(&host.psi).unwrap_or(Severity::Warning),
        title: "the kernel re-reads files it dropped a moment ago".to_owned(),
        what: what(&avoids, &rereading, host),
        why: why(&avoids),
        evidence: proof(&avoids, &rereading, host),
        next: next(&avoids, host),
    })
}

fn avoids(interval: &Interval) -> Option<Avoids<'_>> {
    let host = &interval.end;
    if tiers::swap_is_off(host) {
        return Some(Avoids::SwapOff);
    }
    let swappiness = swappiness::of(host)?;
    let swapped_nothing = || interval.vmstat("pswpout").is_some_and(|change| change.delta == 0);
    let avoids = match swappiness.value {
        0 => true,
        1 => swapped_nothing(),
        _ => false,
    };
    avoids.then_some(Avoids::Swappiness(swappiness))
}

fn what(avoids: &Avoids<'_>, rereading: &Rereading, host: &Snapshot) -> String {
    let state = match avoids {
        Avoids::SwapOff => "swap is off".to_owned(),
        Avoids::Swappiness(swappiness) => format!("vm.swappiness is {}", swappiness.value),
    };
    let refaults = &rereading.refaults;
    format!(
        "{} grew by {} pages in {:.1} s ({}/s) while tasks waited for {} major faults, and {state}.",
        refaults.name,
        count(refaults.change.delta),
        refaults.change.seconds,
        rereading.bytes_per_second(host),
        count(rereading.major_faults.delta),
    )
}

fn why(avoids: &Avoids<'_>) -> String {
    let removed = match avoids {
        Avoids::SwapOff => "Without swap",
        Avoids::Swappiness(_) => "With this swappiness",
    };
    format!(
        "When memory runs short the kernel drops file pages or swaps anonymous ones, and running \
         code is file pages. {removed} idle anonymous pages stay whatever it costs, so you removed \
         the option, not the cost: your programs' code and files pay it."
    )
}

fn proof(avoids: &Avoids<'_>, rereading: &Rereading, host: &Snapshot) -> Vec<Evidence> {
    let proof = Proof::new()
        .change(rereading.refaults.name, &rereading.refaults.change)
        .change("pgmajfault", &rereading.major_faults);
    match avoids {
        Avoids::SwapOff => proof.named("SwapTotal", &host.memory.swap_total),
        Avoids::Swappiness(swappiness) => proof.value(swappiness.reading),
    }
    .done()
}

fn next(avoids: &Avoids<'_>, host: &Snapshot) -> Vec<String> {
    let change = match avoids {
        Avoids::Swappiness(_) => writes("sudo sysctl vm.swappiness=60"),
        Avoids::SwapOff if zram_is_loadable(host) => writes("sudo modprobe zram"),
        Avoids::SwapOff => "lsblk --output NAME,SIZE,ROTA,FSTYPE,MOUNTPOINT".to_owned(),
    };
    vec![change, "grep -E 'refault|pgmajfault' /proc/vmstat".to_owned()]
}

fn zram_is_loadable(host: &Snapshot) -> bool {
    host.capability("zram")
        .is_some_and(|zram| matches!(zram.state, FeatureState::Loadable { module: "zram" }))
}
