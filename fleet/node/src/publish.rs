// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the `NodeMemoryState` of this node when something changed, and each half hour.

use std::time::{Duration, Instant};

use fleet_crd::{NodeMemoryState, NodeMemoryStateSpec, NodeMemoryStateStatus};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _};

/// The name under which the node program owns fields.
pub const MANAGER: &str = "pagewise-node";
/// The shortest and the longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];
/// Shortest time between two writes, unless a change is under way: findings that come and go must not load
/// the API.
const BETWEEN_WRITES: Duration = Duration::from_secs(900);

/// Decides when to write.
#[derive(Debug)]
pub struct Schedule {
    heartbeat: Duration,
    last: Option<(Instant, NodeMemoryStateStatus)>,
    failures: u32,
    not_before: Option<Instant>,
    /// Each node has another, so that a thousand nodes do not write in the same second.
    jitter: f64,
}

impl Schedule {
    /// Writes at least once in this time.
    #[must_use]
    pub fn new(heartbeat: Duration, jitter: f64) -> Self {
        Self {
            heartbeat,
            last: None,
            failures: 0,
            not_before: None,
            jitter: jitter.clamp(0.0, 1.0),
        }
    }

    /// Whether to write now.
    #[must_use]
    pub fn is_due(&self, status: &NodeMemoryStateStatus, now: Instant) -> bool {
        if self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        let Some((at, last)) = &self.last else { return true };
        let since = now.saturating_duration_since(*at);
        // Between 80 and 100 % of the time.
        let heartbeat = self.heartbeat.mul_f64(0.8 + 0.2 * self.jitter);
        let is_news = essence(status) != essence(last);
        let is_change = status.change != last.change;
        since >= heartbeat || is_change || (is_news && since >= BETWEEN_WRITES.min(heartbeat))
    }

    /// Notes that a write succeeded.
    pub fn succeeded(&mut self, status: NodeMemoryStateStatus, now: Instant) {
        *self = Self { last: Some((now, status)), failures: 0, not_before: None, ..*self };
    }

    /// Notes that a write failed. Returns the pause until the next one.
    pub fn failed(&mut self, now: Instant) -> Duration {
        let [shortest, longest] = PAUSES;
        let pause = shortest.saturating_mul(1 << self.failures.min(16)).min(longest);
        let pause = pause.mul_f64(0.5 + 0.5 * self.jitter);
        self.failures += 1;
        self.not_before = Some(now + pause);
        pause
    }

    /// When a write may be tried again after a failure.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

/// What is news when it changes; sizes and times change always.
fn essence(status: &NodeMemoryStateStatus) -> impl PartialEq + '_ {
    let findings: Vec<(&str, &str)> =
        status.findings.iter().map(|it| (it.id.as_str(), it.severity.as_str())).collect();
    (
        (&status.verdict, findings, &status.finding_count),
        (&status.kernel, &status.boot_id, &status.pagewise),
        (&status.capabilities, &status.owners),
    )
}

/// Writes the status by server-side apply; creates the object if there is none.
///
/// # Errors
/// If the API refuses it, or does not answer.
pub async fn write(
    client: &Client,
    node: &str,
    status: &NodeMemoryStateStatus,
) -> kube::Result<()> {
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let object = serde_json::json!({
        "apiVersion": NodeMemoryState::api_version(&()), "kind": NodeMemoryState::kind(&()), "status": status,
    });
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&object);
    match api.patch_status(node, &parameters, &patch).await {
        Err(kube::Error::Api(error)) if error.code == 404 => {
            create(client, node).await?;
            api.patch_status(node, &parameters, &patch).await.map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

/// Creates the object, as a part of its Node: it goes with the Node.
async fn create(client: &Client, name: &str) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(name).await?;
    let mut new = NodeMemoryState::new(name, NodeMemoryStateSpec::default());
    new.metadata.owner_references = Some(vec![OwnerReference {
        api_version: Node::api_version(&()).into_owned(),
        kind: Node::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: node.metadata.uid.unwrap_or_default(),
        ..OwnerReference::default()
    }]);
    let api: Api<NodeMemoryState> = Api::all(client.clone());
    let parameters =
        PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &new).await {
        // Another program of this node was first.
        Err(kube::Error::Api(error)) if error.code == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use fleet_crd::{ChangePhase, ChangeReport};

    use super::*;

    fn status(verdict: &str) -> NodeMemoryStateStatus {
        NodeMemoryStateStatus {
            verdict: Some(verdict.to_owned()),
            ..NodeMemoryStateStatus::default()
        }
    }

    const HALF_HOUR: Duration = Duration::from_secs(1800);

    #[test]
    fn a_calm_node_writes_twice_an_hour_and_a_restless_one_four_times() {
        for (restless, most) in [(false, 3), (true, 5)] {
            let start = Instant::now();
            let mut schedule = Schedule::new(HALF_HOUR, 0.0);
            let mut writes = 0;
            for minute in 0..60u32 {
                let now = start + Duration::from_secs(60) * minute;
                let new = status(if restless && minute % 2 == 0 { "tight" } else { "calm" });
                if schedule.is_due(&new, now) {
                    schedule.succeeded(new, now);
                    writes += 1;
                }
            }
            assert!((2..=most).contains(&writes), "{restless}: {writes}");
        }
    }

    #[test]
    fn a_step_of_a_change_is_written_at_once() {
        let start = Instant::now();
        let mut schedule = Schedule::new(HALF_HOUR, 0.5);
        schedule.succeeded(status("calm"), start);
        assert!(!schedule.is_due(&status("calm"), start));
        let change = ChangeReport {
            profile: "p".to_owned(),
            revision: "r".to_owned(),
            wave: 0,
            phase: ChangePhase::Measured,
            before: None,
            after: None,
            journal: None,
            message: None,
        };
        assert!(
            schedule
                .is_due(&NodeMemoryStateStatus { change: Some(change), ..status("calm") }, start)
        );
    }

    #[test]
    fn pauses_grow_to_five_minutes_and_end_with_a_success() {
        let now = Instant::now();
        let mut schedule = Schedule::new(HALF_HOUR, 1.0);
        let pauses: Vec<u64> = (0..12).map(|_| schedule.failed(now).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(!schedule.is_due(&status("calm"), now + Duration::from_secs(299)));
        assert!(schedule.is_due(&status("calm"), now + Duration::from_secs(300)));
        schedule.succeeded(status("calm"), now);
        assert_eq!(schedule.failed(now).as_secs(), 1);
    }
}
