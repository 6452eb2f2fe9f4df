// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `pagewise undo` put back ([`Recovered`]), and the plans that are in force ([`InForce`]).

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Plan;

/// How a loan ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// Put back, and looked at after it.
    Returned,
    /// Nothing was to be put back: it had never been taken, had gone by itself, or had been put back.
    Gone,
    /// It stays, because somebody else uses it now.
    Kept {
        /// Who or what.
        why: String,
    },
    /// Somebody else changed it since: theirs stays.
    Conflict {
        /// What it was before we borrowed it.
        old: String,
        /// What we had made of it.
        ours: String,
        /// What stands there now.
        found: String,
    },
    /// It could not be put back; the journal keeps naming it.
    Left {
        /// Why not.
        why: String,
        /// What would help, where that is known.
        next: Option<String>,
    },
}

impl Outcome {
    /// Whether nothing of it remains to be done or told.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Returned | Self::Gone | Self::Kept { .. })
    }
}

/// One thing that was lent, and how that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Return {
    /// What, as `zram device zram3`.
    pub what: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// What an earlier run left behind, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recovered {
    /// Its journal.
    pub journal: String,
    /// How `pagewise undo --forget` calls it.
    pub id: String,
    /// The id of the plan whose journal it is; `null` of a run that only borrowed.
    pub plan: Option<String>,
    /// Its process, where the journal still says so.
    pub pid: Option<u32>,
    /// Whether the machine has been started anew since.
    pub earlier_boot: bool,
    /// Everything that was still lent, the last first.
    pub returns: Vec<Return>,
    /// The first line that cannot be understood. The journal then stays where it is.
    pub damaged_line: Option<usize>,
    /// Why the journal was not read at all; nothing that it may name was put back.
    pub skipped: Option<SkippedJournal>,
    /// Why the journal could not be brought up to date, as on a disk that is mounted read-only.
    /// What is said in `returns` was done all the same.
    pub unnoted: Option<String>,
}

/// Something by the name of a journal that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedJournal {
    /// Why not.
    pub why: String,
    /// Whether it is a plain file, so that a run may have written it.
    pub is_file: bool,
}

impl Recovered {
    /// Whether nothing remains: the journal is gone.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_whole() && self.returns.iter().all(|it| it.outcome.is_settled())
    }

    /// Whether nothing remains to be done: what was in conflict has been told.
    #[must_use]
    pub fn is_told(&self) -> bool {
        let is_left = |it: &Return| matches!(it.outcome, Outcome::Left { .. });
        self.is_whole() && !self.returns.iter().any(is_left)
    }

    fn is_whole(&self) -> bool {
        self.damaged_line.is_none() && self.skipped.is_none()
    }

    /// Whether there is anything to say of it.
    #[must_use]
    pub fn is_worth_telling(&self) -> bool {
        !self.is_whole() || !self.returns.is_empty() || self.unnoted.is_some()
    }
}

/// A plan whose changes are in force.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InForce {
    /// How `pagewise undo` calls its journal.
    pub journal: String,
    /// Whether all of its steps were carried out. If not, it was interrupted.
    pub applied: bool,
    /// How many of its changes no undo has put back yet.
    pub changes: usize,
    /// Until when it is on trial, in seconds of Unix time; `null` if it is not.
    pub trial_until: Option<u64>,
    /// When it was begun.
    pub unix_seconds: u64,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
}
