// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise why`: what happened at some time, from the record of `pagewise monitor` or a recording
//! over time.
//!
//! A record has many readings, and judging one takes some milliseconds. So each reading
//! is examined in two steps: first two counters of each, to find the time that is asked for; then
//! all readings of the twenty minutes before that time and the ten after it are judged.

mod times;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use pagewise_decide::incident::{Around, Moment, explain};
use pagewise_model::{Incident, Interval, Micros, Name, Refusal, Snapshot};
use pagewise_observe::{HostGauges, HostRoot, Replay, Scope, open_replay, snapshot, unpack_replay};
use pagewise_record::{Shelf, StoredFile};
use pagewise_report::{json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::progress::StepSpinner;
use pagewise_terminal::{Global, Outcome, output, screen};

use super::monitor::record_folder;
use crate::cli;

/// How long before and after the time that is asked for readings are judged, in seconds.
const BEFORE: f64 = 1200.0;
const AFTER: f64 = 600.0;
const DAY: f64 = 86_400.0;

pub(super) fn run(global: &Global, args: &cli::Why, started: CostMeter) -> anyhow::Result<Outcome> {
    let store = Store::open(global, args)?;
    let shown = StepSpinner::start(global, "reading the record");
    let (first, last) = store.range()?;
    let wanted = match (&args.time, args.since) {
        (Some(time), _) => Wanted::Time(times::parse(time, last)?),
        (None, Some(since)) => Wanted::Worst { since: last - since.as_secs_f64() },
        (None, None) if args.last_oom => Wanted::LastKill,
        (None, None) if args.worst || store.is_recording() => Wanted::Worst { since: first },
        (None, None) => Wanted::Worst { since: last - DAY },
    };
    let center = find(&store, wanted, first, last)?;
    shown.step("judging the readings around that time");
    let (incident, end) = judge(&store, center)?;
    shown.end();
    let printed = if global.json {
        let cost = cost::so_far(started, &Interval::single(Snapshot::default()));
        json::why(&incident, &end, cost)
    } else {
        text::incident(&incident, screen::text_style(global))
    };
    output::answer(global, &printed)?;
    Ok(if incident.trouble.is_some() { Outcome::Findings } else { Outcome::Done })
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Time(f64),
    LastKill,
    Worst { since: f64 },
}

/// Where the readings are.
enum Store {
    /// The files of a ring that have readings, the oldest first.
    Ring(Shelf, Vec<StoredFile>),
    Recording(PathBuf),
}

impl Store {
    fn open(global: &Global, args: &cli::Why) -> anyhow::Result<Self> {
        if let Some(path) = &global.root {
            return Ok(Self::Recording(path.clone()));
        }
        let folder = record_folder(args.record.as_ref())?;
        let shelf = Shelf::open(&folder).map_err(|error| {
            let next = "`pagewise monitor` keeps one from now on; `pagewise oom` reads kills from the log, and \
                        `pagewise why --root FILE` a recording of `pagewise capture --every`";
            Refusal::advised(format!("there is no record that may be read: {error}"), next)
        })?;
        let files = shelf.files()?;
        Ok(Self::Ring(shelf, files))
    }

    const fn is_recording(&self) -> bool {
        matches!(self, Self::Recording(_))
    }

    /// The time of the first and of the last reading.
    fn range(&self) -> anyhow::Result<(f64, f64)> {
        let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
        self.each(f64::NEG_INFINITY, f64::INFINITY, &mut |replay| {
            for at in replay.times() {
                first = first.min(at.unix_seconds);
                last = last.max(at.unix_seconds);
            }
            Ok(())
        })?;
        if first > last {
            let what = "the record has no reading";
            anyhow::bail!(Refusal::advised(
                what,
                "is `pagewise monitor` running? it reads every 10 s"
            ));
        }
        Ok((first, last))
    }

    /// Calls `look` with each recording that may have readings of this time, the oldest first.
    fn each(
        &self,
        from: f64,
        to: f64,
        look: &mut dyn FnMut(&mut Replay) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Recording(path) => {
                let confine = |is_folder| _ = Confinement::for_recording(is_folder).enter();
                // opened again and again: the rights that were given up stay so
                look(&mut open_replay(path, confine)?)
            }
            Self::Ring(shelf, files) => {
                for file in files {
                    let is_later = file.name.unix_seconds as f64 > to;
                    let is_earlier = (file.changed_unix_seconds as f64) < from;
                    if is_later || is_earlier {
                        continue;
                    }
                    // a file that cannot be read was removed by the monitor meanwhile
                    let Ok((bytes, _)) = shelf.recording(file.name) else { continue };
                    let label = file.name.to_string();
                    if let Ok(mut replay) = unpack_replay(&bytes[..], &label) {
                        look(&mut replay)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The time that is to be explained.
fn find(store: &Store, wanted: Wanted, first: f64, last: f64) -> anyhow::Result<f64> {
    let since = match wanted {
        Wanted::Time(time) => {
            if time < first - AFTER || time > last + BEFORE {
                let [first, last] = [first, last].map(times::describe);
                let what = format!(
                    "the record has readings from {first} to {last} UTC, none near that time"
                );
                anyhow::bail!(Refusal::advised(
                    what,
                    "times are in UTC; pagewise why --worst looks at all of them"
                ));
            }
            return Ok(time);
        }
        Wanted::Worst { since } => since,
        Wanted::LastKill => first,
    };
    let mut course = Course::default();
    store.each(since, f64::INFINITY, &mut |replay| {
        loop {
            let at = replay.times()[replay.at()].unix_seconds;
            if at >= since {
                course.pass(at, replay.host());
            }
            if !replay.forward() {
                return Ok(());
            }
        }
    })?;
    match (wanted, course.last_kill, course.worst) {
        (Wanted::LastKill, None, _) => {
            let what = "no reading in the record shows a kill";
            let next = "`pagewise oom` looks into this machine's log, which may reach further back";
            anyhow::bail!(Refusal::advised(what, next))
        }
        (Wanted::LastKill, Some(time), _) => Ok(time),
        (_, Some(time), _) => Ok(time),
        (_, None, Some((_, time))) => Ok(time),
        (_, None, None) => Ok(last),
    }
}

/// The counters of readings that passed, and the times that stand out.
#[derive(Debug, Default)]
struct Course {
    before: Option<(f64, Option<u64>, Option<u64>)>,
    last_kill: Option<f64>,
    /// The largest part of the time in which tasks waited for memory, and when.
    worst: Option<(f64, f64)>,
}

impl Course {
    fn pass(&mut self, at: f64, host: &HostRoot) {
        let gauges = HostGauges(host);
        let stalled = gauges.memory_wait().map(Micros::get);
        let kills = gauges.oom_kills();
        if let Some((then, stalled_before, kills_before)) =
            self.before.replace((at, stalled, kills))
        {
            if kills.zip(kills_before).is_some_and(|(now, before)| now > before) {
                self.last_kill = Some(at);
            }
            let waited =
                stalled.zip(stalled_before).and_then(|(now, before)| now.checked_sub(before));
            let part = waited.map(|waited| waited as f64 / 1e6 / (at - then).max(0.1));
            if let Some(part) =
                part.filter(|part| self.worst.is_none_or(|(worst, _)| *part >= worst))
            {
                self.worst = Some((part, at));
            }
        }
    }
}

/// Judges the readings around a time; returns what happened, and the last of these readings.
fn judge(store: &Store, center: f64) -> anyhow::Result<(Incident, Snapshot)> {
    let (from, to) = (center - BEFORE, center + AFTER);
    let mut moments: Vec<Moment> = Vec::new();
    let mut before: Option<Box<Snapshot>> = None;
    let scope = Scope { smaps_enough: 0, ..Scope::everything(Duration::ZERO) };
    store.each(from, to, &mut |replay| {
        loop {
            let at = replay.times()[replay.at()].unix_seconds;
            if (from..=to).contains(&at) {
                let interval =
                    Interval { start: before.take(), end: snapshot(replay.host(), &scope) };
                moments.push(Moment::new(&interval));
                before = Some(Box::new(interval.end));
            }
            if !replay.forward() {
                return Ok(());
            }
        }
    })?;
    let end = before.map(|end| *end).context("no reading near that time")?;
    moments.sort_by(|one, other| one.unix_seconds.total_cmp(&other.unix_seconds));
    Ok((explain(&moments, Around::Time(center)), end))
}

/// Text from the user, safe to print.
fn shown(text: &str) -> Name {
    Name::from(text)
}
