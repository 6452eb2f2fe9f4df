// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: zswap is the better choice on this machine but does little, because it is off, or because
//! its pool is full and its shrinker is off.
//!
//! There is a finding only if the choice between zram and zswap is certain ([`decide_swap`]); the
//! rule `zram-unused` then reports nothing.

use pagewise_facts::swap_choice::{Compression, SwapDecision, SwapEvidence, decide_swap};
use pagewise_facts::tiers;
use pagewise_model::{Bytes, Change, Finding, Interval, Percent, Severity};

use crate::Rule;
use crate::grade::pressure;
use crate::proof::EvidenceList;
use crate::text::{count, quoted, write_command};

pub(super) const RULE: Rule = Rule {
    id: "zswap-unused",
    doc: "Pages are swapped to a disk although zswap could keep them in RAM: zswap is off, or its pool is full \
          and its shrinker is off.",
    diagnose,
};

/// Number of pages read from disk per second from which on programs wait noticeably.
const READS: f64 = 100.0;
/// After zswap's pool was full, it accepts pages again when it is below this share of its limit, in
/// percent (`accept_threshold_percent`).
const ACCEPTS_PERCENT: f64 = 90.0;
const FOLDER: &str = "/sys/module/zswap/parameters";

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let decision = decide_swap(interval, &SwapEvidence::default());
    let zswap = &interval.end.zswap;
    let finding = match (zswap.enabled.get(), zswap.shrinker_enabled.get()) {
        _ if decision.choice != Some(Compression::Zswap) => None,
        (Some(false), _) => find_off(interval, &decision),
        (Some(true), Some(false)) => find_full(interval, &decision),
        _ => None,
    };
    finding.into_iter().collect()
}

fn find_off(interval: &Interval, decision: &SwapDecision) -> Option<Finding> {
    let host = &interval.end;
    let waits = pressure::present_severity(interval).is_some();
    let held = tiers::stored_on_disk(host);
    let tier = tiers::on_disk(host).find(|_| waits || held > Bytes::new(0))?;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if waits { Severity::Warning } else { Severity::Info },
        title: "zswap is off, so swapped pages go to a disk uncompressed".to_owned(),
        what: format!("zswap is off, and {held} of swapped pages are in {}.", tier.path),
        why: decision.why.clone(),
        evidence: EvidenceList::new()
            .value(&host.zswap.enabled)
            .named(&format!("{} used", tier.path), &tier.used)
            .named("some avg60", &host.psi.memory.some.avg60)
            .into_evidence(),
        next: [
            write_command("Y", &format!("{FOLDER}/shrinker_enabled")),
            write_command(
                quoted(decision.zswap.compressor.as_str()),
                &format!("{FOLDER}/compressor"),
            ),
            write_command("Y", &format!("{FOLDER}/enabled")),
            // with other values the kernel also reads ahead from zswap:
            // docs/measured/zram-or-zswap.md
            write_command("0", "/proc/sys/vm/page-cluster"),
        ]
        .into_iter()
        .chain(decision.trial.clone())
        .collect(),
    })
}

fn find_full(interval: &Interval, decision: &SwapDecision) -> Option<Finding> {
    let host = &interval.end;
    let zswap = &host.zswap;
    let reads: Change = interval.vmstat("pswpin").filter(|reads| reads.per_second >= READS)?;
    let (pool, ram) = (zswap.pool.get()?, host.memory.total.get()?);
    let limit = zswap.max_pool_percent.get()?.get();
    let accepts = zswap.accept_threshold_percent.get().map_or(ACCEPTS_PERCENT, Percent::get);
    let percent = pool.percent_of(ram)?.get();
    if percent < limit * accepts / 100.0 {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: "zswap's pool is full and its shrinker is off".to_owned(),
        what: format!(
            "zswap's pool takes {pool} of RAM ({percent:.1} %, and its limit is {limit:.0} %), and {} pages were read \
             from swap on a disk in the last {:.1} s.",
            count(reads.delta),
            reads.seconds
        ),
        why: format!(
            "A full pool refuses new pages, which go to the disk, while older ones stay in RAM. {}",
            decision.why
        ),
        evidence: EvidenceList::new()
            .value(&zswap.shrinker_enabled)
            .named("Zswap", &zswap.pool)
            .value(&zswap.max_pool_percent)
            .change("pswpin", &reads)
            .into_evidence(),
        next: std::iter::once(write_command("Y", &format!("{FOLDER}/shrinker_enabled")))
            .chain(decision.trial.clone())
            .collect(),
    })
}

#[cfg(test)]
#[path = "../../tests/rules/zswap_unused.rs"]
pub(super) mod tests;
