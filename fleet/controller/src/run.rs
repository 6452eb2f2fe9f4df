// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop of the controller: one watch for each kind, one step for each profile.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_crd::{FINALIZER, MemoryProfile, MemoryProfileStatus, NodeMemoryState};
use fleet_rollout::{Step, step};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::runtime::{reflector, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;

use crate::convert;
use crate::lease::Leadership;

/// The name under which the controller owns fields.
pub const MANAGER: &str = "pagewise-controller";

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of this controller among others.
    pub identity: String,
    /// How long a controller that does not answer holds the Lease.
    pub lease: Duration,
    /// Shortest time between two looks at a profile.
    pub tick: Duration,
    /// Ends after this many writes, as if it were killed there. For tests.
    pub writes: Option<u32>,
}

/// Runs until `stop` is ready.
///
/// # Errors
/// If a watch ends.
pub async fn run(client: Client, options: Options, stop: impl Future<Output = ()>) -> Result<()> {
    let news = Arc::new(Notify::new());
    let (profiles, profile_watch) = follow::<MemoryProfile>(&client, &news, |_| {});
    let (states, state_watch) = follow::<NodeMemoryState>(&client, &news, |_| {});
    // Only what decides which nodes are selected, and by whom they are set up.
    let (nodes, node_watch) = follow::<Node>(&client, &news, |node| {
        node.metadata.managed_fields = None;
        node.spec = None;
        if let Some(status) = &mut node.status {
            let info = status.node_info.take();
            *status =
                k8s_openapi::api::core::v1::NodeStatus { node_info: info, ..Default::default() };
        }
    });
    let leadership =
        Leadership::new(&client, &options.namespace, options.identity.clone(), options.lease);
    let mut controller = Controller {
        client,
        profiles,
        states,
        nodes,
        leadership,
        writes: options.writes,
        tick: options.tick,
        complaints: BTreeMap::new(),
    };
    let work = async {
        let result = controller.run(&news).await;
        controller.leadership.release().await;
        result
    };
    tokio::select! {
        () = profile_watch => ensure_watched("MemoryProfile"),
        () = state_watch => ensure_watched("NodeMemoryState"),
        () = node_watch => ensure_watched("Node"),
        result = work => result,
        () = stop => Ok(()),
    }
}

fn ensure_watched(kind: &str) -> Result<()> {
    ensure!(false, "the watch of {kind} ended");
    Ok(())
}

/// Keeps all objects of a kind, without what nobody reads.
fn follow<K>(
    client: &Client,
    news: &Arc<Notify>,
    strip: fn(&mut K),
) -> (reflector::Store<K>, impl Future<Output = ()> + use<K>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Send
        + Sync
        + serde::de::DeserializeOwned
        + 'static,
{
    let (store, mut writer) = reflector::store::<K>();
    let news = news.clone();
    let config = watcher::Config::default().page_size(200);
    let watching = fleet_watch::follow(Api::<K>::all(client.clone()), config, move |event| {
        match event {
            Ok(mut event) => {
                if let Event::InitApply(object) | Event::Apply(object) = &mut event {
                    object.meta_mut().managed_fields = None;
                    strip(object);
                }
                writer.apply_watcher_event(&event);
            }
            Err(error) => log_line(&format!("{}: {error}", K::kind(&()))),
        }
        news.notify_one();
    });
    (store, watching)
}

/// Prints a line to the log of the container.
#[expect(clippy::print_stderr, reason = "the log of a container is its standard error")]
pub fn log_line(text: &str) {
    eprintln!("pagewise-fleet-controller: {text}");
}

struct Controller {
    client: Client,
    profiles: reflector::Store<MemoryProfile>,
    states: reflector::Store<NodeMemoryState>,
    nodes: reflector::Store<Node>,
    leadership: Leadership,
    writes: Option<u32>,
    tick: Duration,
    complaints: BTreeMap<String, String>,
}

/// Longest time without a look although nothing is new: nodes become silent without an event.
const LOOKS_EACH: Duration = Duration::from_secs(15);

impl Controller {
    async fn run(&mut self, news: &Notify) -> Result<()> {
        self.profiles.wait_until_ready().await.context("MemoryProfile")?;
        self.states.wait_until_ready().await.context("NodeMemoryState")?;
        self.nodes.wait_until_ready().await.context("Node")?;
        let mut renew = tokio::time::interval(self.leadership.pause());
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // An interval of its own: the other arms of the loop must not put it off.
        let mut looks = tokio::time::interval(LOOKS_EACH.min(self.tick * 20));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_held = false;
        loop {
            tokio::select! {
                _ = renew.tick() => {
                    if let Err(error) = self.leadership.renew().await {
                        log_line(&format!("the lease was not renewed: {error}"));
                    }
                    let is_held = self.leadership.is_held();
                    if is_held != was_held {
                        log_line(if is_held { "leads" } else { "does not lead" });
                        was_held = is_held;
                        if is_held {
                            news.notify_one();
                        }
                    }
                }
                () = news.notified() => self.look().await?,
                _ = looks.tick() => self.look().await?,
            }
        }
    }

    async fn look(&mut self) -> Result<()> {
        if !self.leadership.is_held() {
            return Ok(());
        }
        for object in self.profiles.state() {
            match self.advance(&object).await {
                Ok(()) => {}
                Err(Stop::Budget) => anyhow::bail!("ended after the writes that it had"),
                // Someone else wrote the object since it was read: the watch will say what.
                Err(Stop::Conflict) => {}
                Err(Stop::Other(error)) => {
                    log_line(&format!("{}: {error}", object.name_any()));
                    tokio::time::sleep(self.tick).await;
                }
            }
        }
        // Changes that come together are handled together.
        tokio::time::sleep(self.tick).await;
        Ok(())
    }

    async fn advance(&mut self, object: &MemoryProfile) -> Result<(), Stop> {
        let name = object.name_any();
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let has_finalizer = object.finalizers().iter().any(|it| it == FINALIZER);
        if is_deleted && !has_finalizer {
            return Ok(());
        }
        if !is_deleted && !has_finalizer {
            // Before any node is asked: else nobody would undo the change of a profile that is deleted.
            return self.set_finalizers(object, true).await;
        }
        let nodes = self.nodes.state();
        let cluster = nodes.iter().map(|node| (node.name_any(), node.as_ref())).collect();
        let states = self.states.state();
        let read = convert::nodes(object, states.iter().map(Arc::as_ref), &cluster);
        let read = match read {
            Ok(read) => read,
            Err(error) => return self.complain(object, error).await,
        };
        self.complaints.remove(&name);
        let profile = convert::profile(object);
        let state = convert::state(object.status.as_ref());
        let now = jiff::Timestamp::now();
        let found = step(&profile, &state, &read, now.as_second());
        let status = convert::status(object, &found, &Time(now));
        self.write_status(object, &status).await?;
        self.write_requests(object, &found, &states).await?;
        if is_deleted && found.may_go && found.requests.is_empty() {
            self.set_finalizers(object, false).await?;
        }
        Ok(())
    }

    /// Says in the status what is wrong with the profile; nothing is asked of nodes.
    async fn complain(&mut self, object: &MemoryProfile, error: String) -> Result<(), Stop> {
        if self.complaints.get(&object.name_any()) == Some(&error) {
            return Ok(());
        }
        let status = MemoryProfileStatus {
            message: Some(error.clone()),
            observed_generation: object.metadata.generation,
            ..object.status.clone().unwrap_or_default()
        };
        self.write_status(object, &status).await?;
        self.complaints.insert(object.name_any(), error);
        Ok(())
    }

    async fn write_status(
        &mut self,
        object: &MemoryProfile,
        status: &MemoryProfileStatus,
    ) -> Result<(), Stop> {
        if object.status.as_ref() == Some(status) {
            return Ok(());
        }
        self.may_write().await?;
        let patch = json!({
            "apiVersion": MemoryProfile::api_version(&()), "kind": MemoryProfile::kind(&()),
            "metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()},
            "status": status,
        });
        let api: Api<MemoryProfile> = Api::all(self.client.clone());
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch_status(&object.name_any(), &parameters, &Patch::Apply(&patch)).await?;
        Ok(())
    }

    async fn write_requests(
        &mut self,
        object: &MemoryProfile,
        found: &Step,
        states: &[Arc<NodeMemoryState>],
    ) -> Result<(), Stop> {
        let earlier: BTreeMap<String, &NodeMemoryState> =
            states.iter().map(|state| (state.name_any(), state.as_ref())).collect();
        let api: Api<NodeMemoryState> = Api::all(self.client.clone());
        let parameters = PatchParams::apply(MANAGER).force();
        for (name, request) in &found.requests {
            let Some(state) = earlier.get(name) else { continue };
            let change = request.as_ref().map(|request| {
                convert::change_request(request, object, state.spec.change.as_ref())
            });
            self.may_write().await?;
            let written = match change {
                Some(change) => {
                    let patch = json!({
                        "apiVersion": NodeMemoryState::api_version(&()), "kind": NodeMemoryState::kind(&()),
                        "metadata": {"uid": state.uid()}, "spec": {"change": change},
                    });
                    api.patch(name, &parameters, &Patch::Apply(&patch)).await
                }
                // Without its only field, an applied `spec` would be null, which the API refuses.
                None => {
                    let patch = json!({"metadata": {"uid": state.uid()}, "spec": {"change": null}});
                    let parameters = PatchParams {
                        field_manager: Some(MANAGER.to_owned()),
                        ..Default::default()
                    };
                    api.patch(name, &parameters, &Patch::Merge(&patch)).await
                }
            };
            match written {
                Ok(_) => {}
                // The node has left the cluster since it was read.
                Err(kube::Error::Api(error)) if error.code == 404 || error.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn set_finalizers(&mut self, object: &MemoryProfile, present: bool) -> Result<(), Stop> {
        self.may_write().await?;
        let mut finalizers: Vec<&String> = object.finalizers().iter().collect();
        finalizers.retain(|it| *it != FINALIZER);
        let own = FINALIZER.to_owned();
        if present {
            finalizers.push(&own);
        }
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": object.resource_version(),
        }});
        let api: Api<MemoryProfile> = Api::all(self.client.clone());
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Counts a write. The Lease is checked, and renewed in time, before each: a long list of requests may
    /// outlast it.
    async fn may_write(&mut self) -> Result<(), Stop> {
        if self.leadership.is_due() {
            self.leadership.renew().await.map_err(|error| Stop::Other(error.to_string()))?;
        }
        if !self.leadership.is_held() {
            return Err(Stop::Other("the lease is no longer held".to_owned()));
        }
        if let Some(left) = &mut self.writes {
            *left = left.checked_sub(1).ok_or(Stop::Budget)?;
        }
        Ok(())
    }
}

/// Why a profile is not advanced further now.
enum Stop {
    /// The writes that a test allowed are used up.
    Budget,
    /// The object is not as it was read.
    Conflict,
    /// Any other error.
    Other(String),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(error) if error.code == 409 || error.code == 404 => Self::Conflict,
            error => Self::Other(error.to_string()),
        }
    }
}
