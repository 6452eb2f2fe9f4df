// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects of the API as the types of `fleet_rollout`, and back.

use std::collections::BTreeMap;

use fleet_crd::{
    ChangeAction, ChangePhase, ChangeReport, ChangeRequest, ChangeRole, GuardMetric, GuardResult,
    GuardVerdict, MemoryProfile, MemoryProfileStatus, MetricValues, NodeMemoryState, OnDelete,
    RolloutPhase, TimelineEntry, WhenUndecided, parse_quantity,
};
use fleet_rollout::{
    Action, Comparison, Guard, Judgement, Metric, Node, Phase, Profile, Report, Request, Role,
    Stage, State, Step, Values, Verdict,
};
use k8s_openapi::api::core::v1::Node as ClusterNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

/// Most entries of the time line, as the definition limits it.
const MOST_ENTRIES: usize = 40;

/// A profile.
#[must_use]
pub fn profile(object: &MemoryProfile) -> Profile {
    let spec = &object.spec;
    let guard = |guard: &fleet_crd::Guard| Guard {
        metric: metric(guard.metric),
        max_increase: f64::from(guard.max_increase_percent) / 100.0,
    };
    Profile {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        want: spec.want.clone(),
        canary: spec.canary,
        waves: spec.waves.clone(),
        max_concurrent: spec.max_concurrent,
        answer: spec.answer_seconds.into(),
        guards: spec.guards.iter().map(guard).collect(),
        continue_if_undecided: spec.when_undecided == WhenUndecided::Continue,
        undo_if_deleted: spec.on_delete == OnDelete::Undo,
        paused: spec.paused,
        deleted: object.metadata.deletion_timestamp.is_some(),
    }
}

/// What the status of a profile keeps.
#[must_use]
pub fn state(status: Option<&MemoryProfileStatus>) -> State {
    let Some(status) = status else { return State::default() };
    State {
        revision: status.revision.clone().unwrap_or_default(),
        stage: stage(status.phase.unwrap_or_default()),
        wave: status.wave.unwrap_or_default(),
        size: status.wave_size,
    }
}

/// The nodes that report to Pagewise and that are in the cluster.
///
/// # Errors
/// If the selector cannot be understood.
pub fn nodes<'a>(
    object: &MemoryProfile,
    states: impl Iterator<Item = &'a NodeMemoryState>,
    cluster: &BTreeMap<String, &ClusterNode>,
) -> Result<Vec<Node>, String> {
    let selector: Selector = object
        .spec
        .node_selector
        .clone()
        .try_into()
        .map_err(|error| format!("nodeSelector: {error}"))?;
    let none = BTreeMap::new();
    let node = |state: &NodeMemoryState| {
        let name = state.name_any();
        let member = cluster.get(&name)?;
        let labels = member.metadata.labels.as_ref().unwrap_or(&none);
        Some(Node {
            kind: kind_of(state),
            is_selected: selector.matches(labels),
            other_owner: other_owner(member, state),
            request: state.spec.change.as_ref().map(request),
            report: state.status.as_ref().and_then(|status| status.change.as_ref()).map(report),
            name,
        })
    };
    let mut nodes: Vec<Node> = states.filter_map(node).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// Architecture, size of memory (to the next power of two) and kernel of a node.
fn kind_of(state: &NodeMemoryState) -> String {
    let Some(status) = &state.status else { return String::new() };
    let total = status.memory.as_ref().and_then(|memory| memory.total.as_deref());
    let size = total.and_then(parse_quantity).map(|bytes| (bytes >> 20).next_power_of_two());
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{} {} MiB {}", text(&status.architecture), size.unwrap_or(0), text(&status.kernel))
}

/// A program or system that sets up the memory of this node, and would undo or fight a change.
fn other_owner(node: &ClusterNode, state: &NodeMemoryState) -> Option<String> {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let image = info.map(|info| info.os_image.as_str()).unwrap_or_default();
    let system = ["Talos", "Bottlerocket"].into_iter().find(|name| image.starts_with(name));
    let keys = [&node.metadata.labels, &node.metadata.annotations].into_iter().flatten();
    let keys: Vec<&String> = keys.flat_map(BTreeMap::keys).collect();
    let marked = |part: &str| keys.iter().any(|key| key.contains(part));
    let status = state.status.as_ref();
    let is_tuned =
        status.is_some_and(|it| it.owners.iter().any(|owner| owner.mechanism == "tuned"));
    if let Some(system) = system {
        return Some(system.to_owned());
    }
    if marked("tuned.openshift.io") {
        return Some("Node Tuning Operator".to_owned());
    }
    if marked("koordinator.sh") {
        return Some("koordinator".to_owned());
    }
    is_tuned.then(|| "TuneD".to_owned())
}

fn request(request: &ChangeRequest) -> Request {
    Request {
        profile: request.profile.clone(),
        revision: request.revision.clone(),
        wave: request.wave,
        role: match request.role {
            ChangeRole::Change => Role::Change,
            ChangeRole::Compare => Role::Compare,
        },
        action: match request.action {
            ChangeAction::Try => Action::Try,
            ChangeAction::Keep => Action::Keep,
            ChangeAction::Undo => Action::Undo,
        },
        at: request.requested_at.0.as_second(),
    }
}

/// What is written to a node. What an earlier request wanted stays, so that a node that is asked to undo
/// after an edit is asked about the same change.
#[must_use]
pub fn change_request(
    request: &Request,
    object: &MemoryProfile,
    earlier: Option<&ChangeRequest>,
) -> ChangeRequest {
    let same =
        earlier.filter(|it| it.revision == request.revision && it.profile == request.profile);
    let spec = &object.spec;
    ChangeRequest {
        profile: request.profile.clone(),
        revision: request.revision.clone(),
        wave: request.wave,
        role: match request.role {
            Role::Change => ChangeRole::Change,
            Role::Compare => ChangeRole::Compare,
        },
        action: match request.action {
            Action::Try => ChangeAction::Try,
            Action::Keep => ChangeAction::Keep,
            Action::Undo => ChangeAction::Undo,
        },
        want: same.map_or_else(|| spec.want.clone(), |it| it.want.clone()),
        window_seconds: same.map_or(spec.window_seconds, |it| it.window_seconds),
        trial_seconds: same.map_or(spec.trial_seconds, |it| it.trial_seconds),
        requested_at: Time(jiff::Timestamp::from_second(request.at).unwrap_or_default()),
    }
}

fn report(report: &ChangeReport) -> Report {
    Report {
        revision: report.revision.clone(),
        wave: report.wave,
        phase: match report.phase {
            ChangePhase::MeasuringBefore | ChangePhase::MeasuringAfter => Phase::Measuring,
            ChangePhase::Measured => Phase::Measured,
            ChangePhase::Kept => Phase::Kept,
            ChangePhase::Undone => Phase::Undone,
            ChangePhase::Refused => Phase::Refused,
            ChangePhase::Failed => Phase::Failed,
        },
        before: report.before.as_ref().map(values),
        after: report.after.as_ref().map(values),
        message: report.message.clone(),
    }
}

fn values(values: &MetricValues) -> Values {
    Values {
        memory_full: values.memory_full_percent,
        memory_some: values.memory_some_percent,
        refaults: values.refaults_per_second,
        kswapd_scans: values.kswapd_scans_per_second,
        oom_kills: values.oom_kills,
    }
}

/// The status that follows from a step.
#[must_use]
pub fn status(object: &MemoryProfile, step: &Step, now: &Time) -> MemoryProfileStatus {
    let former = object.status.clone().unwrap_or_default();
    let mut timeline = former.timeline;
    let entry = |event: &String| TimelineEntry {
        time: now.clone(),
        event: event.chars().take(500).collect(),
    };
    timeline.extend(step.events.iter().map(entry));
    timeline.drain(..timeline.len().saturating_sub(MOST_ENTRIES));
    let (guards, smallest_effect) = match &step.judgement {
        Some(judgement) => {
            (judgement.comparisons.iter().map(guard_result).collect(), Some(describe(judgement)))
        }
        None => (former.guards, former.smallest_effect),
    };
    let is_stopped = matches!(step.state.stage, Stage::Stopping | Stage::Stopped);
    let reason = timeline.iter().rev().find(|it| is_stopped && it.event.starts_with("stopped:"));
    let message = match reason {
        Some(reason) if !step.message.starts_with("stopped:") => {
            format!("{}; now: {}", reason.event, step.message)
        }
        _ => step.message.clone(),
    };
    MemoryProfileStatus {
        phase: Some(phase(step.state.stage)),
        revision: Some(step.state.revision.clone()),
        observed_generation: object.metadata.generation,
        wave: Some(step.state.wave),
        wave_size: step.state.size,
        nodes: step.counts.nodes,
        kept: step.counts.kept,
        trying: step.counts.trying,
        undone: step.counts.undone,
        unknown: step.counts.unknown,
        left_alone: step.counts.left_alone,
        smallest_effect,
        guards,
        timeline,
        message: Some(message.chars().take(2000).collect()),
    }
}

fn describe(judgement: &Judgement) -> String {
    judgement.describe_smallest_effect().chars().take(250).collect()
}

fn guard_result(comparison: &Comparison) -> GuardResult {
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    let interval = comparison.ratio.and_then(|ratio| ratio.interval);
    GuardResult {
        metric: match comparison.metric {
            Metric::MemoryFull => GuardMetric::MemoryFull,
            Metric::MemorySome => GuardMetric::MemorySome,
            Metric::Refaults => GuardMetric::Refaults,
            Metric::KswapdScans => GuardMetric::KswapdScans,
        },
        pairs: u32::try_from(comparison.pairs).unwrap_or(u32::MAX),
        ratio: comparison.ratio.map(|ratio| rounded(ratio.estimate)),
        low: interval.map(|[low, _]| rounded(low)),
        high: interval.map(|[_, high]| rounded(high)),
        verdict: match comparison.verdict {
            Verdict::Harm => GuardVerdict::Harm,
            Verdict::NoHarm => GuardVerdict::NoHarm,
            Verdict::Undecided | Verdict::TooFew => GuardVerdict::Undecided,
        },
    }
}

fn metric(metric: GuardMetric) -> Metric {
    match metric {
        GuardMetric::MemoryFull => Metric::MemoryFull,
        GuardMetric::MemorySome => Metric::MemorySome,
        GuardMetric::Refaults => Metric::Refaults,
        GuardMetric::KswapdScans => Metric::KswapdScans,
    }
}

const PHASES: [(Stage, RolloutPhase); 9] = [
    (Stage::Ready, RolloutPhase::Ready),
    (Stage::Trying, RolloutPhase::Trying),
    (Stage::Keeping, RolloutPhase::Keeping),
    (Stage::Paused, RolloutPhase::Paused),
    (Stage::Complete, RolloutPhase::Complete),
    (Stage::Stopping, RolloutPhase::Stopping),
    (Stage::Stopped, RolloutPhase::Stopped),
    (Stage::Replacing, RolloutPhase::Replacing),
    (Stage::Deleting, RolloutPhase::Deleting),
];

fn stage(phase: RolloutPhase) -> Stage {
    PHASES.iter().find(|(_, it)| *it == phase).map_or(Stage::Ready, |(stage, _)| *stage)
}

fn phase(stage: Stage) -> RolloutPhase {
    PHASES.iter().find(|(it, _)| *it == stage).map_or(RolloutPhase::Ready, |(_, phase)| *phase)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: serde_json::Value) -> ClusterNode {
        serde_json::from_value(value).unwrap()
    }

    fn state_of(status: &serde_json::Value) -> NodeMemoryState {
        let object = json!({
            "apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "metadata": {"name": "n"},
            "spec": {}, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn nodes_of_other_owners_are_recognised() {
        let calm = state_of(&json!({}));
        let plain =
            node(json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}}}));
        assert_eq!(other_owner(&plain, &calm), None);
        let info = |image: &str| {
            json!({
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "", "machineID": "", "operatingSystem": "", "systemUUID": "", "osImage": image,
            })
        };
        let image = |image: &str| {
            node(json!({"metadata": {"name": "n"}, "status": {"nodeInfo": info(image)}}))
        };
        let owner = |node: &ClusterNode| other_owner(node, &calm);
        assert_eq!(owner(&image("Talos (v1.11.0)")).as_deref(), Some("Talos"));
        assert_eq!(owner(&image("Bottlerocket OS 1.44")).as_deref(), Some("Bottlerocket"));
        assert_eq!(owner(&image("Debian GNU/Linux 13")), None);
        let annotated = node(
            json!({"metadata": {"name": "n", "annotations": {"tuned.openshift.io/bootcmdline": ""}}}),
        );
        assert_eq!(owner(&annotated).as_deref(), Some("Node Tuning Operator"));
        let tuned =
            state_of(&json!({"owners": [{"target": "vm.swappiness", "mechanism": "tuned"}]}));
        assert_eq!(other_owner(&plain, &tuned).as_deref(), Some("TuneD"));
        let sysctl =
            state_of(&json!({"owners": [{"target": "vm.swappiness", "mechanism": "sysctl"}]}));
        assert_eq!(
            other_owner(&plain, &sysctl),
            None,
            "pagewise itself says whether it can change this"
        );
    }

    #[test]
    fn only_nodes_of_one_kind_are_compared() {
        let kind = |total: &str, kernel: &str| {
            kind_of(&state_of(
                &json!({"architecture": "x86_64", "kernel": kernel, "memory": {"total": total}}),
            ))
        };
        assert_eq!(kind("15900Mi", "6.12.9"), kind("16100Mi", "6.12.9"));
        assert_ne!(kind("15900Mi", "6.12.9"), kind("31000Mi", "6.12.9"));
        assert_ne!(kind("15900Mi", "6.12.9"), kind("15900Mi", "6.18.0"));
    }

    #[test]
    fn a_selector_that_cannot_be_understood_is_an_error_and_selects_nothing() {
        let object = |selector: serde_json::Value| -> MemoryProfile {
            serde_json::from_value(json!({
                "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryProfile", "metadata": {"name": "p"},
                "spec": {"nodeSelector": selector, "want": ["zram"]},
            }))
            .unwrap()
        };
        let member = node(json!({"metadata": {"name": "n", "labels": {"pool": "a"}}}));
        let cluster = BTreeMap::from([("n".to_owned(), &member)]);
        let states = [state_of(&json!({}))];
        let selected = |selector| {
            nodes(&object(selector), states.iter(), &cluster).map(|all| all[0].is_selected)
        };
        assert_eq!(selected(json!({})), Ok(true));
        assert_eq!(selected(json!({"matchLabels": {"pool": "b"}})), Ok(false));
        let unknown =
            json!({"matchExpressions": [{"key": "pool", "operator": "Near", "values": ["a"]}]});
        assert!(selected(unknown).unwrap_err().starts_with("nodeSelector"));
        assert_eq!(
            nodes(&object(json!({})), states.iter(), &BTreeMap::new()),
            Ok(vec![]),
            "no Node, no node"
        );
    }
}
