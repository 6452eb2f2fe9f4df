// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `MemoryAdvice`: one object for each pod, with the name of the pod. The program on the node writes it;
//! nobody carries it out but a person.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pod the advice is about.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "pagewise.dev",
    version = "v1alpha1",
    kind = "MemoryAdvice",
    plural = "memoryadvices",
    shortname = "madv",
    category = "pagewise",
    namespaced,
    status = "MemoryAdviceStatus",
    derive = "PartialEq",
    doc = "Which memory the containers of a pod need. The object has the name of the pod. Nothing carries the advice out: `kubectl pagewise limits` prints a patch that a person can apply.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "Container", type_ = "string", json_path = ".status.containers[*].name"),
    printcolumn(name = "Use", type_ = "string", json_path = ".status.containers[*].current"),
    printcolumn(name = "Limit", type_ = "string", json_path = ".status.containers[*].limit"),
    printcolumn(
        name = "Advice",
        type_ = "string",
        json_path = ".status.containers[*].advice.limit"
    ),
    printcolumn(
        name = "Confidence",
        type_ = "string",
        json_path = ".status.containers[*].advice.confidence"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MemoryAdviceSpec {
    /// The node on which the pod runs.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// The uid of the pod: another pod may have had the same name.
    #[schemars(length(min = 1, max = 64))]
    pub pod_uid: String,
}

/// What the node measured.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryAdviceStatus {
    /// When the pod was measured, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// The containers that the node knows.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub containers: Vec<ContainerMemory>,
    /// Containers of the pod whose cgroup was not found, so that there is no advice for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub not_measured: Vec<String>,
}

/// The memory of one container. Sizes are quantities in Mi; what could not be read is missing.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerMemory {
    /// Name of the container.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Use now, with file cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub current: Option<String>,
    /// Largest use since the container started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub peak: Option<String>,
    /// The limit that the kernel enforces; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub limit: Option<String>,
    /// The request in the pod's specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub request: Option<String>,
    /// Swap in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub swap: Option<String>,
    /// Whether the container may swap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_behavior: Option<SwapBehavior>,
    /// Pages that were read again soon after they were reclaimed, for each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub refaults_per_second: Option<f64>,
    /// Processes that the kernel killed because the container was at its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub oom_kills: Option<i64>,
    /// What the container needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
}

/// Whether the kernel may swap memory of a container, as kubelet set it up.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapBehavior {
    /// memory.swap.max is 0: the container cannot swap. kubelet's NoSwap; with LimitedSwap also each
    /// container that is not Burstable, or that has equal request and limit.
    NoSwap,
    /// memory.swap.max is a size: kubelet's LimitedSwap.
    LimitedSwap,
    /// memory.swap.max is `max`: kubelet did not set it.
    Unlimited,
}

/// What a container needs.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// too-low, fits, could-be or not-known, as `pagewise limits` prints it.
    #[schemars(length(max = 32))]
    pub verdict: String,
    /// A request and limit that would do; missing if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub limit: Option<String>,
    /// How reliable this is; missing if nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// From what it follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 256)))]
    pub reasons: Vec<String>,
}

/// How reliable advice is.
#[derive(
    JsonSchema, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Idle times are not known, or the observed time is not representative.
    Low,
    /// Idle times of half a minute or more are known.
    Medium,
    /// Idle times of ten minutes or more are known, and so is the peak.
    High,
}
