// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From `pagewise limits --json` on a node over the API to the command that a person types, which a real
//! API server accepts.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::process::Command;

use fleet_crd::MemoryAdvice;
use fleet_node::advice::{Advisor, Limits};
use fleet_testbed::{ControlPlane, install};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "web", "image": "web:1",
            "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        }]},
    })
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// Makes a Deployment with its ReplicaSet and a Pod on node `n1`, as controllers and kubelet would.
async fn make_pod(client: &Client) -> Pod {
    let create = PostParams::default();
    let selector = json!({"matchLabels": {"app": "web"}});
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let object = json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template()}});
    let deployment =
        deployments.create(&create, &serde_json::from_value(object).unwrap()).await.unwrap();
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let object = json!({
        "metadata": {"name": "web-5d", "ownerReferences": owned_by("Deployment", "web", &deployment.uid().unwrap())},
        "spec": {"selector": selector, "template": template()},
    });
    let set = sets.create(&create, &serde_json::from_value(object).unwrap()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let mut object = template();
    object["metadata"]["name"] = json!("web-5d-1");
    object["metadata"]["ownerReferences"] = owned_by("ReplicaSet", "web-5d", &set.uid().unwrap());
    object["spec"]["nodeName"] = json!("n1");
    pods.create(&create, &serde_json::from_value(object).unwrap()).await.unwrap();
    let status = json!({"status": {"containerStatuses": [{
        "name": "web", "containerID": format!("containerd://{ID}"), "image": "web:1", "imageID": "", "ready": true,
        "restartCount": 0,
    }]}});
    pods.patch_status("web-5d-1", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap()
}

/// As `pagewise limits --json` prints it for a container at its limit.
fn limits(group: &str) -> Limits {
    let text = json!({
        "schema": "pagewise/limits/1",
        "groups": [{
            "group": group, "current": {"value": 126 << 20, "unit": "bytes"}, "peak": {"value": 128 << 20}, "limit": {"value": 128 << 20},
            "swap": {"value": 0}, "refaults_per_second": 912.0, "oom_kills": {"value": 2},
            "advice": {"verdict": "too-low", "size": 200 << 20, "confidence": "medium", "reasons": ["in use: 190 MiB"]},
        }],
    });
    Limits::parse(&text.to_string()).unwrap()
}

#[test]
fn advice_of_a_node_becomes_a_command_that_the_api_accepts() {
    let mut plane = ControlPlane::start().unwrap();
    let kubeconfig = plane.kubeconfig().unwrap();
    plane.start_controller_manager().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let output = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-pagewise"));
        let output = command
            .args(["limits", "-n", "default"])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    runtime.block_on(async {
        let client = plane.client().unwrap();
        for definition in fleet_crd::definitions() {
            install(&client, &definition).await.unwrap();
        }
        let empty = output();
        assert!(empty.contains("No advice in namespace default"), "{empty}");

        let pod = make_pod(&client).await;
        let group = format!("/kubepods.slice/kubepods-burstable.slice/cri-containerd-{ID}.scope");
        let swap = BTreeMap::from([(group.as_str(), Some(0))]);
        let time = Time(jiff::Timestamp::now());
        let mut advisor = Advisor::default();
        advisor.publish(&client, "n1", &limits(&group), &swap, time.clone()).await.unwrap();
        let advices: Api<MemoryAdvice> = Api::default_namespaced(client.clone());
        let written = advices.get("web-5d-1").await.unwrap();
        assert_eq!(written.spec.pod_uid, pod.uid().unwrap());
        advisor.publish(&client, "n1", &limits(&group), &swap, time).await.unwrap();
        let again = advices.get("web-5d-1").await.unwrap();
        assert_eq!(
            again.resource_version(),
            written.resource_version(),
            "what is no news is not written"
        );

        let text = output();
        println!("{text}");
        let row = text.lines().find(|line| line.starts_with("web-5d-1")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells[..9],
            ["web-5d-1", "web", "126Mi", "128Mi", "64Mi", "128Mi", "200Mi", "medium", "2"]
        );
        let commands: Vec<&str> =
            text.lines().filter(|line| line.contains("kubectl patch")).collect();
        assert_eq!(commands.len(), 2);
        for (command, limit) in commands.iter().zip(["200Mi", "128Mi"]) {
            assert!(
                command.contains("kubectl patch deployment web -n default --type=strategic"),
                "{command}"
            );
            let patch: Value = serde_json::from_str(command.split('\'').nth(1).unwrap()).unwrap();
            let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
            let strict = PatchParams::default().validation_strict();
            let changed =
                deployments.patch("web", &strict, &Patch::Strategic(&patch)).await.unwrap();
            let container = changed.spec.unwrap().template.spec.unwrap().containers.remove(0);
            let resources = container.resources.unwrap();
            assert_eq!(resources.limits.unwrap()["memory"].0, limit);
            assert_eq!(resources.requests.unwrap()["memory"].0, "64Mi");
        }

        // Advice goes with its pod: the controller manager removes it.
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        pods.delete("web-5d-1", &DeleteParams::default().grace_period(0)).await.unwrap();
        for _ in 0..1200 {
            if advices.get_opt("web-5d-1").await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the advice outlives its pod: {}", plane.logs());
    });
}
