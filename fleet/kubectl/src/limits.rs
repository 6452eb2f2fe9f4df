// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns the advice of a namespace into text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fleet_crd::{Confidence, ContainerMemory, MemoryAdvice, SwapBehavior, parse_quantity};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// What makes the pods: its kind as kubectl writes it, and its name. `None` for a pod that nothing makes.
pub type Owner = Option<(String, String)>;

/// The advice for one pod, with what makes it.
#[derive(Debug, Clone)]
pub struct PodAdvice {
    /// The advice.
    pub advice: MemoryAdvice,
    /// What makes the pod.
    pub owner: Owner,
}

/// A change that a person can make.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Kind and name of what is changed.
    pub owner: (String, String),
    /// A strategic merge patch.
    pub patch: Value,
    /// A patch that restores what was read.
    pub undo: Value,
}

/// The table, the changes and what is not known, as text.
#[must_use]
pub fn describe(namespace: &str, pods: &[PodAdvice]) -> String {
    if pods.is_empty() {
        return format!(
            "No advice in namespace {namespace}. Advice comes from the node program: see that it runs on the nodes \
             of these pods\n(kubectl get nodememorystates) and that pods run there for half an hour.\n"
        );
    }
    let mut rows = vec![
        [
            "POD",
            "CONTAINER",
            "USE",
            "PEAK",
            "REQUEST",
            "LIMIT",
            "WOULD DO",
            "CONFIDENCE",
            "KILLS",
            "REFAULTS/S",
            "SWAP",
        ]
        .map(str::to_owned),
    ];
    let mut not_measured = Vec::new();
    for pod in pods {
        let status = pod.advice.status.clone().unwrap_or_default();
        let name = pod.advice.name_any();
        rows.extend(status.containers.iter().map(|container| row(&name, container)));
        not_measured.extend(status.not_measured.iter().map(|it| format!("{name}/{it}")));
    }
    let mut text = align(&rows);
    if !not_measured.is_empty() {
        let _ = writeln!(text, "\nNot measured: {}", not_measured.join(", "));
    }
    let changes = changes(pods);
    if changes.is_empty() {
        text.push_str("\nNo limit is too low. Limits that could be lower are not changed by a command here.\n");
    }
    for change in changes {
        let (kind, name) = &change.owner;
        let _ = write!(
            text,
            "\nRaise the limits of {kind} {name}; its pods are replaced one after the other:\n  \
             kubectl patch {kind} {name} -n {namespace} --type=strategic -p '{}'\nUndo:\n  \
             kubectl patch {kind} {name} -n {namespace} --type=strategic -p '{}'\n",
            change.patch, change.undo
        );
    }
    text
}

fn row(pod: &str, container: &ContainerMemory) -> [String; 11] {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let advice = container.advice.as_ref();
    let would_do = match advice.map(|it| (it.verdict.as_str(), &it.limit)) {
        Some(("fits", _)) => "as it is".to_owned(),
        Some((_, Some(limit))) => limit.clone(),
        _ => "not known".to_owned(),
    };
    let confidence = match advice.and_then(|it| it.confidence) {
        Some(Confidence::High) => "high",
        Some(Confidence::Medium) => "medium",
        Some(Confidence::Low) => "low",
        None => "-",
    };
    let swap = match container.swap_behavior {
        Some(SwapBehavior::NoSwap) => "none allowed",
        Some(SwapBehavior::LimitedSwap) => "limited",
        Some(SwapBehavior::Unlimited) => "not limited",
        None => "-",
    };
    [
        pod.to_owned(),
        container.name.clone(),
        or_none(&container.current),
        or_none(&container.peak),
        or_none(&container.request),
        or_none(&container.limit),
        would_do,
        confidence.to_owned(),
        container.oom_kills.map_or_else(|| "-".to_owned(), |kills| kills.to_string()),
        container.refaults_per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
        swap.to_owned(),
    ]
}

fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

/// Changes that raise a limit that is too low. Each owner has one; of several pods the largest need counts.
#[must_use]
pub fn changes(pods: &[PodAdvice]) -> Vec<Change> {
    let mut by_owner: BTreeMap<(String, String), BTreeMap<String, (u64, Raise)>> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = &pod.owner else { continue };
        let containers = pod.advice.status.iter().flat_map(|status| &status.containers);
        for container in containers {
            let Some((bytes, raise)) = raise(container) else { continue };
            let all = by_owner.entry(owner.clone()).or_default();
            let former = all.get(&container.name).map(|(bytes, _)| *bytes);
            if former.is_none_or(|former| former < bytes) {
                all.insert(container.name.clone(), (bytes, raise));
            }
        }
    }
    let patch = |containers: &BTreeMap<String, (u64, Raise)>, value: fn(&Raise) -> &String| {
        let one = |(name, (_, raise)): (&String, &(u64, Raise))| json!({"name": name, "resources": {"limits": {"memory": value(raise)}}});
        let containers: Vec<Value> = containers.iter().map(one).collect();
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    let change = |(owner, containers): ((String, String), BTreeMap<String, (u64, Raise)>)| Change {
        patch: patch(&containers, |raise| &raise.to),
        undo: patch(&containers, |raise| &raise.from),
        owner,
    };
    by_owner.into_iter().map(change).collect()
}

#[derive(Debug, Clone)]
struct Raise {
    from: String,
    to: String,
}

/// The limit to which a container's limit is to be raised. `None` unless it has a limit that is too low,
/// the advice is larger than it and than what is in use, and more than a guess.
fn raise(container: &ContainerMemory) -> Option<(u64, Raise)> {
    let advice = container.advice.as_ref()?;
    let (from, to) = (container.limit.clone()?, advice.limit.clone()?);
    let size = |text: &Option<String>| text.as_deref().and_then(parse_quantity);
    let (limit, wanted) = (parse_quantity(&from)?, parse_quantity(&to)?);
    let is_safe = advice.verdict == "too-low"
        && advice.confidence? >= Confidence::Medium
        && wanted > limit
        && wanted >= size(&container.current)?
        && size(&container.request).is_none_or(|request| wanted >= request);
    is_safe.then_some((wanted, Raise { from, to }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, containers: &Value) -> PodAdvice {
        let object = json!({
            "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryAdvice", "metadata": {"name": name},
            "spec": {"nodeName": "n", "podUid": "u"}, "status": {"containers": containers, "notMeasured": ["side"]},
        });
        PodAdvice {
            advice: serde_json::from_value(object).unwrap(),
            owner: Some(("deployment".to_owned(), "web".to_owned())),
        }
    }

    fn container(limit: &str, verdict: &str, size: &str, confidence: &str) -> Value {
        json!({
            "name": "web", "current": "90Mi", "limit": limit, "oomKills": 3, "swapBehavior": "NoSwap",
            "advice": {"verdict": verdict, "limit": size, "confidence": confidence},
        })
    }

    #[test]
    fn a_limit_is_raised_for_the_pod_that_needs_most_and_can_be_undone() {
        let pods = [
            pod("web-1", &json!([container("100Mi", "too-low", "150Mi", "medium")])),
            pod("web-2", &json!([container("100Mi", "too-low", "180Mi", "high")])),
            pod("web-3", &json!([container("100Mi", "fits", "100Mi", "high")])),
        ];
        let found = changes(&pods);
        assert_eq!(found.len(), 1);
        let memory = "/spec/template/spec/containers/0/resources/limits/memory";
        assert_eq!(found[0].patch.pointer(memory), Some(&json!("180Mi")));
        assert_eq!(found[0].undo.pointer(memory), Some(&json!("100Mi")));
        let text = describe("shop", &pods);
        assert!(
            text.contains("kubectl patch deployment web -n shop") && text.contains("Undo:"),
            "{text}"
        );
        assert!(text.contains("Not measured: web-1/side"), "{text}");
    }

    #[test]
    fn no_command_lowers_a_limit_or_follows_a_guess() {
        let mut bare = container("100Mi", "too-low", "150Mi", "high");
        bare.as_object_mut().unwrap().remove("limit");
        let mut larger = container("100Mi", "too-low", "150Mi", "high");
        larger["current"] = json!("160Mi");
        let mut request = container("100Mi", "too-low", "150Mi", "high");
        request["request"] = json!("200Mi");
        for one in [
            container("200Mi", "could-be", "150Mi", "high"),
            container("200Mi", "too-low", "150Mi", "high"),
            container("100Mi", "too-low", "150Mi", "low"),
            bare,
            larger,
            request,
        ] {
            assert_eq!(changes(&[pod("web-1", &json!([one]))]), [], "{one}");
        }
        let alone = PodAdvice {
            owner: None,
            ..pod("web-1", &json!([container("100Mi", "too-low", "150Mi", "high")]))
        };
        assert_eq!(changes(&[alone]), []);
        assert!(describe("shop", &[]).contains("No advice in namespace shop"));
    }
}
