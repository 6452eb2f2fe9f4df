// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a live view about the recording that it shows.

use super::super::kit::{Line, Role};
use crate::live::LiveReplay;
use crate::time;

/// Below this width in columns a window gets shorter words.
const WIDE: usize = 70;
/// A step says how long it is after the step before if that is longer than this many seconds.
const LONG_PAUSE: f64 = 60.0;

/// The keys for replaying a recording; space has another meaning than on a live machine.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("q", "quit"),
    ("space", "play, or pause"),
    ("left", "one step back, right: forward (also , and .)"),
    ("Home", "first step, End: last step"),
    ("+, -", "play faster, slower"),
    ("j", "jump to a step (12) or a time in UTC (12:31, 2026-11-27 12:31)"),
    ("up, down", "select a row (also k)"),
];

/// The time of the reading, its number and the number of all readings, and whether the recording is
/// incomplete.
pub(super) fn first_line(replay: &LiveReplay, width: usize) -> Line {
    let is_wide = width >= WIDE;
    let (start, format, of) = if is_wide {
        ("Recording of ", "%Y-%m-%d %H:%M:%S UTC", " of ")
    } else {
        ("recording ", "%H:%M:%S", "/")
    };
    let time = time::timestamp(replay.unix_seconds);
    let time =
        time.map_or_else(|| "an unknown time".to_owned(), |at| at.strftime(format).to_string());
    let step = format!("step {}{of}{}", replay.step, replay.steps);
    let mut line = Line::default().span(Role::Strong, format!("{start}{time}, {step}"));
    line = match &replay.early {
        Some(why) if is_wide => line.plain(", ").span(Role::Warning, format!("ends early: {why}")),
        Some(_) => line.plain(", ").span(Role::Warning, "cut"),
        None if replay.steps > 1 => line,
        None if is_wide => line.plain(" (a recording of one moment)"),
        None => line.plain(", one moment"),
    };
    let pause = replay.seconds_since_previous.filter(|passed| *passed > LONG_PAUSE && is_wide);
    if let Some(passed) = pause {
        let passed = pagewise_model::duration::format_rough(passed);
        line = line.plain(", ").span(Role::Warning, format!("{passed} after the step before"));
    }
    if replay.is_playing { line.plain(format!(", playing ×{}", replay.pace)) } else { line }
}

/// Describes the keys for playing and stepping.
pub(super) fn keys(replay: &LiveReplay) -> String {
    let space = if replay.is_playing { "pause" } else { "play" };
    format!("space {space}  ,/. step  +/- ×{}  j jump", replay.pace)
}

/// The last line while a jump is being typed, and after one that was not possible.
pub(super) fn jump_line(replay: &LiveReplay) -> Option<Line> {
    if let Some(typed) = &replay.typed {
        let line = Line::default().span(Role::Strong, "jump to: ").plain(format!("{typed}_"));
        return Some(line.span(Role::Quiet, "  a step or a time in UTC  Enter go  Esc cancel"));
    }
    let refused = replay.refused.as_ref()?;
    Some(Line::default().span(Role::Warning, refused.as_str()))
}
