// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chart of the read time against the compression ratio. An algorithm that is worse than another
//! one in both need not be considered.

use pagewise_model::ParetoPoint;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colours::{GOOD, GRID, INK, PAPER, REST, add_style};

const SIZE: (u32, u32) = (820, 520);
const FONT: &str = "sans-serif";

type Plane<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Returns the Pareto chart as an SVG document; `None` if there are no points.
pub fn draw_pareto(title: &str, points: &[ParetoPoint]) -> Option<String> {
    let mut svg = String::new();
    // drawing into memory fails only if the range of an axis is empty, which these ranges are not
    (!points.is_empty()).then(|| draw(title, points, &mut svg).ok()).flatten()?;
    let names: Vec<String> = points.iter().map(describe_point).collect();
    Some(add_style(&svg, title, &names.join("; ")))
}

/// Describes a point of the chart: `lz4: 3.1 µs, ratio 2.60`.
fn describe_point(point: &ParetoPoint) -> String {
    format!("{}: {:.1} µs, ratio {:.2}", point.contender, micros(point), ratio(point))
}

fn draw(title: &str, points: &[ParetoPoint], into: &mut String) -> Drawn {
    let root = SVGBackend::with_string(into, SIZE).into_drawing_area();
    root.fill(&PAPER.light)?;
    let mut plane: Plane<'_> = ChartBuilder::on(&root)
        .caption(title, (FONT, 18, &INK.light))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(56)
        .build_cartesian_2d(range(points, micros), range(points, ratio))?;
    draw_axes(&mut plane)?;
    draw_front(&mut plane, points)?;
    for point in points {
        draw_point(&mut plane, point)?;
    }
    root.present()
}

fn micros(point: &ParetoPoint) -> f64 {
    point.read_ns / 1000.0
}

fn ratio(point: &ParetoPoint) -> f64 {
    point.original_per_memory_used
}

/// Returns the range from zero to the largest value, with space for labels beyond it.
fn range(points: &[ParetoPoint], of: fn(&ParetoPoint) -> f64) -> std::ops::Range<f64> {
    let most = points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    0.0..most * 1.25
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw_axes(plane: &mut Plane<'_>) -> Drawn {
    let quiet = |colour: &RGBColor| (FONT, 13).into_font().color(colour);
    plane
        .configure_mesh()
        .bold_line_style(GRID.light)
        .light_line_style(PAPER.light)
        .axis_style(REST.light)
        .label_style(quiet(&INK.light))
        .axis_desc_style(quiet(&INK.light))
        .x_desc("time of reading the smallest block (p50), µs (less is better)")
        .y_desc("original per memory used (more is better)")
        .draw()
}

/// Draws the Pareto front: a line through the points for which no other point is better in both
/// measures.
fn draw_front(plane: &mut Plane<'_>, points: &[ParetoPoint]) -> Drawn {
    let on_front = points.iter().filter(|point| point.is_on_front);
    let mut line: Vec<(f64, f64)> = on_front.map(|point| (micros(point), ratio(point))).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let line = LineSeries::new(line, GOOD.light.stroke_width(2));
    plane.draw_series(line).map(drop)
}

fn draw_point(plane: &mut Plane<'_>, point: &ParetoPoint) -> Drawn {
    let colour = if point.is_on_front { GOOD.light } else { REST.light };
    let at = (micros(point), ratio(point));
    let [low, high] = point.read_spread.map(|ns| ns / 1000.0);
    let spread = PathElement::new(vec![(low, at.1), (high, at.1)], colour.stroke_width(1));
    let style = (FONT, 14).into_font().color(&INK.light).pos(Pos::new(HPos::Left, VPos::Bottom));
    let name = EmptyElement::at(at)
        + Circle::new((0, 0), 5, colour.filled())
        + Text::new(point.contender.to_string(), (8, -6), style);
    plane.draw_series([spread])?;
    plane.draw_series([name]).map(drop)
}

#[cfg(test)]
mod tests {
    use pagewise_model::Compressor;

    use super::*;

    fn point(name: &str, read_ns: f64, original_per_memory_used: f64) -> ParetoPoint {
        ParetoPoint {
            contender: Compressor::new(name),
            read_ns,
            read_spread: [read_ns * 0.9, read_ns * 1.1],
            original_per_memory_used,
            is_on_front: name != "lzo",
        }
    }

    #[test]
    fn every_name_is_in_the_picture_and_dark_screens_are_served() {
        let points =
            [point("lz4", 3000.0, 2.6), point("zstd", 9000.0, 3.4), point("lzo", 5000.0, 2.5)];
        let svg = draw_pareto("read time and ratio", &points).unwrap();
        for word in ["lz4", "zstd", "lzo", "µs", "prefers-color-scheme:dark"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("<script"));
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(draw_pareto("nothing", &[]), None);
    }

    #[test]
    fn a_name_from_the_host_cannot_leave_its_text() {
        let svg = draw_pareto("t", &[point("</text><script>", 1.0, 1.0)]).unwrap();
        assert!(!svg.contains("<script>"), "{svg}");
    }
}
