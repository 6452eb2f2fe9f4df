// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metrics of a run, and regular expressions that find a number in a command's output.

use pagewise_model::MetricKind;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::name::TIME;
use crate::standard_metrics::{KNOWN, SHARE, StandardMetric};
use crate::workload_metrics::SAID;

/// Finds the row with this name in the table of standard metrics.
pub(crate) fn find_standard(name: &str) -> Option<&'static StandardMetric> {
    KNOWN.iter().chain(SAID).find(|known| known.name == name)
}

/// A metric whose comparison the user requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// A name from the table of standard metrics, or a regular expression with a group around a
    /// number.
    pub name: String,
    /// Whether larger values are better; for a regular expression the user decides that.
    pub higher_is_better: bool,
}

impl Metric {
    /// Parses a name from the table of standard metrics, or a regular expression.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, NotAMetric> {
        if find_standard(text).is_none() {
            Pattern::new(text)?;
        }
        let higher_is_better = find_standard(text).is_some_and(|known| known.higher_is_better);
        Ok(Self { name: text.to_owned(), higher_is_better })
    }

    /// Creates the metric for elapsed time, which is the default primary metric.
    #[must_use]
    pub fn new_time() -> Self {
        Self { name: TIME.to_owned(), higher_is_better: false }
    }

    /// The kind of quantity that the metric measures.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        self.standard_row().map_or(MetricKind::Said, |known| known.kind)
    }

    /// Whether the metric counts whole events or bytes.
    pub(crate) fn is_whole(&self) -> bool {
        self.standard_row()
            .is_some_and(|known| known.kind == MetricKind::Count && known.unit != SHARE)
    }

    /// Returns the metric's row in the table of standard metrics; `None` if the metric is a regular
    /// expression.
    #[must_use]
    pub fn standard_row(&self) -> Option<&'static StandardMetric> {
        find_standard(&self.name)
    }
}

/// Sets "higher is better" for all metrics that are regular expressions, because only the user
/// knows in which direction they are better. Returns `false` if there are none.
pub fn prefer_more(metrics: &mut [Metric]) -> bool {
    let mut message =
        metrics.iter_mut().filter(|metric| metric.standard_row().is_none()).peekable();
    let any = message.peek().is_some();
    message.for_each(|metric| metric.higher_is_better = true);
    any
}

/// Why a text is not a metric.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotAMetric {
    /// The text is neither a name of a metric nor a valid regular expression.
    #[error("{what}: {0}", what = expected_names())]
    Unreadable(Box<regex_lite::Error>),
    /// The text is a regular expression without a group.
    #[error("{what}: {0:?} has no group in parentheses", what = expected_names())]
    NoGroup(String),
}

fn expected_names() -> String {
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    let names = names.join(", ");
    format!("expected {names}, or a regular expression with a group around a number")
}

/// A regular expression that extracts a number from a command's output.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a regular expression, which must have a group.
    ///
    /// # Errors
    /// If the regular expression is invalid or has no group around a number.
    pub fn new(text: &str) -> Result<Self, NotAMetric> {
        let regex = Regex::new(text).map_err(|error| NotAMetric::Unreadable(Box::new(error)))?;
        match regex.captures_len() {
            1 => Err(NotAMetric::NoGroup(text.to_owned())),
            _ => Ok(Self(regex)),
        }
    }

    /// Returns the number in the first group of the last match in a command's output. The last
    /// match is used because programs print their totals at the end.
    #[must_use]
    pub fn number(&self, message: &str) -> Option<f64> {
        let last = self.0.captures_iter(message).last()?;
        let digits = last.get(1)?.as_str().trim().replace([',', '_', '\''], "");
        let number: f64 = digits.parse().ok()?;
        number.is_finite().then(|| round_for_storage(number))
    }
}

/// Rounds a number to 15 digits, so that the same number results if it is written as text and
/// parsed again.
fn round_for_storage(number: f64) -> f64 {
    format!("{number:.14e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_unique_and_in_order_of_trust() {
        assert!(KNOWN.is_sorted_by(|a, b| a.kind <= b.kind));
        for known in KNOWN {
            assert_eq!(KNOWN.iter().filter(|other| other.name == known.name).count(), 1);
            assert_eq!(Metric::parse(known.name).unwrap().standard_row(), Some(known));
        }
    }

    #[test]
    fn the_last_match_counts_and_thousands_may_be_marked() {
        let pattern = Pattern::new(r"(?m)^throughput: ([0-9.,]+) ops").unwrap();
        let message = "throughput: 1 ops\nthroughput: 12,345.5 ops/s\nend";
        assert_eq!(pattern.number(message), Some(12345.5));
        assert_eq!(pattern.number("throughput: . ops"), None);
        assert_eq!(pattern.number(""), None);
    }

    #[test]
    fn what_cannot_name_a_number_is_refused() {
        for bad in ["tiem", "[", "a)", "no group"] {
            let why = Metric::parse(bad).unwrap_err().to_string();
            assert!(why.contains("major-faults") && why.contains("group"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn a_number_survives_its_text(number in -1e15f64..1e15) {
            let stored = round_for_storage(number);
            let text = serde_json::to_string(&stored).unwrap();
            prop_assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), stored);
            prop_assert!((stored - number).abs() <= number.abs() * 1e-14);
        }
    }
}
