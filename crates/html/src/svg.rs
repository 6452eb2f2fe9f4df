// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws a chart for a page from rectangles, lines and text: [`Svg`]. Its colours are classes of
//! the page's style sheet.

use std::fmt::Write as _;

use crate::page::escape;

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
    body: String,
}

impl Svg {
    pub(crate) fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// Draws an area. It is at least one unit wide, so that a small value is visible.
    pub(crate) fn area(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let width = width.max(1.0);
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    pub(crate) fn line(&mut self, class: &str, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2]) {
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\"/>"
        );
    }

    pub(crate) fn dot(&mut self, class: &str, [x, y]: [f64; 2]) {
        let _ =
            write!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>");
    }

    /// Draws text with the base line `y`; `class` may be empty.
    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, [x, y]: [f64; 2], text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    /// The chart with its title below it, for a page.
    pub(crate) fn figure(self, height: f64, title: &str, description: &str) -> String {
        let svg = self.finish(height, title, description);
        format!("<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>\n", escape(title))
    }

    /// The chart, with a title and a description that contains all its values as text.
    pub(crate) fn finish(self, height: f64, title: &str, description: &str) -> String {
        let (width, body) = (self.width, self.body);
        format!(
            "<svg role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\
             <title>{}</title><desc>{}</desc>{body}</svg>\n",
            escape(title),
            escape(description)
        )
    }
}

/// The length of a bar for `part` if `room` is the length for `whole`; at most `room`.
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
        svg.area("f-anon", [0.0, 0.0], [0.0, 10.0]);
        svg.text("", Anchor::End, [1.0, 2.0], "<b>");
        let svg = svg.finish(20.0, "a & b", "c < d");
        assert!(svg.contains("<title>a &amp; b</title><desc>c &lt; d</desc>"), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains("width=\"1.0\""), "{svg}");
    }
}
