// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two experiments → whether the second one found what the first did.
//!
//! The two are independent, so what lies between their estimates has both intervals' widths, added as
//! squares. That two intervals overlap says less: they may, and the two still differ.

use pagewise_model::{Ends, Trial, TrialMetric};
use serde::Serialize;

/// Whether two experiments found the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// What lies between them is no more than their intervals allow.
    Agree,
    /// It is more.
    Differ,
    /// One of them has no interval.
    Unknown,
}

/// One metric in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replicated {
    /// In the first.
    pub first: TrialMetric,
    /// In the second.
    pub second: TrialMetric,
    /// The second's B per A, per the first's.
    pub second_per_first: Option<f64>,
    /// Its interval.
    pub interval: Option<Ends<f64>>,
    /// What follows.
    pub agreement: Agreement,
}

/// The metrics that both have, in the first's order.
#[must_use]
pub fn replicated(first: &Trial, second: &Trial) -> Vec<Replicated> {
    let both = |one: &TrialMetric| {
        let other = second.metrics.iter().find(|other| other.name == one.name)?;
        Some(of(one, other))
    };
    first.metrics.iter().filter_map(both).collect()
}

fn of(first: &TrialMetric, second: &TrialMetric) -> Replicated {
    let ratio = second.b_per_a.zip(first.b_per_a).map(|(second, first)| second / first);
    let ends = first.interval.zip(second.interval).zip(ratio);
    let interval = ends.map(|((first, second), ratio)| {
        let half = (half(first).powi(2) + half(second).powi(2)).sqrt();
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

fn half([low, high]: Ends<f64>) -> f64 {
    (high / low).ln() / 2.0
}
