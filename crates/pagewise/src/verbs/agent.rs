// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent`: reads named cgroups again and again, and ages those that need it.
//!
//! `pagewise_agent` decides; here is the loop with a clock, which reads, acts and records. Nothing
//! that it does has to be undone, so a killed agent leaves nothing but its files.

mod configuration;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pagewise_agent::{Config, CpuBudget};
use pagewise_apply::{AgentFiles, read_agent_status, state_folder};
use pagewise_model::{AgentDecision, AgentReport, AgentStatus, Interval, Name, Refusal, grouped};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, output, screen};
use rustix::time::{ClockId, clock_gettime};

use crate::cli;
use configuration::Loaded;
use target::{Surroundings, Target};

/// How often the agent checks what is due, and how soon it notices a signal.
const TICK: Duration = Duration::from_millis(500);
/// How often other managers and the state of multi-gen LRU are checked.
const LOOK_AROUND: Duration = Duration::from_secs(60);
/// At most this many decisions are in the state.
const MOST_DECISIONS: usize = 100;

pub(super) fn run(
    global: &Global,
    args: &cli::Agent,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "agent acts on this machine; a recording has nothing to act on".to_owned();
        anyhow::bail!(Refusal::advised(what, "omit --root"));
    }
    if let Some(cli::AgentAct::Status) = args.act {
        return show_status(global, started);
    }
    let loaded = configuration::load(args.config.as_deref())?;
    if args.check {
        output::print_text(&describe(&loaded), false)?;
        return Ok(Outcome::Done);
    }
    let (stop, reload) = Stop::listen_with_reload()?;
    let files = if args.dry_run { None } else { Some(AgentFiles::open(&state_folder())?) };
    let mut agent = Agent::new(loaded, args, files, stop, reload)?;
    agent.decide(None, format!("started; {}", count_targets(&agent.loaded.config)));
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    agent.go_on();
    agent.decide(None, "ended".to_owned());
    agent.write_status();
    Ok(Outcome::Done)
}

fn show_status(global: &Global, started: CostMeter) -> anyhow::Result<Outcome> {
    let (agent, is_running) = read_agent_status(&state_folder())?;
    let report = AgentReport { is_running, agent };
    let seen = Interval::single(snapshot(&HostRoot::live()?, &Scope::glance()));
    let cost = cost::measure_since(started, &seen);
    let shown = if global.json {
        json::agent(&report, &seen.end, cost)
    } else {
        text::agent(&report, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

fn count_targets(config: &Config) -> String {
    match config.aging_targets().count() as u64 {
        0 => "nothing is switched on".to_owned(),
        1 => "aging is switched on for 1 cgroup".to_owned(),
        more => format!("aging is switched on for {} cgroups", grouped(more)),
    }
}

/// What `--check` prints.
fn describe(loaded: &Loaded) -> String {
    let mut text = String::new();
    for path in &loaded.paths {
        text.push_str(&format!("read {}\n", Name::from(path.as_str())));
    }
    text.push_str(&format!("{}\n", count_targets(&loaded.config)));
    for (path, settings) in loaded.config.aging_targets() {
        text.push_str(&format!(
            "  {}: from {} refaults/s, at most {} agings per hour, read every {} s\n",
            Name::from(path),
            settings.refaults_per_second,
            settings.agings_per_hour,
            settings.interval.as_secs_f64()
        ));
    }
    text.push_str(&format!(
        "budget: {} CPU seconds per minute\n",
        loaded.config.cpu_seconds_per_minute
    ));
    text
}

struct Agent {
    loaded: Loaded,
    refused: Option<String>,
    named: Option<PathBuf>,
    is_dry: bool,
    is_once: bool,
    /// `None` with `--dry-run`.
    files: Option<AgentFiles>,
    /// What was said of a log or state that cannot be written, so that it is said once.
    told: Option<String>,
    host: HostRoot,
    surroundings: Surroundings,
    looked_around: Option<Duration>,
    targets: Vec<Target>,
    budget: CpuBudget,
    decisions: Vec<AgentDecision>,
    start: Instant,
    started_unix: u64,
    stop: Stop,
    reload: Arc<AtomicBool>,
}

impl Agent {
    fn new(
        loaded: Loaded,
        args: &cli::Agent,
        files: Option<AgentFiles>,
        stop: Stop,
        reload: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let mut agent = Self {
            budget: CpuBudget::new(loaded.config.cpu_seconds_per_minute),
            loaded,
            refused: None,
            named: args.config.clone(),
            is_dry: args.dry_run,
            is_once: args.once,
            files,
            told: None,
            host: HostRoot::live().context("/")?,
            surroundings: Surroundings::default(),
            looked_around: None,
            targets: Vec::new(),
            decisions: Vec::new(),
            start: Instant::now(),
            started_unix: unix_now(),
            stop,
            reload,
        };
        agent.set_targets()?;
        Ok(agent)
    }

    /// Makes the targets those of the configuration. Those that stay keep what was read and done.
    fn set_targets(&mut self) -> anyhow::Result<()> {
        let history = pagewise_apply::aging::read_agings(&state_folder())?.0;
        let mut before = std::mem::take(&mut self.targets);
        for (path, settings) in self.loaded.config.aging_targets() {
            let target = match before.iter().position(|target| target.path == path) {
                Some(at) => before.swap_remove(at).with(settings),
                None => Target::new(path, settings, &history, unix_now()),
            };
            self.targets.push(target);
        }
        Ok(())
    }

    fn go_on(&mut self) {
        while !self.stop.is_asked() {
            if self.reload.swap(false, Ordering::SeqCst) {
                self.read_configuration();
            }
            self.count_cpu();
            if self.budget.is_left() && self.round() {
                self.write_status();
            }
            if self.is_once && self.targets.iter().all(|target| target.has_decided) {
                return;
            }
            std::thread::sleep(TICK);
        }
    }

    fn read_configuration(&mut self) {
        let loaded = configuration::load(self.named.as_deref());
        match loaded {
            Ok(loaded) => {
                self.loaded = loaded;
                self.refused = None;
                self.budget.set(self.loaded.config.cpu_seconds_per_minute);
                self.looked_around = None;
                if let Err(error) = self.set_targets() {
                    self.refused = Some(format!("{error:#}"));
                }
                let text =
                    format!("read its configuration again; {}", count_targets(&self.loaded.config));
                self.decide(None, text);
            }
            Err(error) => {
                let why = format!("{error:#}");
                self.decide(
                    None,
                    format!("configuration refused, the one before stays in force: {why}"),
                );
                self.refused = Some(why);
            }
        }
        self.write_status();
    }

    fn count_cpu(&mut self) {
        self.budget.count(self.start.elapsed(), cpu_time());
    }

    /// Handles the cgroups that are due, as long as CPU time is left; false if none was due.
    fn round(&mut self) -> bool {
        let now = self.start.elapsed();
        if !self.targets.iter().any(|target| target.is_due(now)) {
            return false;
        }
        if self.looked_around.is_none_or(|then| now.saturating_sub(then) >= LOOK_AROUND) {
            self.surroundings = Surroundings::read(&self.host);
            self.looked_around = Some(now);
        }
        for at in 0..self.targets.len() {
            self.count_cpu();
            let now = self.start.elapsed();
            if self.stop.is_asked() || !self.budget.is_left() {
                break;
            }
            if !self.targets[at].is_due(now) {
                continue;
            }
            let target = &mut self.targets[at];
            if target.handle(&self.host, &self.surroundings, now, self.is_dry, &self.stop, &|| {
                self.start.elapsed()
            }) {
                let (path, text) = (target.path.clone(), target.state.clone());
                self.decide(Some(path), text);
            }
        }
        self.count_cpu();
        true
    }

    /// Prints a decision and adds it to the log.
    fn decide(&mut self, target: Option<String>, text: String) {
        let about = target.as_ref().map(|target| format!("{}: ", Name::from(target.as_str())));
        let line = format!("{}{}", about.unwrap_or_default(), Name::from(text.as_str()));
        output::print_message(&line);
        let unix_seconds = unix_now();
        let time = jiff::Timestamp::from_second(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
        let time = time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        let logged = self.files.as_ref().map(|files| {
            files.log(&format!("{} {line}", time.unwrap_or_default())).map_err(anyhow::Error::from)
        });
        self.tell_once(logged);
        self.decisions.push(AgentDecision { unix_seconds, target, text });
        let excess = self.decisions.len().saturating_sub(MOST_DECISIONS);
        self.decisions.drain(..excess);
    }

    fn write_status(&mut self) {
        self.count_cpu();
        let now = self.start.elapsed();
        let status = AgentStatus {
            pid: std::process::id(),
            started_unix_seconds: self.started_unix,
            written_unix_seconds: unix_now(),
            configuration: self.loaded.paths.clone(),
            refused_configuration: self.refused.clone(),
            cpu_seconds: cpu_time().as_secs_f64(),
            cpu_seconds_per_minute: self.loaded.config.cpu_seconds_per_minute,
            waits_seconds: self.budget.wait().as_secs_f64(),
            targets: self.targets.iter().map(|target| target.status(now)).collect(),
            decisions: self.decisions.clone(),
        };
        let written = self
            .files
            .as_ref()
            .map(|files| files.write_status(&status).map_err(anyhow::Error::from));
        self.tell_once(written);
    }

    /// Says an error of the agent's own files when it changes; the agent goes on without them.
    fn tell_once(&mut self, result: Option<anyhow::Result<()>>) {
        let Some(Err(error)) = result else { return };
        let text = format!("{error:#}");
        if self.told.as_ref() != Some(&text) {
            let shown = Name::from(text.as_str());
            output::print_message(format_args!("{shown}; the agent goes on and tries again"));
            self.told = Some(text);
        }
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The CPU time of this process, including what the kernel did for it.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
