// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list of changes to one machine, made before any of them is carried out ([`Plan`]).
//!
//! A plan is a document: `pagewise plan` prints it, people read it, and `pagewise apply` carries
//! out that document and nothing else. Every [`Step`] states what it changes from and to, so
//! `apply` can refuse a plan that no longer fits the machine before it writes anything.

mod change;
mod gain;
mod ledger;
mod outcome;
mod want;

pub use change::{Change, SwapFilePlan, SwapHeld, ZramSwap, config_mode};
pub use gain::{
    Expected, GAIN_METRICS, GainMeasured, GainMetric, GainOutcome, HIGH_WATERMARKS, HUGETLB_POOL,
    SWAP_AREA, ZRAM_RATIO,
};
pub use ledger::{HitRate, Ledger, LedgerEntry, MetricHitRate};
pub use outcome::{
    Applied, Complaint, Difference, DifferenceKind, StepDone, StepVerified, Verified, Watched,
};

pub use want::Want;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Severity};

/// What a plan optimizes for, if no setting is best for all goals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Most work per second; the latency of single requests may vary.
    Throughput,
    /// Shortest time to read a page back from swap.
    Latency,
    /// Most uncompressed memory in the same RAM.
    Ratio,
    /// A compromise between throughput, latency and ratio.
    #[default]
    Balanced,
}

/// Changes of one machine in the order in which they are applied, made for one snapshot of that
/// machine, and the changes that were considered but are not part of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Sixteen hexadecimal digits, a hash of all other fields: two plans with the same changes for
    /// the same machine have the same id.
    pub id: String,
    /// What the plan optimizes for.
    pub goal: Goal,
    /// The machine that the plan was made for.
    pub machine: PlannedMachine,
    /// The changes, in the order in which they are applied.
    pub steps: Vec<Step>,
    /// Changes that were considered and are not part of the plan.
    pub declined: Vec<Declined>,
}

/// What identifies the machine of a plan. `apply` refuses a plan for another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedMachine {
    /// A hash of the machine's `/etc/machine-id`; `null` if it has none.
    pub machine_id_hash: Option<String>,
    /// Size of the machine's RAM (`MemTotal`); `null` if it was not readable.
    pub memory_total_bytes: Option<Bytes>,
    /// The release of the running kernel, such as `6.12.48-amd64`; `null` if it was not readable.
    pub kernel: Option<String>,
}

/// One change of a plan, with everything needed to decide about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name of the step in the plan, such as `swappiness` or `swappiness-file`.
    pub id: String,
    /// What is changed, from what and to what.
    #[serde(flatten)]
    pub change: Change,
    /// Why the change is recommended, with the measured numbers.
    pub reason: String,
    /// Id of the finding that led to the change, such as `zram-unused`; `null` if no finding did.
    pub finding: Option<String>,
    /// The predicted gain of the change; `null` if there is no measurement to predict it from.
    pub expected: Option<Expected>,
    /// What could go wrong when the change is made.
    pub risk: String,
    /// What the change costs even if nothing goes wrong, such as `16 MiB of RAM for the table of
    /// slots`.
    pub cost: Option<String>,
    /// Names of other settings that change when this step is applied.
    pub coupled: Vec<String>,
    /// Ids of steps that must be applied, or left out, together with this one.
    pub needs: Vec<String>,
    /// How `pagewise undo` restores the state before the step.
    pub undo: StepUndo,
    /// Whether the change is still in force after a reboot.
    pub survives_reboot: bool,
}

/// How a step is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum StepUndo {
    /// `pagewise undo` restores the state before the step, unless the value that the step set was
    /// changed since.
    Restore {
        /// What undoing the step does, in words.
        what: String,
    },
    /// The step cannot be undone: `apply` carries it out only with `--yes-irreversible`.
    Never {
        /// Why the step cannot be undone.
        because: String,
    },
}

/// A change that was considered and is not part of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Declined {
    /// The change that was considered.
    pub what: String,
    /// Why the change is not part of the plan, with the numbers.
    pub why: String,
    /// Whether the change concerns a finding of the host, or was requested by the user; `pagewise
    /// plan` prints other changes only with `--why-not`.
    #[serde(default = "is_asked_for")]
    pub is_about_finding: bool,
}

/// Returns the default of `is_about_finding` for documents of earlier versions, which lack the
/// field: those versions printed every declined change.
const fn is_asked_for() -> bool {
    true
}

/// A finding for which the plan has no step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAddressed {
    /// Id of the finding.
    pub id: &'static str,
    /// How urgent the finding is.
    pub severity: Severity,
    /// What is wrong.
    pub title: String,
    /// Why the plan has no step for the finding.
    pub why: &'static str,
    /// The command to run for this finding instead; `null` if there is none.
    pub next: Option<String>,
}

impl Plan {
    /// The step with this id.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_flat_in_json_and_reads_back() {
        let step = Step {
            id: "swappiness".to_owned(),
            change: Change::SetKnob {
                target: "vm.swappiness".to_owned(),
                from: "60".to_owned(),
                to: "150".to_owned(),
            },
            reason: "a page costs less from zram than from disk".to_owned(),
            finding: Some("swappiness-low".to_owned()),
            expected: None,
            risk: "none known".to_owned(),
            cost: None,
            coupled: Vec::new(),
            needs: Vec::new(),
            undo: StepUndo::Restore { what: "writes 60 back".to_owned() },
            survives_reboot: false,
        };
        let json = serde_json::to_value(&step).unwrap();
        assert_eq!(json["action"], "set-knob");
        assert_eq!(json["target"], "vm.swappiness");
        assert_eq!((&json["from"], &json["to"]), (&"60".into(), &"150".into()));
        assert_eq!(json["undo"]["how"], "restore");
        assert_eq!(serde_json::from_value::<Step>(json).unwrap(), step);
    }

    #[test]
    fn an_unknown_action_is_refused_by_name() {
        let json = serde_json::json!({"action": "format-disk", "target": "/dev/sda"});
        let error = serde_json::from_value::<Change>(json).unwrap_err().to_string();
        assert!(error.contains("format-disk"), "{error}");
    }
}
