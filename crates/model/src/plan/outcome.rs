// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of checking, applying and verifying a plan: why it was refused ([`Complaint`]), what
//! `apply` did ([`Applied`]), and how the machine differs from the plan later ([`Verified`]).

use schemars::JsonSchema;
use serde::Serialize;

use super::GainMeasured;

/// A reason why a plan is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Complaint {
    /// Id of the step that cannot be carried out; `null` if the reason concerns the whole plan.
    pub step: Option<String>,
    /// The change that was planned.
    pub what: String,
    /// Why the change cannot be made.
    pub why: String,
    /// What would help, if that is known.
    pub next: Option<String>,
}

/// The result of applying a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Applied {
    /// Number of the plan's journal, which identifies the plan for `pagewise undo`; `null` if there
    /// was nothing to do.
    pub journal: Option<String>,
    /// All steps of the plan, in order.
    pub steps: Vec<StepDone>,
    /// Memory pressure from the first step to the end of the observation time; `null` if there was
    /// nothing to do.
    pub watched: Option<Watched>,
}

/// The result of applying one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepDone {
    /// Id of the step.
    pub id: String,
    /// What the step changes, in a few words.
    pub what: String,
    /// Whether the step changed anything; `false` if the target value was in place already.
    pub changed: bool,
}

/// What the kernel counted while a plan was applied and during the observation time after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Watched {
    /// Length of the observation time after the last step.
    pub settle_seconds: u64,
    /// How long at least one task waited for memory during the observation time; `null` without
    /// PSI.
    pub some_us: Option<u64>,
    /// How long all tasks waited for memory at once during the observation time; `null` without
    /// PSI.
    pub full_us: Option<u64>,
    /// Number of processes that the kernel killed for lack of memory, from the first step on.
    pub oom_kills: u64,
    /// Number of pages that were refaulted soon after they were reclaimed, during the observation
    /// time.
    pub refaults: u64,
}

/// A plan compared with the state of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// The id of the plan.
    pub plan: String,
    /// Number of the plan's journal, which identifies the plan for `pagewise undo`; `null` if the
    /// plan is not in force.
    pub journal: Option<String>,
    /// All steps of the plan, in order.
    pub steps: Vec<StepVerified>,
    /// Measurements of the gains that the plan predicted; empty if the plan is not in force.
    pub gains: Vec<GainMeasured>,
}

/// A step compared with the state of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepVerified {
    /// Id of the step.
    pub id: String,
    /// What the step changes, in a few words.
    pub what: String,
    /// How the machine differs from the step; empty if it does not differ.
    pub differences: Vec<Difference>,
    /// Why the step was not compared: a later plan changed the same thing, or the state of that
    /// thing cannot be read.
    pub skipped: Option<String>,
    /// Whether the step was skipped because a later plan changed the same thing, or because nothing
    /// remains to be compared. Otherwise the state of a skipped step is not known.
    pub is_superseded: bool,
    /// The swap area that the step created, such as `/dev/zram1`; `null` if it created none, or if
    /// the area is disabled.
    pub area: Option<String>,
}

/// A difference between a plan and the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What differs: a running value, a file or a swap area.
    pub kind: DifferenceKind,
    /// The state that the plan demands.
    pub planned: String,
    /// The state that the machine has.
    pub found: String,
    /// The likely cause of the difference, such as `/etc/sysctl.d/99-local.conf:3`; `null` if it is
    /// not known.
    pub by: Option<String>,
}

/// The kind of thing that differs between a plan and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The kernel's current value of a setting differs.
    Running,
    /// A configuration file sets another value at the next boot.
    AtBoot,
    /// The contents of a file, or the target of a link, differ.
    File,
    /// A swap area differs.
    Swap,
}

impl Verified {
    /// The skipped steps whose state is not known, because it could not be read.
    pub fn unknown_steps(&self) -> impl Iterator<Item = &StepVerified> {
        self.steps.iter().filter(|step| step.skipped.is_some() && !step.is_superseded)
    }

    /// Whether the machine differs from the plan. Predictions that did not come true are not
    /// considered.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        self.steps.iter().any(|step| !step.differences.is_empty())
    }
}

impl StepVerified {
    /// Why the step is not in force now; `None` if it is in force. A file that will change the
    /// setting at the next boot is not considered.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let is_now =
            |it: &&Difference| matches!(it.kind, DifferenceKind::Running | DifferenceKind::Swap);
        let difference = self.differences.iter().find(is_now);
        let differs = difference.map(|it| format!("found {}, planned {}", it.found, it.planned));
        differs.or_else(|| self.skipped.clone())
    }
}
