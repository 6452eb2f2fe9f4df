// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session that lends parts of this host, and messages about what earlier runs left behind.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_apply::{Rescue, Session, state_folder};
use pagewise_model::undo::Recovered;
use pagewise_report::text;
use pagewise_stats::Experiment;
use pagewise_terminal::output;

/// What helps where something was not given back.
const NEXT: &str = "`pagewise undo` tries again, and closes what somebody else has changed since";

/// Follows the lines that name it.
pub(crate) const NOT_ALL_BACK: &str = "what is named above was not given back";

/// Everything that this run borrows. It goes back when this ends, whatever ends it.
#[derive(Debug)]
pub(crate) struct HostLoans {
    /// Lends. It is dropped before the rescue, which is for its crash.
    pub(crate) session: Session,
    _rescue: Option<Rescue>,
}

impl HostLoans {
    /// Puts back what earlier runs left behind, and says so on standard error. An error if another run borrows, or
    /// if the folder of journals cannot be written.
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

    /// As `open` with another folder for journals, and without a rescue if this program crashes.
    pub(crate) fn open_in(state: &Path, allow_shared_swap: bool) -> anyhow::Result<Self> {
        let (mut session, left_behind) = Session::open(state)?;
        for line in left_behind.iter().flat_map(text::recovered) {
            output::message(line);
        }
        let is_left = |run: &Recovered| {
            run.damaged_line.is_some() || run.returns.iter().any(|it| !it.outcome.is_settled())
        };
        if left_behind.iter().any(is_left) {
            output::hint(NEXT);
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
        unsettled.map(|it| text::returned(&it.what, &it.outcome)).collect()
    }

    /// Gives all back, and says on standard error what did not go back as it came, and what helps. Answers
    /// whether all did.
    pub(crate) fn end_told(self) -> bool {
        let left = self.end();
        left.iter().for_each(output::message);
        if !left.is_empty() {
            output::hint(NEXT);
        }
        left.is_empty()
    }
}
