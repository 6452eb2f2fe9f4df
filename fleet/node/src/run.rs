// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop of the node program: read, carry out, publish.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fleet_crd::{EstimateSummary, NodeMemoryState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use tokio::sync::watch;

use crate::advice::{Advisor, Limits};
use crate::change::{Asked, Changer};
use crate::pagewise::Pagewise;
use crate::publish::{Schedule, write};
use crate::report::{Report, fit};

/// How the program runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// The program that reads and changes the node.
    pub pagewise: Pagewise,
    /// Where it is stored what was done of a change.
    pub folder: PathBuf,
    /// Where node-feature-discovery reads labels, if it is installed.
    pub features: Option<PathBuf>,
    /// Time between two readings.
    pub every: Duration,
    /// Longest time between two writes to the API.
    pub heartbeat: Duration,
    /// Time between two looks at what the containers of this node need; `None` for none.
    pub advise_every: Option<Duration>,
    /// Time between two samples of how well memory compresses.
    pub sample_every: Duration,
}

/// Runs until `stop` is ready.
///
/// # Errors
/// If the node program cannot go on: its folder cannot be written, or holds a damaged record.
pub async fn run(client: Client, options: Options, stop: impl Future<Output = ()>) -> Result<()> {
    let (sender, asked) = watch::channel(Asked::Unknown);
    let watching = follow(client.clone(), options.node.clone(), sender);
    let changer = Changer::open(options.pagewise.clone(), &options.folder)?;
    let jitter = fastrand::f64();
    let schedule = Schedule::new(options.heartbeat, jitter);
    let mut node = NodeLoop {
        client,
        options,
        changer,
        schedule,
        asked,
        estimate: None,
        sampled: None,
        labels: None,
        advisor: Advisor::default(),
        advised: None,
    };
    tokio::select! {
        () = watching => Ok(()),
        result = node.run() => result,
        () = stop => Ok(()),
    }
}

/// Follows the request of this node. If the API is away, the last one stays.
async fn follow(client: Client, node: String, sender: watch::Sender<Asked>) {
    let api: Api<NodeMemoryState> = Api::all(client);
    let config = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let mut found = false;
    fleet_watch::follow(api, config, |event| {
        let asked = match event {
            Err(error) => return log_line(&format!("the API does not say what is asked: {error}")),
            Ok(watcher::Event::Init) => {
                found = false;
                return;
            }
            Ok(watcher::Event::InitApply(state) | watcher::Event::Apply(state)) => {
                found = true;
                state.spec.change.map_or(Asked::Nothing, |change| Asked::Change(Box::new(change)))
            }
            Ok(watcher::Event::InitDone) if found => return,
            Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => Asked::Nothing,
        };
        sender.send_if_modified(|last| {
            let is_new = *last != asked;
            *last = asked;
            is_new
        });
    })
    .await;
}

/// Prints a line to the log of the container.
#[expect(clippy::print_stderr, reason = "the log of a container is its standard error")]
pub fn log_line(text: &str) {
    eprintln!("pagewise-fleet-node: {text}");
}

struct NodeLoop {
    client: Client,
    options: Options,
    changer: Changer,
    schedule: Schedule,
    asked: watch::Receiver<Asked>,
    estimate: Option<EstimateSummary>,
    sampled: Option<Instant>,
    labels: Option<String>,
    advisor: Advisor,
    advised: Option<Instant>,
}

impl NodeLoop {
    async fn run(&mut self) -> Result<()> {
        loop {
            let asked = self.asked.borrow_and_update().clone();
            if let Some(report) = self.read().await {
                self.publish(&report).await;
                while self.changer.advance(&asked).await? {
                    self.publish(&report).await;
                }
                self.advise(&report).await;
            }
            let pause = self.pause(&asked);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = self.asked.changed() => changed.context("the watch ended")?,
            }
        }
    }

    /// Time until the next reading: shorter while the node is measured.
    fn pause(&self, asked: &Asked) -> Duration {
        let mut pause = self.options.every;
        let is_measuring =
            self.changer.progress().is_some_and(crate::change::Progress::is_measuring);
        if let (Asked::Change(request), true) = (asked, is_measuring) {
            let window = Duration::from_secs(request.window_seconds.into());
            pause = pause.min((window / 4).clamp(Duration::from_secs(1), Duration::from_secs(60)));
        }
        let retry = self.schedule.not_before();
        retry.map_or(pause, |at| {
            pause.min(at.saturating_duration_since(Instant::now()).max(Duration::from_millis(100)))
        })
    }

    async fn read(&mut self) -> Option<Report> {
        let is_due = self.sampled.is_none_or(|at| at.elapsed() >= self.options.sample_every);
        let text = match self.options.pagewise.report(is_due).await {
            Ok(text) => text,
            Err(error) => {
                log_line(&error.to_string());
                return None;
            }
        };
        let report = match Report::parse(&text) {
            Ok(report) => report,
            Err(error) => {
                log_line(&format!("pagewise report: {error}"));
                return None;
            }
        };
        if is_due {
            self.sampled = Some(Instant::now());
            self.estimate = report.summarize(now()).estimate;
            self.write_labels().await;
        }
        self.changer.add(report.counters(crate::seconds_since_boot()));
        Some(report)
    }

    /// Publishes what the containers of this node need.
    async fn advise(&mut self, report: &Report) {
        let Some(every) = self.options.advise_every else { return };
        if self.advised.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        // Also after a failure the next try is after the whole time: advice is not urgent.
        self.advised = Some(Instant::now());
        let limits = match self.options.pagewise.limits().await {
            Ok(limits) => limits,
            Err(error) => return log_line(&error.to_string()),
        };
        let limits = match Limits::parse(&limits) {
            Ok(limits) => limits,
            Err(error) => return log_line(&format!("pagewise limits: {error}")),
        };
        let node = &self.options.node;
        let written =
            self.advisor.publish(&self.client, node, &limits, &report.swap_limits(), now()).await;
        if let Err(error) = written {
            log_line(&format!("the advice for containers was not written: {error}"));
        }
    }

    /// Writes the labels of the node where node-feature-discovery reads them.
    async fn write_labels(&mut self) {
        let Some(folder) = &self.options.features else { return };
        let labels = match self.options.pagewise.labels().await {
            Ok(labels) => labels,
            Err(error) => return log_line(&error.to_string()),
        };
        if self.labels.as_ref() == Some(&labels) {
            return;
        }
        // Hidden files are not read, so that no half file is.
        let hidden = folder.join(".pagewise.new");
        let written = std::fs::write(&hidden, &labels)
            .and_then(|()| std::fs::rename(&hidden, folder.join("pagewise")));
        match written {
            Ok(()) => self.labels = Some(labels),
            Err(error) => log_line(&format!("{}: {error}", folder.display())),
        }
    }

    async fn publish(&mut self, report: &Report) {
        let mut status = report.summarize(now());
        status.estimate = self.estimate.clone();
        status.change = self.changer.progress().map(crate::change::Progress::report);
        fit(&mut status);
        if !self.schedule.is_due(&status, Instant::now()) {
            return;
        }
        match write(&self.client, &self.options.node, &status).await {
            Ok(()) => self.schedule.succeeded(status, Instant::now()),
            Err(error) => {
                let pause = self.schedule.failed(Instant::now());
                log_line(&format!(
                    "the state was not written: {error}; next try in {} s, the node is kept as it was asked last",
                    pause.as_secs()
                ));
            }
        }
    }
}

fn now() -> Time {
    Time(jiff::Timestamp::now())
}
