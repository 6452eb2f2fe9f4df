// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What experiments borrow, lent by apply: each loan in the journal before it is taken.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_apply::{
    Error, GroupWish, Outcome, Recovered, Rescue, Session, ZramWish, state_folder,
};
use pagewise_lab::experiment::Experiment;
use pagewise_model::lend::{
    Group, GroupWanted, LoanId, Refused, SwapFile, Treatment, Zram, ZramWanted,
};
use pagewise_model::{Bytes, Name};

use crate::output;

/// Everything that this run borrows. It goes back when this ends, whatever ends it.
#[derive(Debug)]
pub(crate) struct Borrowed {
    // goes before what it is for
    session: Session,
    _rescue: Option<Rescue>,
}

impl Borrowed {
    /// Puts back what earlier runs left behind, and says so on standard error.
    pub(crate) fn open(allow_shared_swap: bool) -> anyhow::Result<Self> {
        let state = state_folder();
        let mut borrowed = Self::open_in(&state, allow_shared_swap)?;
        let rescue = Rescue::ready(&state).context("getting ready for a crash of this program")?;
        borrowed._rescue = Some(rescue);
        Ok(borrowed)
    }

    /// For an experiment. Arms that have no swap of their own leave that of the host as it is.
    pub(crate) fn for_arms(
        experiment: &Experiment,
        allow_shared_swap: bool,
    ) -> anyhow::Result<Self> {
        Self::open(allow_shared_swap || !experiment.lends_swap())
    }

    /// The same with another folder for journals.
    pub(crate) fn open_in(state: &Path, allow_shared_swap: bool) -> anyhow::Result<Self> {
        let (mut session, left_behind) = Session::open(state)?;
        for line in left_behind.iter().flat_map(lines) {
            output::message(line);
        }
        let is_left = |run: &Recovered| {
            run.damaged_line.is_some() || run.returns.iter().any(|it| !it.outcome.is_settled())
        };
        if left_behind.iter().any(is_left) {
            output::hint(
                "`pagewise undo` tries again, and closes what somebody else has changed since",
            );
        }
        if allow_shared_swap {
            session.allow_shared_swap();
        }
        if pagewise_lab::init::is_guest() {
            session.allow_devices();
        }
        Ok(Self { session, _rescue: None })
    }

    /// Makes the kernel say more, by a word to the file of a knob that is lent.
    pub(crate) fn trigger(&mut self, loan: LoanId, word: &str) -> Result<(), Refused> {
        let told = self.session.trigger(pagewise_apply::LoanId(loan.0), word);
        told.map_err(|error| refused(word, &error))
    }

    /// Gives all back; a line for each thing that did not go back as it came.
    pub(crate) fn end(self) -> Vec<String> {
        let returns = self.session.end();
        let unsettled = returns.iter().filter(|it| !it.outcome.is_settled());
        unsettled.map(|it| line(&it.what, &it.outcome)).collect()
    }
}

/// What became of what a killed run had borrowed, in words.
pub(crate) fn lines(run: &Recovered) -> Vec<String> {
    let journal = &Name::from(run.journal.as_str());
    if let Some(skipped) = &run.skipped {
        let why = &skipped.why;
        return vec![format!("{journal}: not read: {why}; nothing that it may name was put back")];
    }
    let who =
        run.pid.map_or_else(|| "an earlier run".to_owned(), |pid| format!("the run of pid {pid}"));
    let when = if run.earlier_boot { ", before this boot" } else { "" };
    let mut lines = Vec::new();
    if !run.returns.is_empty() {
        let id = &run.id;
        lines.push(format!("{who}{when} was ended before it could put back (journal {id}):"));
        lines.extend(run.returns.iter().map(|it| format!("  {}", line(&it.what, &it.outcome))));
    }
    if let Some(at) = run.damaged_line {
        lines.push(format!(
            "{journal}: line {at} is damaged: what it said is not known; what is certain is what \
             other lines say, {}",
            if run.returns.is_empty() { "and that is nothing" } else { "as above" }
        ));
    }
    if let Some(why) = &run.unnoted {
        let done = "what is said above was done";
        lines.push(format!(
            "{journal}: {done}, and could not be noted there: {why}; the next undo looks again"
        ));
    }
    lines
}

/// What is not put back when a journal is removed, a line for each.
pub(crate) fn what_stays(run: &Recovered) -> Vec<String> {
    if let Some(skipped) = &run.skipped {
        return vec![format!("all that it may name: it was not read, since {}", skipped.why)];
    }
    let returns = run.returns.iter().filter(|it| !it.outcome.is_settled());
    let mut lines: Vec<String> = returns.map(|it| line(&it.what, &it.outcome)).collect();
    if let Some(at) = run.damaged_line {
        lines.push(format!("whatever line {at} named, which is damaged"));
    }
    lines
}

fn line(what: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Returned => format!("{what}: put back"),
        Outcome::Gone => format!("{what}: nothing to put back"),
        Outcome::Kept { why } => format!("{what}: kept, because {why}"),
        Outcome::Conflict { found, .. } => {
            format!("{what}: somebody has set {found} since; that stays")
        }
        Outcome::Left { why, next: None } => format!("{what}: still there: {why}"),
        Outcome::Left { why, next: Some(next) } => format!("{what}: still there: {why}; {next}"),
    }
}

/// Lent and in the journal.
fn lent(loan: pagewise_apply::LoanId) -> LoanId {
    #[cfg(debug_assertions)]
    crash_where_asked(loan.0);
    LoanId(loan.0)
}

/// For tests of what a crash leaves: `PAGEWISE_TEST_CRASH=panic:2` panics once the second loan is taken,
/// `abort:2` ends there as a panic of the release build does.
#[cfg(debug_assertions)]
fn crash_where_asked(loan: u64) {
    let asked = std::env::var("PAGEWISE_TEST_CRASH").unwrap_or_default();
    match asked.split_once(':') {
        Some(("panic", at)) if at == loan.to_string() => panic!("asked for by a test"),
        Some(("abort", at)) if at == loan.to_string() => std::process::abort(),
        _ => {}
    }
}

impl Treatment for Borrowed {
    fn zram(&mut self, wanted: &ZramWanted) -> Result<Zram, Refused> {
        let wish = ZramWish {
            disksize: wanted.disksize,
            algorithm: wanted.algorithm.clone(),
            level: wanted.level,
            dictionary: None,
            mem_limit: wanted.mem_limit,
        };
        let made = self.session.zram(&wish).map_err(|error| refused("a zram device", &error))?;
        let pagewise_apply::Zram { loan, number, device, sysfs } = made;
        Ok(Zram { loan: lent(loan), number, device, sysfs })
    }

    fn swap_on(&mut self, area: &Path, priority: Option<i16>) -> Result<LoanId, Refused> {
        let what = || format!("swap on {}", area.display());
        let loan =
            self.session.swap_on(area, priority).map_err(|error| refused(&what(), &error))?;
        Ok(lent(loan))
    }

    fn swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Refused> {
        let made = self.session.swap_file(folder, size);
        let (loan, path) = made.map_err(|error| refused("a swap file", &error))?;
        Ok(SwapFile { loan: lent(loan), path })
    }

    fn swap_device(&mut self, device: &Path, priority: Option<i16>) -> Result<LoanId, Refused> {
        let what = || format!("swap on {}", device.display());
        let loan = self.session.swap_device(device, priority);
        loan.map(lent).map_err(|error| refused(&what(), &error))
    }

    /// Where the user wants what passes.
    fn swap_folder(&self) -> Option<PathBuf> {
        std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from)
    }

    /// Version 2 has one swappiness for all: there `vm.swappiness` reaches the group by itself.
    fn group(&mut self, wanted: GroupWanted) -> Result<Group, Refused> {
        let GroupWanted { limit, swap_max, swappiness } = wanted;
        let swappiness = swappiness.filter(|_| !self.session.has_unified_groups());
        let wish = GroupWish { max: limit, swap_max, swappiness, ..GroupWish::default() };
        let made = self.session.group(&wish).map_err(|error| refused("a memory cgroup", &error))?;
        let pagewise_apply::Group { loan, folder, unified } = made;
        Ok(Group { loan: lent(loan), folder, unified })
    }

    fn knob(&mut self, name: &str, value: &str) -> Result<LoanId, Refused> {
        let what = || format!("{name} = {value}");
        let loan = self.session.knob(name, None, value);
        loan.map(lent).map_err(|error| refused(&what(), &error))
    }

    fn knob_of(&mut self, name: &str, instance: &str, value: &str) -> Result<LoanId, Refused> {
        let what = || format!("{name} = {value} of {instance}");
        let loan = self.session.knob(name, Some(instance), value);
        loan.map(lent).map_err(|error| refused(&what(), &error))
    }

    fn give_back(&mut self, loan: LoanId) -> Result<(), Refused> {
        let outcome = self.session.give_back(pagewise_apply::LoanId(loan.0));
        match outcome.map_err(|error| refused("giving back", &error))? {
            Outcome::Conflict { found, .. } => Err(Refused {
                what: "giving back".to_owned(),
                why: format!("somebody has set {found} since; that stays"),
                next: None,
            }),
            _ => Ok(()),
        }
    }
}

fn refused(what: &str, error: &Error) -> Refused {
    let why = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Refused { what: what.to_owned(), why, next: error.next() }
}
