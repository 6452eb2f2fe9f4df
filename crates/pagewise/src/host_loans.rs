// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary changes of this host for an experiment, and messages about changes that earlier runs
//! left behind.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_apply::{Rescue, Session, state_folder};
use pagewise_model::undo::Recovered;
use pagewise_report::text;
use pagewise_stats::Experiment;
use pagewise_terminal::output;

/// Advice if a temporary change could not be undone.
const NEXT: &str = "`pagewise undo` tries again, and closes what somebody else has changed since";

/// The error that follows one line for each change that could not be undone.
pub(crate) const NOT_ALL_BACK: &str = "what is named above was not given back";

/// The temporary changes that an experiment makes on this host. They are undone when this value is
/// dropped; if this process crashes, the rescue process undoes them.
#[derive(Debug)]
pub(crate) struct HostLoans {
    /// Makes and undoes temporary changes of settings, swap and cgroups. Declared before the
    /// rescue, so that it is dropped first.
    pub(crate) session: Session,
    _rescue: Option<Rescue>,
}

impl HostLoans {
    /// Undoes the changes that earlier runs left behind, and reports that on standard error. Fails
    /// if another run changes the host at the same time, or if the folder of journals cannot be
    /// written.
    pub(crate) fn open(allow_shared_swap: bool) -> anyhow::Result<Self> {
        let state = state_folder();
        let mut loans = Self::open_in(&state, allow_shared_swap)?;
        let rescue =
            Rescue::install(&state).context("getting ready for a crash of this program")?;
        loans._rescue = Some(rescue);
        Ok(loans)
    }

    /// Opens a session for an experiment. If no arm has its own swap, the host may use other swap
    /// meanwhile.
    pub(crate) fn for_arms(
        experiment: &Experiment,
        allow_shared_swap: bool,
    ) -> anyhow::Result<Self> {
        Self::open(allow_shared_swap || !experiment.has_own_swap())
    }

    /// Like [`Self::open`], with another folder for journals, and without the rescue process that
    /// undoes the changes if this program crashes.
    pub(crate) fn open_in(state: &Path, allow_shared_swap: bool) -> anyhow::Result<Self> {
        let (mut session, left_behind) = Session::open(state)?;
        for line in left_behind.iter().flat_map(text::describe_recovered) {
            output::print_message(line);
        }
        let is_left = |run: &Recovered| {
            run.damaged_line.is_some() || run.returns.iter().any(|it| !it.outcome.is_settled())
        };
        if left_behind.iter().any(is_left) {
            output::print_hint(NEXT);
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

    /// Undoes all temporary changes; returns one line for each that could not be undone.
    pub(crate) fn end(self) -> Vec<String> {
        let returns = self.session.end();
        let unsettled = returns.iter().filter(|it| !it.outcome.is_settled());
        unsettled.map(|it| text::describe_returned(&it.what, &it.outcome)).collect()
    }

    /// Undoes all temporary changes, and reports on standard error which could not be undone, with
    /// advice. Returns whether all were undone.
    pub(crate) fn end_with_messages(self) -> bool {
        let left = self.end();
        left.iter().for_each(output::print_message);
        if !left.is_empty() {
            output::print_hint(NEXT);
        }
        left.is_empty()
    }
}
