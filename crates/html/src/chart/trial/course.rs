// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of a built-in workload over time: the durations of its iterations before and in the
//! steady state, and its latencies.

use std::collections::BTreeMap;

use pagewise_model::{Course, Trial, TrialRun};
use plotters::prelude::*;

use super::super::plane::{
    Axes, Axis, HEIGHT, Point, Scale, draw, draw_faint, draw_path, format_round, format_time,
    range_with_margin,
};
use super::arms::{colour, names};
use pagewise_report::phrases::total;

/// Draws the duration of each iteration on a logarithmic axis: the median run of each arm in full
/// colour, the arm's other runs faintly behind it. A ring marks the start of the steady state.
pub fn draw_settling(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let arms = courses_by_arm(trial, runs);
    let points: Vec<Point> = arms.values().flatten().flat_map(|course| line_of(course)).collect();
    let last = points.iter().map(|point| point.0).fold(1.0, f64::max);
    let axes = Axes {
        title: "Settling",
        across: Axis { title: "iteration", ends: [0.0, last + 1.0], scale: Scale::Plain },
        up: Axis {
            title: "time of an iteration",
            ends: range_with_margin(&points.iter().map(|point| point.1).collect::<Vec<_>>())?,
            scale: Scale::Powers(format_time),
        },
        height: HEIGHT,
        left: 72,
        names: names(trial, |arm| arms.contains_key(arm)),
    };
    draw(&axes, |plane| {
        for (arm, courses) in &arms {
            for course in courses.iter().skip(1) {
                draw_faint(plane, line_of(course), colour(trial, arm))?;
            }
        }
        for (arm, courses) in &arms {
            let (role, line) = (colour(trial, arm), line_of(courses[0]));
            let settled = courses[0].settled_at.and_then(|at| line.get(at as usize).copied());
            draw_path(plane, line, role, 2)?;
            let ring = settled.map(|at| Circle::new(at, 6, role.light.stroke_width(2)));
            plane.draw_series(ring)?;
        }
        Ok(())
    })
}

/// Returns the runs that recorded their iterations, by arm. The run that is the median by its last
/// iterations is the first one of each arm.
fn courses_by_arm<'a>(
    trial: &'a Trial,
    runs: &'a [TrialRun],
) -> BTreeMap<&'a str, Vec<&'a Course>> {
    let mut all: BTreeMap<&str, Vec<&Course>> = BTreeMap::new();
    for arm in &trial.arms {
        let measured = runs.iter().filter(|run| run.arm == arm.name && run.pair.is_some());
        let mut courses: Vec<&Course> = measured
            .filter_map(|run| run.course.as_ref())
            .filter(|course| line_of(course).len() > 1)
            .collect();
        courses.sort_by(|a, b| sum(a).total_cmp(&sum(b)));
        let middle = courses.len() / 2;
        if !courses.is_empty() {
            courses.swap(0, middle);
            all.insert(&arm.name, courses);
        }
    }
    all
}

fn sum(course: &Course) -> f64 {
    course.iteration_seconds.iter().sum()
}

/// Returns the points of a line: the number of each iteration, counted from 1, with the logarithm
/// of its duration.
fn line_of(course: &Course) -> Vec<Point> {
    let logs = course.iteration_seconds.iter().enumerate();
    let point = |(at, seconds): (usize, &f64)| (at as f64 + 1.0, seconds.max(1e-9).log10());
    logs.map(point).collect()
}

/// Draws the share of operations by latency over the measured runs of each arm, on two logarithmic
/// axes.
pub fn draw_latencies(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let arms: Vec<(&str, Vec<Point>)> = trial
        .arms
        .iter()
        .map(|arm| (arm.name.as_str(), histogram(&arm.name, runs)))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let of = |pick: fn(&Point) -> f64| -> Vec<f64> {
        arms.iter().flat_map(|(_, points)| points.iter().map(pick)).collect()
    };
    let shares = of(|point| point.1);
    let axes = Axes {
        title: "Latency of operations in the steady state",
        across: Axis {
            title: "latency",
            ends: range_with_margin(&of(|point| point.0))?,
            scale: Scale::Powers(format_time),
        },
        up: Axis {
            title: "share of operations",
            ends: range_with_margin(&shares).map(|[least, most]| [least, most.min(0.1)])?,
            scale: Scale::Powers(share),
        },
        height: HEIGHT,
        left: 72,
        names: names(trial, |arm| arms.iter().any(|(known, _)| *known == arm)),
    };
    draw(&axes, |plane| {
        for (arm, points) in &arms {
            draw_path(plane, points.clone(), colour(trial, arm), 2)?;
        }
        Ok(())
    })
}

/// Returns the logarithms of latency bounds in seconds and of the shares of operations. Latencies
/// that did not occur are left out.
fn histogram(arm: &str, runs: &[TrialRun]) -> Vec<Point> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let measured = runs.iter().filter(|run| run.arm == arm && run.pair.is_some());
    for (bound, count) in
        measured.filter_map(|run| run.course.as_ref()).flat_map(|it| &it.latency_ns)
    {
        let sum = counts.entry(*bound).or_default();
        *sum = total([*sum, *count]);
    }
    let sum = total(counts.values().copied());
    let point = |(bound, count): (u64, u64)| {
        ((bound as f64 / 1e9).max(1e-9).log10(), (count as f64 / sum as f64).log10())
    };
    counts.into_iter().filter(|(_, count)| *count > 0).map(point).collect()
}

fn share(share: f64) -> String {
    format!("{} %", format_round(share * 100.0))
}
