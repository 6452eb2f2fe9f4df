// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats values, changes and times of an experiment with the digits that are significant.

use pagewise_model::duration::format_precise;
use pagewise_model::{Bytes, Ends, TrialMetric, group_digits};

/// Ratios from this one on are printed as a factor instead of a percentage.
const FACTOR: f64 = 3.0;

/// Beyond this ratio, or below its inverse, only the bound is printed: one of the two values was
/// close to zero.
const MOST: f64 = 1000.0;

/// A change and its interval, both in percent (`−24.9 %`, `−30.0 to −18.1 %`) or both as factors
/// (`12.3 ×`, `0.50 to 15 ×`) if one of the three numbers is too large for a percentage; empty if
/// absent.
pub fn change_and_interval(ratio: Option<f64>, ends: Option<Ends<f64>>) -> [String; 2] {
    let is_percent = |ratio: &f64| (1.0 / MOST..FACTOR).contains(ratio);
    let all_percent = ratio.iter().chain(ends.iter().flatten()).all(is_percent);
    let (shown, unit): (fn(f64) -> String, _) =
        if all_percent { (format_percent, "%") } else { (format_factor, "×") };
    [
        ratio.map(|ratio| format!("{} {unit}", shown(ratio))).unwrap_or_default(),
        ends.map(|ends| ends.map(shown))
            .map(|[low, high]| format!("{low} to {high} {unit}"))
            .unwrap_or_default(),
    ]
}

fn format_percent(ratio: f64) -> String {
    format_points((ratio - 1.0) * 100.0)
}

fn format_factor(ratio: f64) -> String {
    match ratio {
        large if large > MOST => format!("> {MOST:.0}"),
        small if small < 1.0 / MOST => "< 0.001".to_owned(),
        ratio => format_digits(ratio),
    }
}

/// Adds up counts. The sum saturates, because evidence files written by somebody may contain any
/// numbers.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Formats an effect without a sign: `2 %` or `0.5 %`.
pub fn effect(effect: f64) -> String {
    let percent = format!("{:.1}", effect * 100.0);
    format!("{} %", percent.strip_suffix(".0").unwrap_or(&percent))
}

/// Formats a change in percent with a sign, and with one decimal unless the number is large.
fn format_points(percent: f64) -> String {
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

/// Formats a number with at least two significant digits; whole numbers unchanged.
pub fn format_digits(number: f64) -> String {
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
pub fn value(metric: &TrialMetric, value: f64) -> String {
    match metric.unit.as_str() {
        "seconds" => format_precise(value),
        "bytes" => Bytes::new(round_to_whole(value)).to_string(),
        "count" | "pages" => group_digits(round_to_whole(value)),
        "share" => format!("{:.1} %", value * 100.0),
        "per second" if value >= 1000.0 => format!("{} /s", group_digits(round_to_whole(value))),
        "per second" => format!("{} /s", format_digits(value)),
        _ => format_digits(value),
    }
}

/// Rounds a count or a size; below zero is zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size; a median of two may end in a half"
)]
pub fn round_to_whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_percentages_and_large_ones_factors() {
        let change = |ratio: f64| change_and_interval(Some(ratio), None)[0].clone();
        let all = [1.061, 0.751, 1.0, 0.99999, 2.5, 3.0, 12.34, 0.01, 150.0, 5e6, 0.0].map(change);
        let shown = [
            "+6.1 %",
            "−24.9 %",
            "±0.0 %",
            "±0.0 %",
            "+150 %",
            "3 ×",
            "12.3 ×",
            "−99.0 %",
            "150 ×",
            "> 1000 ×",
            "< 0.001 ×",
        ];
        assert_eq!(all, shown);
        let both = |ratio, ends| change_and_interval(Some(ratio), Some(ends));
        assert_eq!(both(1.061, [1.04, 1.083]), ["+6.1 %", "+4.0 to +8.3 %"]);
        assert_eq!(both(0.36, [0.3, 0.433]), ["−64.0 %", "−70.0 to −56.7 %"]);
        assert_eq!(both(2.3, [0.5, 12.0]), ["2.30 ×", "0.50 to 12 ×"]);
        assert_eq!(both(0.0, [0.0, 0.5]), ["< 0.001 ×", "< 0.001 to 0.50 ×"]);
        assert_eq!(change_and_interval(None, None), ["", ""]);
        assert_eq!([0.02, 0.005, 0.0412].map(effect), ["2 %", "0.5 %", "4.1 %"]);
    }

    #[test]
    fn times_have_three_digits() {
        let all = [0.0123, 0.123, 1.234, 12.34, 123.4].map(format_precise);
        assert_eq!(all, ["12.3 ms", "123 ms", "1.23 s", "12.3 s", "123 s"]);
        assert_eq!(
            [0.001_234, 0.000_143, 0.000_047].map(format_precise),
            ["1.23 ms", "143 µs", "47.0 µs"]
        );
        assert_eq!(
            [0.0, 0.000_004_2, 0.000_999_9].map(format_precise),
            ["0 s", "4.20 µs", "1.00 ms"]
        );
    }
}
