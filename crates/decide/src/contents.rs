// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that need page contents in addition to Readings.
//!
//! A caller that has sampled pages calls [`diagnose_contents`] in addition to [`crate::diagnose`].

use pagewise_model::{Bytes, Estimate, Finding, Interval, Level, Percent, Severity, Snapshot};

use crate::judge;
use crate::proof::EvidenceList;
use crate::text::{shorten_name, write_command};

/// A rule that needs page contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentsRule {
    /// Stable name of the rule; the `id` of its findings.
    pub(crate) id: &'static str,
    /// What the rule detects, in a sentence.
    pub(crate) doc: &'static str,
    /// The function that applies the rule; the first estimate covers all pages that were sampled.
    look: fn(&Interval, &[Estimate]) -> Vec<Finding>,
}

/// Every rule that needs page contents.
pub(crate) static CONTENTS_RULES: &[ContentsRule] = &[THP_BLOAT];

/// Applies all rules that need page contents, and returns their findings.
pub fn diagnose_contents(interval: &Interval, estimates: &[Estimate]) -> Vec<Finding> {
    CONTENTS_RULES.iter().flat_map(|rule| (rule.look)(interval, estimates)).collect()
}

/// Whether a sample of page contents could lead to a finding on this host. If not, sampling is not
/// worth its cost.
pub fn is_sampling_useful(interval: &Interval) -> bool {
    huge_share(&interval.end).is_some_and(|share| share.get() >= WORTH_PERCENT)
}

/// The reason why the sample does not show how much of the memory in huge pages is zeros. `None` if
/// it shows this, or if huge pages hold little memory on this host.
pub fn explain_unknown_contents(interval: &Interval, estimates: &[Estimate]) -> Option<String> {
    let read = estimates.first().filter(|_| is_sampling_useful(interval))?;
    let why = read.partial.as_ref()?;
    let sampled = Waste::from_estimate(read).map_or(0.0, |waste| waste.sampled);
    (sampled < SEEN).then(|| {
        describe_unknown_contents(&format!(
            "only {sampled:.0} pages of it were read, and at least {SEEN:.0} are needed ({why})"
        ))
    })
}

/// A sentence that says what is unknown because no pages were read, although [`is_sampling_useful`].
pub fn describe_unknown_contents(why: &str) -> String {
    format!("how much of the memory in huge pages is zeros: {why}")
}

const THP_BLOAT: ContentsRule = ContentsRule {
    id: "thp-bloat",
    doc: "Huge pages contain many zeros: memory that would be free if the kernel used small pages.",
    look: diagnose_bloat,
};

/// Share of RAM, in percent, below which huge pages, or the zeros in them, do not matter.
const WORTH_PERCENT: f64 = 5.0;
/// Share of zeros in the memory in huge pages, in percent, from which on the zeros count as waste.
/// The usual waste at the ends of heaps is below this share.
const WASTED_PERCENT: f64 = 20.0;
/// Minimum number of sampled pages inside huge pages. With fewer pages, the error of the share of
/// zeros is ± 14 % or more.
const SEEN: f64 = 50.0;
/// Number of standard errors on each side of a 95 % confidence interval.
const Z: f64 = 1.96;

/// Share of RAM that is in anonymous huge pages.
fn huge_share(host: &Snapshot) -> Option<Percent> {
    host.memory.anon_huge_pages.get()?.percent_of(host.memory.total.get()?)
}

fn diagnose_bloat(interval: &Interval, estimates: &[Estimate]) -> Vec<Finding> {
    find_bloat(interval, estimates).into_iter().collect()
}

fn find_bloat(interval: &Interval, estimates: &[Estimate]) -> Option<Finding> {
    let host = &interval.end;
    let share = huge_share(host).filter(|share| share.get() >= WORTH_PERCENT)?;
    let huge = host.memory.anon_huge_pages.get()?;
    let all = Waste::from_estimate(estimates.first()?)?;
    let least = all.least_share();
    let at_least = share_of(huge, least);
    let worth = at_least.percent_of(host.memory.total.get()?)?.get() >= WORTH_PERCENT;
    if all.sampled < SEEN || least * 100.0 < WASTED_PERCENT || !worth {
        return None;
    }
    let processes = estimates.iter().filter(|estimate| estimate.source.pid.is_some());
    let worst = processes.filter_map(Waste::from_estimate).max_by_key(Waste::bytes)?;
    let (name, pid) = (&worst.estimate.source.name, worst.estimate.source.pid?);
    let is_short = judge(interval).level >= Level::Tight;
    Some(Finding {
        id: THP_BLOAT.id,
        about: None,
        severity: if is_short { Severity::Warning } else { Severity::Info },
        title: format!("{:.0} % of the memory in huge pages is zeros, mostly in {}", all.share() * 100.0, shorten_name(name.as_str())),
        what: format!(
            "Huge pages hold {huge} of memory ({:.0} % of RAM), of which at least {at_least} are zeros. Of \
             {:.0} small pages sampled in huge pages, {:.0} % contain only zeros. The process with the most \
             zeros is {name} (pid {pid}), with about {}.",
            share.get(),
            all.sampled,
            all.share() * 100.0,
            worst.bytes(),
        ),
        why: "A huge page is in RAM as a whole, even if the program wrote to only a small part of it; with small \
              pages, only the written part would be in RAM. Under memory pressure, the kernel splits such huge pages \
              and frees the zeros, but only if shrink_underused is on and max_ptes_none is below its maximum."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("AnonHugePages", &host.memory.anon_huge_pages)
            .value(&host.thp.enabled)
            .value(&host.thp.shrink_underused)
            .value(&host.thp.khugepaged.max_ptes_none)
            .into_evidence(),
        next: vec![
            format!("sudo pagewise thp restrain --measure --pid {pid}"),
            write_command("madvise", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ],
    })
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of a machine: far below 2^52"
)]
fn share_of(of: Bytes, share: f64) -> Bytes {
    Bytes::new((of.get() as f64 * share) as u64)
}

/// Zero pages within the huge pages of one source of a sample.
struct Waste<'a> {
    estimate: &'a Estimate,
    /// Number of sampled pages inside huge pages.
    sampled: f64,
    mapped: f64,
    zeros: f64,
}

impl<'a> Waste<'a> {
    /// Counts the zero pages within huge pages in the estimate of one source; `None` if the source
    /// has no huge pages or if the counts are unknown.
    #[expect(clippy::cast_precision_loss, reason = "counts of pages: far below 2^52")]
    fn from_estimate(estimate: &'a Estimate) -> Option<Self> {
        let (mapped, zeros) =
            (estimate.huge.mapped_pages.get()? as f64, estimate.huge.zero_pages.get()? as f64);
        let part = estimate.sampled_pages as f64 / (estimate.pages.max(1) as f64);
        (mapped > 0.0).then_some(Self { estimate, sampled: mapped * part.min(1.0), mapped, zeros })
    }

    fn share(&self) -> f64 {
        self.zeros / self.mapped
    }

    /// Lower end of the confidence interval of the share of zero pages (Wilson score interval of a
    /// random sample).
    fn least_share(&self) -> f64 {
        let (p, n, z2) = (self.share(), self.sampled, Z * Z);
        let half = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        ((p + z2 / (2.0 * n) - half) / (1.0 + z2 / n)).max(0.0)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pages")]
    fn bytes(&self) -> Bytes {
        Bytes::new((self.zeros as u64).saturating_mul(self.estimate.page_bytes.get()))
    }
}

#[cfg(test)]
#[path = "../tests/rules/contents.rs"]
mod tests;
