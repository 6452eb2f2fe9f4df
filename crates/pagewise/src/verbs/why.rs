// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise why`: what happened at some time, from the record of `pagewise monitor` or a recording
//! over time.
//!
//! A record has many readings, and judging a reading takes some milliseconds. So this works in two
//! steps. First, it finds the time to explain from two counters of each reading, which the indexes
//! of the record have. Then it judges all readings from twenty minutes before that time to ten
//! minutes after it.

pub(super) mod store;
pub(super) mod times;

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use pagewise_decide::incident::{Around, Moment, explain, holes, holes_between};
use pagewise_model::{Incident, Interval, Refusal, SarHistory, Snapshot};
use pagewise_observe::{Scope, snapshot};
use pagewise_record::ReadingSummary;
use pagewise_report::course::{CoursePoint, MemoryCourse, PressurePoint};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::progress::StepSpinner;
use pagewise_terminal::{Global, Outcome, output, screen};

use super::new_page::NewPage;
use crate::cli;
use store::Store;

/// Readings from this many seconds before the time to explain are judged, up to [`AFTER`] seconds
/// after it.
const BEFORE: f64 = 1200.0;
const AFTER: f64 = 600.0;
const DAY: f64 = 86_400.0;

pub(super) fn run(global: &Global, args: &cli::Why, started: CostMeter) -> anyhow::Result<Outcome> {
    // create the file before this process gives up the right to create files
    let page = NewPage::start(args.html.as_deref())?;
    let store = match &global.root {
        Some(path) => Store::recording(path),
        None => Store::record(args.record.as_ref())?,
    };
    let shown = StepSpinner::start(global, "reading the record");
    let summaries = store.summaries()?;
    let last = summaries.iter().map(|it| it.unix_seconds).fold(f64::NEG_INFINITY, f64::max);
    let wanted = match (&args.time, args.since) {
        (Some(time), _) => Wanted::Time(times::parse(time, last)?),
        (None, Some(since)) => Wanted::Worst { since: last - since.as_secs_f64() },
        (None, None) if args.last_oom => Wanted::LastKill,
        (None, None) if args.worst || store.is_recording() => {
            Wanted::Worst { since: f64::NEG_INFINITY }
        }
        (None, None) => Wanted::Worst { since: last - DAY },
    };
    let center = find_time(&summaries, wanted, last)?;
    shown.set_step("judging the readings around that time");
    let Judged { mut incident, mut course, end, sar } = judge_around(&store, center)?;
    incident.unread = store.unread();
    incident.sar = sar;
    shown.end();
    if args.record.is_none() && !store.is_recording() && !global.quiet && !global.json {
        output::print_message(format_args!("read the record in {}", store.path()));
    }
    if page.is_some() {
        add_whole_record(&mut course, &summaries);
    }
    NewPage::write_or_print(
        page,
        global,
        || pagewise_html::why_page(&incident, &course, &end),
        || {
            if global.json {
                let cost = cost::measure_since(started, &Interval::single(Snapshot::default()));
                return json::why(&incident, &end, cost);
            }
            text::incident(&incident, screen::text_style(global))
        },
    )?;
    Ok(if incident.trouble.is_some() { Outcome::Findings } else { Outcome::Done })
}

/// What the user wants explained.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Time(f64),
    LastKill,
    Worst { since: f64 },
}

/// Finds the time that is to be explained.
fn find_time(summaries: &[ReadingSummary], wanted: Wanted, last: f64) -> anyhow::Result<f64> {
    let since = match wanted {
        Wanted::Time(time) => {
            let is_judged = |it: &ReadingSummary| window(time).contains(&it.unix_seconds);
            if !summaries.iter().any(is_judged) {
                anyhow::bail!(Store::refuse_time(summaries));
            }
            return Ok(time);
        }
        Wanted::Worst { since } => since,
        Wanted::LastKill => f64::NEG_INFINITY,
    };
    let mut course = Course::default();
    summaries.iter().filter(|it| it.unix_seconds >= since).for_each(|it| course.add_summary(it));
    match (wanted, course.last_kill, course.worst) {
        (Wanted::LastKill, None, _) => {
            let what = "no reading in the record shows a kill";
            let next = "`pagewise oom` looks into this machine's log, which may reach further back";
            anyhow::bail!(Refusal::with_advice(what, next))
        }
        (Wanted::LastKill, Some(time), _) => Ok(time),
        (_, Some(time), _) => Ok(time),
        (_, None, Some((_, time))) => Ok(time),
        (_, None, None) => Ok(last),
    }
}

/// Follows the counters from reading to reading, and keeps the time of the last kill and of the
/// worst waiting.
#[derive(Debug, Default)]
struct Course {
    before: Option<ReadingSummary>,
    last_kill: Option<f64>,
    /// The largest share of time in which tasks waited for memory between two readings, and when
    /// that was.
    worst: Option<(f64, f64)>,
}

impl Course {
    fn add_summary(&mut self, now: &ReadingSummary) {
        let Some(before) = self.before.replace(*now) else { return };
        if has_new_kill(&before, now) {
            self.last_kill = Some(now.unix_seconds);
        }
        if let Some(part) = waiting_part(&before, now)
            .filter(|part| self.worst.is_none_or(|(worst, _)| *part >= worst))
        {
            self.worst = Some((part, now.unix_seconds));
        }
    }
}

/// The share of the time between two readings in which some task waited for memory.
fn waiting_part(before: &ReadingSummary, now: &ReadingSummary) -> Option<f64> {
    let waited = now.stalled_us?.checked_sub(before.stalled_us?)?;
    let passed = (now.unix_seconds - before.unix_seconds).max(0.1);
    Some(waited as f64 / 1e6 / passed)
}

fn has_new_kill(before: &ReadingSummary, now: &ReadingSummary) -> bool {
    now.kills.zip(before.kills).is_some_and(|(now, then)| now > then)
}

/// Adds pressure and kills of all readings of the record to the course, for its last picture.
fn add_whole_record(course: &mut MemoryCourse, summaries: &[ReadingSummary]) {
    let mut sorted = summaries.to_vec();
    sorted.sort_by(|one, other| one.unix_seconds.total_cmp(&other.unix_seconds));
    let times: Vec<f64> = sorted.iter().map(|it| it.unix_seconds).collect();
    let mut before: Option<&ReadingSummary> = None;
    for now in &sorted {
        let before = before.replace(now);
        let part = before.and_then(|before| waiting_part(before, now));
        course.whole.push(PressurePoint {
            unix_seconds: now.unix_seconds,
            some_percent: part.map(|part| (part * 100.0).min(100.0)),
            has_kill: before.is_some_and(|before| has_new_kill(before, now)),
        });
    }
    course.whole_holes = holes_between(&times);
}

/// Times of the readings that are judged to explain this time, in seconds since 1970.
fn window(center: f64) -> RangeInclusive<f64> {
    center - BEFORE..=center + AFTER
}

/// What happened, memory at the readings that were judged, and the last of them.
struct Judged {
    incident: Incident,
    course: MemoryCourse,
    end: Snapshot,
    /// What sysstat recorded, if this is a collection of a machine's files that has its data.
    sar: Option<SarHistory>,
}

/// Judges the readings around a time.
fn judge_around(store: &Store, center: f64) -> anyhow::Result<Judged> {
    let judged = window(center);
    let (from, to) = (*judged.start(), *judged.end());
    let mut moments: Vec<(Moment, CoursePoint)> = Vec::new();
    let mut before: Option<Box<Snapshot>> = None;
    let mut sar = None;
    let scope = Scope { smaps_enough: 0, ..Scope::everything(Duration::ZERO) };
    store.for_each_replay(from, to, &mut |replay| {
        if store.is_recording() {
            sar = pagewise_observe::sar(replay.host());
        }
        loop {
            let at = replay.times()[replay.at()].unix_seconds;
            if judged.contains(&at) {
                let interval =
                    Interval { start: before.take(), end: snapshot(replay.host(), &scope) };
                let moment = Moment::new(&interval);
                let point = CoursePoint::new(&interval, moment.level);
                moments.push((moment, point));
                before = Some(Box::new(interval.end));
            }
            if !replay.forward() {
                return Ok(());
            }
        }
    })?;
    let end = before.map(|end| *end).context("no reading near that time")?;
    moments.sort_by(|(one, _), (other, _)| one.unix_seconds.total_cmp(&other.unix_seconds));
    let (moments, points): (Vec<Moment>, Vec<CoursePoint>) = moments.into_iter().unzip();
    let course = MemoryCourse { points, holes: holes(&moments), ..MemoryCourse::default() };
    Ok(Judged { incident: explain(&moments, Around::Time(center)), course, end, sar })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_explained_if_a_reading_is_in_its_window() {
        let reading = ReadingSummary { unix_seconds: 1e6, stalled_us: None, kills: None };
        let find = |time: f64| find_time(&[reading], Wanted::Time(time), 1e6).ok();
        for explained in [1e6, 1e6 + BEFORE, 1e6 - AFTER] {
            assert_eq!(find(explained), Some(explained));
        }
        assert_eq!((find(1e6 + BEFORE + 1.0), find(1e6 - AFTER - 1.0)), (None, None));
    }
}
