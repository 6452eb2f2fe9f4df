// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `pagewise undo` restored ([`Recovered`]), and the plans whose changes are in force
//! ([`InForce`]).

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Plan;

/// Whether something that was borrowed or changed was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// What was borrowed or changed was restored, and read back to check it.
    Returned,
    /// There was nothing to restore: the change had never been made, the changed thing does not
    /// exist any more, or it had been restored already.
    Gone,
    /// What was borrowed or changed was left in place, because something else uses it now.
    Kept {
        /// What else uses the thing that was left in place.
        why: String,
    },
    /// Somebody else has changed the value since, and that value was left in place.
    Conflict {
        /// The value that the setting had before we changed it.
        old: String,
        /// The value that we had set.
        ours: String,
        /// The current value, which somebody else set.
        found: String,
    },
    /// What was borrowed or changed could not be restored; the entry stays in the journal.
    Left {
        /// Why the thing could not be restored.
        why: String,
        /// What the user can do about it; `null` if that is not known.
        next: Option<String>,
    },
}

impl Outcome {
    /// Whether nothing remains to be done about the loan or change, or to be reported about it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Returned | Self::Gone | Self::Kept { .. })
    }
}

/// A loan or change, and whether it was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Return {
    /// What was borrowed or changed, such as `zram device zram3`.
    pub what: String,
    /// Whether the loan or change was restored.
    pub outcome: Outcome,
}

/// The changes that an earlier run left behind, and whether they were restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recovered {
    /// Path of the earlier run's journal.
    pub journal: String,
    /// The name by which `pagewise undo --forget` selects the journal.
    pub id: String,
    /// The id of the plan that the journal belongs to; `null` for a run that only borrowed, such as
    /// an experiment.
    pub plan: Option<String>,
    /// Process id of the earlier run, if the journal still contains it.
    pub pid: Option<u32>,
    /// Whether the machine was rebooted since the earlier run.
    pub earlier_boot: bool,
    /// Everything that the run had not restored itself, the most recent change first.
    pub returns: Vec<Return>,
    /// Number of the first line of the journal that could not be parsed. A journal with such a line
    /// is not deleted.
    pub damaged_line: Option<usize>,
    /// Why the journal was not read at all; nothing that it may name was restored.
    pub skipped: Option<SkippedJournal>,
    /// Why the journal could not be updated, for example because its disk is mounted read-only. The
    /// things in `returns` were restored nevertheless.
    pub unnoted: Option<String>,
    /// The path to which `pagewise undo --forget` moved the journal, which contains the old
    /// contents of files; `null` if the journal was deleted or is still in use.
    pub set_aside: Option<String>,
}

/// A file with the name of a journal that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedJournal {
    /// Why the file was not read.
    pub why: String,
    /// Whether the file is a regular file, and may therefore be the journal of a run.
    pub is_file: bool,
}

impl Recovered {
    /// Whether nothing of the run remains to be restored and the journal was deleted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_whole() && self.returns.iter().all(|it| it.outcome.is_settled())
    }

    /// Whether everything of the run was restored, except for conflicts with changes by others,
    /// which have been reported.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        let is_left = |it: &Return| matches!(it.outcome, Outcome::Left { .. });
        self.is_whole() && !self.returns.iter().any(is_left)
    }

    fn is_whole(&self) -> bool {
        self.damaged_line.is_none() && self.skipped.is_none()
    }

    /// Whether anything about the run needs to be reported.
    #[must_use]
    pub fn is_worth_reporting(&self) -> bool {
        !self.is_whole() || !self.returns.is_empty() || self.unnoted.is_some()
    }
}

/// A plan whose changes are in force.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InForce {
    /// Number of the plan's journal, which identifies the plan for `pagewise undo`.
    pub journal: String,
    /// Whether all steps of the plan were carried out; `false` if `apply` was interrupted.
    pub applied: bool,
    /// Number of the plan's changes that were not undone.
    pub changes: usize,
    /// Whether an undo of the plan was begun and did not finish.
    pub partly_undone: bool,
    /// The changes of the plan that were not undone, in words. The timer of a trial period is not
    /// included.
    pub left: Vec<String>,
    /// End of the plan's trial period, in seconds of Unix time; `null` if it is not on trial.
    pub trial_until: Option<u64>,
    /// When `apply` started to carry out the plan, in seconds of Unix time.
    pub unix_seconds: u64,
    /// The plan itself.
    #[serde(flatten)]
    pub plan: Plan,
}
