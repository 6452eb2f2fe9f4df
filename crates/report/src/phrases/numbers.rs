// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values, changes and times of an experiment, each in the digits that tell something.

use pagewise_model::duration::precise;
use pagewise_model::{Bytes, Ends, TrialMetric, grouped};

/// From here on a ratio is a factor rather than a percentage.
const FACTOR: f64 = 3.0;

/// From here on a ratio is only said to be beyond it: next to nothing was there before, or after.
const MOST: f64 = 1000.0;

/// `+6.1 %`, `−24.9 %`, `12 ×` where a percentage would not be read, or `> 1000 ×`.
pub(crate) fn change(ratio: f64) -> String {
    let factor = if ratio < 1.0 { 1.0 / ratio } else { ratio };
    if factor > MOST {
        return if ratio > 1.0 { "> 1000 ×" } else { "< 0.001 ×" }.to_owned();
    }
    if factor >= FACTOR {
        return format!("{} ×", digits(ratio));
    }
    format!("{} %", points((ratio - 1.0) * 100.0))
}

/// `+4.0 to +8.3 %`.
pub(crate) fn interval([low, high]: Ends<f64>) -> String {
    match (change(low), change(high)) {
        (low, high) if low.ends_with('%') == high.ends_with('%') => {
            format!("{} to {high}", low.trim_end_matches([' ', '%', '×']))
        }
        (low, high) => format!("{low} to {high}"),
    }
}

/// All of them together; evidence that somebody wrote may hold more than there is room for.
pub(crate) fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// An effect without a sign, as `2 %` or `0.5 %`.
pub(crate) fn effect(effect: f64) -> String {
    let percent = format!("{:.1}", effect * 100.0);
    format!("{} %", percent.strip_suffix(".0").unwrap_or(&percent))
}

/// With a sign and one digit behind the point, where that tells anything.
fn points(percent: f64) -> String {
    let shown = if percent.abs() < 99.95 {
        format!("{:.1}", percent.abs())
    } else {
        format!("{:.0}", percent.abs())
    };
    let sign = match percent {
        _ if shown == "0.0" => "±",
        below if below < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{shown}")
}

/// At least two digits that count; whole numbers as they are.
fn digits(number: f64) -> String {
    match number.abs() {
        whole if whole.fract() == 0.0 && whole < 1e15 => format!("{number:.0}"),
        large if large >= 100.0 => format!("{number:.0}"),
        ten if ten >= 10.0 => format!("{number:.1}"),
        one if one >= 0.1 => format!("{number:.2}"),
        small if small >= 0.001 => format!("{number:.4}"),
        _ => format!("{number:.2e}"),
    }
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: &TrialMetric, value: f64) -> String {
    match metric.unit.as_str() {
        "seconds" => precise(value),
        "bytes" => Bytes::new(whole(value)).to_string(),
        "count" | "pages" => grouped(whole(value)),
        "share" => format!("{:.1} %", value * 100.0),
        "per second" if value >= 1000.0 => format!("{} /s", grouped(whole(value))),
        "per second" => format!("{} /s", digits(value)),
        _ => digits(value),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size; a median of two may end in a half"
)]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_percentages_and_large_ones_factors() {
        let all = [1.061, 0.751, 1.0, 0.99999, 2.5, 3.0, 12.34, 0.01, 150.0, 5e6, 0.0].map(change);
        let shown = [
            "+6.1 %",
            "−24.9 %",
            "±0.0 %",
            "±0.0 %",
            "+150 %",
            "3 ×",
            "12.3 ×",
            "0.0100 ×",
            "150 ×",
            "> 1000 ×",
            "< 0.001 ×",
        ];
        assert_eq!(all, shown);
        assert_eq!(interval([1.04, 1.083]), "+4.0 to +8.3 %");
        assert_eq!(interval([0.5, 12.0]), "−50.0 % to 12 ×");
        assert_eq!([0.02, 0.005, 0.0412].map(effect), ["2 %", "0.5 %", "4.1 %"]);
    }

    #[test]
    fn times_have_three_digits() {
        let all = [0.0123, 0.123, 1.234, 12.34, 123.4].map(precise);
        assert_eq!(all, ["12.3 ms", "123 ms", "1.23 s", "12.3 s", "123 s"]);
        assert_eq!(
            [0.001_234, 0.000_143, 0.000_047].map(precise),
            ["1.23 ms", "143 µs", "47.0 µs"]
        );
        assert_eq!([0.0, 0.000_004_2, 0.000_999_9].map(precise), ["0 s", "4.20 µs", "1.00 ms"]);
    }
}
