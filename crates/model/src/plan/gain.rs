// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gain that a plan predicts, and what was measured afterwards ([`GainMeasured`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Ends, Evidence};

/// A predicted gain that `pagewise verify` measures after the plan was applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// Name of what is measured, such as `swap_area_bytes`; the suffix states the unit.
    /// `docs/ledger.md` lists what this version can measure.
    pub metric: String,
    /// The predicted value.
    pub value: f64,
    /// Lower and upper end of the 95 % confidence interval of `value`; both equal the value if it
    /// follows from a formula of the kernel.
    pub interval: Ends<f64>,
    /// The value when the plan was made; `null` if there was none, for example for a device that
    /// the plan adds.
    #[serde(default)]
    pub before: Option<f64>,
    /// The measurement or formula that the prediction was computed from.
    pub source: String,
}

impl Expected {
    /// Creates a prediction from an exact formula: both ends of its interval are the value.
    #[must_use]
    pub fn exact(metric: &str, value: f64, before: Option<f64>, source: String) -> Self {
        Self { metric: metric.to_owned(), value, interval: [value, value], before, source }
    }

    /// Whether a measured value lies in the predicted interval.
    #[must_use]
    pub fn is_hit(&self, measured: f64) -> bool {
        let [low, high] = self.interval;
        (low..=high).contains(&measured)
    }
}

/// Name of a metric: original bytes per byte of RAM that a zram device uses.
pub const ZRAM_RATIO: &str = "zram_original_per_memory_used";
/// Name of a metric: size of a swap area.
pub const SWAP_AREA: &str = "swap_area_bytes";
/// Name of a metric: size of the hugetlb pool of 2 MiB pages.
pub const HUGETLB_POOL: &str = "hugetlb_pool_bytes";
/// Name of a metric: sum of the high watermarks of all zones.
pub const HIGH_WATERMARKS: &str = "zone_high_watermark_bytes";

/// A quantity that a plan can predict and `pagewise verify` can measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GainMetric {
    /// Name of the quantity in documents, with its unit as the suffix.
    pub name: &'static str,
    /// What the quantity is, in a few words.
    pub label: &'static str,
    /// What a gain in this quantity means, and the files from which it is computed.
    pub doc: &'static str,
    /// Whether the step itself sets the quantity. Such a quantity is not predicted any more,
    /// because `verify` compares what a step sets in any case; earlier versions predicted it,
    /// always correctly.
    pub is_set_by_step: bool,
}

/// All metrics that can be predicted and measured.
pub static GAIN_METRICS: &[GainMetric] = &[
    GainMetric {
        name: ZRAM_RATIO,
        label: "zram compression",
        doc: "Original bytes per byte of RAM that the zram device uses (mm_stat, columns 1 and 3).",
        is_set_by_step: false,
    },
    GainMetric {
        name: SWAP_AREA,
        label: "size of the swap area",
        doc: "What the swap area can take before compression (/proc/swaps).",
        is_set_by_step: true,
    },
    GainMetric {
        name: HUGETLB_POOL,
        label: "hugetlb pool",
        doc: "Memory that the hugetlb pool of 2 MiB pages holds, used or not (nr_hugepages).",
        is_set_by_step: true,
    },
    GainMetric {
        name: HIGH_WATERMARKS,
        label: "kept free by kswapd",
        doc: "The sum of the high watermarks of all zones, without temporary boosts: kswapd reclaims memory until \
              so much is free (/proc/zoneinfo).",
        is_set_by_step: false,
    },
];

impl GainMetric {
    /// Finds the metric with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        GAIN_METRICS.iter().find(|metric| metric.name == name)
    }

    /// Whether `name` is the name of a metric that the step itself sets.
    #[must_use]
    pub fn is_name_of_set_value(name: &str) -> bool {
        Self::find(name).is_some_and(|metric| metric.is_set_by_step)
    }
}

/// A predicted gain with the result of measuring it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainMeasured {
    /// The id of the step with the prediction.
    pub step: String,
    /// Name of what is measured; the suffix states the unit.
    pub metric: String,
    /// The predicted value.
    pub predicted: f64,
    /// Lower and upper end of the 95 % confidence interval of `predicted`.
    pub interval: Ends<f64>,
    /// The value when the plan was made; `null` if there was none.
    pub before: Option<f64>,
    /// The measurement or formula that the prediction was computed from.
    pub source: String,
    /// The measured value, or why nothing was measured.
    #[serde(flatten)]
    pub outcome: GainOutcome,
}

/// The measured value of a predicted gain, or why nothing was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum GainOutcome {
    /// The predicted quantity was measured.
    Measured {
        /// The measured value.
        measured: f64,
        /// Whether the measured value lies in the predicted interval.
        hit: bool,
        /// The values that the measurement was computed from, with their files.
        evidence: Vec<Evidence>,
    },
    /// The predicted quantity could not be measured.
    NotMeasured {
        /// Why the predicted quantity could not be measured, and what is missing.
        why: String,
    },
}

impl GainMeasured {
    /// Creates the result of measuring the prediction `expected`.
    #[must_use]
    pub fn new(step: &str, expected: &Expected, outcome: GainOutcome) -> Self {
        Self {
            step: step.to_owned(),
            metric: expected.metric.clone(),
            predicted: expected.value,
            interval: expected.interval,
            before: expected.before,
            source: expected.source.clone(),
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_interval_are_hits() {
        let expected =
            Expected { interval: [2.0, 3.0], ..Expected::exact("x", 2.5, None, String::new()) };
        assert_eq!(
            [1.99, 2.0, 3.0, 3.01].map(|it| expected.is_hit(it)),
            [false, true, true, false]
        );
        assert!(!expected.is_hit(f64::NAN));
    }

    #[test]
    fn an_early_plan_without_a_value_before_reads_back() {
        let json = r#"{"metric": "x", "value": 2, "interval": [1, 3], "source": "scan"}"#;
        assert_eq!(serde_json::from_str::<Expected>(json).unwrap().before, None);
    }

    #[test]
    fn metrics_have_one_name_each_and_their_unit_in_it() {
        for metric in GAIN_METRICS {
            let has_unit = metric.name.ends_with("_bytes") || metric.name.contains("_per_");
            assert!(has_unit && metric.doc.ends_with('.'), "{metric:?}");
            assert_eq!(GainMetric::find(metric.name), Some(metric));
        }
        assert_eq!(GainMetric::find("speed"), None);
    }

    #[test]
    fn what_was_measured_is_flat_in_json() {
        let expected = Expected::exact(SWAP_AREA, 4096.0, None, "size".to_owned());
        let outcome = GainOutcome::NotMeasured { why: "it is off".to_owned() };
        let gain = GainMeasured::new("zram", &expected, outcome);
        let json = serde_json::to_value(&gain).unwrap();
        assert_eq!((&json["state"], &json["why"]), (&"not-measured".into(), &"it is off".into()));
        assert_eq!(serde_json::from_value::<GainMeasured>(json).unwrap(), gain);
    }
}
