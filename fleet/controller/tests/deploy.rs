// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real API server accepts what is installed, and lets each program do what it needs and nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;

use fleet_crd::{MemoryAdvice, MemoryProfile, NodeMemoryState, NodeMemoryStateStatus};
use fleet_testbed::{ControlPlane, make_nodes};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde::Deserialize as _;
use serde_json::{Value, json};

fn read(path: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.map(|document| Value::deserialize(document).unwrap()).collect()
}

/// All objects of the kustomization, in its order.
fn objects() -> Vec<Value> {
    let kustomization = read("base/kustomization.yaml").remove(0);
    let files = kustomization["resources"].as_array().unwrap().clone();
    files.iter().flat_map(|file| read(&format!("base/{}", file.as_str().unwrap()))).collect()
}

/// Creates or changes an object by server-side apply; unknown fields are an error.
async fn apply(client: &Client, object: &Value) {
    let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let types = dynamic.types.clone().unwrap();
    let kind = GroupVersionKind::try_from(&types).unwrap();
    let resource = ApiResource::from_gvk_with_plural(&kind, &plural(&types.kind));
    let api: Api<DynamicObject> = match &dynamic.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = dynamic.metadata.name.clone().unwrap();
    let parameters = PatchParams::apply("test").force().validation_strict();
    if let Err(error) = api.patch(&name, &parameters, &Patch::Apply(object)).await {
        panic!("{} {name}: {error}", types.kind);
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with("ss") => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

/// A client with the account of a program; a node program has a token that names its node.
fn account(config: &Config, name: &str, node: Option<&str>) -> Client {
    let mut config = config.clone();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:pagewise:{name}"));
    if let Some(node) = node {
        let header = "impersonate-extra-authentication.kubernetes.io%2fnode-name";
        config.headers.push((header.parse().unwrap(), node.parse().unwrap()));
    }
    Client::try_from(config).unwrap()
}

fn status(verdict: &str) -> NodeMemoryStateStatus {
    NodeMemoryStateStatus { verdict: Some(verdict.to_owned()), ..NodeMemoryStateStatus::default() }
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

async fn node_rights(config: &Config) {
    let own = account(config, "pagewise-node", Some("n1"));
    // The policy is in force a moment after it is stored, and new kinds are served a moment after theirs.
    let mut refused = false;
    for _ in 0..600 {
        let written = fleet_node::publish::write(&own, "n2", &status("calm")).await;
        refused = written.is_err_and(|error| error.to_string().contains("its own node"));
        if refused {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(refused, "a node program wrote the state of another node");
    fleet_node::publish::write(&own, "n1", &status("calm")).await.unwrap();
    let anywhere = account(config, "pagewise-node", None);
    assert!(
        fleet_node::publish::write(&anywhere, "n1", &status("short")).await.is_err(),
        "a token without a node"
    );

    // The same for what is said of pods.
    let advices: Api<MemoryAdvice> = Api::default_namespaced(own.clone());
    let advice = |node: &str| {
        json!({
            "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryAdvice", "metadata": {"name": "web"},
            "spec": {"nodeName": node, "podUid": "u"},
        })
    };
    let force = PatchParams::apply("pagewise-node").force();
    assert_eq!(code(advices.patch("web", &force, &Patch::Apply(advice("n2"))).await), 422);
    advices.patch("web", &force, &Patch::Apply(advice("n1"))).await.unwrap();

    let states: Api<NodeMemoryState> = Api::all(own.clone());
    states.list(&ListParams::default()).await.unwrap();
    let asked = json!({"spec": {"change": null}});
    assert_eq!(code(states.patch("n1", &PatchParams::default(), &Patch::Merge(&asked)).await), 403);
    assert_eq!(code(states.delete("n1", &DeleteParams::default()).await), 403);
    let profiles: Api<MemoryProfile> = Api::all(own.clone());
    assert_eq!(code(profiles.list(&ListParams::default()).await), 403);
    let secrets: Api<Secret> = Api::all(own);
    assert_eq!(code(secrets.list(&ListParams::default()).await), 403);
}

async fn controller_rights(config: &Config) {
    let client = account(config, "pagewise-controller", None);
    let states: Api<NodeMemoryState> = Api::all(client.clone());
    let request = json!({
        "apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState",
        "spec": {"change": {
            "profile": "of-another", "revision": "1", "wave": 0, "role": "Change", "action": "Try", "want": ["zram"],
            "windowSeconds": 60, "trialSeconds": 600, "requestedAt": "2026-11-28T20:00:00Z",
        }},
    });
    let force = PatchParams::apply("pagewise-controller").force();
    states.patch("n1", &force, &Patch::Apply(&request)).await.unwrap();
    let lie = json!({"apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "status": {"verdict": "calm"}});
    assert_eq!(code(states.patch_status("n1", &force, &Patch::Apply(&lie)).await), 403);
    assert_eq!(code(states.delete("n1", &DeleteParams::default()).await), 403);
    let secrets: Api<Secret> = Api::all(client.clone());
    assert_eq!(code(secrets.list(&ListParams::default()).await), 403);

    // The program itself does what it does with these rights.
    let profile = json!({
        "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryProfile", "metadata": {"name": "p"},
        "spec": {"nodeSelector": {"matchLabels": {"none": "such"}}, "want": ["zram"]},
    });
    apply(&Client::try_from(config.clone()).unwrap(), &profile).await;
    let options = fleet_controller::run::Options {
        namespace: "pagewise".to_owned(),
        identity: "one".to_owned(),
        lease: std::time::Duration::from_secs(2),
        tick: std::time::Duration::from_millis(20),
        writes: None,
    };
    let running = tokio::spawn(fleet_controller::run::run(client, options, std::future::pending()));
    let profiles: Api<MemoryProfile> = Api::all(Client::try_from(config.clone()).unwrap());
    let mut done = false;
    for _ in 0..600 {
        let found = profiles.get("p").await.unwrap();
        let phase = found.status.and_then(|status| status.phase);
        done =
            phase == Some(fleet_crd::RolloutPhase::Complete) && found.metadata.finalizers.is_some();
        if done || running.is_finished() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(done, "the controller could not do its work: {:#?}", profiles.get("p").await);
    running.abort();
}

#[test]
fn what_is_installed_is_accepted_and_gives_the_least_rights() {
    let plane = ControlPlane::start().unwrap();
    let config = plane.config().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = plane.client().unwrap();
        let all = objects();
        assert!(all.len() > 15, "{}", all.len());
        for object in &all {
            apply(&client, object).await;
        }
        // The variant that changes nodes is a patch of this object.
        let sets: Api<DaemonSet> = Api::namespaced(client.clone(), "pagewise");
        let patch = read("changes/node.yaml").remove(0);
        let changed =
            sets.patch("pagewise-node", &PatchParams::default(), &Patch::Strategic(&patch)).await;
        let pod = changed.unwrap().spec.unwrap().template.spec.unwrap();
        assert!(pod.containers[0].args.as_ref().unwrap().contains(&"--changes".to_owned()));
        assert_eq!(pod.containers[0].volume_mounts.as_ref().unwrap().len(), 3);
        make_nodes(&client, ["n1", "n2"].map(str::to_owned).into_iter()).await.unwrap();
        node_rights(&config).await;
        controller_rights(&config).await;
    });
}
