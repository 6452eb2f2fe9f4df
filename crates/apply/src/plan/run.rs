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
use pagewise_model::lend::ZramSpec;
use pagewise_model::plan::{Applied, Plan, StepDone, Watched};

use crate::error::Error;
use crate::host_ops::{Config, HostOps, Strain};
use crate::journal::{
    DisabledSwap, EnabledSwap, FileChange, JournalName, LinkChange, Record, RecordedChange,
    SettingChange, ZramSetup, ZramSizeChange,
};
use crate::loan::config;
use crate::loan::{drain, drained, file, knob, swap, zram};
use crate::plan::check::{
    CheckedStep, DeviceToUse, SwapFileToAdd, SwapPriorityToSet, ZramSwapToAdd, describe_change,
};
use crate::plan::trial;
use crate::transaction::Transaction;
use pagewise_model::undo::Return;

/// How to apply a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long programs are observed after the last step of the plan.
    pub settle: Duration,
    /// Time after which the plan is undone unless it was confirmed; `None` if it is applied
    /// without a trial.
    pub trial: Option<Duration>,
    /// A flag that the caller sets to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// A message to the caller while a plan is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A step starts: its number from 1, the number of steps, and what it changes.
    Step(usize, usize, &'a str),
    /// The steps are done, and programs are observed for this time.
    Settling(Duration),
}

/// The error of a plan that was not applied completely.
#[derive(Debug, thiserror::Error)]
#[error("step {number} of {steps}, {what}")]
pub struct Failed {
    /// The number of the failed step, from 1.
    pub number: usize,
    /// How many steps the plan has.
    pub steps: usize,
    /// What the step was to change.
    pub what: String,
    /// For each change that the plan had made, whether it was undone; the last change comes first.
    pub returns: Vec<Return>,
    /// Ids of the steps that are not undone, because swap was disabled meanwhile.
    pub stay: Vec<String>,
    /// The journal's id for `pagewise undo`, if the journal names changes that are in force.
    pub journal: Option<String>,
    /// Whether the timer of a trial is armed and undoes what is in force.
    pub has_timer: bool,
    /// Why the step failed.
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
        let names = if self.has_timer {
            format!("{names}, and the timer of the trial undoes it")
        } else {
            names
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

/// Applies a checked plan under a journal of its own.
pub(crate) fn carry_out(
    host: Box<dyn HostOps + Send>,
    folder: &str,
    plan: &Plan,
    checked: &[CheckedStep],
    options: &Options,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<Applied, Box<Failed>> {
    let steps = plan.steps.iter().zip(checked).map(|(step, checked)| StepDone {
        id: step.id.clone(),
        what: describe_change(&step.change),
        changed: *checked != CheckedStep::InPlace,
    });
    let steps: Vec<StepDone> = steps.collect();
    if steps.iter().all(|step| !step.changed) {
        return Ok(Applied { journal: None, steps, watched: None });
    }
    let before = host.memory_pressure();
    let failed = |number: usize, source: Error| Failed {
        number,
        steps: steps.len(),
        what: steps.get(number - 1).map(|step| step.what.clone()).unwrap_or_default(),
        returns: Vec::new(),
        stay: Vec::new(),
        journal: None,
        has_timer: false,
        source,
    };
    let mut changes =
        Transaction::of_plan(host, folder, plan).map_err(|source| Box::new(failed(1, source)))?;
    let journal = changes.journal_path().map(|path| JournalName::parse(path).id());
    if let Some(time) = options.trial {
        if let Err(source) = trial::set_up_undo_timer(&mut changes, folder, time) {
            let failed = Failed { what: "the timer of the trial".to_owned(), ..failed(1, source) };
            return Err(Box::new(undo_failed(&mut changes, &steps, &[], journal, failed)));
        }
    }
    let mut drained = Vec::new();
    for (at, (step, checked)) in steps.iter().zip(checked).enumerate() {
        let carried_out = if options.stop.load(Ordering::Relaxed) {
            Err(Error::Stopped)
        } else {
            report(Progress::Step(at + 1, steps.len(), &step.what));
            carry_out_step(&mut changes, step, checked)
        };
        match carried_out {
            Ok(Some(id)) => drained.push((at, id)),
            Ok(None) => {}
            Err(source) => {
                let source =
                    if options.stop.load(Ordering::Relaxed) { Error::Stopped } else { source };
                let failure = failed(at + 1, source);
                return Err(Box::new(undo_failed(
                    &mut changes,
                    &steps,
                    &drained,
                    journal,
                    failure,
                )));
            }
        }
    }
    let settled = observe_programs(&changes, before, &drained, options, report);
    let kept = settled.and_then(|watched| changes.add_record(&Record::Applied).map(|()| watched));
    match kept {
        Ok(watched) => {
            changes.keep();
            Ok(Applied { journal, steps, watched: Some(watched) })
        }
        Err(source) => {
            let failed =
                Failed { what: "the time after it".to_owned(), ..failed(steps.len(), source) };
            Err(Box::new(undo_failed(&mut changes, &steps, &drained, journal, failed)))
        }
    }
}

/// Undoes what a failed plan has done. `drained`: the steps that disabled swap, by index, and their
/// changes. If memory ran short, this swap is enabled again.
fn undo_failed(
    changes: &mut Transaction,
    steps: &[StepDone],
    drained: &[(usize, u64)],
    journal: Option<String>,
    failed: Failed,
) -> Failed {
    let has_timer = changes.has_timer();
    let (returns, stay) = match drained.last() {
        Some(&(last, id)) => {
            let is_short = matches!(failed.source, Error::Strained(_));
            let enabled_again: Vec<u64> =
                drained.iter().filter(|_| is_short).map(|(_, id)| *id).collect();
            let returns = changes.undo_after(id, &enabled_again);
            let is_undone = |at| is_short && drained.iter().any(|(step, _)| *step == at);
            let kept = (0..=last).filter(|at| !is_undone(*at)).map(|at| &steps[at]);
            (returns, kept.filter(|step| step.changed).map(|step| step.id.clone()).collect())
        }
        None => {
            let returns = changes.undo_all();
            changes.keep();
            (returns, Vec::new())
        }
    };
    let is_left = returns.iter().any(|it| !it.outcome.is_settled()) || !stay.is_empty();
    let has_timer = is_left && has_timer;
    Failed { returns, stay, journal: journal.filter(|_| is_left), has_timer, ..failed }
}

/// Carries out one step of the plan. Returns the change that disabled a swap area if the step
/// drained one.
fn carry_out_step(
    changes: &mut Transaction,
    step: &StepDone,
    checked: &CheckedStep,
) -> Result<Option<u64>, Error> {
    if *checked == CheckedStep::InPlace {
        return Ok(None);
    }
    changes.add_record(&Record::Step { id: step.id.clone() })?;
    match checked {
        CheckedStep::InPlace => {}
        CheckedStep::Setting(setting) => write_setting(changes, setting)?,
        CheckedStep::File(file) => write_file(changes, file)?,
        CheckedStep::Link(link) => make_link(changes, link)?,
        CheckedStep::ReloadUnits => drop(changes.make(RecordedChange::Units, config::reload)?),
        CheckedStep::AddZramSwap(swap) => add_zram_swap(changes, swap)?,
        CheckedStep::AddSwapFile(file) => add_swap_file(changes, file)?,
        CheckedStep::SetSwapPriority(priority) => set_priority(changes, priority)?,
        CheckedStep::DrainSwap(area) => return drain(changes, area).map(Some),
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

/// Writes a setting, as a step of the plan.
fn write_setting(changes: &mut Transaction, setting: &SettingChange) -> Result<(), Error> {
    changes.make(RecordedChange::Setting(setting.clone()), |host| {
        refuse_unless(knob::has_value(host, &setting.path, &setting.old)?, &setting.name)?;
        knob::set(host, setting)
    })?;
    Ok(())
}

/// Writes a configuration file, as a step of the plan.
fn write_file(changes: &mut Transaction, file: &FileChange) -> Result<(), Error> {
    changes.make_folders(&file.path)?;
    changes.make(RecordedChange::File(file.clone()), |host| {
        let is_as_checked = match (host.config(&file.path), &file.old) {
            (Ok(Config::File(found)), Some(old)) => found == *old,
            (Ok(Config::Missing), None) => true,
            _ => false,
        };
        refuse_unless(is_as_checked, &file.path)?;
        config::set_file(host, file)
    })?;
    Ok(())
}

/// Creates a symbolic link, as a step of the plan.
fn make_link(changes: &mut Transaction, link: &LinkChange) -> Result<(), Error> {
    changes.make_folders(&link.path)?;
    changes.make(RecordedChange::Link(link.clone()), |host| {
        let is_as_checked = match (host.config(&link.path), &link.old) {
            (Ok(Config::Link(to)), Some(old)) => to == *old,
            (Ok(Config::Missing), None) => true,
            _ => false,
        };
        refuse_unless(is_as_checked, &link.path)?;
        config::set_link(host, link)
    })?;
    Ok(())
}

/// Creates swap on a zram device, as a step of the plan.
fn add_zram_swap(changes: &mut Transaction, swap: &ZramSwapToAdd) -> Result<(), Error> {
    let ZramSwapToAdd { device, lasts, to } = swap;
    let spec = ZramSpec {
        compressor: Some(to.compressor.clone()),
        mem_limit: to.mem_limit_bytes,
        ..ZramSpec::new(to.disksize_bytes)
    };
    let number = match *device {
        DeviceToUse::Existing(number) => {
            set_zram_size(changes, number, &spec)?;
            number
        }
        DeviceToUse::New => changes.add_zram(&spec)?.number,
        DeviceToUse::NewWithNumber(planned) => {
            let number = changes.add_zram(&spec)?.number;
            if number != planned {
                let (planned, found) = (format!("zram{planned}"), format!("zram{number}"));
                return Err(Error::Stale { what: "the new device".to_owned(), planned, found });
            }
            number
        }
    };
    let area = zram::area_path(number);
    let diskseq = swap::diskseq_of(changes.host(), &area);
    let zram = lasts.then(|| to.clone());
    enable_swap(changes, EnabledSwap { area, diskseq, zram }, Some(to.priority))
}

/// Sets up an existing zram device that has no size.
fn set_zram_size(changes: &mut Transaction, number: u32, spec: &ZramSpec) -> Result<(), Error> {
    let device = zram::device(changes.host(), number)
        .ok_or(Error::Absent { what: format!("zram{number}"), why: "it has no diskseq" })?;
    let algorithm = zram::read_setup(changes.host(), number)?.algorithm;
    let disksize = spec.disksize.get();
    let change = RecordedChange::ZramSize(ZramSizeChange { device, algorithm, disksize });
    changes.make(change, |host| zram::set_up(host, number, spec))?;
    Ok(())
}

fn add_swap_file(changes: &mut Transaction, file: &SwapFileToAdd) -> Result<(), Error> {
    let SwapFileToAdd { path, to } = file;
    let new = file::new_file_at(changes.host(), path, to.size_bytes)?;
    changes.add_swap_file(new, to.size_bytes)?;
    let swap = EnabledSwap { area: path.clone(), diskseq: None, zram: None };
    enable_swap(changes, swap, to.priority)
}

/// Writes a swap header to a device or file, enables it and reads back its priority; with `None`
/// the kernel must have chosen a negative one.
fn enable_swap(
    changes: &mut Transaction,
    swap: EnabledSwap,
    priority: Option<i16>,
) -> Result<(), Error> {
    let area = swap.area.clone();
    changes.make(RecordedChange::SwapOn(swap), |host| {
        swap::enable(host, &area, priority)?;
        check_priority(host, &area, priority)
    })?;
    Ok(())
}

fn check_priority(host: &dyn HostOps, area: &str, priority: Option<i16>) -> Result<(), Error> {
    let found = drain::find_area(host, area).map(|found| found.priority);
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
fn set_priority(changes: &mut Transaction, wanted: &SwapPriorityToSet) -> Result<(), Error> {
    let SwapPriorityToSet { area, to } = wanted;
    disable_swap(changes, area, None)?;
    let diskseq = swap::diskseq_of(changes.host(), area);
    let swap = EnabledSwap { area: area.clone(), diskseq, zram: None };
    changes.make(RecordedChange::SwapOn(swap), |host| {
        swap::enable_formatted(host, area, Some(*to))?;
        check_priority(host, area, Some(*to))
    })?;
    Ok(())
}

fn drain(changes: &mut Transaction, area: &str) -> Result<u64, Error> {
    let setup = drain::zram_setup(changes.host(), area)?;
    disable_swap(changes, area, setup)
}

/// Disables a swap area, and resets its zram device if `zram` has the settings to restore.
fn disable_swap(
    changes: &mut Transaction,
    area: &str,
    zram: Option<ZramSetup>,
) -> Result<u64, Error> {
    let found = drain::find_area(changes.host(), area);
    let priority = found.map(|found| found.priority).unwrap_or_default();
    let swap = DisabledSwap { area: area.to_owned(), priority, zram };
    changes.make(RecordedChange::Drained(swap.clone()), |host| drained::drain(host, &swap))
}

/// Interval at which the stop flag is checked.
const NAP: Duration = Duration::from_millis(100);
/// Percentage of the time. Programs are under pressure if all of them wait for memory for more
/// than this, and twice as long as before.
const MOST_WAITING: u64 = 10;

/// Observes programs for some time after the last step. If swap was disabled and programs grow so
/// that memory runs short, this ends early, before the kernel kills any.
fn observe_programs(
    changes: &Transaction,
    before: Strain,
    drained: &[(usize, u64)],
    options: &Options,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<Watched, Error> {
    let start = changes.host().memory_pressure();
    if !options.settle.is_zero() {
        report(Progress::Settling(options.settle));
    }
    let total = changes.host().memory_facts().total;
    let mut brake = drain::Brake::new("", drain::least_left(total), before.oom_kills);
    let mut waited = Duration::ZERO;
    while waited < options.settle {
        if !drained.is_empty() {
            brake
                .check_after(&drain::take_sample(changes.host(), waited))
                .map_err(Error::Strained)?;
        }
        if options.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let nap = NAP.min(options.settle - waited);
        changes.host().pause(nap);
        waited += nap;
    }
    let end = changes.host().memory_pressure();
    let since = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
    let watched = Watched {
        settle_seconds: options.settle.as_secs(),
        some_us: since(start.some_us, end.some_us),
        full_us: since(start.full_us, end.full_us),
        oom_kills: end.oom_kills.saturating_sub(before.oom_kills),
        refaults: end.refaults.saturating_sub(start.refaults),
    };
    check_pressure(&watched, before.full_percent, options.settle).map(|()| watched)
}

fn check_pressure(watched: &Watched, usual_percent: u64, settle: Duration) -> Result<(), Error> {
    if watched.oom_kills > 0 {
        let kills = watched.oom_kills;
        let why =
            format!("the kernel killed {kills} processes for lack of memory since the first step");
        return Err(Error::Strained(why));
    }
    let full = u128::from(watched.full_us.unwrap_or_default());
    let most = MOST_WAITING.max(2 * usual_percent);
    if !settle.is_zero() && full * 100 > settle.as_micros() * u128::from(most) {
        let why = format!(
            "all tasks waited for memory for {:.1} s of the {:.1} s after the last step",
            Duration::from_micros(watched.full_us.unwrap_or_default()).as_secs_f64(),
            settle.as_secs_f64()
        );
        return Err(Error::Strained(why));
    }
    Ok(())
}
