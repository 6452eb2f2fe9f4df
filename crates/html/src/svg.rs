// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws charts of rectangles, lines and text for a page, with plotters ([`Svg`]).
//!
//! plotters writes colours and not CSS classes. The style sheet of the page replaces each colour by
//! the one of the reader's colour scheme.

use pagewise_model::Name;
use plotters::prelude::{
    Circle, Color, DrawingArea, IntoDrawingArea, IntoFont, PathElement, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBColor, ShapeStyle};

use crate::page::{describe_svg, escape};

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const QUIET: RGBColor = RGBColor(0x59, 0x63, 0x6e);
const REST: RGBColor = RGBColor(0x81, 0x8b, 0x98);
const FREE: RGBColor = RGBColor(0xe6, 0xea, 0xef);
/// The colour of areas for each CSS class, on a light screen.
const AREAS: [(&str, RGBColor); 9] = [
    ("f-anon", RGBColor(0x09, 0x69, 0xda)),
    ("f-shmem", RGBColor(0x82, 0x50, 0xdf)),
    ("f-file", RGBColor(0x1a, 0x7f, 0x37)),
    ("f-kernel", RGBColor(0x9a, 0x67, 0x00)),
    ("f-compressed", RGBColor(0x08, 0x7f, 0x8c)),
    ("f-rest", REST),
    ("f-free", FREE),
    ("f-bad", RGBColor(0xcf, 0x22, 0x2e)),
    ("f-warn", RGBColor(0x8a, 0x5a, 0x00)),
];

/// The alignment of text at its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A chart that is being drawn; lengths are in units of 1/960 of the page's width.
pub(crate) struct Svg {
    width: f64,
    shapes: Vec<Shape>,
}

/// A shape to draw. Its position is rounded to whole units.
enum Shape {
    Area(RGBColor, [(i32, i32); 2]),
    Frame([(i32, i32); 2]),
    Line(ShapeStyle, [(i32, i32); 2]),
    Dot(RGBColor, (i32, i32)),
    Text { colour: RGBColor, anchor: HPos, at: (i32, i32), text: String },
}

impl Svg {
    pub(crate) fn new(width: f64) -> Self {
        Self { width, shapes: Vec::new() }
    }

    /// Draws an area. It is at least one unit wide, so that a small value is visible.
    pub(crate) fn draw_area(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let ((left, top), (right, bottom)) =
            (round_position([x, y]), round_position([x + width, y + height]));
        let ends = [(left, top), (right.max(left + 1), bottom)];
        self.shapes.push(Shape::Area(colour(class), ends));
    }

    /// Draws the background of a bar, with a frame: the range in which the bar may lie.
    pub(crate) fn draw_track(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let ends = [round_position([x, y]), round_position([x + width, y + height])];
        self.shapes.extend([Shape::Area(FREE, ends), Shape::Frame(ends)]);
    }

    pub(crate) fn draw_axis(&mut self, from: [f64; 2], to: [f64; 2]) {
        self.shapes
            .push(Shape::Line(REST.stroke_width(1), [round_position(from), round_position(to)]));
    }

    /// Draws a short line that marks a value.
    pub(crate) fn draw_mark(&mut self, from: [f64; 2], to: [f64; 2]) {
        self.shapes
            .push(Shape::Line(INK.stroke_width(2), [round_position(from), round_position(to)]));
    }

    pub(crate) fn draw_dot(&mut self, class: &str, at: [f64; 2]) {
        self.shapes.push(Shape::Dot(colour(class), round_position(at)));
    }

    /// Draws text whose base line is at `y`.
    pub(crate) fn draw_text(&mut self, anchor: Anchor, at: [f64; 2], text: &str) {
        self.draw_text_in(INK, anchor, at, text);
    }

    /// Draws small text in an inconspicuous colour.
    pub(crate) fn draw_note(&mut self, anchor: Anchor, at: [f64; 2], text: &str) {
        self.draw_text_in(QUIET, anchor, at, text);
    }

    fn draw_text_in(&mut self, colour: RGBColor, anchor: Anchor, at: [f64; 2], text: &str) {
        let anchor = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let text = Name::from(text).as_str().to_owned();
        self.shapes.push(Shape::Text { colour, anchor, at: round_position(at), text });
    }

    /// Returns the chart for a page, with its title below it.
    pub(crate) fn into_figure(self, height: f64, title: &str, description: &str) -> String {
        let svg = self.finish(height, title, description);
        format!("<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>\n", escape(title))
    }

    /// Returns the chart with a title, and with a description that contains all its values as text.
    pub(crate) fn finish(self, height: f64, title: &str, description: &str) -> String {
        let (width, height) = round_position([self.width, height]);
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (width.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        // drawing into memory cannot fail
        let _ = self.shapes.iter().try_for_each(|shape| draw(&area, shape));
        let _ = area.present();
        drop(area);
        describe_svg(&svg, title, description)
    }
}

fn draw(area: &Area<'_>, shape: &Shape) -> Drawn {
    match shape {
        Shape::Area(colour, ends) => area.draw(&Rectangle::new(*ends, colour.filled())),
        Shape::Frame(ends) => area.draw(&Rectangle::new(*ends, REST)),
        Shape::Line(style, ends) => area.draw(&PathElement::new(*ends, *style)),
        Shape::Dot(colour, at) => area.draw(&Circle::new(*at, 5, colour.filled())),
        Shape::Text { colour, anchor, at, text } => {
            // plotters raises text that is aligned at its bottom by half the height of the letter x
            let (x, y) = (at.0, at.1 + 3);
            let style = ("sans-serif", 16).into_font().color(colour);
            area.draw(&Text::new(text.as_str(), (x, y), style.pos(Pos::new(*anchor, VPos::Bottom))))
        }
    }
}

/// Rounds a position to whole units.
#[expect(clippy::cast_possible_truncation, reason = "inside of a chart")]
fn round_position([x, y]: [f64; 2]) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

/// The colour of areas of a CSS class on a light screen.
pub(crate) fn colour(class: &str) -> RGBColor {
    AREAS.iter().find(|(name, _)| *name == class).map_or(INK, |(_, colour)| *colour)
}

/// Returns the length for `part` if `room` is the length for `whole`; at most `room`.
pub(crate) fn length(part: u64, whole: u64, room: f64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) * room }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_in_their_room() {
        assert_eq!([length(1, 4, 80.0), length(9, 4, 80.0), length(1, 0, 80.0)], [20.0, 80.0, 0.0]);
    }

    #[test]
    fn a_chart_has_its_text_beside_it() {
        let mut svg = Svg::new(100.0);
        svg.draw_area("f-anon", [0.0, 0.0], [0.0, 10.0]);
        svg.draw_text(Anchor::End, [1.0, 2.0], "<b>\u{1b}");
        let svg = svg.finish(20.0, "a & b", "c < d");
        assert!(svg.contains("<title>a &amp; b</title><desc>c &lt; d</desc>"), "{svg}");
        assert!(svg.contains("&lt;b&gt;\\u{1b}") && svg.contains("width=\"1\""), "{svg}");
    }

    /// Without a rule in the style sheet, a colour would be the same on a dark screen.
    #[test]
    fn the_style_sheet_has_every_colour_and_its_rule() {
        let sheet = include_str!("style.css");
        let variables =
            AREAS.iter().map(|(class, colour)| (class.strip_prefix("f-").unwrap(), colour));
        for (variable, RGBColor(red, green, blue)) in
            variables.chain([("ink", &INK), ("quiet", &QUIET)])
        {
            let colour = format!("#{red:02x}{green:02x}{blue:02x}");
            let light = sheet.split("@media").next().unwrap();
            assert!(light.contains(&format!("--{variable}:{colour}")), "{variable}");
            let upper = colour.to_uppercase();
            let rule = sheet.split(&format!("[fill=\"{upper}\"]")).nth(1).unwrap();
            let rule = rule.split_once('{').unwrap().1.split('}').next().unwrap();
            let found = rule.split([':', ';']).nth(1).unwrap();
            let name = found.strip_prefix("var(--").unwrap().strip_suffix(')').unwrap();
            assert!(
                sheet.matches(&format!("--{name}:{colour}")).count() == 1,
                "{variable}: {rule}"
            );
        }
    }
}
