// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `NodeMemoryState`: one object for each node, with the name of the node.
//!
//! The controller writes `spec`, the program on the node writes `status`; neither may write the other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the controller asks of a node.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "pagewise.dev",
    version = "v1alpha1",
    kind = "NodeMemoryState",
    shortname = "nms",
    category = "pagewise",
    status = "NodeMemoryStateStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What the memory of a node does, and which change it is asked for. The object has the name of the node.",
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.memory.total"),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.memory.availablePercent",
        description = "Available memory in percent"
    ),
    printcolumn(name = "Findings", type_ = "integer", json_path = ".status.findingCount"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".status.change.profile"),
    printcolumn(name = "Change", type_ = "string", json_path = ".status.change.phase"),
    printcolumn(name = "Read", type_ = "date", json_path = ".status.time"),
    printcolumn(name = "Says", type_ = "string", json_path = ".status.line", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeMemoryStateSpec {
    /// The change that this node is asked for, or with which it is compared. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeRequest>,
}

/// A change that the node is asked for.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.trialSeconds >= 2 * self.windowSeconds").message("trialSeconds must be at least twice windowSeconds"),
    validation = Rule::new("self.role != 'Compare' || self.action == 'Try'").message("a node that is only compared has nothing to keep or undo"),
)]
pub struct ChangeRequest {
    /// Name of the MemoryProfile.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
    /// A hash of the profile's identity and of what it changes. Reports of another revision are not of this request.
    #[schemars(length(min = 1, max = 64))]
    pub revision: String,
    /// The wave to which the node belongs, from 0.
    #[schemars(range(min = 0, max = 100))]
    pub wave: u32,
    /// Whether the node is changed, or only measured in the same time.
    pub role: ChangeRole,
    /// What the node is to do.
    pub action: ChangeAction,
    /// What to change, as arguments of `pagewise apply --want`.
    #[schemars(
        length(min = 1, max = 20),
        inner(
            length(min = 1, max = 128),
            regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._/-]*(=[A-Za-z0-9._:/+-]+)?$")
        )
    )]
    pub want: Vec<String>,
    /// Seconds for which the node is measured before and after.
    #[schemars(range(min = 1, max = 86400))]
    pub window_seconds: u32,
    /// Seconds after which the node undoes the change by itself unless it is asked to keep it.
    #[schemars(range(min = 2, max = 604800))]
    pub trial_seconds: u32,
    /// When the controller asked, by the clock of the controller.
    pub requested_at: Time,
}

/// What a node is to a change.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeRole {
    /// The node is changed.
    Change,
    /// The node is not changed, and measured in the same time.
    Compare,
}

/// What a node is to do.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeAction {
    /// Measure, change with a timer that undoes the change, and measure again.
    Try,
    /// Keep the change: stop the timer.
    Keep,
    /// Undo the change.
    Undo,
}

/// What the node reports.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMemoryStateStatus {
    /// When the node was read, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Version of the program that read the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub pagewise: Option<String>,
    /// A random id that is new at every boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,
    /// The kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub kernel: Option<String>,
    /// The machine's architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub architecture: Option<String>,
    /// How short of memory the node is: calm, tight, short, critical or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub verdict: Option<String>,
    /// The verdict in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub line: Option<String>,
    /// Sizes of memory and swap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySummary>,
    /// Number of findings, with those that are left out below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub finding_count: Option<u32>,
    /// What is wrong, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub findings: Vec<FindingSummary>,
    /// What compression would save, from a sample of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateSummary>,
    /// Features of memory management that the kernel has and that are on or could be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 64)))]
    pub capabilities: Vec<String>,
    /// Other programs or files that set what a profile could change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub owners: Vec<OwnerSummary>,
    /// What the node did of the change that it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeReport>,
    /// What was left out so that the object has at most 16 KiB, for example `12 findings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)))]
    pub left_out: Vec<String>,
}

/// Sizes of memory and swap; a size that could not be read is missing.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemorySummary {
    /// RAM that the kernel manages (MemTotal), in Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub total: Option<String>,
    /// Available memory (MemAvailable) in percent of the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub available_percent: Option<u32>,
    /// Size of all swap areas, in Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub swap_total: Option<String>,
    /// Used swap in percent of the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub swap_used_percent: Option<u32>,
}

/// One thing that is wrong. `pagewise doctor` on the node explains it.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingSummary {
    /// The id of the rule.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// info, warning or critical.
    #[schemars(length(min = 1, max = 16))]
    pub severity: String,
    /// The finding in a sentence.
    #[schemars(length(max = 256))]
    pub title: String,
}

/// What compression would save.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimateSummary {
    /// What was sampled, in words.
    #[schemars(length(max = 128))]
    pub source: String,
    /// Number of pages that were sampled.
    #[schemars(range(min = 0))]
    pub sampled_pages: i64,
    /// Share of the sampled memory that would be saved, in percent.
    #[schemars(range(min = 0, max = 100))]
    pub saved_percent: u32,
    /// The algorithm that this is for.
    #[schemars(length(max = 32))]
    pub algorithm: String,
}

/// A file or program that sets something.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSummary {
    /// The setting.
    #[schemars(length(max = 128))]
    pub target: String,
    /// How it is set, for example `tuned` or `sysctl.d`.
    #[schemars(length(max = 64))]
    pub mechanism: String,
}

/// What a node did of a change.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeReport {
    /// Name of the MemoryProfile.
    #[schemars(length(max = 253))]
    pub profile: String,
    /// Revision of the request that this is about.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// Wave of the request that this is about.
    pub wave: u32,
    /// How far the node is.
    pub phase: ChangePhase,
    /// Values before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<MetricValues>,
    /// Values after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<MetricValues>,
    /// The journal of Pagewise on the node; `pagewise undo JOURNAL` undoes the change by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub journal: Option<String>,
    /// Why the node is in this phase, or what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// How far a node is with a change.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangePhase {
    /// The node is measured before the change.
    MeasuringBefore,
    /// The change is made with a timer, and the node is measured (also a node that is only compared).
    MeasuringAfter,
    /// All values are known; the timer runs until the node is asked to keep or undo the change.
    Measured,
    /// The change is kept.
    Kept,
    /// The change was undone, or was never made.
    Undone,
    /// The node refused the change before it changed anything.
    Refused,
    /// The change failed, or could not be undone; the message says what is left.
    Failed,
}

/// What is compared, as rates of one window. A value that could not be read is missing.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricValues {
    /// Seconds between the two readings.
    #[schemars(range(min = 0.0))]
    pub seconds: f64,
    /// Pages that were read again soon after they were reclaimed, for each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub refaults_per_second: Option<f64>,
    /// Share of the time in which all tasks waited for memory (PSI full), in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub memory_full_percent: Option<f64>,
    /// Share of the time in which some task waited for memory (PSI some), in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub memory_some_percent: Option<f64>,
    /// Pages that kswapd scanned, for each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub kswapd_scans_per_second: Option<f64>,
    /// Processes that the kernel killed for lack of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub oom_kills: Option<f64>,
}
