// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicted gains, and their measurements.

use pagewise_model::plan::{Expected, GainMeasured, GainMetric, GainOutcome};
use pagewise_model::{Bytes, Ends, group_digits};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};

/// A short label of the metric; a metric of a later version has only its name.
pub(super) fn label(metric: &str) -> &str {
    GainMetric::find(metric).map_or(metric, |metric| metric.label)
}

/// Formats a value of a predicted gain, in the unit that the metric's name contains.
fn format_value(metric: &str, value: f64) -> String {
    match size(metric, value) {
        Some(size) => size.to_string(),
        None => format!("{value:.2}"),
    }
}

fn size(metric: &str, value: f64) -> Option<Bytes> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    let bytes = Bytes::new(value.max(0.0).round() as u64);
    metric.ends_with("_bytes").then_some(bytes)
}

/// Describes a predicted gain: the predicted value, its interval and the value before.
pub(super) fn describe_prediction(
    metric: &str,
    value: f64,
    [low, high]: Ends<f64>,
    before: Option<f64>,
) -> String {
    let interval = if low < high {
        format!(" ({} to {})", format_value(metric, low), format_value(metric, high))
    } else {
        String::new()
    };
    let before = before.map(|before| format!(", {} before", format_value(metric, before)));
    format!("{}{interval}{}", format_value(metric, value), before.unwrap_or_default())
}

/// Describes the measured value of a predicted gain. A miss that would look equal to the prediction
/// is printed with all digits.
pub(super) fn describe_measurement(
    metric: &str,
    measured: f64,
    predicted: f64,
    is_hit: bool,
) -> String {
    let text = format_value(metric, measured);
    match (size(metric, measured), size(metric, predicted)) {
        (Some(size), Some(planned)) if !is_hit && text == format_value(metric, predicted) => {
            let (sign, bytes) = if size > planned {
                ('+', size.saturating_sub(planned))
            } else {
                ('-', planned.saturating_sub(size))
            };
            format!("{text} {sign} {} B", group_digits(bytes.get()))
        }
        _ => text,
    }
}

/// The verdict on a prediction: `hit` or `miss`.
pub(super) fn verdict(is_hit: bool) -> Cell {
    if is_hit { Cell::new(Role::Good, "hit") } else { Cell::new(Role::Warning, "miss") }
}

/// Describes the prediction of a step in a plan.
pub(super) fn describe_expected(expected: &Expected) -> String {
    let Expected { metric, value, interval, before, source } = expected;
    let predicted = describe_prediction(metric, *value, *interval, *before);
    format!("{}: {predicted}. Source: {source}", label(metric))
}

pub(super) fn print(page: &mut Page, gains: &[GainMeasured]) {
    let columns = vec![
        Column::left("  gain"),
        Column::left("result"),
        Column::left("predicted"),
        Column::left("measured"),
        Column::name("step").spare(1),
    ];
    let mut table = Table::new(2, columns);
    for gain in gains {
        let GainOutcome::Measured { measured: found, hit, .. } = gain.outcome else { continue };
        table.row(vec![
            format!("  {}", label(&gain.metric)).into(),
            verdict(hit),
            describe_prediction(&gain.metric, gain.predicted, gain.interval, gain.before).into(),
            describe_measurement(&gain.metric, found, gain.predicted, hit).into(),
            gain.step.clone().into(),
        ]);
    }
    if !table.is_empty() {
        table.print(page);
    }
    for gain in gains {
        let GainOutcome::NotMeasured { why } = &gain.outcome else { continue };
        let text = format!(
            "{} (step {}): predicted {}, not measured: {why}",
            label(&gain.metric),
            gain.step,
            describe_prediction(&gain.metric, gain.predicted, gain.interval, gain.before)
        );
        page.prose(4, Role::Plain, &text);
    }
}
