// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real API server accepts the definitions and good objects, and refuses bad ones with a message that
//! names the rule.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use fleet_crd::{MemoryAdvice, MemoryProfile, NodeMemoryState, NodeMemoryStateStatus};
use fleet_testbed::{install, shared_client};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn client() -> Client {
    let client = shared_client().await;
    for definition in fleet_crd::definitions() {
        install(&client, &definition).await.unwrap();
    }
    client
}

/// Creates an object, which the API does not store, and returns its answer.
async fn try_create<K>(api: &Api<K>, object: &Value) -> Result<K, String>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
    K::DynamicType: Default,
{
    // Written as it is, so that also objects are sent that the types cannot hold.
    let dynamic: kube::api::DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let resource = kube::api::ApiResource::erase::<K>(&K::DynamicType::default());
    let client = api.clone().into_client();
    let all: Api<kube::api::DynamicObject> = match &dynamic.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let dry = PostParams { dry_run: true, field_manager: None };
    match all.create(&dry, &dynamic).await {
        Ok(created) => Ok(created.try_parse().unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

fn profile(spec: &Value) -> Value {
    json!({"apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryProfile", "metadata": {"name": "p"}, "spec": spec})
}

fn merged(base: &Value, change: &Value) -> Value {
    let mut all = base.clone();
    for (key, value) in change.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

#[tokio::test]
async fn a_short_profile_gets_the_careful_defaults() {
    let api: Api<MemoryProfile> = Api::all(client().await);
    let short = profile(&json!({"nodeSelector": {}, "want": ["zram", "swappiness=100"]}));
    let spec = try_create(&api, &short).await.unwrap().spec;
    assert_eq!((spec.canary, spec.max_concurrent), (1, 50));
    assert_eq!(spec.waves, [1, 5, 25, 100]);
    assert_eq!((spec.window_seconds, spec.trial_seconds, spec.answer_seconds), (600, 3600, 2400));
    assert_eq!(spec.guards.len(), 4);
    assert!(!spec.paused);
}

/// What a schema alone or a CEL rule refuses, with a part of the message.
#[tokio::test]
async fn bad_profiles_are_refused_with_the_reason() {
    let api: Api<MemoryProfile> = Api::all(client().await);
    let good = json!({"nodeSelector": {}, "want": ["zram"]});
    let cases = [
        (json!({"want": []}), "should have at least 1 items"),
        (json!({"want": ["zram; reboot"]}), "should match"),
        (json!({"want": ["--yes-irreversible"]}), "should match"),
        (json!({"want": ["swappiness=60", "swappiness=100"]}), "want names a setting twice"),
        (json!({"waves": [5, 100]}), "the first wave must be 1 percent"),
        (json!({"waves": [1, 50]}), "the last wave must be 100 percent"),
        (json!({"waves": [1, 50, 20, 100]}), "each wave must be larger"),
        (json!({"waves": [1, 5, 5, 100]}), "each wave must be larger"),
        (json!({"waves": [1, 101]}), "should be less than or equal to 100"),
        (json!({"canary": 0}), "should be greater than or equal to 1"),
        (json!({"canary": 11}), "should be less than or equal to 10"),
        (json!({"answerSeconds": 3600}), "trialSeconds must be at least 60 more"),
        (json!({"maxConcurrent": 9}), "should be greater than or equal to 10"),
        (json!({"windowSeconds": 1800}), "answerSeconds must be at least twice"),
        (json!({"guards": []}), "should have at least 1 items"),
        (json!({"guards": [{"metric": "Luck", "maxIncreasePercent": 10}]}), "Unsupported value"),
        (
            json!({"guards": [{"metric": "Refaults", "maxIncreasePercent": 10}, {"metric": "Refaults", "maxIncreasePercent": 20}]}),
            "guards name a metric twice",
        ),
        (json!({"whenUndecided": "Perhaps"}), "Unsupported value"),
        (json!({"nodeSelector": "all"}), "must be of type object"),
    ];
    for (change, reason) in cases {
        let object = profile(&merged(&good, &change));
        let refusal = try_create(&api, &object).await.expect_err(&change.to_string());
        assert!(refusal.contains(reason), "{change}: {refusal}");
    }
    let without = profile(&json!({"want": ["zram"]}));
    assert!(try_create(&api, &without).await.unwrap_err().contains("nodeSelector"));
}

#[tokio::test]
async fn a_request_that_a_node_could_not_carry_out_is_refused() {
    let api: Api<NodeMemoryState> = Api::all(client().await);
    let good = json!({
        "profile": "p", "revision": "1", "wave": 0, "role": "Change", "action": "Try", "want": ["zram"],
        "windowSeconds": 60, "trialSeconds": 600, "requestedAt": "2026-11-28T20:00:00Z",
    });
    let object = |change: &Value| {
        json!({
            "apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "metadata": {"name": "n"},
            "spec": {"change": merged(&good, change)},
        })
    };
    try_create(&api, &object(&json!({}))).await.unwrap();
    let cases = [
        (json!({"role": "Compare", "action": "Keep"}), "only compared"),
        (json!({"trialSeconds": 100}), "trialSeconds must be at least twice"),
        (json!({"want": ["$(reboot)"]}), "should match"),
        (json!({"want": []}), "should have at least 1 items"),
        (json!({"role": "Leader"}), "Unsupported value"),
        (json!({"requestedAt": "yesterday"}), "date-time"),
    ];
    for (change, reason) in cases {
        let refusal = try_create(&api, &object(&change)).await.expect_err(&change.to_string());
        assert!(refusal.contains(reason), "{change}: {refusal}");
    }
}

/// A node that reports nonsense is refused, and what it says of itself cannot change what it is asked.
#[tokio::test]
async fn nonsense_of_a_node_is_refused_and_status_cannot_change_spec() {
    let client = client().await;
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let new = NodeMemoryState::new("hostile", fleet_crd::NodeMemoryStateSpec::default());
    api.create(&PostParams::default(), &new).await.unwrap();
    let status = |status: Value| {
        let api = api.clone();
        async move {
            let object = json!({"apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "status": status});
            api.patch_status("hostile", &PatchParams::apply("node").force(), &Patch::Apply(&object))
                .await
        }
    };
    let values = |values: Value| json!({"change": {"profile": "p", "revision": "1", "wave": 0, "phase": "Measured", "after": values}});
    let cases = [
        json!({"memory": {"availablePercent": 700}}),
        json!({"memory": {"total": 7}}),
        json!({"line": "x".repeat(100_000)}),
        json!({"findings": vec![json!({"id": "a", "severity": "info", "title": "t"}); 1000]}),
        values(json!({"seconds": -1.0})),
        values(json!({"seconds": 60.0, "refaultsPerSecond": -5.0})),
        values(json!({"seconds": 60.0, "memoryFullPercent": 101.0})),
        json!({"change": {"profile": "p", "revision": "1", "wave": 0, "phase": "Superb"}}),
    ];
    for bad in cases {
        let shown: String = bad.to_string().chars().take(80).collect();
        let refusal = status(bad).await.expect_err(&shown);
        let refusal = refusal.to_string();
        assert!(
            refusal.contains("invalid") || refusal.contains("expected string"),
            "{shown}: {refusal}"
        );
    }
    let object = json!({
        "apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "status": {"verdict": "calm"},
        "spec": {"change": {
            "profile": "p", "revision": "1", "wave": 0, "role": "Change", "action": "Keep", "want": ["zram"],
            "windowSeconds": 60, "trialSeconds": 600, "requestedAt": "2026-11-28T20:00:00Z",
        }},
    });
    let parameters = PatchParams::apply("node").force();
    let kept = api.patch_status("hostile", &parameters, &Patch::Apply(&object)).await.unwrap();
    assert_eq!(kept.spec.change, None);
    let expected = NodeMemoryStateStatus { verdict: Some("calm".to_owned()), ..Default::default() };
    assert_eq!(kept.status, Some(expected));
    api.delete("hostile", &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn advice_is_stored_and_a_bad_confidence_is_refused() {
    let client = client().await;
    let api: Api<MemoryAdvice> = Api::namespaced(client, "default");
    let advice = |confidence: &str| {
        json!({
            "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryAdvice",
            "metadata": {"name": "web-1", "namespace": "default"},
            "spec": {"nodeName": "n1", "podUid": "7f"},
            "status": {"containers": [{"name": "web", "current": "100Mi", "advice": {
                "verdict": "could-be", "limit": "160Mi", "confidence": confidence, "reasons": ["in use: 100 MiB"],
            }}]},
        })
    };
    let good: MemoryAdvice = serde_json::from_value(advice("medium")).unwrap();
    api.create(&PostParams::default(), &good).await.unwrap();
    let apply = PatchParams::apply("node").force();
    let stored = api.patch_status("web-1", &apply, &Patch::Apply(&advice("medium"))).await.unwrap();
    assert_eq!(stored.status, good.status);
    let refusal = api.patch_status("web-1", &apply, &Patch::Apply(&advice("certain"))).await;
    assert!(refusal.unwrap_err().to_string().contains("Unsupported value"));
}
