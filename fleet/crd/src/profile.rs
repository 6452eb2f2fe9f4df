// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `MemoryProfile`: a change for many nodes, which the controller makes step by step.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to change on which nodes, and how carefully.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "pagewise.dev",
    version = "v1alpha1",
    kind = "MemoryProfile",
    shortname = "mprof",
    category = "pagewise",
    status = "MemoryProfileStatus",
    derive = "PartialEq",
    doc = "A change of memory settings for many nodes: first on a few, then on at most 1 %, then in waves. It stops and is undone if the nodes do worse.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Wave", type_ = "integer", json_path = ".status.wave"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(name = "Kept", type_ = "integer", json_path = ".status.kept"),
    printcolumn(name = "Trying", type_ = "integer", json_path = ".status.trying"),
    printcolumn(name = "Undone", type_ = "integer", json_path = ".status.undone"),
    printcolumn(
        name = "Shows",
        type_ = "string",
        json_path = ".status.smallestEffect",
        description = "Smallest effect that the last comparison could show"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.trialSeconds >= self.answerSeconds + 60").message("trialSeconds must be at least 60 more than answerSeconds, or nodes undo the change before it is judged"),
    validation = Rule::new("self.answerSeconds >= 2 * self.windowSeconds").message("answerSeconds must be at least twice windowSeconds, or nodes that still measure count as silent"),
)]
pub struct MemoryProfileSpec {
    /// The nodes that are to be changed, by their labels. An empty selector selects all nodes.
    pub node_selector: LabelSelector,
    /// What to change, as arguments of `pagewise apply --want`, for example `zram` or `swappiness=100`.
    #[schemars(
        length(min = 1, max = 20),
        inner(
            length(min = 1, max = 128),
            regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._/-]*(=[A-Za-z0-9._:/+-]+)?$")
        )
    )]
    #[x_kube(validation = Rule::new("self.all(it, self.exists_one(other, other.split('=')[0] == it.split('=')[0]))").message("want names a setting twice"))]
    pub want: Vec<String>,
    /// Number of nodes that are changed first.
    #[serde(default = "default_canary")]
    #[schemars(range(min = 1, max = 10))]
    pub canary: u32,
    /// Percent of the selected nodes that are changed at the end of each wave.
    #[serde(default = "default_waves")]
    #[schemars(length(min = 1, max = 20), inner(range(min = 1, max = 100)))]
    #[x_kube(
        validation = Rule::new("self[0] == 1").message("the first wave must be 1 percent"),
        validation = Rule::new("self[size(self) - 1] == 100").message("the last wave must be 100 percent"),
        validation = Rule::new("self.isSorted() && self.all(it, self.exists_one(other, other == it))").message("each wave must be larger than the one before"),
    )]
    pub waves: Vec<u32>,
    /// Most nodes that are on trial at the same time.
    #[serde(default = "default_concurrent")]
    #[schemars(range(min = 10, max = 500))]
    pub max_concurrent: u32,
    /// Seconds for which nodes are measured before and after the change.
    #[serde(default = "default_window")]
    #[schemars(range(min = 10, max = 86400))]
    pub window_seconds: u32,
    /// Seconds after which a node undoes the change by itself unless the controller keeps it.
    #[serde(default = "default_trial")]
    #[schemars(range(min = 20, max = 604800))]
    pub trial_seconds: u32,
    /// Seconds after which a node that has not measured counts as silent.
    #[serde(default = "default_answer")]
    #[schemars(range(min = 20, max = 604800))]
    pub answer_seconds: u32,
    /// How much worse the changed nodes may do, relative to the nodes with which they are compared.
    #[serde(default = "default_guards")]
    #[schemars(length(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self.all(it, self.exists_one(other, other.metric == it.metric))").message("guards name a metric twice"))]
    pub guards: Vec<Guard>,
    /// What to do if the comparison shows neither harm nor that there is none.
    #[serde(default)]
    pub when_undecided: WhenUndecided,
    /// What happens to changed nodes if the profile is deleted.
    #[serde(default)]
    pub on_delete: OnDelete,
    /// While this is set, no further node is changed, and nodes on trial are undone. Nodes that keep the
    /// change stay changed.
    #[serde(default)]
    pub paused: bool,
}

fn default_canary() -> u32 {
    1
}

fn default_waves() -> Vec<u32> {
    vec![1, 5, 25, 100]
}

fn default_concurrent() -> u32 {
    50
}

fn default_window() -> u32 {
    600
}

fn default_trial() -> u32 {
    3600
}

fn default_answer() -> u32 {
    2400
}

fn default_guards() -> Vec<Guard> {
    let guard = |metric, max_increase_percent| Guard { metric, max_increase_percent };
    vec![
        guard(GuardMetric::MemoryFull, 25),
        guard(GuardMetric::MemorySome, 25),
        guard(GuardMetric::Refaults, 25),
        guard(GuardMetric::KswapdScans, 50),
    ]
}

/// A limit to how much worse the changed nodes may do.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// What is compared.
    pub metric: GuardMetric,
    /// Largest accepted increase in percent.
    #[schemars(range(min = 5, max = 1000))]
    pub max_increase_percent: u32,
}

/// What is compared. OOM kills always count and need no guard.
#[derive(
    JsonSchema, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum GuardMetric {
    /// Time in which all tasks waited for memory (PSI full).
    MemoryFull,
    /// Time in which some task waited for memory (PSI some).
    MemorySome,
    /// Pages that were read again soon after they were reclaimed.
    Refaults,
    /// Pages that kswapd scanned.
    KswapdScans,
}

/// What to do if a comparison is not decided.
#[derive(JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenUndecided {
    /// Stop, and undo the change.
    #[default]
    Stop,
    /// Go on unless harm is shown.
    Continue,
}

/// What happens to changed nodes if the profile is deleted.
#[derive(JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDelete {
    /// Every changed node undoes the change; the object goes when all have.
    #[default]
    Undo,
    /// Nodes that keep the change stay changed; nodes on trial are undone.
    Keep,
}

/// How far the roll-out is.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryProfileStatus {
    /// How far the roll-out is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RolloutPhase>,
    /// The revision that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The generation of the profile that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The wave that is under way or was the last, from 0 (the canary).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Number of nodes that are changed in this wave.
    #[serde(default)]
    pub wave_size: u32,
    /// Nodes that the selector selects and that report to Pagewise.
    #[serde(default)]
    pub nodes: u32,
    /// Nodes that keep the change.
    #[serde(default)]
    pub kept: u32,
    /// Nodes that were asked to try the change and neither keep nor have undone it.
    #[serde(default)]
    pub trying: u32,
    /// Nodes that have undone the change, or refused it.
    #[serde(default)]
    pub undone: u32,
    /// Nodes whose condition is not known: they failed or do not answer. The names are in the message.
    #[serde(default)]
    pub unknown: u32,
    /// Nodes that other programs set up, so that they are left alone.
    #[serde(default)]
    pub left_alone: u32,
    /// Smallest effect that the last comparison could probably show, for example `refaults +12 %`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub smallest_effect: Option<String>,
    /// The last comparison, for each guard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub guards: Vec<GuardResult>,
    /// What the roll-out did, the newest last; at most 40 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40))]
    pub timeline: Vec<TimelineEntry>,
    /// Why the roll-out is in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
}

/// How far a roll-out is.
#[derive(JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutPhase {
    /// Between two waves.
    #[default]
    Ready,
    /// The nodes of a wave try the change, and are measured.
    Trying,
    /// The nodes of a wave did no worse than others, and are asked to keep the change.
    Keeping,
    /// The profile is paused.
    Paused,
    /// All selected nodes that can be changed keep the change.
    Complete,
    /// Harm was shown or not excluded; nodes undo the change.
    Stopping,
    /// Harm was shown or not excluded; every node has undone the change, or is named in the message.
    Stopped,
    /// What the profile changes was edited; nodes undo the former change.
    Replacing,
    /// The profile is deleted; nodes undo the change.
    Deleting,
}

/// The comparison of one metric.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardResult {
    /// What was compared.
    pub metric: GuardMetric,
    /// Number of pairs of a changed node and one that is only compared.
    pub pairs: u32,
    /// By which factor the metric rose more on changed nodes than on the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of the ratio; missing with fewer than 6 pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of the ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What follows.
    pub verdict: GuardVerdict,
}

/// What follows from a comparison.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardVerdict {
    /// The changed nodes do worse than the guard accepts.
    Harm,
    /// An increase above the guard's limit is excluded.
    NoHarm,
    /// Neither is shown.
    Undecided,
}

/// Something that a roll-out did.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// When, by the clock of the controller.
    pub time: Time,
    /// What.
    #[schemars(length(max = 512))]
    pub event: String,
}
