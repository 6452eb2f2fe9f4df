// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of several controllers acts: the one that holds the Lease.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};

/// Name of the Lease.
pub const NAME: &str = "pagewise-fleet-controller";

/// A controller's view of the Lease.
#[derive(Debug)]
pub struct Leadership {
    api: Api<Lease>,
    identity: String,
    duration: Duration,
    /// When the Lease was renewed by this process, by its own clock. The time is taken before the request
    /// is sent: the API cannot have stored it earlier.
    renewed: Option<Instant>,
    /// What another holder wrote last, and when this process saw it first. Only the own clock counts, so
    /// that clocks of other machines may be wrong.
    seen: Option<(Option<MicroTime>, Instant)>,
}

impl Leadership {
    /// Takes part as `identity`.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, identity: String, duration: Duration) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Self { api, identity, duration, renewed: None, seen: None }
    }

    /// Whether this process may write now. It stops a third of the time before others may begin.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < self.duration * 2 / 3)
    }

    /// Time after which [`Self::renew`] is to be called again.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.duration / 5
    }

    /// Whether it is time to renew the Lease.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.renewed.is_none_or(|at| at.elapsed() >= self.pause())
    }

    /// Renews the Lease, or takes it if nobody holds it.
    ///
    /// # Errors
    /// If the API does not answer; what was held is held until its time is over.
    pub async fn renew(&mut self) -> kube::Result<()> {
        let asked = Instant::now();
        let result = match self.api.get_opt(NAME).await? {
            None => {
                let lease = self
                    .lease(ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() }, 0);
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(found) => {
                let spec = found.spec.unwrap_or_default();
                let is_mine = spec.holder_identity.as_deref() == Some(&self.identity);
                if !is_mine && !self.has_ended(&spec) {
                    self.renewed = None;
                    return Ok(());
                }
                let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(!is_mine);
                // The version that was read: if another was faster, the API refuses this.
                let lease = self.lease(found.metadata, transitions);
                self.api.replace(NAME, &PostParams::default(), &lease).await
            }
        };
        match result {
            Ok(_) => self.renewed = Some(asked),
            Err(kube::Error::Api(error)) if error.code == 409 => self.renewed = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives the Lease back, so that another need not wait.
    pub async fn release(&mut self) {
        if !self.is_held() {
            return;
        }
        self.renewed = None;
        if let Ok(Some(mut lease)) = self.api.get_opt(NAME).await {
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = None;
            }
            // If this fails, the Lease ends by itself.
            let _ = self.api.replace(NAME, &PostParams::default(), &lease).await;
        }
    }

    /// Whether the holder has not renewed it for its whole time, as this process saw it.
    fn has_ended(&mut self, spec: &LeaseSpec) -> bool {
        if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
            return true;
        }
        let now = Instant::now();
        let first = match &self.seen {
            Some((renewed, first)) if *renewed == spec.renew_time => *first,
            _ => {
                self.seen = Some((spec.renew_time.clone(), now));
                now
            }
        };
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        first.elapsed() >= Duration::from_secs(seconds)
    }

    fn lease(&self, metadata: ObjectMeta, transitions: i32) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs().max(1)).ok(),
            renew_time: Some(MicroTime(jiff::Timestamp::now())),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }
}
