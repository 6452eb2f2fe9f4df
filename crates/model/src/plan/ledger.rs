// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicted gains, their measurements, and how often the prediction came true ([`Ledger`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GainMetric;
use crate::{Ends, Evidence, score_interval};

/// One measurement of a predicted gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerEntry {
    /// When the gain was measured, as RFC 3339 in UTC; `null` if the clock was not set.
    pub time: Option<String>,
    /// Id of the boot in which the gain was measured; `null` if it could not be read.
    pub boot_id: Option<String>,
    /// Release of the kernel that was running at that time; `null` if it could not be read.
    pub kernel: Option<String>,
    /// Id of the plan that predicted the gain.
    pub plan: String,
    /// Number of the plan's journal. Numbers are reused after `pagewise undo`.
    pub journal: String,
    /// When `apply` started to carry out the plan, in seconds of Unix time.
    pub applied_unix_seconds: u64,
    /// The id of the step with the prediction.
    pub step: String,
    /// Name of what was measured; the suffix states the unit.
    pub metric: String,
    /// The predicted value.
    pub predicted: f64,
    /// Lower and upper end of the 95 % confidence interval of `predicted`.
    pub interval: Ends<f64>,
    /// The value when the plan was made; `null` if there was none.
    pub before: Option<f64>,
    /// The measured value.
    pub measured: f64,
    /// Whether the measured value lies in the predicted interval.
    pub hit: bool,
    /// The measurement or formula that the prediction was computed from.
    pub source: String,
    /// The values that the measurement was computed from, with their files.
    pub evidence: Vec<Evidence>,
}

impl LedgerEntry {
    /// Whether the prediction was computed from a formula: both ends of its interval are then the
    /// value.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let [low, high] = self.interval;
        low >= high
    }

    /// The key of the prediction that was measured. Entries with the same key are repeated
    /// measurements of the same prediction.
    fn key(&self) -> PredictionKey<'_> {
        PredictionKey {
            plan: &self.plan,
            journal: &self.journal,
            applied_unix_seconds: self.applied_unix_seconds,
            step: &self.step,
            metric: &self.metric,
        }
    }
}

/// Identifies one prediction of a plan that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PredictionKey<'a> {
    plan: &'a str,
    journal: &'a str,
    applied_unix_seconds: u64,
    step: &'a str,
    metric: &'a str,
}

/// Share of predictions that came true.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HitRate {
    /// Predictions that were measured at least once.
    pub predictions: u64,
    /// Predictions whose latest measurement lies in the predicted interval.
    pub hits: u64,
    /// `hits` divided by `predictions`; `null` if there is no prediction.
    pub share: Option<f64>,
    /// 95 % confidence interval of the share (Wilson's score interval); `null` if there is no
    /// prediction.
    pub interval: Option<Ends<f64>>,
}

impl HitRate {
    /// Computes the hit rate and its confidence interval from the number of hits and of
    /// predictions.
    #[must_use]
    pub fn new(hits: u64, predictions: u64) -> Self {
        let share = (predictions > 0).then(|| hits as f64 / predictions as f64);
        let interval = share.map(|share| score_interval(share, predictions as f64));
        // because of rounding, the share could be slightly outside of the computed interval
        let ends = |(share, [low, high]): (f64, Ends<f64>)| {
            [low.clamp(0.0, share), high.clamp(share, 1.0)]
        };
        Self { predictions, hits, share, interval: share.zip(interval).map(ends) }
    }

    fn of_entries(entries: &[&LedgerEntry]) -> Self {
        let hits = entries.iter().filter(|entry| entry.hit).count();
        Self::new(hits as u64, entries.len() as u64)
    }
}

/// The hit rate of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MetricHitRate {
    /// Name of the metric, such as `zone_high_watermark_bytes`.
    pub metric: String,
    /// How often predictions of the metric came true.
    #[serde(flatten)]
    pub rate: HitRate,
}

/// What Pagewise predicted on this machine, and what was measured afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ledger {
    /// Hit rate of predictions that are based on measurements, whose intervals have a width. Only
    /// the latest measurement of each prediction counts.
    pub estimates: HitRate,
    /// Hit rate of predictions from a formula of the kernel.
    pub exact: HitRate,
    /// How often a value that a step itself sets was found as set. Only earlier versions made such
    /// entries, which are not predictions and are not included in `exact`.
    pub set_by_step: HitRate,
    /// Hit rate of each metric, in order of name.
    pub metrics: Vec<MetricHitRate>,
    /// Every measurement, the oldest first.
    pub entries: Vec<LedgerEntry>,
    /// Numbers of the ledger's lines, counted from 1, that were changed after they were written, or
    /// are damaged; these lines do not count.
    pub damaged_lines: Vec<usize>,
    /// Whether the last line of the ledger is incomplete because a run was killed while writing it.
    pub is_torn: bool,
}

impl Ledger {
    /// Computes the hit rates from these measurements, which must be in order of time.
    #[must_use]
    pub fn new(entries: Vec<LedgerEntry>, damaged_lines: Vec<usize>, is_torn: bool) -> Self {
        let latest: BTreeMap<_, &LedgerEntry> = entries.iter().map(|it| (it.key(), it)).collect();
        let (set, predicted): (Vec<&LedgerEntry>, Vec<&LedgerEntry>) =
            latest.into_values().partition(|it| GainMetric::is_name_of_set_value(&it.metric));
        let (exact, estimates): (Vec<&LedgerEntry>, Vec<&LedgerEntry>) =
            predicted.into_iter().partition(|entry| entry.is_exact());
        let mut by_metric: BTreeMap<&str, Vec<&LedgerEntry>> = BTreeMap::new();
        for entry in exact.iter().chain(&estimates).chain(&set) {
            by_metric.entry(&entry.metric).or_default().push(entry);
        }
        let rate = |(metric, entries): (&str, Vec<&LedgerEntry>)| MetricHitRate {
            metric: metric.to_owned(),
            rate: HitRate::of_entries(&entries),
        };
        Self {
            estimates: HitRate::of_entries(&estimates),
            exact: HitRate::of_entries(&exact),
            set_by_step: HitRate::of_entries(&set),
            metrics: by_metric.into_iter().map(rate).collect(),
            entries,
            damaged_lines,
            is_torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(journal: u8, metric: u8, is_exact: bool, hit: bool) -> LedgerEntry {
        LedgerEntry {
            time: None,
            boot_id: None,
            kernel: None,
            plan: "00112233aabbccdd".to_owned(),
            journal: journal.to_string(),
            applied_unix_seconds: 1,
            step: "zram".to_owned(),
            metric: format!("metric-{metric}"),
            predicted: 2.0,
            interval: if is_exact { [2.0, 2.0] } else { [1.0, 3.0] },
            before: None,
            measured: 2.0,
            hit,
            source: String::new(),
            evidence: Vec::new(),
        }
    }

    fn any_entry() -> impl Strategy<Value = LedgerEntry> {
        // a metric is either always computed or always estimated
        (0u8..3, 0u8..4, any::<bool>()).prop_map(|(journal, metric, hit)| {
            let found = entry(journal, metric, metric == 0 || metric == 3, hit);
            let metric = if metric == 3 { crate::plan::SWAP_AREA.to_owned() } else { found.metric };
            LedgerEntry { metric, ..found }
        })
    }

    /// An independent implementation for comparison: an entry counts if no later one has the same
    /// key. Returns the numbers of hits and predictions.
    fn naive(entries: &[LedgerEntry], counts: impl Fn(&LedgerEntry) -> bool) -> (u64, u64) {
        let (mut hits, mut predictions) = (0, 0);
        for (at, entry) in entries.iter().enumerate() {
            let is_latest = entries[at + 1..].iter().all(|later| {
                (&later.plan, &later.journal, later.applied_unix_seconds)
                    != (&entry.plan, &entry.journal, entry.applied_unix_seconds)
                    || (&later.step, &later.metric) != (&entry.step, &entry.metric)
            });
            if is_latest && counts(entry) {
                predictions += 1;
                hits += u64::from(entry.hit);
            }
        }
        (hits, predictions)
    }

    proptest! {
        #[test]
        fn the_latest_measurement_of_each_prediction_counts(
            entries in prop::collection::vec(any_entry(), 0..30),
        ) {
            let ledger = Ledger::new(entries.clone(), Vec::new(), false);
            let found = |rate: &HitRate| (rate.hits, rate.predictions);
            prop_assert_eq!(found(&ledger.exact), naive(&entries, |it| it.is_exact() && it.metric != "swap_area_bytes"));
            prop_assert_eq!(found(&ledger.set_by_step), naive(&entries, |it| it.metric == "swap_area_bytes"));
            prop_assert_eq!(found(&ledger.estimates), naive(&entries, |it| !it.is_exact()));
            for metric in &ledger.metrics {
                let of_metric = naive(&entries, |it| it.metric == metric.metric);
                prop_assert_eq!(found(&metric.rate), of_metric);
            }
            let sum: u64 = ledger.metrics.iter().map(|it| it.rate.predictions).sum();
            let counted = [&ledger.exact, &ledger.estimates, &ledger.set_by_step];
            prop_assert_eq!(sum, counted.iter().map(|it| it.predictions).sum::<u64>());
            prop_assert_eq!(ledger.entries, entries);
        }

        #[test]
        fn a_share_lies_in_its_interval(hits in 0u64..50, misses in 0u64..50) {
            let rate = HitRate::new(hits, hits + misses);
            let Some((share, [low, high])) = rate.share.zip(rate.interval) else {
                prop_assert_eq!(hits + misses, 0);
                return Ok(());
            };
            prop_assert!((0.0..=share).contains(&low) && (share..=1.0).contains(&high), "{:?}", rate);
        }
    }

    #[test]
    fn a_plan_that_is_applied_again_predicts_again() {
        let first = entry(1, 1, false, false);
        let again = LedgerEntry { applied_unix_seconds: 2, hit: true, ..first.clone() };
        let ledger = Ledger::new(vec![first, again], Vec::new(), false);
        assert_eq!((ledger.estimates.hits, ledger.estimates.predictions), (1, 2));
    }

    /// Expected values from Newcombe, "Two-sided confidence intervals for the single proportion"
    /// (1998), table I: 81 of 263 gives 0.2553 to 0.3662 by this method, 15 of 148 gives 0.0624 to
    /// 0.1605, 0 of 20 gives 0 to 0.1611.
    #[test]
    fn the_interval_is_the_published_one() {
        for (hits, of, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
        {
            let [found_low, found_high] = HitRate::new(hits, of).interval.unwrap();
            assert!((found_low - low).abs() < 5e-5, "{hits} of {of}: {found_low}");
            assert!((found_high - high).abs() < 5e-5, "{hits} of {of}: {found_high}");
        }
    }
}
