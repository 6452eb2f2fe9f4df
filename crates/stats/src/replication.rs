// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether the second of two experiments confirms the result of the first.
//!
//! The two experiments are independent, so the width of the interval for the difference of their
//! estimates is the square root of the sum of the squared widths. It is not sufficient to check
//! whether the two intervals overlap: they may overlap although the estimates differ significantly.

use pagewise_model::{Agreement, Ends, Replicated, Trial, TrialMetric};

/// Compares the metrics that both experiments have and that at least one of them could estimate, in
/// the order of the first experiment.
#[must_use]
pub fn replicate_all(first: &Trial, second: &Trial) -> Vec<Replicated> {
    let both = |one: &TrialMetric| {
        let other = second.metrics.iter().find(|other| other.name == one.name)?;
        (one.b_per_a.is_some() || other.b_per_a.is_some()).then(|| compare_replication(one, other))
    };
    first.metrics.iter().filter_map(both).collect()
}

fn compare_replication(first: &TrialMetric, second: &TrialMetric) -> Replicated {
    let ratio = second.b_per_a.zip(first.b_per_a).map(|(second, first)| second / first);
    let ends = first.interval.zip(second.interval).zip(ratio);
    let interval = ends.map(|((first, second), ratio)| {
        let half = (half_width(first).powi(2) + half_width(second).powi(2)).sqrt();
        [(ratio.ln() - half).exp(), (ratio.ln() + half).exp()]
    });
    let agreement = match interval {
        None => Agreement::Unknown,
        Some([low, high]) if low > 1.0 || high < 1.0 => Agreement::Differ,
        Some(_) => Agreement::Agree,
    };
    Replicated {
        first: first.clone(),
        second: second.clone(),
        second_per_first: ratio,
        interval,
        agreement,
    }
}

fn half_width([low, high]: Ends<f64>) -> f64 {
    (high / low).ln() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Series, compare_metric};
    use crate::metric::Metric;

    fn metric(effect: f64, noise: f64) -> TrialMetric {
        let b = [-1.0, -0.6, -0.2, 0.0, 0.2, 0.6, 1.0].map(|step| effect * (1.0 + noise * step));
        let series = Series { a: vec![1.0; 7], b: b.to_vec(), ..Series::default() };
        compare_metric(&Metric::new_time(), false, &series, Some(3), 0.02)
    }

    /// In the third pair of experiments the intervals overlap, although the estimates differ
    /// significantly.
    #[test]
    fn what_lies_between_two_experiments_is_judged_by_both() {
        assert_eq!(
            compare_replication(&metric(1.1, 0.05), &metric(1.12, 0.05)).agreement,
            Agreement::Agree
        );
        assert_eq!(
            compare_replication(&metric(1.1, 0.01), &metric(1.2, 0.05)).agreement,
            Agreement::Differ
        );
        let near = compare_replication(&metric(1.0, 0.05), &metric(1.06, 0.05));
        assert!(near.first.interval.unwrap()[1] > near.second.interval.unwrap()[0]);
        assert_eq!(near.agreement, Agreement::Differ);
        let none = TrialMetric { interval: None, ..metric(1.0, 0.01) };
        assert_eq!(compare_replication(&metric(1.0, 0.01), &none).agreement, Agreement::Unknown);
        let ratio =
            compare_replication(&metric(1.1, 0.05), &metric(1.21, 0.05)).second_per_first.unwrap();
        assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
    }
}
