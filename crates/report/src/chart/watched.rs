// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that is watched while its memory is collapsed: coverage, memory and what it uses, over time.

use pagewise_model::Moment;
use plotters::prelude::*;

use super::colours::{GOOD, OTHER, REST, Role, THIRD};
use super::plane::{Axes, Axis, LOW, Plane, Point, Scale, draw, path, room};
use crate::watched::{covered, is_counted, is_shared, used};

/// Three pictures below each other with the same time across. Grey behind them: a fork shares the
/// memory. Dashed: blocks were collapsed.
pub fn watched(moments: &[Moment]) -> Vec<String> {
    let counted = is_counted(moments);
    let line = |value: &dyn Fn(&Moment) -> Option<f64>| -> Vec<Point> {
        moments.iter().filter_map(|moment| Some((moment.seconds, value(moment)?))).collect()
    };
    let coverage = line(&covered);
    let memory = line(&|moment| Some(moment.memory?.get() as f64 / f64::from(1 << 20)));
    let scale = if counted { 1e6 } else { 100.0 };
    let used: Vec<Point> = used(moments).iter().map(|(at, used)| (*at, used * scale)).collect();
    let what = if counted { "CPU for a request, µs" } else { "CPU, % of a processor" };
    [
        (coverage, "in huge pages, %", Some([-4.0, 104.0]), &GOOD),
        (memory, "proportional size, MiB", None, &OTHER),
        (used, what, None, &THIRD),
    ]
    .into_iter()
    .filter_map(|(line, title, ends, role)| one(moments, line, title, ends, role))
    .collect()
}

fn one(
    moments: &[Moment],
    line: Vec<Point>,
    title: &str,
    ends: Option<[f64; 2]>,
    role: &Role,
) -> Option<String> {
    let values: Vec<f64> = line.iter().map(|(_, value)| *value).collect();
    let last = moments.last().map(|moment| moment.seconds).filter(|last| *last > 0.0)?;
    let up = ends.or_else(|| room(&values))?;
    let axes = Axes {
        title,
        across: Axis { title: "seconds", ends: [0.0, last], scale: Scale::Plain },
        up: Axis { title: "", ends: up, scale: Scale::Plain },
        height: LOW,
        left: 72,
        names: Vec::new(),
    };
    draw(&axes, |plane| {
        behind(plane, moments, up)?;
        path(plane, line, role, 2)
    })
}

/// What happened meanwhile.
fn behind(plane: &mut Plane<'_>, moments: &[Moment], up: [f64; 2]) -> super::plane::Drawn {
    for shared in moments.chunk_by(|a, b| is_shared(a) == is_shared(b)) {
        let (Some(first), Some(last)) = (shared.first(), shared.last()) else { continue };
        if is_shared(first) {
            let corners = [(first.seconds, up[0]), (last.seconds, up[1])];
            plane.draw_series([Rectangle::new(corners, REST.light.mix(0.25).filled())])?;
        }
    }
    for pair in moments.windows(2) {
        if let [before, after] = pair {
            if after.collapsed > before.collapsed {
                let ends = vec![(after.seconds, up[0]), (after.seconds, up[1])];
                path(plane, ends, &REST, 1)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watched::testing::server;

    #[test]
    fn there_are_three_pictures_where_there_is_anything() {
        let pictures = watched(&server());
        assert_eq!(pictures.len(), 3);
        assert!(pictures.iter().all(|svg| svg.contains("seconds") && svg.contains("<rect")));
        assert!(pictures[2].contains("CPU for a request"));
        assert!(watched(&[]).is_empty());
        let mut moments = server();
        moments.iter_mut().for_each(|moment| (moment.requests, moment.memory) = (None, None));
        let pictures = watched(&moments);
        assert!(pictures.len() == 2 && pictures[1].contains("% of a processor"));
    }
}
