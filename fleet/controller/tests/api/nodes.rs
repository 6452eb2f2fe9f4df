// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated nodes: they do what node programs do, without waiting for a window to pass.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet_crd::{
    ChangeAction, ChangePhase, ChangeReport, ChangeRequest, ChangeRole, MemoryProfile,
    MemoryProfileStatus, MemorySummary, MetricValues, NodeMemoryState, NodeMemoryStateSpec,
    NodeMemoryStateStatus, RolloutPhase,
};
use fleet_testbed::{ControlPlane, install, make_nodes};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

/// What really happened on a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    pub(crate) changed: bool,
    pub(crate) kept: bool,
    pub(crate) touched: bool,
    /// Requests to try that came while the change was in force already.
    pub(crate) twice: bool,
}

pub(crate) struct Nodes {
    client: Client,
    truth: Arc<Mutex<BTreeMap<String, Truth>>>,
    /// By which factor the change multiplies what is bad.
    effect: f64,
    random: Mutex<fastrand::Rng>,
}

/// A control plane with the definitions, `number` nodes and their states, and the namespace of the Lease.
pub(crate) fn start(number: usize) -> (ControlPlane, tokio::runtime::Runtime, Client) {
    let plane = ControlPlane::start().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let client = plane.client().unwrap();
        for definition in fleet_crd::definitions() {
            install(&client, &definition).await.unwrap();
        }
        make_nodes(&client, (0..number).map(name)).await.unwrap();
        let states: Api<NodeMemoryState> = Api::all(client.clone());
        for node in (0..number).map(name) {
            let new = NodeMemoryState::new(&node, NodeMemoryStateSpec::default());
            states.create(&PostParams::default(), &new).await.unwrap();
            report(&client, &node, None).await.unwrap();
        }
        client
    });
    (plane, runtime, client)
}

fn name(at: usize) -> String {
    format!("node-{at:04}")
}

async fn report(client: &Client, node: &str, change: Option<ChangeReport>) -> kube::Result<()> {
    let states: Api<NodeMemoryState> = Api::all(client.clone());
    let status = NodeMemoryStateStatus {
        verdict: Some("calm".to_owned()),
        architecture: Some("x86_64".to_owned()),
        kernel: Some("6.12.9".to_owned()),
        memory: Some(MemorySummary {
            total: Some("15900Mi".to_owned()),
            available_percent: Some(60),
            ..MemorySummary::default()
        }),
        finding_count: Some(0),
        change,
        ..NodeMemoryStateStatus::default()
    };
    let object =
        json!({"apiVersion": "pagewise.dev/v1alpha1", "kind": "NodeMemoryState", "status": status});
    states.patch_status(node, &PatchParams::apply("node").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

impl Nodes {
    pub(crate) fn new(client: &Client, effect: f64) -> Arc<Self> {
        let truth = Arc::default();
        let random = Mutex::new(fastrand::Rng::with_seed(7));
        Arc::new(Self { client: client.clone(), truth, effect, random })
    }

    /// Lets the nodes act until the task is aborted.
    pub(crate) fn act(self: &Arc<Self>) -> tokio::task::JoinHandle<()> {
        let nodes = self.clone();
        tokio::spawn(async move {
            let api: Api<NodeMemoryState> = Api::all(nodes.client.clone());
            let events =
                watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            let act = events.filter_map(async |event| event.ok()).map(|state| nodes.answer(state));
            act.buffer_unordered(8).for_each(async |()| {}).await;
        })
    }

    async fn answer(&self, state: NodeMemoryState) {
        let node = state.name_any();
        let change = state.status.and_then(|status| status.change);
        let Some(request) = state.spec.change else {
            self.with(&node, |truth| {
                if truth.changed && !truth.kept {
                    truth.changed = false;
                }
            });
            return;
        };
        let is_of = |report: &&ChangeReport| {
            report.revision == request.revision && report.wave == request.wave
        };
        let change = change.as_ref().filter(is_of);
        let wanted = match request.action {
            ChangeAction::Try if change.is_none() => ChangePhase::Measured,
            ChangeAction::Keep if change.is_some_and(|it| it.phase == ChangePhase::Measured) => {
                ChangePhase::Kept
            }
            ChangeAction::Undo if change.is_none_or(|it| it.phase != ChangePhase::Undone) => {
                ChangePhase::Undone
            }
            _ => return,
        };
        if request.role == ChangeRole::Change {
            self.with(&node, |truth| match wanted {
                ChangePhase::Measured => {
                    truth.twice |= truth.changed;
                    (truth.changed, truth.kept, truth.touched) = (true, false, true);
                }
                ChangePhase::Kept => truth.kept = true,
                _ => (truth.changed, truth.kept) = (false, false),
            });
        }
        let report_of = self.report_of(&request, wanted, change);
        // If the API is away, the next event of the watch brings the request again.
        let _ = report(&self.client, &node, Some(report_of)).await;
    }

    fn report_of(
        &self,
        request: &ChangeRequest,
        phase: ChangePhase,
        former: Option<&ChangeReport>,
    ) -> ChangeReport {
        let effect = if request.role == ChangeRole::Change { self.effect } else { 1.0 };
        let values = |factor: f64| {
            let mut random = self.random.lock().unwrap();
            let mut noise = || 1.0 + (random.f64() - 0.5) * 0.1;
            Some(MetricValues {
                seconds: 600.0,
                refaults_per_second: Some(2000.0 * factor * noise()),
                memory_full_percent: Some(2.0 * factor * noise()),
                memory_some_percent: Some(5.0 * factor * noise()),
                kswapd_scans_per_second: Some(9000.0 * factor * noise()),
                oom_kills: Some(0.0),
            })
        };
        let new = former.cloned().unwrap_or_else(|| ChangeReport {
            profile: request.profile.clone(),
            revision: request.revision.clone(),
            wave: request.wave,
            phase,
            before: values(1.0),
            after: values(effect),
            journal: Some("7".to_owned()),
            message: None,
        });
        ChangeReport { phase, ..new }
    }

    fn with(&self, node: &str, change: impl FnOnce(&mut Truth)) {
        change(self.truth.lock().unwrap().entry(node.to_owned()).or_default());
    }

    pub(crate) fn count(&self, is: impl Fn(&Truth) -> bool) -> usize {
        self.truth.lock().unwrap().values().filter(|truth| is(truth)).count()
    }
}

pub(crate) async fn create_profile(client: &Client, name: &str, more: &serde_json::Value) {
    let mut object = json!({
        "apiVersion": "pagewise.dev/v1alpha1", "kind": "MemoryProfile", "metadata": {"name": name},
        "spec": {"nodeSelector": {}, "want": ["zram"]},
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    let api: Api<MemoryProfile> = Api::all(client.clone());
    let new: MemoryProfile = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &new).await.unwrap();
}

pub(crate) async fn edit_profile(client: &Client, name: &str, spec: &serde_json::Value) {
    let api: Api<MemoryProfile> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

pub(crate) async fn status_of(client: &Client, name: &str) -> MemoryProfileStatus {
    let api: Api<MemoryProfile> = Api::all(client.clone());
    let object = api.get(name).await;
    object.ok().and_then(|object| object.status).unwrap_or_default()
}

/// Waits until the profile is in a phase and `is` holds.
pub(crate) async fn wait(
    client: &Client,
    name: &str,
    phase: RolloutPhase,
    is: impl Fn(&MemoryProfileStatus) -> bool,
) -> MemoryProfileStatus {
    let started = Instant::now();
    loop {
        let status = status_of(client, name).await;
        if status.phase == Some(phase) && is(&status) {
            return status;
        }
        assert!(
            started.elapsed() < Duration::from_secs(240),
            "{name} is not {phase:?}: {status:#?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn requests(client: &Client) -> usize {
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let all: Vec<NodeMemoryState> =
        api.list(&kube::api::ListParams::default()).await.unwrap().items;
    all.iter().filter(|state| state.spec.change.is_some()).count()
}

/// Waits until the profile is gone.
pub(crate) async fn wait_gone(client: &Client, name: &str) {
    let api: Api<MemoryProfile> = Api::all(client.clone());
    let started = Instant::now();
    while let Some(object) = api.get_opt(name).await.unwrap() {
        assert!(
            started.elapsed() < Duration::from_secs(240),
            "{name} is not gone: {:#?}",
            object.status
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Reads one event at least, so that the API is known to answer.
pub(crate) async fn answers(client: &Client) {
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let mut events = watcher(api, watcher::Config::default()).boxed();
    events.try_next().await.unwrap();
}
