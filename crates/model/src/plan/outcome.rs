// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of a plan: why it was refused ([`Complaint`]), what `apply` did ([`Applied`]), and where the
//! machine differs from it later ([`Verified`]).

use schemars::JsonSchema;
use serde::Serialize;

use super::GainMeasured;

/// Why a plan is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Complaint {
    /// The id of the step; `null` if it concerns the whole plan.
    pub step: Option<String>,
    /// What was planned.
    pub what: String,
    /// Why it cannot be done.
    pub why: String,
    /// What would help.
    pub next: Option<String>,
}

/// A plan that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Applied {
    /// How `pagewise undo` calls its journal; `null` if there was nothing to do.
    pub journal: Option<String>,
    /// Every step of the plan, in its order.
    pub steps: Vec<StepDone>,
    /// How programs fared from the first step to the end of the time for watching; `null` if there was
    /// nothing to do.
    pub watched: Option<Watched>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepDone {
    /// Its id.
    pub id: String,
    /// What it changes, in a few words.
    pub what: String,
    /// `false` if its target was in place already.
    pub changed: bool,
}

/// What the kernel counted while a plan was carried out and in the time after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Watched {
    /// How long the time after the last step was.
    pub settle_seconds: u64,
    /// In that time, how long some task waited for memory; `null` without PSI.
    pub some_us: Option<u64>,
    /// In that time, how long all tasks waited for memory; `null` without PSI.
    pub full_us: Option<u64>,
    /// Processes that the kernel killed for lack of memory, from the first step on.
    pub oom_kills: u64,
    /// Pages that were read again soon after they were reclaimed, in that time.
    pub refaults: u64,
}

/// A plan, compared with the machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// The id of the plan.
    pub plan: String,
    /// How `pagewise undo` calls its journal; `null` of a plan that is not in force.
    pub journal: Option<String>,
    /// Every step, in its order.
    pub steps: Vec<StepVerified>,
    /// What became of the gains that the plan predicted; empty of a plan that is not in force.
    pub gains: Vec<GainMeasured>,
}

/// A step, compared with the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepVerified {
    /// Its id.
    pub id: String,
    /// What it changes, in a few words.
    pub what: String,
    /// Where the machine differs; empty if it does not.
    pub differences: Vec<Difference>,
    /// Why it was not compared: a later plan changed the same, or nothing of it can be read.
    pub skipped: Option<String>,
    /// The swap area that the step made, as `/dev/zram1`; `null` if it made none, or if the area is off.
    pub area: Option<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What differs.
    pub kind: DifferenceKind,
    /// What the plan says.
    pub planned: String,
    /// What is there.
    pub found: String,
    /// Who probably made the difference, as `/etc/sysctl.d/99-local.conf:3`; `null` if that is not known.
    pub by: Option<String>,
}

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The value that the kernel has now.
    Running,
    /// A file that sets another value at the next boot.
    AtBoot,
    /// The contents of a file, or the target of a link.
    File,
    /// Swap.
    Swap,
}

impl Verified {
    /// Whether anything differs. A prediction that did not come true is no difference.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        self.steps.iter().any(|step| !step.differences.is_empty())
    }
}

impl StepVerified {
    /// Why the step is not in force now; `None` if it is. A file that will change it at the next boot does
    /// not count.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let is_now =
            |it: &&Difference| matches!(it.kind, DifferenceKind::Running | DifferenceKind::Swap);
        let difference = self.differences.iter().find(is_now);
        let differs = difference.map(|it| format!("found {}, planned {}", it.found, it.planned));
        differs.or_else(|| self.skipped.clone())
    }
}
