// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the session that lends parts of this host, and says what earlier runs left behind.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_apply::{Rescue, Session, state_folder};
use pagewise_model::Name;
use pagewise_model::undo::{Outcome, Recovered};
use pagewise_stats::Experiment;
use pagewise_terminal::output;

/// Everything that this run borrows. It goes back when this ends, whatever ends it.
#[derive(Debug)]
pub(crate) struct HostLoans {
    // dropped before the rescue, which is for its crash
    pub(crate) session: Session,
    _rescue: Option<Rescue>,
}

impl HostLoans {
    /// Puts back what earlier runs left behind, and says so on standard error.
    pub(crate) fn open(allow_shared_swap: bool) -> anyhow::Result<Self> {
        let state = state_folder();
        let mut loans = Self::open_in(&state, allow_shared_swap)?;
        let rescue = Rescue::ready(&state).context("getting ready for a crash of this program")?;
        loans._rescue = Some(rescue);
        Ok(loans)
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
        if pagewise_guest::init::is_guest() {
            session.allow_devices();
        }
        let folder = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
        if let Some(folder) = folder {
            session.prefer_swap_folder(PathBuf::from(folder));
        }
        Ok(Self { session, _rescue: None })
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
        lines.push(match &run.plan {
            Some(plan) => format!("plan {} (journal {id}):", Name::from(plan.as_str())),
            None => format!("{who}{when} was ended before it could put back (journal {id}):"),
        });
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
