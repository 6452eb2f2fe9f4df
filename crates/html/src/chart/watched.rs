// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of a program that was watched while its memory was collapsed: huge page coverage, memory
//! and CPU use over time.

use pagewise_model::{WatchCourse, WatchSample};
use plotters::prelude::*;

use super::colours::{GOOD, OTHER, REST, Role, THIRD};
use super::plane::{Axes, Axis, LOW, Plane, Point, Scale, draw, draw_path, range_with_margin};

/// Draws three charts below each other with the same time axis. A grey background means that a fork
/// shares the memory; a dashed line means that blocks were collapsed.
pub fn draw_watched(samples: &[WatchSample], course: &WatchCourse) -> Vec<String> {
    let mib = |sample: &WatchSample| {
        Some((sample.seconds, sample.memory?.get() as f64 / f64::from(1 << 20)))
    };
    let memory = samples.iter().filter_map(mib).collect();
    let (scale, what) = if course.counts_requests {
        (1e6, "CPU for a request, µs")
    } else {
        (100.0, "CPU, % of a processor")
    };
    let used: Vec<Point> = course.used.iter().map(|(at, used)| (*at, used * scale)).collect();
    [
        (course.covered.clone(), "in huge pages, %", Some([-4.0, 104.0]), &GOOD),
        (memory, "proportional size, MiB", None, &OTHER),
        (used, what, None, &THIRD),
    ]
    .into_iter()
    .filter_map(|(line, title, ends, role)| draw_line(samples, course, line, title, ends, role))
    .collect()
}

fn draw_line(
    samples: &[WatchSample],
    course: &WatchCourse,
    line: Vec<Point>,
    title: &str,
    ends: Option<[f64; 2]>,
    role: &Role,
) -> Option<String> {
    let values: Vec<f64> = line.iter().map(|(_, value)| *value).collect();
    let last = samples.last().map(|moment| moment.seconds).filter(|last| *last > 0.0)?;
    let up = ends.or_else(|| range_with_margin(&values))?;
    let axes = Axes {
        title,
        across: Axis { title: "seconds", ends: [0.0, last], scale: Scale::Plain },
        up: Axis { title: "", ends: up, scale: Scale::Plain },
        height: LOW,
        left: 72,
        names: Vec::new(),
    };
    draw(&axes, |plane| {
        draw_background(plane, samples, course, up)?;
        draw_path(plane, line, role, 2)
    })
}

/// Draws the background: periods with a fork, and times of collapses.
fn draw_background(
    plane: &mut Plane<'_>,
    samples: &[WatchSample],
    course: &WatchCourse,
    up: [f64; 2],
) -> super::plane::Drawn {
    for [begin, end] in &course.forks {
        let corners = [(*begin, up[0]), (*end, up[1])];
        plane.draw_series([Rectangle::new(corners, REST.light.mix(0.25).filled())])?;
    }
    for pair in samples.windows(2) {
        if let [before, after] = pair {
            if after.collapsed > before.collapsed {
                let ends = vec![(after.seconds, up[0]), (after.seconds, up[1])];
                draw_path(plane, ends, &REST, 1)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::watched_server;

    #[test]
    fn there_are_three_pictures_where_there_is_anything() {
        let (samples, course) = watched_server();
        let pictures = draw_watched(&samples, &course);
        assert_eq!(pictures.len(), 3);
        assert!(pictures.iter().all(|svg| svg.contains("seconds") && svg.contains("<rect")));
        assert!(pictures[2].contains("CPU for a request"));
        assert!(draw_watched(&[], &WatchCourse::default()).is_empty());
        let without = |sample: &WatchSample| WatchSample { memory: None, ..*sample };
        let samples: Vec<WatchSample> = samples.iter().map(without).collect();
        let pictures = draw_watched(&samples, &WatchCourse { counts_requests: false, ..course });
        assert!(pictures.len() == 2 && pictures[1].contains("% of a processor"));
    }
}
