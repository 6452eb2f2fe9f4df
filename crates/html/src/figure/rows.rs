// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that consist of rows, each with a name, a bar and a value. Most figures have this form.

use crate::svg::{Anchor, Svg};

pub(super) const WIDTH: f64 = 960.0;
/// Horizontal position at which the bars begin.
pub(super) const LEFT: f64 = 150.0;
/// Length of the longest bar; the values are to the right of it.
pub(super) const ROOM: f64 = 580.0;
pub(super) const BAR: f64 = 16.0;
/// Vertical distance between two rows.
pub(super) const STEP: f64 = 26.0;

/// A figure of several rows below each other, each with a bar.
#[derive(Default)]
pub(super) struct Rows {
    bars: Vec<Bar>,
}

/// A row: its name, the pieces of its bar (each a CSS class and a length from 0 to [`ROOM`]), and
/// its value as text.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) pieces: Vec<(&'static str, f64)>,
    pub(super) value: String,
}

impl Rows {
    pub(super) fn push(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    /// Draws all rows; `None` if there are none.
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
        Some(svg.into_figure(y, title, &description.join("; ")))
    }
}

fn draw(svg: &mut Svg, bar: &Bar, y: f64) {
    let base = y + BAR - 3.0;
    svg.draw_text(Anchor::End, [LEFT - 10.0, base], &shorten_name(&bar.name, 22));
    svg.draw_track([LEFT, y], [ROOM, BAR]);
    let mut x = LEFT;
    for &(class, length) in bar.pieces.iter().filter(|(_, length)| *length > 0.0) {
        svg.draw_area(class, [x, y], [length, BAR]);
        x += length;
    }
    svg.draw_text(Anchor::Start, [LEFT + ROOM + 10.0, base], &bar.value);
}

/// Shortens a name so that it fits next to a bar; the table below the figure contains the complete
/// name.
pub(super) fn shorten_name(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    let kept: String = name.chars().take(letters - 1).collect();
    kept + "…"
}
