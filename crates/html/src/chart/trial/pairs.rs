// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of the difference between an arm and the first arm in each pair of runs, in percent, with
//! the confidence interval and the band of effects too small to matter.

use pagewise_model::{MetricKind, Trial, TrialMetric, TrialRun};
use plotters::prelude::*;

use super::super::colours::{GRID, REST};
use super::super::plane::{
    Axes, Axis, HEIGHT, LOW, Point, Scale, draw, draw_dashed, draw_line, range_with_margin,
};
use super::arms::{colour, percent};
use pagewise_report::lineup::{self, ArmPair};

/// Draws a chart for each arm that was compared with the first arm.
pub fn draw_pairs(trial: &Trial, runs: &[TrialRun]) -> Vec<String> {
    let others = lineup::compare_with_first(trial);
    others.iter().filter_map(|other| draw_pairs_of_arm(trial, other, runs)).collect()
}

fn draw_pairs_of_arm(trial: &Trial, other: &ArmPair<'_>, runs: &[TrialRun]) -> Option<String> {
    let metric = other.metrics.first()?;
    let points = changes(trial, other.arm, metric, runs);
    let ends = metric.interval.map(|ends| ends.map(percent));
    let least = trial.min_effect * 100.0;
    let values = points.iter().map(|point| point.1).chain(ends.into_iter().flatten());
    let values: Vec<f64> = values.chain([least, -least]).collect();
    let last = points.last()?.0 + 1.0;
    let first = &trial.arms.first()?.name;
    let (is_wide, what) =
        (lineup::has_more_than_two_arms(trial), format!("{} against {first}", other.arm));
    let axes = Axes {
        title: if is_wide { &what } else { "Every pair" },
        across: Axis { title: "pair", ends: [0.0, last], scale: Scale::Plain },
        up: Axis {
            title: &if is_wide { "%".to_owned() } else { format!("{what}, %") },
            ends: range_with_margin(&values)?,
            scale: Scale::Plain,
        },
        height: if is_wide { LOW } else { HEIGHT },
        left: 72,
        names: Vec::new(),
    };
    let role = colour(trial, other.arm);
    draw(&axes, |plane| {
        let band = Rectangle::new([(0.0, -least), (last, least)], GRID.light.filled());
        plane.draw_series([band])?;
        draw_line(plane, [(0.0, 0.0), (last, 0.0)], &REST, 1)?;
        for end in ends.into_iter().flatten() {
            draw_dashed(plane, end, last, role)?;
        }
        plane
            .draw_series(points.iter().map(|at| Circle::new(*at, 4, role.light.filled())))
            .map(drop)
    })
}

/// Returns the difference from the first arm in each pair in which both runs succeeded, as points
/// of a chart.
fn changes(trial: &Trial, arm: &str, metric: &TrialMetric, runs: &[TrialRun]) -> Vec<Point> {
    let first = trial.arms.first().map_or("a", |arm| &arm.name);
    let value = |pair: u32, arm: &str| {
        let run = runs.iter().find(|run| run.pair == Some(pair) && run.arm == arm)?;
        run.values.get(&metric.name).filter(|_| run.end.is_good())
    };
    // half an event is added as in the comparison, because a count may be 0
    let is_whole = metric.kind == MetricKind::Count && metric.unit != "share";
    let more = if is_whole { 0.5 } else { 0.0 };
    let change = |pair: u32| {
        let (a, b) = (value(pair, first)?, value(pair, arm)?);
        let ratio = (b + more) / (a + more);
        ratio.is_finite().then(|| (f64::from(pair), percent(ratio)))
    };
    (1..=trial.planned_pairs).filter_map(change).collect()
}
