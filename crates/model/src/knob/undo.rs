// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `pagewise undo` restored ([`Recovered`]), and the plans that are in force ([`InForce`]).

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Plan;

/// How a loan ended: whether what was borrowed or changed was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// It was restored, and read back to check it.
    Returned,
    /// There was nothing to restore: it was never taken, has disappeared, or had been restored
    /// already.
    Gone,
    /// It was left in place, because something else uses it now.
    Kept {
        /// What uses it.
        why: String,
    },
    /// Somebody else has changed it since: their value stays.
    Conflict {
        /// The value before we changed it.
        old: String,
        /// The value that we had set.
        ours: String,
        /// The current value.
        found: String,
    },
    /// It could not be restored; the journal keeps the entry.
    Left {
        /// The reason.
        why: String,
        /// What would help; `null` if that is not known.
        next: Option<String>,
    },
}

impl Outcome {
    /// Whether nothing remains to be done or reported about it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Returned | Self::Gone | Self::Kept { .. })
    }
}

/// One loan or change, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Return {
    /// What it was, such as `zram device zram3`.
    pub what: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// What an earlier run left behind, and whether it was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recovered {
    /// The journal of that run.
    pub journal: String,
    /// The name that `pagewise undo --forget` takes.
    pub id: String,
    /// The id of the plan that the journal belongs to; `null` for a run that only borrowed.
    pub plan: Option<String>,
    /// Process id of that run, if the journal still contains it.
    pub pid: Option<u32>,
    /// Whether the machine was rebooted since.
    pub earlier_boot: bool,
    /// Everything that had not been returned, the last one first.
    pub returns: Vec<Return>,
    /// The first line that could not be parsed. In this case the journal is kept.
    pub damaged_line: Option<usize>,
    /// Why the journal was not read at all; nothing that it may name was restored.
    pub skipped: Option<SkippedJournal>,
    /// Why the journal could not be updated, for example because its disk is mounted read-only.
    /// What `returns` reports was done all the same.
    pub unnoted: Option<String>,
}

/// A file with the name of a journal that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedJournal {
    /// The reason.
    pub why: String,
    /// Whether it is a regular file, so that it may be the journal of a run.
    pub is_file: bool,
}

impl Recovered {
    /// Whether nothing remains and the journal was deleted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_whole() && self.returns.iter().all(|it| it.outcome.is_settled())
    }

    /// Whether nothing remains to be done. Conflicts do not count: they have been reported.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        let is_left = |it: &Return| matches!(it.outcome, Outcome::Left { .. });
        self.is_whole() && !self.returns.iter().any(is_left)
    }

    fn is_whole(&self) -> bool {
        self.damaged_line.is_none() && self.skipped.is_none()
    }

    /// Whether there is anything to report about it.
    #[must_use]
    pub fn is_worth_reporting(&self) -> bool {
        !self.is_whole() || !self.returns.is_empty() || self.unnoted.is_some()
    }
}

/// A plan whose changes are in force.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InForce {
    /// Number of its journal, which `pagewise undo` takes.
    pub journal: String,
    /// Whether all of its steps were carried out. If not, it was interrupted.
    pub applied: bool,
    /// Number of its changes that were not undone.
    pub changes: usize,
    /// End of its trial period, in seconds of Unix time; `null` if it is not on trial.
    pub trial_until: Option<u64>,
    /// When `apply` started to carry it out, in seconds of Unix time.
    pub unix_seconds: u64,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
}
