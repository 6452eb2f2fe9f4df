// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of an experiment in the order in which they ran, its pairs, and its intervals.

use pagewise_model::{Trial, TrialMetric, TrialRun};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{GOOD, GRID, INK, OTHER, PAPER, REST, Role, styled};
use crate::told;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 320;
const FONT: &str = "sans-serif";

type Plane<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Point = (f64, f64);

/// What the axes are, and where they end.
struct Axes<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
    x: [f64; 2],
    y: [f64; 2],
    height: u32,
    left: u32,
    named: bool,
}

/// Each run as a point, in the order in which they ran; those of the warm-up are hollow.
pub fn runs(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let metric = trial.metrics.first()?;
    let told: Vec<(&TrialRun, Point)> = runs
        .iter()
        .filter_map(|run| Some((run, (f64::from(run.number), *run.values.get(&metric.name)?))))
        .collect();
    let values: Vec<f64> = told.iter().map(|(_, (_, value))| *value).collect();
    let last = told.last()?.0.number;
    let axes = Axes {
        title: "Every run",
        across: "run",
        up: &with_unit(metric),
        x: [0.0, f64::from(last) + 1.0],
        y: room(&values)?,
        height: HEIGHT,
        left: 72,
        named: true,
    };
    draw(&axes, |plane| {
        for (run, at) in &told {
            let is_first = trial.arms.first().is_some_and(|arm| arm.name == run.arm);
            let role = if is_first { &GOOD } else { &OTHER };
            let style = if run.pair.is_some() && run.end.is_good() {
                role.light.filled()
            } else {
                role.light.stroke_width(1)
            };
            plane.draw_series([Circle::new(*at, 4, style)])?;
        }
        Ok(())
    })
}

/// B against A in each pair, in percent, with the interval and what does not matter.
pub fn pairs(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let metric = trial.metrics.first()?;
    let points = changes(trial, metric, runs);
    let ends = metric.interval.map(|ends| ends.map(percent));
    let least = trial.min_effect * 100.0;
    let values = points.iter().map(|point| point.1).chain(ends.into_iter().flatten());
    let values: Vec<f64> = values.chain([least, -least]).collect();
    let last = points.last()?.0 + 1.0;
    let axes = Axes {
        title: "Every pair",
        across: "pair",
        up: "b against a, %",
        x: [0.0, last],
        y: room(&values)?,
        height: HEIGHT,
        left: 72,
        named: true,
    };
    draw(&axes, |plane| {
        let band = Rectangle::new([(0.0, -least), (last, least)], GRID.light.filled());
        plane.draw_series([band])?;
        line(plane, [(0.0, 0.0), (last, 0.0)], &REST, 1)?;
        for end in ends.into_iter().flatten() {
            dashed(plane, end, last)?;
        }
        plane
            .draw_series(points.iter().map(|at| Circle::new(*at, 4, OTHER.light.filled())))
            .map(drop)
    })
}

/// Each metric's estimate and interval, one below the other.
pub fn intervals(trial: &Trial) -> Option<String> {
    let shown: Vec<&TrialMetric> =
        trial.metrics.iter().filter(|it| it.interval.is_some() && !told::is_none(it)).collect();
    let least = trial.min_effect * 100.0;
    // one metric that grew a hundredfold must not make the others a line
    let far = |value: f64| value.clamp(-100.0, 200.0);
    let ends: Vec<f64> =
        shown.iter().flat_map(|it| it.interval).flatten().map(|it| far(percent(it))).collect();
    let rows = shown.len() as f64;
    let axes = Axes {
        title: "Every metric",
        across: "b against a, %",
        up: "",
        x: room(&[ends, vec![least, -least]].concat()).filter(|_| !shown.is_empty())?,
        y: [0.0, rows],
        height: 90 + 30 * u32::try_from(shown.len()).unwrap_or(1),
        left: 160,
        named: false,
    };
    draw(&axes, |plane| {
        let band = Rectangle::new([(-least, 0.0), (least, rows)], GRID.light.filled());
        plane.draw_series([band])?;
        line(plane, [(0.0, 0.0), (0.0, rows)], &REST, 1)?;
        for (at, metric) in shown.iter().enumerate() {
            let height = rows - at as f64 - 0.5;
            let role = if at == 0 { &OTHER } else { &REST };
            let ends = metric.interval.unwrap_or([1.0, 1.0]).map(percent).map(far);
            line(plane, [(ends[0], height), (ends[1], height)], role, 3)?;
            let middle = far(percent(metric.b_per_a.unwrap_or(1.0)));
            plane.draw_series([Circle::new((middle, height), 5, role.light.filled())])?;
            label(plane, &metric.name, (axes.x[0], height))?;
        }
        Ok(())
    })
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn with_unit(metric: &TrialMetric) -> String {
    match metric.unit.as_str() {
        "said" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}

/// The pairs both of whose runs went well.
fn changes(trial: &Trial, metric: &TrialMetric, runs: &[TrialRun]) -> Vec<Point> {
    let value = |pair: u32, arm: usize| {
        let name = &trial.arms.get(arm)?.name;
        let run = runs.iter().find(|run| run.pair == Some(pair) && run.arm == *name)?;
        run.values.get(&metric.name).filter(|_| run.end.is_good())
    };
    let more = if metric.kind == pagewise_model::MetricKind::Count { 0.5 } else { 0.0 };
    let change = |pair: u32| {
        let (a, b) = (value(pair, 0)?, value(pair, 1)?);
        let ratio = (b + more) / (a + more);
        ratio.is_finite().then(|| (f64::from(pair), percent(ratio)))
    };
    (1..=trial.planned_pairs).filter_map(change).collect()
}

/// From the least to the largest, and some room around.
fn room(values: &[f64]) -> Option<[f64; 2]> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let around = ((most - least) * 0.12).max(most.abs() * 0.01).max(1e-9);
    Some([least - around, most + around])
}

fn draw(axes: &Axes<'_>, fill: impl FnOnce(&mut Plane<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    // drawing into memory fails only where a range is empty, and these are not
    drawn(axes, fill, &mut svg).ok()?;
    Some(styled(&svg))
}

fn drawn(axes: &Axes<'_>, fill: impl FnOnce(&mut Plane<'_>) -> Drawn, into: &mut String) -> Drawn {
    let root = SVGBackend::with_string(into, (WIDTH, axes.height)).into_drawing_area();
    root.fill(&PAPER.light)?;
    let mut plane: Plane<'_> = ChartBuilder::on(&root)
        .caption(axes.title, (FONT, 16, &INK.light))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(axes.left)
        .build_cartesian_2d(axes.x[0]..axes.x[1], axes.y[0]..axes.y[1])?;
    mesh(&mut plane, axes)?;
    fill(&mut plane)?;
    root.present()
}

fn mesh(plane: &mut Plane<'_>, axes: &Axes<'_>) -> Drawn {
    let quiet = || (FONT, 12).into_font().color(&INK.light);
    let (across, up) = (digits(axes.x), digits(axes.y));
    let (across, up) =
        (|value: &f64| format!("{value:.across$}"), |value: &f64| format!("{value:.up$}"));
    let mut mesh = plane.configure_mesh();
    mesh.x_label_formatter(&across).y_label_formatter(&up);
    mesh.bold_line_style(GRID.light)
        .light_line_style(PAPER.light)
        .axis_style(REST.light)
        .label_style(quiet())
        .axis_desc_style(quiet())
        .x_desc(axes.across)
        .y_desc(axes.up)
        .x_labels(10)
        .y_labels(if axes.named { 7 } else { 0 });
    if !axes.named {
        mesh.disable_y_mesh();
    }
    mesh.draw()
}

/// Behind the point, so that neighbouring labels differ.
fn digits([least, most]: [f64; 2]) -> usize {
    match most - least {
        wide if wide >= 5.0 => 0,
        some if some >= 0.5 => 1,
        narrow if narrow >= 0.05 => 2,
        _ => 4,
    }
}

fn line(plane: &mut Plane<'_>, ends: [Point; 2], role: &Role, width: u32) -> Drawn {
    let path = PathElement::new(ends.to_vec(), role.light.stroke_width(width));
    plane.draw_series([path]).map(drop)
}

/// A bound of the interval.
fn dashed(plane: &mut Plane<'_>, height: f64, last: f64) -> Drawn {
    const DASHES: u32 = 60;
    let at = |dash: f64| (last * dash / f64::from(2 * DASHES), height);
    for dash in 0..DASHES {
        let dash = f64::from(2 * dash);
        line(plane, [at(dash), at(dash + 1.0)], &OTHER, 1)?;
    }
    Ok(())
}

/// A name beside the axis, which has none of its own here. Nothing is drawn outside of the plane, so
/// this is drawn on the whole picture.
fn label(plane: &Plane<'_>, text: &str, at: Point) -> Drawn {
    let style = (FONT, 12).into_font().color(&INK.light).pos(Pos::new(HPos::Right, VPos::Center));
    let area = plane.plotting_area().strip_coord_spec();
    let ((x, y), (left, top)) = (plane.backend_coord(&at), area.get_base_pixel());
    let shown: String = text.chars().take(24).collect();
    area.draw(&Text::new(shown, (x - left - 14, y - top), style))
}
