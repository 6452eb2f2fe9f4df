// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chart with a point for each run, in order of time.

use pagewise_model::{Trial, TrialRun};
use plotters::prelude::*;

use super::super::plane::{Axes, Axis, HEIGHT, Point, Scale, draw, format_time, range_with_margin};
use super::arms::{colour, names, with_unit};

/// Draws the primary metric of each run. Warm-up runs and failed runs are drawn as unfilled points.
///
/// If the values of the arms are far apart, the axis is logarithmic.
pub fn draw_runs(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let metric = trial.metrics.first()?;
    let lines: Vec<(&TrialRun, f64)> =
        runs.iter().filter_map(|run| Some((run, *run.values.get(&metric.name)?))).collect();
    let values: Vec<f64> = lines.iter().map(|(_, value)| *value).collect();
    let last = lines.last()?.0.number;
    let has_powers = metric.unit == "seconds" && are_far_apart(&values);
    let height = |value: f64| if has_powers { value.log10() } else { value };
    let axes = Axes {
        title: "Every run",
        across: Axis { title: "run", ends: [0.0, f64::from(last) + 1.0], scale: Scale::Plain },
        up: Axis {
            title: &if has_powers { metric.name.clone() } else { with_unit(metric) },
            ends: range_with_margin(&values.iter().copied().map(height).collect::<Vec<_>>())?,
            scale: if has_powers { Scale::Powers(format_time) } else { Scale::Plain },
        },
        height: HEIGHT,
        left: 72,
        names: names(trial, |arm| lines.iter().any(|(run, _)| run.arm == arm)),
    };
    draw(&axes, |plane| {
        for (run, value) in &lines {
            let at: Point = (f64::from(run.number), height(*value));
            let role = colour(trial, &run.arm);
            let style = if run.pair.is_some() && run.end.is_good() {
                role.light.filled()
            } else {
                role.light.stroke_width(1)
            };
            plane.draw_series([Circle::new(at, 4, style)])?;
        }
        Ok(())
    })
}

/// Whether values are too far apart for a linear axis.
fn are_far_apart(values: &[f64]) -> bool {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    least > 0.0 && most / least >= 4.0
}
