// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the containers of this node need, from `pagewise limits --json`, as `MemoryAdvice` objects.
//!
//! Containers are found by their id, which is in the name of their cgroup whatever runtime made it. A
//! container whose cgroup is not among those that were read is named as not measured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fleet_crd::{
    Advice, Confidence, ContainerMemory, MemoryAdvice, MemoryAdviceSpec, MemoryAdviceStatus,
    SwapBehavior, format_quantity, parse_quantity,
};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde_json::json;

use crate::publish::MANAGER;
use crate::report::Reading;

/// The document of `limits --json`, as much of it as is used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Limits {
    schema: String,
    groups: Vec<Group>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Group {
    group: String,
    current: Reading<u64>,
    peak: Reading<u64>,
    /// A number, or `max`.
    limit: Reading<serde_json::Value>,
    swap: Reading<u64>,
    refaults_per_second: Option<f64>,
    oom_kills: Reading<i64>,
    advice: GroupAdvice,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct GroupAdvice {
    verdict: String,
    size: Option<u64>,
    confidence: Option<String>,
    reasons: Vec<String>,
}

impl Limits {
    /// Reads a document.
    ///
    /// # Errors
    /// If it is none of `limits --json`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let limits: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !limits.schema.starts_with("pagewise/limits/") {
            return Err(format!("expected schema pagewise/limits, found {:?}", limits.schema));
        }
        Ok(limits)
    }

    /// The cgroup of a container.
    fn find(&self, id: &str) -> Option<&Group> {
        let is_it =
            |group: &&Group| group.group.rsplit('/').next().is_some_and(|last| last.contains(id));
        self.groups.iter().find(is_it)
    }
}

/// The advice for one pod; `None` if no container of it is known.
#[must_use]
pub fn advise(
    pod: &Pod,
    limits: &Limits,
    swap: &BTreeMap<&str, Option<u64>>,
    time: Time,
) -> Option<MemoryAdviceStatus> {
    let containers = &pod.spec.as_ref()?.containers;
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let id_of = |container: &Container| {
        let status = statuses?.iter().find(|status| status.name == container.name)?;
        // Such as containerd://0123…; shorter ids could be part of other names.
        let (_, id) = status.container_id.as_ref()?.split_once("://")?;
        (id.len() >= 32).then_some(id)
    };
    let mut status = MemoryAdviceStatus { time: Some(time), ..MemoryAdviceStatus::default() };
    for container in containers {
        match id_of(container).and_then(|id| limits.find(id)) {
            Some(group) => status.containers.push(describe(container, group, swap)),
            None => status.not_measured.push(container.name.clone()),
        }
    }
    (!status.containers.is_empty()).then_some(status)
}

fn describe(
    container: &Container,
    group: &Group,
    swap: &BTreeMap<&str, Option<u64>>,
) -> ContainerMemory {
    let size = |reading: &Reading<u64>| reading.value.map(format_quantity);
    let resources = container.resources.as_ref();
    let request = resources.and_then(|it| it.requests.as_ref()?.get("memory"));
    let cut = |text: &String, most: usize| text.chars().take(most).collect::<String>();
    let confidence = match group.advice.confidence.as_deref() {
        Some("low") => Some(Confidence::Low),
        Some("medium") => Some(Confidence::Medium),
        Some("high") => Some(Confidence::High),
        _ => None,
    };
    ContainerMemory {
        name: container.name.clone(),
        current: size(&group.current),
        peak: size(&group.peak),
        limit: group.limit.value.as_ref().and_then(serde_json::Value::as_u64).map(format_quantity),
        request: request.map(|quantity| quantity.0.clone()),
        swap: size(&group.swap),
        swap_behavior: swap.get(group.group.as_str()).map(|limit| match limit {
            Some(0) => SwapBehavior::NoSwap,
            Some(_) => SwapBehavior::LimitedSwap,
            None => SwapBehavior::Unlimited,
        }),
        refaults_per_second: group.refaults_per_second.filter(|it| it.is_finite() && *it >= 0.0),
        oom_kills: group.oom_kills.value,
        advice: Some(Advice {
            verdict: cut(&group.advice.verdict, 32),
            limit: group.advice.size.map(format_quantity),
            confidence,
            reasons: group.advice.reasons.iter().take(16).map(|it| cut(it, 256)).collect(),
        }),
    }
}

/// Writes advice when it is news.
#[derive(Debug, Default)]
pub struct Advisor {
    written: BTreeMap<String, (Instant, MemoryAdviceStatus)>,
}

/// Advice is written again after this time although nothing changed.
const AGAIN: Duration = Duration::from_secs(6 * 3600);

impl Advisor {
    /// Writes the advice for all pods of the node.
    ///
    /// # Errors
    /// If the API refuses something, or does not answer.
    pub async fn publish(
        &mut self,
        client: &Client,
        node: &str,
        limits: &Limits,
        swap: &BTreeMap<&str, Option<u64>>,
        time: Time,
    ) -> kube::Result<()> {
        let pods: Api<Pod> = Api::all(client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = pods.list(&of_node).await?.items;
        let uids: Vec<String> = pods.iter().filter_map(kube::ResourceExt::uid).collect();
        self.written.retain(|uid, _| uids.contains(uid));
        for pod in &pods {
            let (Some(uid), Some(advice)) = (pod.uid(), advise(pod, limits, swap, time.clone()))
            else {
                continue;
            };
            let is_news = self
                .written
                .get(&uid)
                .is_none_or(|(at, last)| at.elapsed() >= AGAIN || is_news(&advice, last));
            if is_news {
                write(client, node, pod, &uid, &advice).await?;
                self.written.insert(uid, (Instant::now(), advice));
            }
        }
        Ok(())
    }
}

/// Whether advice says something else: use changes always, and small changes of the advice are no news.
fn is_news(new: &MemoryAdviceStatus, last: &MemoryAdviceStatus) -> bool {
    let names = |status: &MemoryAdviceStatus| -> Vec<String> {
        status.containers.iter().map(|it| it.name.clone()).collect()
    };
    let differs = |(new, last): (&ContainerMemory, &ContainerMemory)| {
        let fixed = |it: &ContainerMemory| {
            let advice = it.advice.as_ref();
            let said = advice.map(|it| (it.verdict.clone(), it.confidence, it.limit.is_some()));
            (it.limit.clone(), it.request.clone(), it.swap_behavior, it.oom_kills, said)
        };
        let size = |it: &ContainerMemory| parse_quantity(it.advice.as_ref()?.limit.as_ref()?);
        let is_far = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / 10;
        fixed(new) != fixed(last) || size(new).zip(size(last)).is_some_and(|(a, b)| is_far(a, b))
    };
    names(new) != names(last)
        || new.not_measured != last.not_measured
        || new.containers.iter().zip(&last.containers).any(differs)
}

async fn write(
    client: &Client,
    node: &str,
    pod: &Pod,
    uid: &str,
    advice: &MemoryAdviceStatus,
) -> kube::Result<()> {
    let api: Api<MemoryAdvice> =
        Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let spec = MemoryAdviceSpec { node_name: node.to_owned(), pod_uid: uid.to_owned() };
    let owner = OwnerReference {
        api_version: Pod::api_version(&()).into_owned(),
        kind: Pod::kind(&()).into_owned(),
        name: name.clone(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let (version, kind) = (MemoryAdvice::api_version(&()), MemoryAdvice::kind(&()));
    let object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec,
    });
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&name, &parameters, &Patch::Apply(&object)).await?;
    let object = json!({"apiVersion": version, "kind": kind, "status": advice});
    api.patch_status(&name, &parameters, &Patch::Apply(&object)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn limits(group: &str, size: u64) -> Limits {
        let text = json!({
            "schema": "pagewise/limits/1",
            "groups": [{
                "group": group, "current": {"value": 100 << 20}, "peak": {"absent": "none"}, "limit": {"value": "max"},
                "swap": {"value": 0}, "refaults_per_second": 1.5, "oom_kills": {"value": 2},
                "advice": {"verdict": "could-be", "size": size, "confidence": "medium", "reasons": ["in use: 100 MiB"]},
            }],
        });
        Limits::parse(&text.to_string()).unwrap()
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"containers": [
                {"name": "web", "resources": {"requests": {"memory": "64Mi"}}}, {"name": "side"},
            ]},
            "status": {"containerStatuses": [
                {"name": "web", "containerID": format!("containerd://{ID}"), "image": "", "imageID": "", "ready": true, "restartCount": 0},
            ]},
        }))
        .unwrap()
    }

    fn advice(group: &str, size: u64) -> Option<MemoryAdviceStatus> {
        let swap = BTreeMap::from([(group, Some(0))]);
        advise(&pod(), &limits(group, size), &swap, Time("2026-11-28T20:00:00Z".parse().unwrap()))
    }

    #[test]
    fn containers_are_found_in_the_cgroups_of_all_runtimes() {
        let names = [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-podu.slice/crio-{ID}.scope"),
            format!("/kubepods/burstable/podu/{ID}"),
        ];
        for group in names {
            let status = advice(&group, 200 << 20).unwrap();
            let web = &status.containers[0];
            assert_eq!(
                (web.current.as_deref(), web.peak.as_deref(), web.limit.as_deref()),
                (Some("100Mi"), None, None)
            );
            assert_eq!(
                (web.request.as_deref(), web.swap_behavior),
                (Some("64Mi"), Some(SwapBehavior::NoSwap))
            );
            assert_eq!(web.advice.as_ref().unwrap().limit.as_deref(), Some("200Mi"));
            assert_eq!(status.not_measured, ["side"]);
        }
        // The slice of a pod is not a container.
        assert_eq!(advice(&format!("/kubepods/{ID}/other"), 1), None);
    }

    #[test]
    fn only_what_says_something_else_is_news() {
        let group = format!("/kubepods/podu/{ID}");
        let last = advice(&group, 200 << 20).unwrap();
        let mut new = advice(&group, 210 << 20).unwrap();
        new.containers[0].current = Some("150Mi".to_owned());
        assert!(!is_news(&new, &last));
        assert!(is_news(&advice(&group, 300 << 20).unwrap(), &last));
        new.containers[0].oom_kills = Some(3);
        assert!(is_news(&new, &last));
    }
}
