// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise compare`: two recordings, a recording and this machine now, or two times of a record.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pagewise_compare::{Compared, compare};
use pagewise_model::{Interval, Name, Refusal};
use pagewise_observe::{Recording, Scope, snapshot};
use pagewise_record::ReadingSummary;
use pagewise_report::{json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use super::why::store::Store;
use super::why::times;
use crate::{cli, input};

/// Maximum distance in seconds between a time that the user gave and the reading that is used for
/// it.
const NEAR: f64 = 600.0;

pub(super) fn run(
    global: &Global,
    args: &cli::Compare,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    refuse_root(global)?;
    if !args.at.is_empty() {
        let [before, after] = read_at_times(&args.at, args.record.as_ref())?;
        return print(global, before, after, started);
    }
    let Some(before) = &args.before else { anyhow::bail!("expected two recordings or two times") };
    let after = match &args.after {
        Some(path) => Second::Recording(path),
        None => {
            Second::Live(Box::new(input::read_interval_of(&open_live(global)?, global, &scope())?))
        }
    };
    // both files may come from anybody, so this process gives up all rights but reading files
    // before it opens one
    Confinement::for_recording(true).enter();
    let (before, first) = read_intervals(before)?;
    let (before, after) = match (after, first) {
        (Second::Recording(path), _) => (before, read_intervals(path)?.0),
        // for a recording over time, the "after" is made of its own last two readings
        (Second::Live(_), Some(first)) => (first, before),
        (Second::Live(live), None) => (before, *live),
    };
    print(global, before, after, started)
}

fn print(
    global: &Global,
    before: Interval,
    after: Interval,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let Compared { comparison, interval } = judge_and_compare(before, after);
    let shown = if global.json {
        json::compare(&comparison, &interval.end, cost::measure_since(started, &interval))
    } else {
        text::comparison(&comparison, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

/// Reads the record at two times; returns the earlier interval first.
fn read_at_times(typed: &[String], record: Option<&PathBuf>) -> anyhow::Result<[Interval; 2]> {
    let [one, other] = typed else {
        let what = format!("--at: expected two times, found {}", typed.len());
        let next = "pagewise compare --at 02:50 --at 03:12";
        anyhow::bail!(Refusal::with_advice(what, next));
    };
    let store = Store::record(record)?;
    let summaries = store.summaries()?;
    let last = summaries.iter().map(|it| it.unix_seconds).fold(f64::NEG_INFINITY, f64::max);
    let mut typed = [times::parse(one, last)?, times::parse(other, last)?];
    typed.sort_by(f64::total_cmp);
    let [before, after] = typed.map(|time| read_at_time(&store, &summaries, time));
    let (before, after) = (before?, after?);
    for file in store.unread() {
        output::print_message(format_args!("{}: {}", file.path, file.why));
    }
    let [then, now] = [&before, &after].map(|interval| interval.end.taken.unix_seconds);
    if then == now {
        let what =
            format!("the reading of {} UTC is the nearest one to both times", times::describe(now));
        anyhow::bail!(Refusal::with_advice(what, "give two times with a reading between them"));
    }
    Ok([before, after])
}

/// Reads the interval that ends with the reading nearest to a time.
fn read_at_time(
    store: &Store,
    summaries: &[ReadingSummary],
    time: f64,
) -> anyhow::Result<Interval> {
    let distance = |it: &ReadingSummary| (it.unix_seconds - time).abs();
    let nearest = summaries.iter().min_by(|one, two| distance(one).total_cmp(&distance(two)));
    let Some(nearest) = nearest.filter(|it| distance(it) <= NEAR) else {
        anyhow::bail!(Store::refuse_time(summaries));
    };
    let wanted = nearest.unix_seconds;
    let mut found: Option<Interval> = None;
    store.for_each_replay(wanted, wanted, &mut |replay| {
        while found.is_none() {
            if replay.times()[replay.at()].unix_seconds == wanted {
                let end = snapshot(replay.host(), &scope());
                let has_earlier = replay.backward();
                let start = has_earlier.then(|| Box::new(snapshot(replay.host(), &scope())));
                found = Some(Interval { start, end });
            } else if !replay.forward() {
                break;
            }
        }
        Ok(())
    })?;
    found.context("the monitor has removed the reading meanwhile")
}

/// The second side of the comparison.
enum Second<'a> {
    Recording(&'a Path),
    Live(Box<Interval>),
}

fn open_live(global: &Global) -> anyhow::Result<Recording> {
    let live = Recording::live().context("/")?;
    Ok(if global.interval.is_zero() { live.without_start() } else { live })
}

/// The scope of a comparison's readings. Proportional sizes (PSS) are not read: they cost most, and
/// a recording may lack them.
fn scope() -> Scope {
    Scope {
        process_rates: true,
        kernel_log: false,
        kernel_threads: true,
        ..Scope::everything(Duration::ZERO)
    }
}

fn judge_and_compare(before: Interval, after: Interval) -> Compared {
    let verdicts = [&before, &after].map(|interval| pagewise_decide::judge(interval).line);
    compare(before, after, verdicts)
}

/// Reads a recording; of a recording over time, the last two readings and separately the first two.
fn read_intervals(path: &Path) -> anyhow::Result<(Interval, Option<Interval>)> {
    let (recording, first) = pagewise_observe::open_readings(path)?;
    let read = |it: &Recording| it.interval(&scope(), || anyhow::Ok(()));
    let interval = read(&recording)?;
    refuse_cut(path, &interval)?;
    // of a truncated recording over time, the complete readings can still be compared
    let cut = interval.end.problems.iter().find(|problem| problem.path.as_str() == "steps");
    if let Some(problem) = cut {
        output::print_message(problem);
    }
    Ok((interval, first.as_ref().map(read).transpose()?))
}

/// Refuses a truncated recording: what is missing from it would be reported as gone.
fn refuse_cut(path: &Path, interval: &Interval) -> anyhow::Result<()> {
    let is_whole = |name: &str| name == "recording" || name == "end";
    let Some(problem) = interval.end.problems.iter().find(|it| is_whole(it.path.as_str())) else {
        return Ok(());
    };
    let path = Name::from(path.to_string_lossy().as_ref());
    let what = format!(
        "{path}: expected {}, found {}: what is missing would be shown as gone",
        problem.expected, problem.found
    );
    let next = format!(
        "copy the file again, or capture again; `pagewise report --root {path}` shows what is left"
    );
    Err(Refusal::with_advice(what, next).into())
}

fn refuse_root(global: &Global) -> anyhow::Result<()> {
    let Some(root) = &global.root else { return Ok(()) };
    let root = Name::from(root.to_string_lossy().as_ref());
    let next = format!("name both as arguments: pagewise compare BEFORE {root}");
    Err(Refusal::with_advice("compare takes its recordings as arguments, not with --root", next)
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_report::text::TextStyle;
    use pagewise_testkit::scene::{Scene, slugs};

    /// No line is wider than the terminal, whichever two recordings are compared.
    #[test]
    fn comparisons_fit_into_80_and_120_columns() {
        for pair in slugs().windows(2) {
            let [before, after] = [&pair[0], &pair[1]].map(|slug| Scene::load(slug).replay());
            let comparison = judge_and_compare(before, after).comparison;
            for width in [80, 120] {
                let text = text::comparison(&comparison, TextStyle { width, colour: false });
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{pair:?}: {widest:?}\n{text}");
                assert!(text.lines().count() >= 20, "{text}");
                // settings that only one of two different kernels has are counted, not listed
                assert!(text.lines().count() < 130, "{text}");
            }
        }
    }
}
