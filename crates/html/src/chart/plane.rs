// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Axes, lines and marks of the charts of experiments.
//!
//! An axis may be logarithmic: the values drawn are then logarithms, and its labels show the
//! original values. Labels are at 1, 2 and 5 times a power of ten; if the range is wide, only at
//! powers of ten, and if it is narrow, closer to each other.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colours::{GRID, INK, PAPER, REST, Role, add_style};
use pagewise_report::phrases;

const WIDTH: u32 = 860;
pub(super) const HEIGHT: u32 = 320;
/// Height of a chart if several charts are placed below each other.
pub(super) const LOW: u32 = 200;
const FONT: &str = "sans-serif";
/// Height of the legend above a chart.
const NAMES: u32 = 26;

pub(super) type Plane<'a> =
    ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
pub(super) type Point = (f64, f64);

/// The labels of an axis.
#[derive(Clone, Copy)]
pub(super) enum Scale<'a> {
    /// The axis has no labels; names are drawn beside it separately.
    Unnamed,
    Plain,
    /// A logarithmic axis; the function formats a value for its label.
    Powers(fn(f64) -> String),
    /// Labels at these values, such as times or sizes.
    Marks(&'a [(f64, String)]),
}

/// An axis of a chart: its title and its range.
pub(super) struct Axis<'a> {
    pub(super) title: &'a str,
    pub(super) ends: [f64; 2],
    pub(super) scale: Scale<'a>,
}

/// The axes, title and legend of a chart, before anything is drawn into it.
pub(super) struct Axes<'a> {
    pub(super) title: &'a str,
    pub(super) across: Axis<'a>,
    pub(super) up: Axis<'a>,
    pub(super) height: u32,
    pub(super) left: u32,
    /// The legend: names with their colours; empty if there is only one name.
    pub(super) names: Vec<(&'a str, &'a Role)>,
}

pub(super) fn draw(axes: &Axes<'_>, fill: impl FnOnce(&mut Plane<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    // drawing into memory fails only if the range of an axis is empty, which these ranges are not
    draw_into(axes, fill, &mut svg).ok()?;
    let names: Vec<&str> = axes.names.iter().map(|(name, _)| *name).collect();
    let across = format!("across: {}; up: {}", axes.across.title, axes.up.title);
    let shown = if names.is_empty() { across } else { format!("{across}; {}", names.join(", ")) };
    Some(add_style(&svg, axes.title, &shown))
}

fn draw_into(
    axes: &Axes<'_>,
    fill: impl FnOnce(&mut Plane<'_>) -> Drawn,
    into: &mut String,
) -> Drawn {
    let names = if axes.names.is_empty() { 0 } else { NAMES };
    let root = SVGBackend::with_string(into, (WIDTH, axes.height + names)).into_drawing_area();
    root.fill(&PAPER.light)?;
    let (head, body) = root.split_vertically(34);
    let middle = i32::try_from(WIDTH / 2).unwrap_or(0);
    let style = (FONT, 16).into_font().color(&INK.light).pos(Pos::new(HPos::Center, VPos::Center));
    head.draw(&Text::new(axes.title, (middle, 20), style))?;
    let (legend, body) = body.split_vertically(names);
    draw_legend(&legend, &axes.names)?;
    let mut plane: Plane<'_> = ChartBuilder::on(&body)
        .margin(10)
        .margin_top(2)
        .x_label_area_size(40)
        .y_label_area_size(axes.left)
        .build_cartesian_2d(
            axes.across.ends[0]..axes.across.ends[1],
            axes.up.ends[0]..axes.up.ends[1],
        )?;
    draw_mesh(&mut plane, axes)?;
    fill(&mut plane)?;
    root.present()
}

/// Draws the legend: names in a row, each after its colour.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    names: &[(&str, &Role)],
) -> Drawn {
    const LETTER: i32 = 8;
    let style = (FONT, 13).into_font().color(&INK.light).pos(Pos::new(HPos::Left, VPos::Center));
    let mut left = 72;
    for (name, role) in names {
        let shown: String = name.chars().take(16).collect();
        area.draw(&Circle::new((left, 12), 5, role.light.filled()))?;
        area.draw(&Text::new(shown.clone(), (left + 12, 12), style.clone()))?;
        left += 36 + LETTER * i32::try_from(shown.chars().count()).unwrap_or(16);
    }
    Ok(())
}

fn draw_mesh(plane: &mut Plane<'_>, axes: &Axes<'_>) -> Drawn {
    let quiet = || (FONT, 12).into_font().color(&INK.light);
    let (across, up) = (count_decimals(axes.across.ends), count_decimals(axes.up.ends));
    let across = |value: &f64| format!("{value:.across$}");
    let up = |value: &f64| format!("{value:.up$}");
    let labels = |axis: &Axis<'_>, many| if matches!(axis.scale, Scale::Plain) { many } else { 0 };
    let mut mesh = plane.configure_mesh();
    mesh.x_label_formatter(&across).y_label_formatter(&up);
    mesh.bold_line_style(GRID.light)
        .light_line_style(PAPER.light)
        .axis_style(REST.light)
        .label_style(quiet())
        .axis_desc_style(quiet())
        .x_desc(axes.across.title)
        .y_desc(axes.up.title)
        .x_labels(labels(&axes.across, 10))
        .y_labels(labels(&axes.up, if axes.height < HEIGHT { 4 } else { 7 }));
    if !matches!(axes.across.scale, Scale::Plain) {
        mesh.disable_x_mesh();
    }
    if !matches!(axes.up.scale, Scale::Plain) {
        mesh.disable_y_mesh();
    }
    mesh.draw()?;
    draw_marks(plane, axes)?;
    draw_powers(plane, axes)
}

/// Draws grid lines and labels at given values.
fn draw_marks(plane: &mut Plane<'_>, axes: &Axes<'_>) -> Drawn {
    let (x, y) = (axes.across.ends, axes.up.ends);
    if let Scale::Marks(marks) = axes.up.scale {
        for (at, label) in marks {
            draw_line(plane, [(x[0], *at), (x[1], *at)], &GRID, 1)?;
            draw_label(plane, label, (x[0], *at))?;
        }
    }
    if let Scale::Marks(marks) = axes.across.scale {
        for (at, label) in marks {
            draw_line(plane, [(*at, y[0]), (*at, y[1])], &GRID, 1)?;
            draw_below(plane, label, (*at, y[0]))?;
        }
    }
    Ok(())
}

/// Draws grid lines and labels of logarithmic axes.
fn draw_powers(plane: &mut Plane<'_>, axes: &Axes<'_>) -> Drawn {
    let (x, y) = (axes.across.ends, axes.up.ends);
    if let Scale::Powers(shown) = axes.up.scale {
        for value in find_ticks(y) {
            let at = value.log10();
            draw_line(plane, [(x[0], at), (x[1], at)], &GRID, 1)?;
            draw_label(plane, &shown(value), (x[0], at))?;
        }
    }
    if let Scale::Powers(shown) = axes.across.scale {
        for value in find_ticks(x) {
            let at = value.log10();
            draw_line(plane, [(at, y[0]), (at, y[1])], &GRID, 1)?;
            draw_below(plane, &shown(value), (at, y[0]))?;
        }
    }
    Ok(())
}

/// Returns round values between two logarithms, at which an axis is labelled.
fn find_ticks([least, most]: [f64; 2]) -> Vec<f64> {
    let steps: &[f64] = match most - least {
        narrow if narrow < 0.8 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        some if some < 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    #[expect(clippy::cast_possible_truncation, reason = "an exponent")]
    let powers = least.floor() as i32..=most.ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (least..=most).contains(&value.log10())).collect()
}

/// Formats a round value, without unnecessary decimals.
pub(super) fn format_round(value: f64) -> String {
    let below = (-value.log10()).ceil().clamp(0.0, 9.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 9")]
    let below = below as usize;
    format!("{value:.below$}")
}

/// Formats a round time in seconds, without unnecessary decimals.
pub(super) fn format_time(seconds: f64) -> String {
    phrases::format_precise(seconds).replace(".00 ", " ").replace(".0 ", " ")
}

/// Returns the range from the smallest to the largest value, with a margin.
pub(super) fn range_with_margin(values: &[f64]) -> Option<[f64; 2]> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let around = ((most - least) * 0.12).max(most.abs() * 0.01).max(1e-9);
    Some([least - around, most + around])
}

/// Returns how many decimals are needed so that neighbouring labels differ.
fn count_decimals([least, most]: [f64; 2]) -> usize {
    match most - least {
        wide if wide >= 5.0 => 0,
        some if some >= 0.5 => 1,
        narrow if narrow >= 0.05 => 2,
        _ => 4,
    }
}

pub(super) fn draw_line(plane: &mut Plane<'_>, ends: [Point; 2], role: &Role, width: u32) -> Drawn {
    draw_path(plane, ends.to_vec(), role, width)
}

pub(super) fn draw_path(
    plane: &mut Plane<'_>,
    points: Vec<Point>,
    role: &Role,
    width: u32,
) -> Drawn {
    plane.draw_series([PathElement::new(points, role.light.stroke_width(width))]).map(drop)
}

/// Draws a faint line that belongs to the background.
pub(super) fn draw_faint(plane: &mut Plane<'_>, points: Vec<Point>, role: &Role) -> Drawn {
    plane.draw_series([PathElement::new(points, role.light.mix(0.3).stroke_width(1))]).map(drop)
}

/// Draws a dashed horizontal line, for a bound of an interval.
pub(super) fn draw_dashed(plane: &mut Plane<'_>, height: f64, last: f64, role: &Role) -> Drawn {
    const DASHES: u32 = 60;
    let at = |dash: f64| (last * dash / f64::from(2 * DASHES), height);
    for dash in 0..DASHES {
        let dash = f64::from(2 * dash);
        draw_line(plane, [at(dash), at(dash + 1.0)], role, 1)?;
    }
    Ok(())
}

/// Draws a name next to the axis. It is drawn on the whole chart, because a plane clips everything
/// outside of it.
pub(super) fn draw_label(plane: &Plane<'_>, text: &str, at: Point) -> Drawn {
    draw_beside(plane, text, at, (-22, 0), Pos::new(HPos::Right, VPos::Center))
}

/// Draws a remark, centred at a point inside of the axes.
pub(super) fn draw_remark(plane: &Plane<'_>, text: &str, at: Point) -> Drawn {
    draw_beside(plane, text, at, (0, 0), Pos::new(HPos::Center, VPos::Center))
}

fn draw_below(plane: &Plane<'_>, text: &str, at: Point) -> Drawn {
    draw_beside(plane, text, at, (0, 14), Pos::new(HPos::Center, VPos::Top))
}

fn draw_beside(plane: &Plane<'_>, text: &str, at: Point, by: (i32, i32), anchor: Pos) -> Drawn {
    let style = (FONT, 12).into_font().color(&INK.light).pos(anchor);
    let area = plane.plotting_area().strip_coord_spec();
    let ((x, y), (left, top)) = (plane.backend_coord(&at), area.get_base_pixel());
    let shown: String = text.chars().take(24).collect();
    area.draw(&Text::new(shown, (x - left + by.0, y - top + by.1), style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_round_labels() {
        let few: Vec<String> =
            find_ticks([-1.1, 0.4]).iter().map(|at| format!("{at:.2}")).collect();
        assert_eq!(few, ["0.10", "0.20", "0.50", "1.00", "2.00"]);
        assert_eq!(find_ticks([1.5, 6.5]).len(), 5);
        assert_eq!(
            [50.0, 1.0, 0.1, 0.2, 0.05].map(format_round),
            ["50", "1", "0.1", "0.2", "0.05"]
        );
    }
}
