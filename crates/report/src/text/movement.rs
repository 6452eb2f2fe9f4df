// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What moved between the two ends of an interval: the rates that tell who pays.

use pagewise_model::{Bytes, Interval};

use super::words::{count, seconds};

/// What a counter of `/proc/vmstat` counts.
#[derive(Debug, Clone, Copy)]
enum Counts {
    Pages,
    Events,
}

/// Counters and what their growth means.
const MOVES: [(&str, Counts, &str); 9] = [
    ("workingset_refault_file", Counts::Pages, "of file pages read again after they were dropped"),
    ("workingset_refault_anon", Counts::Pages, "of anonymous pages swapped in again too soon"),
    ("pswpin", Counts::Pages, "swapped in"),
    ("pswpout", Counts::Pages, "swapped out"),
    ("pgmajfault", Counts::Events, "major faults"),
    ("pgscan_direct", Counts::Pages, "searched by programs that had to reclaim themselves"),
    ("pgscan_kswapd", Counts::Pages, "searched by kswapd in the background"),
    ("compact_stall", Counts::Events, "waits for compaction"),
    ("oom_kill", Counts::Events, "programs killed for want of memory"),
];

/// Label and sentences; `None` without an earlier end.
pub(super) fn facts(interval: &Interval) -> Option<(String, Vec<String>)> {
    let length = interval.seconds()?;
    let moved: Vec<String> = MOVES.iter().filter_map(|row| rate(interval, *row)).collect();
    let quiet = || vec!["nothing was swapped, read again or searched for".to_owned()];
    let known = interval.vmstat("pgmajfault").is_some();
    let moved = if moved.is_empty() && known { quiet() } else { moved };
    (!moved.is_empty()).then(|| (format!("Last {}", seconds(length)), moved))
}

fn rate(interval: &Interval, (name, counts, meaning): (&str, Counts, &str)) -> Option<String> {
    let change = interval.vmstat(name).filter(|change| change.delta > 0)?;
    let number = per_second(change.per_second);
    Some(match counts {
        Counts::Events => format!("{number} {meaning} a second"),
        Counts::Pages => {
            let size = interval.end.page_size().get();
            let bytes = Bytes::new(change.delta.saturating_mul(size));
            format!("{} {meaning}", speed(bytes, change.seconds))
        }
    })
}

/// A rate that is not nothing never prints as 0.
pub(super) fn per_second(rate: f64) -> String {
    match rate {
        slow if slow < 9.95 => format!("{slow:.1}"),
        fast => count(whole(fast)),
    }
}

fn speed(bytes: Bytes, seconds: f64) -> String {
    format!("{}/s", Bytes::new(whole(bytes.get() as f64 / seconds)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a rate is never negative"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
