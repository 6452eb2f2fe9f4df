// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of estimates with their confidence intervals, one below the other: for each metric, or
//! for each arm.

use pagewise_model::{Ends, Trial, TrialMetric};
use plotters::prelude::*;

use super::super::colours::{GRID, REST, Role};
use super::super::plane::{
    Axes, Axis, Point, Scale, draw, draw_label, draw_line, format_round, range_with_margin,
};
use super::arms::{colour, percent};
use pagewise_report::lineup::{self, ArmPair};
use pagewise_report::phrases;

/// A row of the chart: an estimate with its interval.
struct Row<'a> {
    name: &'a str,
    role: &'a Role,
    middle: f64,
    ends: Ends<f64>,
}

/// Draws a row for each metric of an arm; `None` if no metric has an interval that can be judged.
pub fn draw_intervals(trial: &Trial, arm: &str) -> Option<String> {
    // clamped: a metric that grew a hundredfold would compress the others to a line
    let far = |value: f64| percent(value).clamp(-100.0, 200.0);
    let found = lineup::compare_with_first(trial).into_iter().find(|other| other.arm == arm)?;
    let shown = |metric: &&TrialMetric| {
        phrases::is_judged(trial.clock, metric) && !phrases::is_zero_in_both_arms(metric)
    };
    let metrics = found.metrics.iter().filter(shown);
    let rows: Vec<Row<'_>> = metrics
        .filter_map(|metric| {
            let is_first = metric.name == trial.primary;
            let role = if is_first { colour(trial, arm) } else { &REST };
            row(&metric.name, metric, role, far)
        })
        .collect();
    let least = trial.min_effect * 100.0;
    let first = &trial.arms.first()?.name;
    let across = Axis {
        title: &format!("{arm} against {first}, %"),
        ends: ends(&rows, least)?,
        scale: Scale::Plain,
    };
    draw_rows("Every metric", across, &rows, [-least, least])
}

/// Draws the primary metric of each arm as a ratio to that of the first arm, on a logarithmic axis.
pub fn draw_arms(trial: &Trial) -> Option<String> {
    let others = lineup::compare_with_first(trial);
    let primary = |other: &ArmPair<'_>| {
        other.metrics.first().is_some_and(|metric| phrases::is_judged(trial.clock, metric))
    };
    let rows: Vec<Row<'_>> = others
        .iter()
        .filter(|other| primary(other))
        .filter_map(|other| row(other.arm, &other.metrics[0], colour(trial, other.arm), f64::log10))
        .collect();
    let least = [1.0 - trial.min_effect, 1.0 + trial.min_effect].map(f64::log10);
    let first = &trial.arms.first()?.name;
    let across = Axis {
        title: &format!("{} against {first}", trial.primary),
        ends: ends(&rows, least[1])?,
        scale: Scale::Powers(times),
    };
    draw_rows("Every arm", across, &rows, least)
}

fn times(ratio: f64) -> String {
    format!("{} ×", format_round(ratio))
}

fn row<'a>(
    name: &'a str,
    metric: &TrialMetric,
    role: &'a Role,
    scaled: impl Fn(f64) -> f64,
) -> Option<Row<'a>> {
    let ends = metric.interval?.map(&scaled);
    let middle = scaled(metric.b_per_a?);
    let finite = ends.iter().chain([&middle]).all(|value| value.is_finite());
    finite.then_some(Row { name, role, middle, ends })
}

/// Returns the range of the axis, including the band of effects too small to matter; `None` if
/// there are no rows.
fn ends(rows: &[Row<'_>], least: f64) -> Option<[f64; 2]> {
    let ends: Vec<f64> = rows.iter().flat_map(|row| row.ends).collect();
    range_with_margin(&[ends, vec![least, -least]].concat()).filter(|_| !rows.is_empty())
}

fn draw_rows(title: &str, across: Axis<'_>, rows: &[Row<'_>], least: [f64; 2]) -> Option<String> {
    let count = rows.len() as f64;
    let left = across.ends[0];
    let axes = Axes {
        title,
        across,
        up: Axis { title: "", ends: [0.0, count], scale: Scale::Unnamed },
        height: 90 + 30 * u32::try_from(rows.len()).unwrap_or(1),
        left: 160,
        names: Vec::new(),
    };
    draw(&axes, |plane| {
        let band: [Point; 2] = [(least[0], 0.0), (least[1], count)];
        plane.draw_series([Rectangle::new(band, GRID.light.filled())])?;
        draw_line(plane, [(0.0, 0.0), (0.0, count)], &REST, 1)?;
        for (at, Row { name, role, middle, ends }) in rows.iter().enumerate() {
            let height = count - at as f64 - 0.5;
            draw_line(plane, [(ends[0], height), (ends[1], height)], role, 3)?;
            plane.draw_series([Circle::new((*middle, height), 5, role.light.filled())])?;
            draw_label(plane, name, (left, height))?;
        }
        Ok(())
    })
}
