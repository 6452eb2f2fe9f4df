// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rates over an interval that show the cost of memory shortage.

use pagewise_model::{Bytes, Interval, Snapshot};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{count, seconds};

/// The unit of a counter of `/proc/vmstat`.
#[derive(Debug, Clone, Copy)]
enum Counts {
    Pages,
    Events,
}

/// Counters of memory movement, their labels, and the meaning of their growth.
const MOVES: [(&str, Counts, &str, &str); 9] = [
    (
        "workingset_refault_file",
        Counts::Pages,
        "file refaults",
        "files read again soon after they were dropped",
    ),
    (
        "workingset_refault_anon",
        Counts::Pages,
        "anon refaults",
        "anonymous pages swapped in again too soon",
    ),
    ("pswpin", Counts::Pages, "swapped in", "somebody waited for each of these"),
    ("pswpout", Counts::Pages, "swapped out", "to make room"),
    ("pgmajfault", Counts::Events, "major faults", "a program waited for a disk or for swap"),
    (
        "pgscan_direct",
        Counts::Pages,
        "direct scans",
        "searched by programs that had to reclaim for themselves",
    ),
    (
        "pgscan_kswapd",
        Counts::Pages,
        "kswapd scans",
        "searched in the background for pages to reclaim",
    ),
    (
        "compact_stall",
        Counts::Events,
        "compaction stalls",
        "a program waited until free memory was moved together",
    ),
    ("oom_kill", Counts::Events, "OOM kills", "programs ended for want of memory"),
];

/// A counter of memory movement that grew.
#[derive(Debug)]
struct Move {
    rate: String,
    name: &'static str,
    meaning: &'static str,
}

/// Finds growth of the memory used by programs, from `/proc/meminfo`: none of the counters in
/// [`MOVES`] shows it.
fn find_reclaimed(interval: &Interval) -> Option<Move> {
    /// A smaller share of RAM per second than this is noise.
    const NOISE_PER_SECOND: f64 = 1.0 / 10_000.0;
    let held = |host: &Snapshot| {
        let memory = &host.memory;
        let swapped = memory.swap_total.get()?.saturating_sub(memory.swap_free.get()?);
        Some(memory.anon_pages.get()?.saturating_add(memory.shmem.get()?).saturating_add(swapped))
    };
    let seconds = interval.seconds()?;
    let more = held(&interval.end)?.saturating_sub(held(interval.start.as_deref()?)?);
    let per_second = more.get() as f64 / seconds;
    let noise = interval.end.memory.total.get()?.get() as f64 * NOISE_PER_SECOND;
    (per_second > noise).then(|| Move {
        rate: format_speed(more, seconds),
        name: "taken",
        meaning: "anonymous memory and shmem that programs took; in RAM and in swap",
    })
}

/// Prints every rate of memory movement with its meaning.
pub(super) fn print(page: &mut Page, interval: &Interval) {
    let Some(length) = length(interval) else { return print_unknown(page, interval) };
    let moves = moves(interval);
    if moves.is_empty() {
        page.gap();
        return page.fact("Movement", &format!("none in the last {length}: {QUIET}"));
    }
    page.heading("Movement", &format!("in the last {length}"));
    let columns = vec![Column::right(""), Column::left(""), Column::words("")];
    let mut table = Table::new(4, columns);
    for one in moves {
        table.row(vec![one.rate.into(), one.name.into(), Cell::new(Role::Quiet, one.meaning)]);
    }
    table.print(page);
}

/// Prints the text if counters were read only once; nothing if they were not read at all.
fn print_unknown(page: &mut Page, interval: &Interval) {
    let vmstat = &interval.end.vmstat;
    let counted = MOVES.iter().any(|(counter, ..)| vmstat.get(counter).value().is_some());
    if interval.start.is_none() && counted {
        page.gap();
        page.fact("Movement", "not known: one look alone has no rates, and no finding about them");
    }
}

const QUIET: &str = "nothing was swapped, read again or searched for";

/// The rates of memory movement without their meaning; empty without a reading at the start of the
/// interval.
pub(super) fn glance(interval: &Interval) -> Vec<String> {
    if length(interval).is_none() {
        return Vec::new();
    }
    let moves: Vec<String> =
        moves(interval).iter().map(|one| format!("{} {}", one.name, one.rate)).collect();
    if moves.is_empty() { vec![QUIET.to_owned()] } else { moves }
}

/// Describes the length of the interval; `None` if no counter was read at both ends.
fn length(interval: &Interval) -> Option<String> {
    MOVES.iter().find_map(|(counter, ..)| interval.vmstat(counter))?;
    interval.seconds().map(seconds)
}

fn moves(interval: &Interval) -> Vec<Move> {
    let moved = |(counter, counts, name, meaning): &(&str, Counts, &'static str, &'static str)| {
        let change = interval.vmstat(counter).filter(|change| change.delta > 0)?;
        let rate = match counts {
            Counts::Events => format!("{}/s", format_per_second(change.per_second)),
            Counts::Pages => {
                let pages = Bytes::new(change.delta.saturating_mul(interval.end.page_size().get()));
                format_speed(pages, change.seconds)
            }
        };
        Some(Move { rate, name, meaning })
    };
    find_reclaimed(interval).into_iter().chain(MOVES.iter().filter_map(moved)).collect()
}

/// Formats a rate per second; one above zero is never printed as 0.
pub(super) fn format_per_second(rate: f64) -> String {
    match rate {
        slow if slow < 9.95 => format!("{slow:.1}"),
        fast => count(round_to_whole(fast)),
    }
}

/// Formats bytes over a time as bytes per second.
pub(super) fn format_speed(bytes: Bytes, seconds: f64) -> String {
    format!("{}/s", Bytes::new(round_to_whole(bytes.get() as f64 / seconds)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a rate is never negative"
)]
fn round_to_whole(number: f64) -> u64 {
    number.round() as u64
}
