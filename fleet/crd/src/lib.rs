// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The three kinds of objects that Pagewise adds to a cluster: [`NodeMemoryState`] (what a node's memory
//! does, and which change it is asked for), [`MemoryAdvice`] (which request and limit the containers of
//! a pod need) and [`MemoryProfile`] (a change for many nodes).
//!
//! The definitions that a cluster needs are generated from these types ([`definitions_as_yaml`]) and are
//! in `fleet/deploy/base`; a test compares them. What the types alone cannot say (an order, a sum, a
//! field that needs another) is a CEL rule, which the API server evaluates.

#![expect(unreachable_pub, reason = "KubeSchema repeats each type inside a function")]
#![expect(clippy::duplicated_attributes, reason = "each column has a type and a path")]

mod advice;
mod profile;
mod quantity;
mod state;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use advice::{
    Advice, Confidence, ContainerMemory, MemoryAdvice, MemoryAdviceSpec, MemoryAdviceStatus,
    SwapBehavior,
};
pub use profile::{
    Guard, GuardMetric, GuardResult, GuardVerdict, MemoryProfile, MemoryProfileSpec,
    MemoryProfileStatus, OnDelete, RolloutPhase, TimelineEntry, WhenUndecided,
};
pub use quantity::{format_quantity, parse_quantity};
pub use state::{
    ChangeAction, ChangePhase, ChangeReport, ChangeRequest, ChangeRole, EstimateSummary,
    FindingSummary, MemorySummary, MetricValues, NodeMemoryState, NodeMemoryStateSpec,
    NodeMemoryStateStatus, OwnerSummary,
};

/// The group of the kinds.
pub const GROUP: &str = "pagewise.dev";
/// The finalizer of a profile: the controller removes it when every node is in a stated condition.
pub const FINALIZER: &str = "pagewise.dev/rollout";
/// Most bytes of a [`NodeMemoryState`] as JSON, without its metadata.
pub const STATE_BYTES: usize = 16 * 1024;

/// The definitions of all kinds.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![NodeMemoryState::crd(), MemoryAdvice::crd(), MemoryProfile::crd()]
}

/// The definitions as one YAML file.
///
/// # Errors
/// If a definition cannot be written as YAML.
pub fn definitions_as_yaml() -> Result<String, serde_yaml_ng::Error> {
    let mut text = String::from(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n# Generated from fleet/crd by `cargo xtask fleet --bless`.\n",
    );
    for definition in definitions() {
        text.push_str("---\n");
        text.push_str(&serde_yaml_ng::to_string(&definition)?);
    }
    Ok(text)
}
