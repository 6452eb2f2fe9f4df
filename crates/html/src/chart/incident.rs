// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of an incident below each other, with the same time axis: the uses of memory, pressure,
//! swap, and events. The last chart shows the whole record, of which they are a part.
//!
//! Nothing is drawn for a time without readings. The number of points is limited, whatever the
//! number of readings.

use pagewise_model::{Bytes, Incident, IncidentEvent, IncidentEventKind, Level};
use pagewise_report::course::{CoursePoint, MemoryCourse, size_marks, time_marks};
use plotters::prelude::*;

use super::colours::{BAD, GOOD, INK, OTHER, PAPER, REST, Role, WARN};
use super::plane::{
    Axes, Axis, Drawn, HEIGHT, LOW, Plane, Point, Scale, draw, draw_label, draw_line, draw_path,
    draw_remark,
};
use crate::figure::class_of_use;
use crate::svg::colour;

/// Maximum number of readings that are drawn.
const POINTS: usize = 400;
/// Maximum number of events of one kind that are drawn.
const EVENTS: usize = 100;
/// If there are more kills, they have no lines, which would hide the values.
pub(crate) const KILL_LINES: usize = 12;
const LEFT: u32 = 84;
/// Height of a row of events, and of the chart of events without its rows.
const ROW: u32 = 26;
const AROUND_ROWS: u32 = 96;
/// A hole is named if it is at least this part of the axis.
const NAMED_HOLE: f64 = 0.12;

/// Draws what happened. Without a reading there is no chart, and a chart without values is left out.
pub fn draw_incident(incident: &Incident, course: &MemoryCourse) -> Vec<String> {
    let course = course.thin(POINTS);
    let Some(ends) = course.ends() else { return Vec::new() };
    let marks = time_marks(ends);
    let drawing = Drawing { incident, course: &course, ends, marks: &marks };
    let charts = [drawing.memory(), drawing.pressure(), drawing.swap(), drawing.events()];
    charts.into_iter().flatten().chain(drawing.whole_record()).collect()
}

/// What all charts have in common.
struct Drawing<'a> {
    incident: &'a Incident,
    course: &'a MemoryCourse,
    ends: [f64; 2],
    marks: &'a [(f64, String)],
}

impl Drawing<'_> {
    fn draw(
        &self,
        title: &str,
        up: Axis<'_>,
        height: u32,
        names: Vec<(&str, &Role)>,
        fill: impl FnOnce(&mut Plane<'_>) -> Drawn,
    ) -> Option<String> {
        let across = Axis { title: "time, UTC", ends: self.ends, scale: Scale::Marks(self.marks) };
        let top = up.ends;
        draw(&Axes { title, across, up, height, left: LEFT, names }, |plane| {
            fill(plane)?;
            self.draw_times(plane, top)
        })
    }

    /// Draws the uses of memory as areas above each other.
    fn memory(&self) -> Option<String> {
        let sum = |point: &CoursePoint| point.uses.iter().map(|it| it.bytes).sum::<Bytes>();
        let sizes = self.course.points.iter().filter(|point| !point.uses.is_empty());
        let most = sizes.map(|point| sum(point).max(point.total.unwrap_or_default())).max()?;
        let marks = size_marks(most);
        let up = Axis {
            title: "",
            ends: [0.0, (most.get() as f64).max(1.0)],
            scale: Scale::Marks(&marks),
        };
        let height = up.ends[1];
        self.draw("What RAM was used for", up, HEIGHT, Vec::new(), |plane| {
            for part in self.course.parts() {
                for part in part.split(|point| point.uses.is_empty()) {
                    self.draw_uses(plane, part)?;
                }
            }
            self.name_holes(plane, height / 2.0)
        })
    }

    fn draw_uses(&self, plane: &mut Plane<'_>, part: &[CoursePoint]) -> Drawn {
        let mut below: Vec<f64> = vec![0.0; part.len()];
        for (name, role) in self.course.uses() {
            let size = |point: &CoursePoint| {
                let of_name = point.uses.iter().filter(|it| it.name == name);
                of_name.map(|it| it.bytes.get() as f64).sum::<f64>()
            };
            let above: Vec<f64> =
                part.iter().zip(&below).map(|(point, below)| below + size(point)).collect();
            let [upper, lower] = [&above, &below].map(|heights| self.outline(part, heights));
            let outline: Vec<Point> =
                upper.iter().copied().chain(lower.into_iter().rev()).collect();
            if outline.is_empty() {
                continue;
            }
            let filled = colour(class_of_use(name, role)).filled();
            plane.draw_series([Polygon::new(outline, filled)])?;
            // a line between areas, so that they can be distinguished without colours
            draw_path(plane, upper, &PAPER, 1)?;
            below = above;
        }
        Ok(())
    }

    /// Points of a line through these heights; a single reading gets a narrow width.
    fn outline(&self, part: &[CoursePoint], heights: &[f64]) -> Vec<Point> {
        let points =
            || part.iter().zip(heights).map(|(point, height)| (point.unix_seconds, *height));
        match part {
            [one] => {
                let width = self.narrow_width();
                let times = [one.unix_seconds - width, one.unix_seconds + width];
                times.into_iter().zip(points().map(|(_, height)| height).cycle()).collect()
            }
            _ => points().collect(),
        }
    }

    fn narrow_width(&self) -> f64 {
        (self.ends[1] - self.ends[0]) / 300.0
    }

    /// Draws the share of time in which tasks waited for memory.
    fn pressure(&self) -> Option<String> {
        let points = &self.course.points;
        let all = points.iter().flat_map(|point| [point.some_percent, point.full_percent]);
        let most =
            all.flatten().fold(None, |most: Option<f64>, it| Some(most.unwrap_or(0.0).max(it)))?;
        let has_full = points.iter().any(|point| point.full_percent.is_some());
        let names =
            [("some task", &WARN)].into_iter().chain(has_full.then_some(("all tasks", &BAD)));
        let marks = percent_marks(most);
        let up = Axis { title: "", ends: percent_ends(most), scale: Scale::Marks(&marks) };
        let title = "Tasks waited for memory (PSI), % of the time";
        self.draw(title, up, LOW, names.collect(), |plane| {
            for part in self.course.parts() {
                let line = |pick: fn(&CoursePoint) -> Option<f64>| {
                    steps(part.iter().map(|point| (point.unix_seconds, pick(point))))
                };
                for path in line(|point| point.some_percent) {
                    draw_path(plane, path, &WARN, 2)?;
                }
                for path in line(|point| point.full_percent) {
                    draw_path(plane, path, &BAD, 2)?;
                }
            }
            Ok(())
        })
    }

    /// Draws how much of the swap areas was used, and their size. `None` if there is no swap.
    fn swap(&self) -> Option<String> {
        let points = &self.course.points;
        let most = points.iter().filter_map(|point| point.swap_size).max()?;
        if most.get() == 0 {
            return None;
        }
        let marks = size_marks(most);
        let up =
            Axis { title: "", ends: [0.0, most.get() as f64 * 1.08], scale: Scale::Marks(&marks) };
        let names = vec![("used", &GOOD), ("size", &OTHER)];
        self.draw("Swap", up, LOW, names, |plane| {
            for part in self.course.parts() {
                for part in part.split(|point| point.swap_size.is_none()) {
                    let line = |pick: fn(&CoursePoint) -> Option<Bytes>| {
                        let size =
                            |point: &CoursePoint| pick(point).unwrap_or_default().get() as f64;
                        self.outline(part, &part.iter().map(size).collect::<Vec<f64>>())
                    };
                    let used = line(|point| point.swap_used);
                    if let (Some(first), Some(last)) = (used.first(), used.last()) {
                        let ground = [(last.0, 0.0), (first.0, 0.0)];
                        let area: Vec<Point> = used.iter().copied().chain(ground).collect();
                        let filled = GOOD.light.filled();
                        plane.draw_series([Polygon::new(area, filled)])?;
                    }
                    draw_path(plane, line(|point| point.swap_size), &OTHER, 2)?;
                }
            }
            Ok(())
        })
    }

    /// Draws the verdict's level as a band, and a row of dots for each kind of event.
    fn events(&self) -> Option<String> {
        let rows: Vec<(&str, Vec<&IncidentEvent>)> = KINDS
            .iter()
            .map(|(name, kinds)| {
                let events = self.incident.events.iter().filter(|it| kinds.contains(&it.kind));
                (*name, events.take(EVENTS).collect::<Vec<_>>())
            })
            .filter(|(_, events)| !events.is_empty())
            .collect();
        let number = u32::try_from(rows.len() + 1).unwrap_or(1);
        let top = f64::from(number);
        let up = Axis { title: "", ends: [0.0, top], scale: Scale::Unnamed };
        let names = LEVELS.map(|(_, name, role)| (name, role)).to_vec();
        self.draw("Verdict and events", up, AROUND_ROWS + ROW * number, names, |plane| {
            for part in self.course.parts() {
                self.draw_levels(plane, part, top - 1.0)?;
            }
            draw_label(plane, "verdict", (self.ends[0], top - 0.5))?;
            for (at, (name, events)) in rows.iter().enumerate() {
                let height = top - 1.5 - u32::try_from(at).map_or(0.0, f64::from);
                draw_label(plane, name, (self.ends[0], height))?;
                let dots = events.iter().map(|event| {
                    let is_kill = event.kind == IncidentEventKind::Kill;
                    let role = if is_kill { &BAD } else { &INK };
                    Circle::new((event.unix_seconds, height), 5, role.light.filled())
                });
                plane.draw_series(dots)?;
            }
            Ok(())
        })
    }

    /// Draws a bar for each level, the higher the worse, so that it can be read without colours.
    fn draw_levels(&self, plane: &mut Plane<'_>, part: &[CoursePoint], ground: f64) -> Drawn {
        for (at, point) in part.iter().enumerate() {
            let Some((height, _, role)) = level_bar(point.level) else { continue };
            let next = part.get(at + 1).map_or(point.unix_seconds, |next| next.unix_seconds);
            let to = next.max(point.unix_seconds + self.narrow_width()).min(self.ends[1]);
            let corners = [(point.unix_seconds, ground + 0.1), (to, ground + height)];
            plane.draw_series([Rectangle::new(corners, role.light.filled())])?;
        }
        Ok(())
    }

    /// Draws the pressure of the whole record, and which part of it the other charts show. `None`
    /// if they show nearly all of it.
    fn whole_record(&self) -> Option<String> {
        let ends = self.course.ends_of_whole()?;
        let [from, to] = self.ends;
        if ends[1] - ends[0] < (to - from) * 1.2 {
            return None;
        }
        let percents = self.course.whole.iter().filter_map(|point| point.some_percent);
        let most = percents.reduce(f64::max)?;
        let (up, up_marks) = (percent_ends(most), percent_marks(most));
        let marks = time_marks(ends);
        let axes = Axes {
            title: "The whole record: some task waited for memory, % of the time",
            across: Axis { title: "time, UTC", ends, scale: Scale::Marks(&marks) },
            up: Axis { title: "", ends: up, scale: Scale::Marks(&up_marks) },
            height: LOW,
            left: LEFT,
            names: Vec::new(),
        };
        draw(&axes, |plane| {
            let shown = [(from.max(ends[0]), up[0]), (to.min(ends[1]), up[1])];
            plane.draw_series([Rectangle::new(shown, REST.light.mix(0.3).filled())])?;
            let kills = self.course.whole.iter().filter(|point| point.has_kill).take(EVENTS);
            for kill in kills {
                let at = kill.unix_seconds;
                draw_line(plane, [(at, up[0]), (at, up[1])], &BAD, 1)?;
            }
            for part in self.course.parts_of_whole() {
                let line = part.iter().map(|point| (point.unix_seconds, point.some_percent));
                for path in steps(line) {
                    draw_path(plane, path, &WARN, 2)?;
                }
            }
            Ok(())
        })
    }

    /// Draws lines from top to bottom: begin and end of the trouble, and kills.
    fn draw_times(&self, plane: &mut Plane<'_>, [bottom, top]: [f64; 2]) -> Drawn {
        let is_shown = |at: &f64| (self.ends[0]..=self.ends[1]).contains(at);
        let trouble = self.incident.trouble.as_ref();
        let times = trouble.map(|it| [Some(it.begun_unix_seconds), it.ended_unix_seconds]);
        for at in times.into_iter().flatten().flatten().filter(is_shown) {
            draw_line(plane, [(at, bottom), (at, top)], &INK, 1)?;
        }
        let kills = self.incident.events.iter().filter(|it| it.kind == IncidentEventKind::Kill);
        let kills: Vec<f64> = kills.map(|kill| kill.unix_seconds).filter(is_shown).collect();
        if kills.len() <= KILL_LINES {
            for at in kills {
                draw_line(plane, [(at, bottom), (at, top)], &BAD, 1)?;
            }
        }
        Ok(())
    }

    fn name_holes(&self, plane: &Plane<'_>, height: f64) -> Drawn {
        for [begin, end] in &self.course.holes {
            if end - begin >= (self.ends[1] - self.ends[0]) * NAMED_HOLE {
                draw_remark(plane, "no readings", ((begin + end) / 2.0, height))?;
            }
        }
        Ok(())
    }
}

/// The rows of events, each with its name and its kinds.
const KINDS: [(&str, &[IncidentEventKind]); 5] = [
    ("kills", &[IncidentEventKind::Kill]),
    ("swap full", &[IncidentEventKind::Full]),
    ("settings", &[IncidentEventKind::Setting]),
    ("units", &[IncidentEventKind::Started, IncidentEventKind::Ended]),
    ("boots", &[IncidentEventKind::Boot]),
];

/// The levels that have a bar, each with its height, its name and its colour.
const LEVELS: [(f64, &str, &Role); 4] = [
    (0.25, "calm", &REST),
    (0.5, "tight", &GOOD),
    (0.75, "short", &WARN),
    (0.95, "critical", &BAD),
];

fn level_bar(level: Level) -> Option<(f64, &'static str, &'static Role)> {
    match level {
        Level::Calm => Some(LEVELS[0]),
        Level::Tight => Some(LEVELS[1]),
        Level::Short => Some(LEVELS[2]),
        Level::Critical => Some(LEVELS[3]),
        Level::Unknown => None,
    }
}

/// The range of an axis for percentages up to `most`: at least 10 %, so that noise looks small.
fn percent_ends(most: f64) -> [f64; 2] {
    [0.0, (most * 1.1).clamp(10.0, 104.0)]
}

/// Labels of an axis for percentages up to `most`.
fn percent_marks(most: f64) -> Vec<(f64, String)> {
    let [_, top] = percent_ends(most);
    let step = if top > 50.0 {
        25.0
    } else if top > 20.0 {
        10.0
    } else {
        5.0
    };
    let all = (0..=6u32).map(|at| f64::from(at) * step).take_while(|at| *at <= top);
    all.map(|at| (at, format!("{at:.0} %"))).collect()
}

/// Makes paths of values that each describe the time since the value before. A value that is not
/// known interrupts the path.
fn steps(values: impl Iterator<Item = (f64, Option<f64>)>) -> Vec<Vec<Point>> {
    let mut paths: Vec<Vec<Point>> = vec![Vec::new()];
    let mut before: Option<f64> = None;
    for (time, value) in values {
        match (before.replace(time), value) {
            (Some(since), Some(value)) => {
                if let Some(path) = paths.last_mut() {
                    path.extend([(since, value), (time, value)]);
                }
            }
            _ => paths.push(Vec::new()),
        }
    }
    paths.retain(|path| !path.is_empty());
    paths
}
