// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of the free memory of each zone compared with its watermarks.
//!
//! The axis ends at twice the high watermark. Most zones have much more free memory than that: if
//! the axis included it, the watermarks would be a single line at the left. An arrow marks a bar
//! that continues beyond the axis.

use pagewise_model::{Bytes, Pages, Snapshot, Zone, ZonePressure};

use super::rows::{BAR, LEFT, ROOM, WIDTH};
use crate::svg::{Anchor, Svg, length};

const TITLE: &str =
    "Free memory of each zone against its watermarks; the axis ends at twice the high watermark";
/// Vertical distance between two zones: the bar, and the labels of the watermarks below it.
const STEP: f64 = 44.0;

pub(crate) fn draw_zones(snapshot: &Snapshot) -> Option<String> {
    let shown: Vec<Marks<'_>> = snapshot.zones.iter().filter_map(Marks::from_known).collect();
    if shown.is_empty() {
        return None;
    }
    let several = snapshot.zones.iter().any(|zone| zone.node > 0);
    let page_size = snapshot.page_size();
    let mut svg = Svg::new(WIDTH);
    let mut y = 4.0;
    let mut description = Vec::new();
    for zone in &shown {
        zone.draw(&mut svg, y, several, page_size);
        description.push(zone.describe_zone(several, page_size));
        y += STEP;
    }
    Some(svg.into_figure(y, TITLE, &description.join("; ")))
}

struct Marks<'a> {
    zone: &'a Zone,
    free: Pages,
    marks: [(&'static str, Pages); 3],
    state: ZonePressure,
}

impl<'a> Marks<'a> {
    fn from_known(zone: &'a Zone) -> Option<Self> {
        let marks = [
            ("min", zone.min_pages.get()?),
            ("low", zone.low_pages.get()?),
            ("high", zone.high_pages.get()?),
        ];
        let has_marks = marks[2].1.get() > 0;
        has_marks.then_some(())?;
        Some(Self { zone, free: zone.free_pages.get()?, marks, state: zone.pressure()? })
    }

    fn end(&self) -> u64 {
        self.marks[2].1.get().saturating_mul(2)
    }

    fn name(&self, several: bool) -> String {
        let zone = self.zone;
        if several { format!("node {} {}", zone.node, zone.name) } else { zone.name.to_string() }
    }

    fn draw(&self, svg: &mut Svg, y: f64, several: bool, page_size: Bytes) {
        let base = y + BAR - 3.0;
        svg.draw_text(Anchor::End, [LEFT - 10.0, base], &self.name(several));
        svg.draw_track([LEFT, y], [ROOM, BAR]);
        let width = length(self.free.get(), self.end(), ROOM);
        svg.draw_area(class(self.state), [LEFT, y], [width, BAR]);
        let more = if self.free.get() > self.end() { "→ " } else { "" };
        let free = format!("{more}{} free", self.free.to_bytes(page_size));
        svg.draw_text(Anchor::Start, [LEFT + ROOM + 10.0, base], &free);
        self.draw_marks(svg, y);
    }

    fn draw_marks(&self, svg: &mut Svg, y: f64) {
        let mut free_from = f64::MIN;
        for (name, pages) in self.marks {
            let x = LEFT + length(pages.get(), self.end(), ROOM);
            svg.draw_mark([x, y - 3.0], [x, y + BAR + 3.0]);
            if x >= free_from {
                svg.draw_note(Anchor::Middle, [x, y + BAR + 16.0], name);
                free_from = x + 34.0;
            }
        }
    }

    fn describe_zone(&self, several: bool, page_size: Bytes) -> String {
        let marks = self.marks.map(|(name, pages)| format!("{name} {}", pages.to_bytes(page_size)));
        let free = self.free.to_bytes(page_size);
        format!("{}: {free} free, watermarks {}", self.name(several), marks.join(", "))
    }
}

fn class(state: ZonePressure) -> &'static str {
    match state {
        ZonePressure::Idle | ZonePressure::Balanced => "f-file",
        ZonePressure::Background => "f-warn",
        ZonePressure::Direct => "f-bad",
    }
}
