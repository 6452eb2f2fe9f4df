// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise monitor`: reads this machine again and again, keeps the readings in files of limited
//! size (a ring), and serves metrics.
//!
//! A trigger of the kernel's pressure stall information (PSI) wakes the monitor while tasks wait
//! for memory. In addition, the monitor reads a few counters once a second to decide whether a
//! reading is due (`due.rs`); on a kernel without PSI triggers this alone decides. One thread
//! reads; one answers HTTP with the text of the last reading; one syncs the ring to the disk,
//! because a sync may take long on a disk that is busy with swapping. If the record cannot be
//! written, for example because the disk is full, the monitor prints that once and continues.

mod advise;
mod due;
mod http;
mod listen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_metrics::{format_classic, format_openmetrics};
use pagewise_model::{Interval, Level, Name, Refusal, Snapshot};
use pagewise_observe::{
    HostRoot, Known, ProcessScope, Recording, Rest, Scope, StallAlarm, Tape, Woken, keep_slow_parts,
};
use pagewise_record::{Ring, RingLimits};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, output};

use super::doctor::journal::{FindingsJournal, lock_as_monitor};
use super::metrics::{Judged, Learnt, WantedGroups, scope};
use crate::cli;
use advise::Adviser;
use due::{Due, Extent, Glance, LimitedGroups};

/// How often the counters are read, and how soon a signal is noticed.
const TICK: Duration = Duration::from_secs(1);
/// Number of processes that are read every second while memory is short: the largest ones.
const LARGEST: usize = 32;
/// How often all processes are read in full, also those that sleep.
const AFRESH: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn run(
    global: &Global,
    args: &cli::Monitor,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "monitor records this machine; a recording (--root) has its times already";
        anyhow::bail!(Refusal::with_advice(
            what,
            "pagewise status --watch --root FILE, or pagewise why --root FILE"
        ));
    }
    let wanted = WantedGroups::new(&args.groups)?;
    let ring = open_ring(args)?;
    let page = Page::default();
    let places = if args.no_listen { Vec::new() } else { http::serve(&args.listen, &page)? };
    let stop = Stop::listen()?;
    output::print_message(format_args!("{}", describe(&ring, &places, args)));
    let host = HostRoot::live().context("/")?;
    let mut monitor = Monitor {
        limited: LimitedGroups::new(pagewise_observe::memory_cgroups(&host)),
        host,
        wanted,
        ring,
        sync: start_syncing(),
        journal: open_journal(args)?,
        page,
        textfile: args.textfile.clone(),
        alarm: set_alarm(),
        adviser: args.advise.map(|by| Adviser::start(by, args.advise_budget)).transpose()?,
        known: Known::default(),
        afresh: None,
        before: None,
        told: Told::default(),
        started,
    };
    // checks that the cgroups of --group exist
    monitor.wanted.check(&monitor.read_groups()?)?;
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    monitor.run_until_stopped(args.every, &stop)?;
    Ok(Outcome::Done)
}

/// The text that HTTP requests are answered with: the metrics of the last reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Page(Arc<Mutex<Arc<str>>>);

impl Page {
    fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    pub(super) fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The last error of each output that still fails, so that each error is printed only once.
#[derive(Debug, Default)]
struct Told {
    record: Option<String>,
    textfile: Option<String>,
    journal: Option<String>,
}

struct Monitor {
    host: HostRoot,
    wanted: WantedGroups,
    ring: Option<Ring>,
    sync: SyncSender<std::fs::File>,
    journal: Option<FindingsJournal>,
    page: Page,
    textfile: Option<PathBuf>,
    alarm: Option<StallAlarm>,
    limited: LimitedGroups,
    adviser: Option<Adviser>,
    /// The snapshot of the last reading for which metrics were computed.
    before: Option<Box<Snapshot>>,
    /// What was read for `before`, to read again only what did something since.
    known: Known,
    /// When all processes were last read in full.
    afresh: Option<Instant>,
    told: Told,
    started: CostMeter,
}

impl Monitor {
    fn read_groups(&self) -> anyhow::Result<Snapshot> {
        let scope = Scope { cgroups: true, ..Scope::glance() };
        Ok(pagewise_observe::snapshot(&self.host, &scope))
    }

    fn run_until_stopped(&mut self, every: Duration, stop: &Stop) -> anyhow::Result<()> {
        let mut due = Due::new(every);
        let mut next = Instant::now();
        while !stop.is_asked() {
            let now = Instant::now();
            if let Some(extent) = due.find_due(now, Glance::take(&self.host, &self.limited)) {
                let is_short = self.read(extent)?;
                due.note_reading(now, extent);
                if is_short {
                    due.note_shortage(now);
                }
            }
            next = (next + TICK).max(Instant::now());
            self.wait_until(next, stop);
        }
        Ok(())
    }

    /// Waits until a time, or until tasks stall for lack of memory.
    fn wait_until(&mut self, until: Instant, stop: &Stop) {
        while !stop.is_asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self.alarm.as_ref().map(|alarm| alarm.wait(left)) {
                Some(Woken::Stalled) => {
                    // the kernel wakes the monitor again and again while tasks stall: two readings
                    // a second are enough
                    std::thread::sleep(left.min(TICK / 2));
                    return;
                }
                Some(Woken::NotStalled) => {}
                Some(Woken::Ended) => self.alarm = None,
                None => std::thread::sleep(left),
            }
        }
    }

    /// Takes a reading and adds it to the record. Unless the reading is a part, also computes and
    /// publishes the metrics. Returns whether memory is short now.
    fn read(&mut self, extent: Extent) -> anyhow::Result<bool> {
        let scope = self.choose_scope(extent);
        let live = Recording::live().context("/")?;
        let none = Snapshot::default();
        // a part is no start for the next reading
        let is_part = matches!(extent, Extent::Part { .. });
        let before = self.before.as_deref().unwrap_or(&none);
        let earlier = (!is_part).then_some((&mut self.known, before));
        let (mut end, tape) = live.record_end(&scope, earlier);
        let rest = Rest::of(&self.host, &scope, (!is_part).then_some(&self.known));
        self.record(tape, &rest);
        self.limited.choose(&end.cgroups);
        match (extent, &mut self.before) {
            (Extent::Part { .. }, _) => return Ok(false),
            (Extent::Usual { .. }, Some(before)) => keep_slow_parts(&mut end, before),
            (Extent::Usual { .. } | Extent::Complete, _) => {}
        }
        let mut interval = Interval { start: self.before.take(), end };
        let learnt = self.learn(&interval.end);
        let judged = Judged::new(&interval, &self.host, &self.wanted, &learnt);
        let scrape = judged.scrape(&interval, cost::measure_since(self.started, &interval));
        self.page.set(format_openmetrics(&scrape));
        if let Some(path) = &self.textfile {
            let written = output::replace_file(path, format_classic(&scrape).as_bytes());
            report_change(&mut self.told.textfile, "the textfile", written);
        }
        // without an earlier reading there are no rates, so findings about rates would seem to have
        // ended
        if let Some(journal) = self.journal.as_mut().filter(|_| interval.start.is_some()) {
            let written = journal.write_entries(&interval, &judged.findings).map(drop);
            report_change(&mut self.told.journal, "the journal", written);
        }
        let is_short = judged.verdict.level >= Level::Short && is_short_without_log(&mut interval);
        self.before = Some(Box::new(interval.end));
        if let Some(adviser) = &self.adviser {
            adviser.note_shortage(is_short);
        }
        Ok(is_short)
    }

    /// What `--advise` knows of the cgroups of `--group`.
    fn learn(&self, end: &Snapshot) -> BTreeMap<Name, Learnt> {
        let Some(adviser) = &self.adviser else { return BTreeMap::new() };
        adviser.set_groups(self.wanted.paths(end));
        adviser.learnt(Instant::now())
    }

    /// The scope of a reading. At the first complete reading, and at one every [`AFRESH`], all
    /// processes are read in full.
    fn choose_scope(&mut self, extent: Extent) -> Scope {
        let scope = scope_of(extent);
        let now = Instant::now();
        let is_due = self.afresh.is_none_or(|then| now.saturating_duration_since(then) >= AFRESH);
        if extent != Extent::Complete || !is_due {
            return scope;
        }
        self.afresh = Some(now);
        Scope { processes: ProcessScope::Everything, ..scope }
    }

    fn record(&mut self, tape: Tape, rest: &Rest) {
        let Some(ring) = &mut self.ring else { return };
        let added = ring.add(tape, rest);
        if added.is_ok() {
            // a sync that is still running will include this reading; if it does not, the next one
            // will
            if let Some(Ok(file)) = ring.current_file() {
                if let Err(TrySendError::Disconnected(_)) = self.sync.try_send(file) {
                    self.sync = start_syncing();
                }
            }
        }
        report_change(
            &mut self.told.record,
            "the record",
            added.map(drop).map_err(anyhow::Error::new),
        );
    }
}

/// Whether memory is short for another reason than kills. A kill affects the verdict for an hour,
/// but frequent readings are only useful while memory is short.
fn is_short_without_log(interval: &mut Interval) -> bool {
    let log = std::mem::take(&mut interval.end.kernel_log);
    let is_short = pagewise_decide::judge(interval).level >= Level::Short;
    interval.end.kernel_log = log;
    is_short
}

/// The scope of a reading of this extent.
const fn scope_of(extent: Extent) -> Scope {
    match extent {
        Extent::Complete => Scope { processes: ProcessScope::Changed, ..scope() },
        Extent::Usual { calm } => Scope {
            processes: if calm { ProcessScope::Awake } else { ProcessScope::Changed },
            changed_cgroups_only: calm,
            volatile_only: true,
            kernel_log: false,
            ..scope()
        },
        Extent::Part { killed } => Scope {
            processes: ProcessScope::Largest(LARGEST),
            cgroups: true,
            kernel_log: killed,
            volatile_only: true,
            ..Scope::glance()
        },
    }
}

/// Asks the kernel to wake this process when tasks wait for memory; prints a message if the kernel
/// refuses.
fn set_alarm() -> Option<StallAlarm> {
    match StallAlarm::set() {
        Ok(alarm) => Some(alarm),
        Err(error) => {
            let found = format!("/proc/pressure/memory: no trigger for stalls: {error}");
            output::print_message(format_args!(
                "{found}; its counters are read once a second instead"
            ));
            None
        }
    }
}

/// Prints an error when it first occurs, and prints when the file is written again.
fn report_change(told: &mut Option<String>, what: &str, result: anyhow::Result<()>) {
    match result {
        Ok(()) => {
            if told.take().is_some() {
                output::print_message(format_args!("{what} is written again"));
            }
        }
        Err(error) => {
            let text = format!("{error:#}");
            if told.as_ref() != Some(&text) {
                output::print_message(format_args!(
                    "{what} is not written: {}; the monitor goes on without it and tries again",
                    Name::from(text.as_str())
                ));
                *told = Some(text);
            }
        }
    }
}

/// Starts the thread that syncs the ring's file to its disk, one request at a time.
fn start_syncing() -> SyncSender<std::fs::File> {
    let (sender, receiver) = sync_channel::<std::fs::File>(1);
    std::thread::spawn(move || {
        // an error of a sync is reported by the next write
        receiver.iter().for_each(|file| drop(file.sync_data()));
    });
    sender
}

/// Opens the systemd journal for entries about findings, if requested. Also takes the lock by which
/// `pagewise doctor --journal` knows that this process writes the entries; it is held until this
/// process ends.
fn open_journal(args: &cli::Monitor) -> anyhow::Result<Option<FindingsJournal>> {
    if !args.journal {
        return Ok(None);
    }
    // systemd names all folders of the unit, separated by colons, that of the monitor first
    let named = std::env::var("STATE_DIRECTORY").ok();
    let named = named.and_then(|all| all.split(':').next().map(PathBuf::from));
    let named = named.filter(|folder| !folder.as_os_str().is_empty());
    let folder = match named {
        Some(folder) => folder,
        None => {
            let record = record_folder(args.record.as_ref())?;
            record.parent().map_or_else(|| record.clone(), Path::to_owned)
        }
    };
    let journal = FindingsJournal::open_for_monitor(&folder.join("journal"))?;
    std::mem::forget(lock_as_monitor());
    Ok(Some(journal))
}

fn open_ring(args: &cli::Monitor) -> anyhow::Result<Option<Ring>> {
    if args.no_record {
        return Ok(None);
    }
    let folder = record_folder(args.record.as_ref())?;
    let limits = RingLimits { size: args.record_size, age: DAY * args.record_days };
    let error = match Ring::open(&folder, limits) {
        Ok(ring) => return Ok(Some(ring)),
        Err(error) => error,
    };
    let serves = !args.no_listen || args.textfile.is_some();
    let is_read_only = error.is_read_only();
    let what = format!("the record cannot be written: {:#}", anyhow::Error::new(error));
    if serves && is_read_only {
        // for example a machine that was booted from a read-only medium
        output::print_message(format_args!(
            "{}; metrics are served without a record",
            Name::from(what.as_str())
        ));
        return Ok(None);
    }
    let next = "--record DIR names another folder; --no-record serves metrics without a record";
    Err(Refusal::with_advice(what, next).into())
}

/// The folder of the record: the given one, or else one below the folder of journals; for users
/// other than root, one in the home folder.
pub(super) fn record_folder(given: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    let named = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() || named("PAGEWISE_STATE").is_some() {
        return Ok(pagewise_apply::state_folder().join("record"));
    }
    let state = named("XDG_STATE_HOME");
    let state = state.or_else(|| Some(named("HOME")?.join(".local/state")));
    let state = state.filter(|folder| folder.is_absolute()).ok_or_else(|| {
        let what = "the record needs a folder, and neither HOME nor XDG_STATE_HOME names one";
        Refusal::with_advice(what, "--record DIR names it")
    })?;
    Ok(state.join("pagewise/record"))
}

fn describe(ring: &Option<Ring>, places: &[String], args: &cli::Monitor) -> String {
    let mut parts = Vec::new();
    if let Some(ring) = ring {
        let folder = Name::from(ring.shelf().path().to_string_lossy().as_ref());
        parts.push(format!("records in {folder}, at most {}", args.record_size));
    }
    parts.extend(places.iter().map(|place| format!("serves metrics on {place}")));
    if let Some(path) = &args.textfile {
        parts.push(format!("writes {}", Name::from(path.to_string_lossy().as_ref())));
    }
    if parts.is_empty() {
        return "nothing to do: neither a record, nor an address, nor a textfile".to_owned();
    }
    parts.join("; ")
}
