// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Diagnoses that take more than Readings: the contents of a sample of pages.
//!
//! Who looks at pages calls [`diagnose_contents`] beside [`crate::diagnose`].

use pagewise_model::{Bytes, Estimate, Finding, Interval, Level, Percent, Severity, Snapshot};

use crate::judge;
use crate::proof::EvidenceList;
use crate::text::{put, short};

/// A diagnosis by the contents of pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentsRule {
    /// Stable name; the `id` of its findings.
    pub(crate) id: &'static str,
    /// What it looks for, in a sentence.
    pub(crate) doc: &'static str,
    /// Looks for it, in estimates of which the first is of all that was looked at.
    look: fn(&Interval, &[Estimate]) -> Vec<Finding>,
}

/// Every rule that needs contents.
pub(crate) static CONTENTS_RULES: &[ContentsRule] = &[THP_BLOAT];

/// Everything that is the case by the pages that were looked at.
pub fn diagnose_contents(interval: &Interval, estimates: &[Estimate]) -> Vec<Finding> {
    CONTENTS_RULES.iter().flat_map(|rule| (rule.look)(interval, estimates)).collect()
}

/// Whether a look at contents could find anything here: worth its price only then.
pub fn contents_may_tell(interval: &Interval) -> bool {
    huge_share(&interval.end).is_some_and(|share| share.get() >= WORTH_PERCENT)
}

/// Why the pages that were read cannot tell how much of the memory in huge pages is zeros; `None` where they can,
/// or where nothing asks for it.
pub fn unknown_contents(interval: &Interval, estimates: &[Estimate]) -> Option<String> {
    let read = estimates.first().filter(|_| contents_may_tell(interval))?;
    let why = read.partial.as_ref()?;
    let sampled = Waste::from_estimate(read).map_or(0.0, |waste| waste.sampled);
    (sampled < SEEN).then(|| {
        name_unknown_contents(&format!(
            "only {sampled:.0} pages of it were read, and at least {SEEN:.0} are needed ({why})"
        ))
    })
}

/// What is not known of a machine for which [`contents_may_tell`], if its pages were not read.
pub fn name_unknown_contents(why: &str) -> String {
    format!("how much of the memory in huge pages is zeros: {why}")
}

const THP_BLOAT: ContentsRule = ContentsRule {
    id: "thp-bloat",
    doc: "Huge pages contain many zeros: memory that would be free if the kernel used small pages.",
    look: look_for_bloat,
};

/// Of RAM: what less than this holds, or wastes, is not worth a word.
const WORTH_PERCENT: f64 = 5.0;
/// Of what huge pages hold: the usual waste at the ends of heaps is below it.
const WASTED_PERCENT: f64 = 20.0;
/// Pages in huge ones that must have been looked at: of fewer the share is known to ± 14 % at best.
const SEEN: f64 = 50.0;
/// Standard errors to each side of an interval that holds the truth in 95 of 100 samples.
const Z: f64 = 1.96;

/// How much of the RAM huge pages of programs hold.
fn huge_share(host: &Snapshot) -> Option<Percent> {
    host.memory.anon_huge_pages.get()?.percent_of(host.memory.total.get()?)
}

fn look_for_bloat(interval: &Interval, estimates: &[Estimate]) -> Vec<Finding> {
    bloat(interval, estimates).into_iter().collect()
}

fn bloat(interval: &Interval, estimates: &[Estimate]) -> Option<Finding> {
    let host = &interval.end;
    let share = huge_share(host).filter(|share| share.get() >= WORTH_PERCENT)?;
    let huge = host.memory.anon_huge_pages.get()?;
    let all = Waste::from_estimate(estimates.first()?)?;
    let least = all.least_share();
    let at_least = part(huge, least);
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
        severity: if is_short { Severity::Warning } else { Severity::Info },
        title: format!("{:.0} % of the memory in huge pages is zeros, mostly in {}", all.share() * 100.0, short(name.as_str())),
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
            .done(),
        next: vec![
            format!("sudo pagewise thp restrain --measure --pid {pid}"),
            put("madvise", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ],
    })
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of a machine: far below 2^52"
)]
fn part(of: Bytes, share: f64) -> Bytes {
    Bytes::new((of.get() as f64 * share) as u64)
}

/// What huge pages of a source hold of zeros.
struct Waste<'a> {
    estimate: &'a Estimate,
    /// Pages in huge ones that were looked at.
    sampled: f64,
    mapped: f64,
    zeros: f64,
}

impl<'a> Waste<'a> {
    /// Absent where it has no huge page, or nobody knows.
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

    /// The low end of the share's interval (Wilson's, of a share among pages drawn at random).
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
mod tests {
    use pagewise_model::{Disturbed, EstimateSource, HugeView, Reading, Source};

    use super::*;
    use crate::testing::{calm, gib, line, with};

    /// Of 16 GiB 4 GiB are in huge pages, under `always`.
    fn host() -> Interval {
        with(|host| host.memory.anon_huge_pages = line("/proc/meminfo", 33, gib(4)))
    }

    /// Of a million pages, of which a thousandth was looked at, so many are huge and of those zeros.
    fn looked(pid: Option<u32>, huge: u64, zeros: u64) -> Estimate {
        let absent = || Reading::absent("a sample cannot tell", Source::none());
        let kind = if pid.is_some() { "process" } else { "processes" };
        Estimate {
            source: EstimateSource { kind: kind.into(), name: "java".into(), pid },
            page_bytes: Bytes::new(4096),
            pages: 1_000_000,
            pages_interval: [1_000_000; 2],
            mapped_pages: 1_000_000,
            sampled_pages: 1_000,
            sized_pages: 1_000,
            swapped_pages: 0,
            partial: None,
            zero_pages: zeros,
            zero_pages_interval: [zeros; 2],
            same_filled_pages: zeros,
            same_filled_pages_interval: [zeros; 2],
            duplicate_pages: absent(),
            duplicate_pages_exact: false,
            duplicate_pages_interval: None,
            duplicate_pages_within: absent(),
            duplicate_saved_bytes: Reading::absent("a sample cannot tell", Source::none()),
            duplicate_saved_bytes_interval: None,
            ksm_saved_bytes: Reading::absent("a sample cannot tell", Source::none()),
            most_repeated: None,
            algorithms: Vec::new(),
            huge: HugeView {
                mapped_pages: Reading::found(huge, Source::none()),
                zero_pages: Reading::found(zeros, Source::none()),
                collapsible_ranges: absent(),
            },
            cold: absent(),
            disturbed: Disturbed::default(),
        }
    }

    fn sample(huge: u64, zeros: u64) -> [Estimate; 3] {
        [
            looked(None, huge, zeros),
            looked(Some(7), huge / 9, 10),
            looked(Some(8), huge / 2, zeros / 2),
        ]
    }

    #[test]
    fn zeros_in_huge_pages_are_told_with_the_process_that_has_most() {
        let [finding] = &diagnose_contents(&host(), &sample(800_000, 400_000))[..] else {
            panic!()
        };
        assert_eq!((finding.id, finding.severity), ("thp-bloat", Severity::Info));
        assert_eq!(finding.title, "50 % of the memory in huge pages is zeros, mostly in java");
        // 400 of 800: Wilson's interval begins at 0.4654
        assert_eq!(
            finding.what,
            "Huge pages hold 4.0 GiB of memory (25 % of RAM), of which at least 1.9 GiB are zeros. \
             Of 800 small pages sampled in huge pages, 50 % contain only zeros. The process with \
             the most zeros is java (pid 8), with about 781.2 MiB."
        );
        assert!(finding.next[0].ends_with("--pid 8"));
        assert!(finding.evidence[0].value.starts_with("AnonHugePages"));
    }

    #[test]
    fn it_matters_more_where_memory_is_short() {
        let mut short = host();
        short.end.memory.available = line("/proc/meminfo", 3, Bytes::new(100 << 20));
        let found = diagnose_contents(&short, &sample(800_000, 400_000));
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn little_waste_few_pages_or_few_huge_pages_are_not_worth_a_word() {
        let silent = |interval: &Interval, sample: &[Estimate]| {
            assert_eq!(diagnose_contents(interval, sample), []);
        };
        silent(&host(), &[]);
        // 22 % of 800, whose interval begins at 19.3 %
        silent(&host(), &sample(800_000, 176_000));
        assert_eq!(diagnose_contents(&host(), &sample(800_000, 190_000)).len(), 1);
        // all of them, but 40 were looked at
        silent(&host(), &sample(40_000, 40_000));
        silent(&calm(), &sample(800_000, 400_000));
        let mut cut = sample(40_000, 40_000);
        assert_eq!(unknown_contents(&host(), &cut), None, "all were read that were to be read");
        cut[0].partial = Some("the time was over".to_owned());
        let unknown = unknown_contents(&host(), &cut).unwrap();
        assert!(
            unknown.contains("only 40 pages") && unknown.contains("the time was over"),
            "{unknown}"
        );
        assert_eq!(unknown_contents(&calm(), &cut), None);
        cut[0].huge.mapped_pages = Reading::found(800_000, Source::none());
        assert_eq!(unknown_contents(&host(), &cut), None);
        assert!(contents_may_tell(&host()) && !contents_may_tell(&calm()));
    }
}
