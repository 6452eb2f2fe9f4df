// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of a name, a bar and a value, the form of most charts.

use crate::svg::{Anchor, Svg};

pub(super) const WIDTH: f64 = 960.0;
/// The left end of the bars.
pub(super) const LEFT: f64 = 150.0;
/// The length of the longest bar; values are to its right.
pub(super) const ROOM: f64 = 580.0;
pub(super) const BAR: f64 = 16.0;
/// The distance between two rows.
pub(super) const STEP: f64 = 26.0;

/// A figure of several rows below each other, each with a bar.
#[derive(Default)]
pub(super) struct Rows {
    bars: Vec<Bar>,
}

/// One row: its name, the pieces of its bar (a class and a length from 0 to [`ROOM`]), and its
/// value as text.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) pieces: Vec<(&'static str, f64)>,
    pub(super) value: String,
}

impl Rows {
    pub(super) fn push(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    /// Draws the figure of all rows; `None` if it has no rows.
    pub(super) fn draw(self, title: &str) -> Option<String> {
        if self.bars.is_empty() {
            return None;
        }
        let mut svg = Svg::new(WIDTH);
        let mut description = Vec::new();
        let mut y = 4.0;
        for bar in &self.bars {
            draw(&mut svg, bar, y);
            description.push(format!("{}: {}", bar.name, bar.value));
            y += STEP;
        }
        Some(svg.figure(y, title, &description.join("; ")))
    }
}

fn draw(svg: &mut Svg, bar: &Bar, y: f64) {
    let base = y + BAR - 3.0;
    svg.text(Anchor::End, [LEFT - 10.0, base], &shorten(&bar.name, 22));
    svg.track([LEFT, y], [ROOM, BAR]);
    let mut x = LEFT;
    for &(class, length) in bar.pieces.iter().filter(|(_, length)| *length > 0.0) {
        svg.area(class, [x, y], [length, BAR]);
        x += length;
    }
    svg.text(Anchor::Start, [LEFT + ROOM + 10.0, base], &bar.value);
}

/// A name shortened so that it fits next to a bar; the table below the chart contains it in full.
pub(super) fn shorten(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    let kept: String = name.chars().take(letters - 1).collect();
    kept + "…"
}
