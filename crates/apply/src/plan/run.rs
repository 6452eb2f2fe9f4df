// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies the steps of a checked plan under a journal of its own.
//!
//! Each change is announced in the journal before it is made, and read back after it. If one fails,
//! or the user stops the run, all changes are undone, last first. But once swap was disabled, its
//! pages are in the swap that the plan created, so the changes up to that step are kept and
//! reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewise_model::Advice;
use pagewise_model::lend::{LoanId, ZramSpec};
use pagewise_model::plan::{Applied, Plan, StepDone, SwapFilePlan, Watched};

use crate::error::Error;
use crate::host_ops::{Config, HostOps, Strain, folder_of};
use crate::journal::{JournalName, Loan, Record};
use crate::loan::config;
use crate::loan::{drain, drained, file, knob, place, swap, zram};
use crate::plan::check::{Todo, described_change};
use crate::plan::trial;
use crate::session::Session;
use pagewise_model::undo::Return;

/// How to apply a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether steps that cannot be undone were allowed. Nothing reads this:
    /// [`ReadyPlan::check`](crate::plan::ReadyPlan::check) has an argument of this name, by which
    /// it refuses such steps.
    pub allows_irreversible: bool,
    /// How long programs are observed after the last step.
    pub settle: Duration,
    /// Length of the trial: after it the plan is undone unless it was confirmed. `None`: no trial.
    pub trial: Option<Duration>,
    /// Set by the caller to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// Reported while a plan is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A step starts: its number from 1, the number of steps, and what it changes.
    Step(usize, usize, &'a str),
    /// Programs are observed for this time.
    Settling(Duration),
}

/// A plan that was not applied completely.
#[derive(Debug, thiserror::Error)]
#[error("step {number} of {steps}, {what}")]
pub struct Failed {
    /// The number of the failed step, from 1.
    pub number: usize,
    /// The number of steps.
    pub steps: usize,
    /// What the step was to change.
    pub what: String,
    /// For each change that was made, whether it was undone; last first.
    pub returns: Vec<Return>,
    /// Ids of the steps that are kept because swap was disabled.
    pub stay: Vec<String>,
    /// The journal's id for `pagewise undo`, if the journal names changes that are in force.
    pub journal: Option<String>,
    /// The error.
    pub source: Error,
}

impl Failed {
    /// Whether the user stopped the run.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.source, Error::Stopped)
    }
}

impl Advice for Failed {
    fn state(&self) -> Option<String> {
        let left = self.returns.iter().filter(|it| !it.outcome.is_settled());
        let left: Vec<&str> = left.map(|it| it.what.as_str()).collect();
        let undone = self.returns.len() - left.len();
        let journal = self.journal.as_deref().unwrap_or_default();
        let mut lines = Vec::new();
        if undone > 0 {
            lines.push(format!("{undone} changes were undone and read back"));
        }
        if !self.stay.is_empty() {
            let stay = self.stay.join(", ");
            lines.push(format!("these steps stay, because swap was switched off: {stay}"));
        }
        if !left.is_empty() {
            lines.push(format!("these changes could not be undone: {}", left.join(", ")));
        }
        if lines.is_empty() {
            return Some("nothing was changed".to_owned());
        }
        let names = if journal.is_empty() {
            "nothing else was written".to_owned()
        } else {
            format!("journal {journal} names what is in force")
        };
        Some(format!("{}; {names}", lines.join("; ")))
    }

    fn next(&self) -> Option<String> {
        match &self.journal {
            Some(id) => Some(format!("`pagewise undo {id}` undoes the rest")),
            None => self.source.next(),
        }
    }
}

/// Applies the plan.
pub(crate) fn carry_out(
    hands: Box<dyn HostOps + Send>,
    folder: &str,
    plan: &Plan,
    todo: &[Todo],
    options: &Options,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<Applied, Box<Failed>> {
    let steps = plan.steps.iter().zip(todo).map(|(step, todo)| StepDone {
        id: step.id.clone(),
        what: described_change(&step.change),
        changed: *todo != Todo::Nothing,
    });
    let steps: Vec<StepDone> = steps.collect();
    if steps.iter().all(|step| !step.changed) {
        return Ok(Applied { journal: None, steps, watched: None });
    }
    let before = hands.strain();
    let failed = |number: usize, source: Error| Failed {
        number,
        steps: steps.len(),
        what: steps.get(number - 1).map(|step| step.what.clone()).unwrap_or_default(),
        returns: Vec::new(),
        stay: Vec::new(),
        journal: None,
        source,
    };
    let mut session =
        Session::for_plan(hands, folder, plan).map_err(|source| Box::new(failed(1, source)))?;
    let journal = session.journal_path().map(|path| JournalName::parse(path).id());
    if let Some(time) = options.trial {
        if let Err(source) = trial::arm(&mut session, folder, time) {
            let failed = Failed { what: "the timer of the trial".to_owned(), ..failed(1, source) };
            return Err(Box::new(undone(&mut session, &steps, None, journal, failed)));
        }
    }
    let mut drained = None;
    for (at, (step, todo)) in steps.iter().zip(todo).enumerate() {
        let carried_out = if options.stop.load(Ordering::Relaxed) {
            Err(Error::Stopped)
        } else {
            report(Progress::Step(at + 1, steps.len(), &step.what));
            carry_out_step(&mut session, step, todo)
        };
        match carried_out {
            Ok(Some(loan)) => drained = Some((at, loan)),
            Ok(None) => {}
            Err(source) => {
                let source =
                    if options.stop.load(Ordering::Relaxed) { Error::Stopped } else { source };
                let failure = failed(at + 1, source);
                return Err(Box::new(undone(&mut session, &steps, drained, journal, failure)));
            }
        }
    }
    let settled = settle(&session, before, options, report);
    let kept = settled.and_then(|watched| session.note(&Record::Applied).map(|()| watched));
    match kept {
        Ok(watched) => {
            session.leave();
            Ok(Applied { journal, steps, watched: Some(watched) })
        }
        Err(source) => {
            let failed =
                Failed { what: "the time after it".to_owned(), ..failed(steps.len(), source) };
            Err(Box::new(undone(&mut session, &steps, drained, journal, failed)))
        }
    }
}

/// Undoes what a failed plan has done.
fn undone(
    session: &mut Session,
    steps: &[StepDone],
    drained: Option<(usize, LoanId)>,
    journal: Option<String>,
    failed: Failed,
) -> Failed {
    let (returns, stay) = match drained {
        Some((at, loan)) => {
            let stay = steps[..=at].iter().filter(|step| step.changed);
            (session.give_back_after(loan), stay.map(|step| step.id.clone()).collect())
        }
        None => {
            let returns = session.give_all_back();
            session.leave();
            (returns, Vec::new())
        }
    };
    let is_left = returns.iter().any(|it| !it.outcome.is_settled()) || !stay.is_empty();
    Failed { returns, stay, journal: journal.filter(|_| is_left), ..failed }
}

/// Carries out one step. Returns the loan of the disabled swap area if the step drained one.
fn carry_out_step(
    session: &mut Session,
    step: &StepDone,
    todo: &Todo,
) -> Result<Option<LoanId>, Error> {
    if *todo == Todo::Nothing {
        return Ok(None);
    }
    session.note(&Record::Step { id: step.id.clone() })?;
    match todo {
        Todo::Nothing => {}
        Todo::Setting(loan) => set(session, loan)?,
        Todo::File { path, old, ours } => {
            session.folders(path)?;
            let loan = Loan::File { path: path.clone(), old: old.clone(), ours: ours.clone() };
            session.taken(loan, |hands| {
                let found = hands.config(path);
                let is_as_checked = match (&found, old) {
                    (Ok(Config::File(file)), Some(old)) => file == old,
                    (Ok(Config::Missing), None) => true,
                    _ => false,
                };
                refuse_unless(is_as_checked, path)?;
                config::set_file(hands, path, ours, old.as_ref())
            })?;
        }
        Todo::Link { path, old, ours } => {
            session.folders(path)?;
            let loan = Loan::Link { path: path.clone(), old: old.clone(), ours: ours.clone() };
            session.taken(loan, |hands| {
                let found = hands.config(path);
                let is_as_checked = match (&found, old) {
                    (Ok(Config::Link(to)), Some(old)) => to == old,
                    (Ok(Config::Missing), None) => true,
                    _ => false,
                };
                refuse_unless(is_as_checked, path)?;
                config::set_link(hands, path, ours)
            })?;
        }
        Todo::Units => drop(session.taken(Loan::Units, config::reload)?),
        Todo::AddZram { .. } => add_zram(session, todo)?,
        Todo::AddSwapFile { path, to } => add_swap_file(session, path, *to)?,
        Todo::Priority { area, to } => set_priority(session, area, *to)?,
        Todo::Drain { area } => return drain(session, area).map(Some),
    }
    Ok(None)
}

/// Refuses if the state has changed between the check and the write.
fn refuse_unless(is_as_checked: bool, what: &str) -> Result<(), Error> {
    if is_as_checked {
        return Ok(());
    }
    let (planned, found) = ("what was there a moment ago".to_owned(), "something else".to_owned());
    Err(Error::Stale { what: what.to_owned(), planned, found })
}

/// Writes a setting. Does nothing for any loan other than [`Loan::Setting`], so pass only that.
fn set(session: &mut Session, loan: &Loan) -> Result<(), Error> {
    let Loan::Setting { name, path, old, ours, back } = loan else { return Ok(()) };
    session.taken(loan.clone(), |hands| {
        refuse_unless(knob::is_at_value(hands, path, old)?, name)?;
        knob::set(hands, name, &knob::Change { path, old, ours, back })
    })?;
    Ok(())
}

impl Session {
    /// Creates the missing parent folders of a file.
    pub(crate) fn folders(&mut self, path: &str) -> Result<(), Error> {
        let mut missing = Vec::new();
        let mut folder = folder_of(path);
        while place::known_folder(folder).is_ok()
            && matches!(self.hands().config(folder), Ok(Config::Missing))
        {
            missing.push(folder.to_owned());
            folder = folder_of(folder);
        }
        for path in missing.into_iter().rev() {
            let loan = Loan::Folder { path: path.clone() };
            self.taken(loan, |hands| config::make_folder(hands, &path))?;
        }
        Ok(())
    }
}

/// Creates swap on zram. Does nothing for any step other than [`Todo::AddZram`], so pass only that.
fn add_zram(session: &mut Session, todo: &Todo) -> Result<(), Error> {
    let Todo::AddZram { number, exists, lasts, to } = todo else { return Ok(()) };
    let spec = ZramSpec {
        compressor: Some(to.compressor.clone()),
        mem_limit: to.mem_limit_bytes,
        ..ZramSpec::new(to.disksize_bytes)
    };
    let made = match number.filter(|_| *exists) {
        Some(number) => {
            let device = zram::device(session.hands(), number)
                .ok_or(Error::Absent { what: format!("zram{number}"), why: "it has no diskseq" })?;
            let algorithm = zram::setup(session.hands(), number)?.algorithm;
            let disksize = to.disksize_bytes.get();
            let loan = Loan::ZramSize { device, algorithm, disksize };
            session.taken(loan, |hands| zram::set_up(hands, number, &spec))?;
            number
        }
        None => session.zram(&spec)?.number,
    };
    if let Some(planned) = number.filter(|number| *number != made) {
        let (planned, found) = (format!("zram{planned}"), format!("zram{made}"));
        return Err(Error::Stale { what: "the new device".to_owned(), planned, found });
    }
    let area = zram::area(made);
    let diskseq = swap::diskseq_of(session.hands(), &area);
    let lasting = lasts.then(|| to.clone());
    let loan = Loan::SwapOn { area: area.clone(), diskseq, zram: lasting };
    session.taken(loan, |hands| switch_on(hands, &area, Some(to.priority)))?;
    Ok(())
}

fn add_swap_file(session: &mut Session, path: &str, to: SwapFilePlan) -> Result<(), Error> {
    let what = file::announced_as(session.hands(), path, to.size_bytes)?;
    session.filled(what, to.size_bytes)?;
    let loan = Loan::SwapOn { area: path.to_owned(), diskseq: None, zram: None };
    session.taken(loan, |hands| switch_on(hands, path, to.priority))?;
    Ok(())
}

/// Enables the area and reads back its priority; with `None` the kernel must have chosen a negative
/// one.
fn switch_on(hands: &mut dyn HostOps, area: &str, priority: Option<i16>) -> Result<(), Error> {
    swap::on(hands, area, priority)?;
    has_priority(hands, area, priority)
}

fn has_priority(hands: &dyn HostOps, area: &str, priority: Option<i16>) -> Result<(), Error> {
    let found = drain::area(hands, area).map(|found| found.priority);
    let is_it = match priority {
        Some(priority) => found == Some(i32::from(priority)),
        None => found.is_some_and(|found| found < 0),
    };
    if is_it {
        return Ok(());
    }
    let wrote =
        priority.map_or("no priority".to_owned(), |priority| format!("priority {priority}"));
    let found = found.map_or("no swap".to_owned(), |priority| format!("priority {priority}"));
    Err(Error::Changed { what: area.to_owned(), wrote, found })
}

/// Changes a priority by disabling and enabling the area, because the kernel sets it only when an
/// area is enabled. The device or file is kept.
fn set_priority(session: &mut Session, path: &str, to: i16) -> Result<(), Error> {
    let area = drain::area(session.hands(), path);
    let priority = area.map(|area| area.priority).unwrap_or_default();
    let loan = Loan::Drained { area: path.to_owned(), priority, zram: None };
    session.taken(loan, |hands| drained::drain(hands, path, None))?;
    let diskseq = swap::diskseq_of(session.hands(), path);
    let loan = Loan::SwapOn { area: path.to_owned(), diskseq, zram: None };
    session.taken(loan, |hands| {
        swap::on_again(hands, path, Some(to))?;
        has_priority(hands, path, Some(to))
    })?;
    Ok(())
}

fn drain(session: &mut Session, path: &str) -> Result<LoanId, Error> {
    let area = drain::area(session.hands(), path);
    let priority = area.map(|area| area.priority).unwrap_or_default();
    let setup = drain::zram_setup(session.hands(), path)?;
    let loan = Loan::Drained { area: path.to_owned(), priority, zram: setup.clone() };
    session.taken(loan, |hands| drained::drain(hands, path, setup.as_ref()))
}

/// Interval at which the stop flag is checked.
const NAP: Duration = Duration::from_millis(100);
/// Programs are under pressure if all of them wait for memory for more than this percentage of the
/// time, and twice as long as before.
const MOST_WAITING: u64 = 10;

/// Observes programs for some time after the last step.
fn settle(
    session: &Session,
    before: Strain,
    options: &Options,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<Watched, Error> {
    let start = session.hands().strain();
    if !options.settle.is_zero() {
        report(Progress::Settling(options.settle));
    }
    let mut waited = Duration::ZERO;
    while waited < options.settle {
        if options.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let nap = NAP.min(options.settle - waited);
        session.hands().pause(nap);
        waited += nap;
    }
    let end = session.hands().strain();
    let since = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
    let watched = Watched {
        settle_seconds: options.settle.as_secs(),
        some_us: since(start.some_us, end.some_us),
        full_us: since(start.full_us, end.full_us),
        oom_kills: end.oom_kills.saturating_sub(before.oom_kills),
        refaults: end.refaults.saturating_sub(start.refaults),
    };
    judge(&watched, before.full_percent, options.settle).map(|()| watched)
}

fn judge(watched: &Watched, usual_percent: u64, settle: Duration) -> Result<(), Error> {
    if watched.oom_kills > 0 {
        let kills = watched.oom_kills;
        let why =
            format!("the kernel killed {kills} processes for lack of memory since the first step");
        return Err(Error::Strained(why));
    }
    let full = u128::from(watched.full_us.unwrap_or_default());
    let most = MOST_WAITING.max(2 * usual_percent);
    if full * 100 > settle.as_micros() * u128::from(most) {
        let why = format!(
            "all tasks waited for memory for {:.1} s of the {:.1} s after the last step",
            Duration::from_micros(watched.full_us.unwrap_or_default()).as_secs_f64(),
            settle.as_secs_f64()
        );
        return Err(Error::Strained(why));
    }
    Ok(())
}
