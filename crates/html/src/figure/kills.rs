// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of OOM kills on a time axis that ends at the time of the reading.

use pagewise_model::{KernelLog, OomKill, duration::format_rough};

use super::rows::{WIDTH, shorten_name};
use crate::svg::{Anchor, Svg};

const LEFT: f64 = 20.0;
const RIGHT: f64 = WIDTH - 60.0;
const AXIS: f64 = 56.0;
/// Minimum distance from the next kill at which the name of the process is printed.
const NAMED: f64 = 90.0;

/// Draws when processes were killed; `None` if no kill has a known time.
pub(crate) fn draw_kills(log: &KernelLog) -> Option<String> {
    let timed: Vec<(f64, &OomKill)> =
        log.kills.iter().filter_map(|kill| Some((kill.seconds_ago?.max(0.0), kill))).collect();
    // the axis begins somewhat before the first kill
    let span = timed.iter().map(|(ago, _)| *ago).reduce(f64::max)?.max(1.0) * 1.1;
    let mut svg = Svg::new(WIDTH);
    svg.draw_axis([LEFT, AXIS], [RIGHT, AXIS]);
    let mut named_to = f64::MIN;
    let mut description = Vec::new();
    for (ago, kill) in timed {
        let x = RIGHT - ago / span * (RIGHT - LEFT);
        let name = kill.victim.as_ref().map_or("nothing", |victim| victim.name.as_str());
        svg.draw_mark([x, AXIS - 16.0], [x, AXIS]);
        svg.draw_dot("f-bad", [x, AXIS - 18.0]);
        if x >= named_to {
            svg.draw_text(Anchor::Start, [x, AXIS - 30.0], &shorten_name(name, 14));
            named_to = x + NAMED;
        }
        description.push(format!("{name}, {} before", format_rough(ago)));
    }
    let start = format!("{} before", format_rough(span));
    svg.draw_note(Anchor::Start, [LEFT, AXIS + 18.0], &start);
    svg.draw_note(Anchor::End, [RIGHT, AXIS + 18.0], "this report");
    let title = "OOM kills by time before this report";
    Some(svg.into_figure(AXIS + 26.0, title, &description.join("; ")))
}
