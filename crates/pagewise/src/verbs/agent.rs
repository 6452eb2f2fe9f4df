// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise agent`: reads named cgroups, zram devices and KSM again and again, and acts on those that
//! need it.
//!
//! `pagewise_agent` decides; here is the loop with a clock, which reads, acts and records. A killed
//! agent leaves its files, and at most one setting, which is in a journal.

mod cgroup;
mod configuration;
mod device;
mod guard;
mod hugepages;
mod ksm;
mod metric_command;
mod proof;
mod reclaim;
mod refault_cost;
mod target_state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pagewise_agent::{CpuBudget, FlashAccount, Guard};
use pagewise_apply::{AgentFiles, Conflicts, read_agent_status, recover, state_folder};
use pagewise_model::{
    AgentDecision, AgentLoop, AgentReport, AgentStatus, AgentTarget, Interval, Name, Refusal,
    group_digits,
};
use pagewise_observe::{HostRoot, OwnUsage, Scope, snapshot};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::{SignalWait, Stop};
use pagewise_terminal::{Global, Outcome, output, screen};
use rustix::time::{ClockId, clock_gettime};

use crate::cli;
use cgroup::{Cgroup, Surroundings};
use configuration::Loaded;
use device::{Device, DeviceRound, Flash, describe_time};
use hugepages::{HugepagesCgroup, HugepagesRound, describe_settings};
use ksm::{Ksm, KsmRound};
use proof::{Proof, ProofRound, Records, describe_measured};
use reclaim::{ReclaimRound, ReclaimedCgroup, SwapState};

/// The agent sleeps until something is due, so that it wakes an idle machine no more often than it reads
/// something; a signal ends the sleep. What is due within the shortest one is done together.
const SHORTEST_SLEEP: Duration = Duration::from_millis(500);
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How often other managers and the state of multi-gen LRU are checked.
const LOOK_AROUND: Duration = Duration::from_secs(60);
/// How often the cost of a refault is measured.
const MEASURE_COST: Duration = Duration::from_secs(3600);
/// At most this many decisions are in the state.
const MOST_DECISIONS: usize = 100;

pub(super) fn run(
    global: &Global,
    args: &cli::Agent,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "agent acts on this machine; a recording has nothing to act on".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    if let Some(act) = &args.act {
        return show(global, act, started);
    }
    let loaded = configuration::load(args.config.as_deref())?;
    if args.check {
        output::print_text(&describe(&loaded), false)?;
        return Ok(Outcome::Done);
    }
    let (stop, reload, signals) = Stop::listen_with_reload()?;
    let files = if args.dry_run { None } else { Some(AgentFiles::open(&state_folder())?) };
    let mut agent = Agent::new(loaded, args, files, (stop, reload, signals))?;
    agent.decide(None, format!("started; {}", count_targets(&agent.loaded)));
    agent.undo_left_behind();
    agent.write_status();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let went_on = agent.go_on();
    agent.end_ksm();
    went_on?;
    agent.decide(None, "ended".to_owned());
    agent.write_status();
    Ok(Outcome::Done)
}

fn show(global: &Global, act: &cli::AgentAct, started: CostMeter) -> anyhow::Result<Outcome> {
    let (agent, is_running) = read_agent_status(&state_folder())?;
    let report = AgentReport { is_running, agent };
    let seen = Interval::single(snapshot(&HostRoot::live()?, &Scope::glance()));
    let cost = cost::measure_since(started, &seen);
    let style = screen::text_style(global);
    let shown = match act {
        _ if global.json => json::agent(&report, &seen.end, cost),
        cli::AgentAct::Status => text::agent(&report, style),
        cli::AgentAct::Proof => text::agent_proof(&report, style),
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

fn count_targets(loaded: &Loaded) -> String {
    let config = &loaded.config;
    let cgroups = config.aging_targets().count() as u64;
    let devices = config.zram_targets().count() as u64;
    let count = |number: u64, thing: &str| match number {
        1 => format!("1 {thing}"),
        more => format!("{} {thing}s", group_digits(more)),
    };
    let aging =
        (cgroups > 0).then(|| format!("aging is switched on for {}", count(cgroups, "cgroup")));
    let reclaimed = config.reclaim_targets().count() as u64;
    let reclaim = (reclaimed > 0)
        .then(|| format!("reclaim is switched on for {}", count(reclaimed, "cgroup")));
    let collapsed = config.hugepages_targets().count() as u64;
    let hugepages = (collapsed > 0).then(|| {
        format!("the loop for huge pages is switched on for {}", count(collapsed, "cgroup"))
    });
    let zram = (devices > 0)
        .then(|| format!("the loop for zram is switched on for {}", count(devices, "device")));
    let ksm = config.ksm_settings().map(|_| "KSM is switched on while it pays".to_owned());
    let guard = config.guard_settings().map(|_| "all loops pause when memory is short".to_owned());
    let proved: Vec<&str> = config.proved_loops().map(|(loop_, _)| loop_.name()).collect();
    let proved = (!proved.is_empty())
        .then(|| format!("switchback proves whether {} pays", proved.join(" and ")));
    let loops = aging.into_iter().chain(reclaim).chain(hugepages).chain(zram).chain(ksm);
    let all: Vec<String> = loops.chain(guard).chain(proved).collect();
    match (all.is_empty(), loaded.paths.is_empty()) {
        (false, _) => all.join("; "),
        (true, false) => "nothing is switched on".to_owned(),
        (true, true) => format!("{} does not exist; nothing is switched on", configuration::FILE),
    }
}

/// What `--check` prints.
fn describe(loaded: &Loaded) -> String {
    let mut text = String::new();
    for path in &loaded.paths {
        text.push_str(&format!("read {}\n", Name::from(path.as_str())));
    }
    text.push_str(&format!("{}\n", count_targets(loaded)));
    for (path, settings) in loaded.config.aging_targets() {
        text.push_str(&format!(
            "  {}: from {} refaults/s, at most {} agings per hour, read every {} s\n",
            Name::from(path),
            settings.refaults_per_second,
            settings.agings_per_hour,
            settings.interval.as_secs_f64()
        ));
    }
    for (path, settings) in loaded.config.reclaim_targets() {
        let kind = if settings.files_only { "page cache" } else { "memory" };
        text.push_str(&format!(
            "  {}: {kind} unused for {} is taken while refaults cost less than {} % of its CPU time; keeps at least {}; \
             every {} s\n",
            Name::from(path),
            describe_time(settings.idle_after),
            settings.refault_cpu_percent,
            settings.keep,
            settings.interval.as_secs_f64()
        ));
    }
    for (path, settings) in loaded.config.hugepages_targets() {
        text.push_str(&format!("  {}: {}\n", Name::from(path), describe_settings(settings)));
    }
    for (name, settings) in loaded.config.zram_targets() {
        let recompressed = if settings.recompresses { ", recompressed" } else { "" };
        let written = match settings.flash_per_day.get() {
            0 => "not written to flash".to_owned(),
            _ => format!("at most {} per day written to flash", settings.flash_per_day),
        };
        text.push_str(&format!(
            "  {name}: pages unused for {}{recompressed}, {written}, every {}\n",
            describe_time(settings.idle_after),
            describe_time(settings.interval)
        ));
    }
    if let Some(settings) = loaded.config.ksm_settings() {
        text.push_str(&format!(
            "  KSM: must save at least {}, with at most {} % of a CPU; read every {}, tried again after {}\n",
            settings.least_profit,
            settings.cpu_percent,
            describe_time(settings.interval),
            describe_time(settings.retry_after)
        ));
    }
    if let Some(settings) = loaded.config.guard_settings() {
        let plan = if settings.undoes { "undone" } else { "named" };
        text.push_str(&format!(
            "  guard: memory is short after a kill, or when all tasks wait for it for {} % of the time for {}; a plan \
             of the last {} is {plan}\n",
            settings.stall_percent,
            describe_time(settings.lasts),
            describe_time(settings.watch)
        ));
    }
    for (loop_, settings) in loaded.config.proved_loops() {
        text.push_str(&format!(
            "  {}: on and off in blocks of {}, of which the first {} do not count; compares the {}\n",
            loop_.name(),
            describe_time(settings.block),
            describe_time(settings.wash_out),
            Name::from(describe_measured(settings).as_str())
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
    cgroups: Vec<Cgroup>,
    reclaimed: Vec<ReclaimedCgroup>,
    collapsed: Vec<HugepagesCgroup>,
    swap: SwapState,
    /// CPU time of a refault, and when it was measured.
    refault_cost: Option<(Duration, Duration)>,
    devices: Vec<Device>,
    ksm: Option<Ksm>,
    guard: Option<Guard>,
    /// Empty with `--dry-run`, which keeps nothing and switches nothing.
    proofs: Vec<Proof>,
    records: Records,
    flash: BTreeMap<String, FlashAccount>,
    /// Why `flash` is not known; `None` if it is.
    flash_unknown: Option<String>,
    budget: CpuBudget,
    decisions: Vec<AgentDecision>,
    start: Instant,
    started_unix: u64,
    stop: Stop,
    reload: Arc<AtomicBool>,
    signals: SignalWait,
}

impl Agent {
    fn new(
        loaded: Loaded,
        args: &cli::Agent,
        files: Option<AgentFiles>,
        (stop, reload, signals): (Stop, Arc<AtomicBool>, SignalWait),
    ) -> anyhow::Result<Self> {
        let flash = files.as_ref().map_or(Ok(None), AgentFiles::read_flash);
        let (flash, flash_unknown) = match flash {
            Ok(flash) => (flash.unwrap_or_default(), None),
            Err(error) => {
                let why = format!("{:#}", anyhow::Error::new(error));
                (BTreeMap::new(), Some(format!("what it wrote today is not known: {why}")))
            }
        };
        let records = files.as_ref().map_or(Ok(None), AgentFiles::read_switchback);
        let (records, damage) = match records {
            Ok(records) => (records.unwrap_or_default(), None),
            Err(error) => (Records::new(), Some(format!("{:#}", anyhow::Error::new(error)))),
        };
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
            cgroups: Vec::new(),
            reclaimed: Vec::new(),
            collapsed: Vec::new(),
            swap: SwapState::default(),
            refault_cost: None,
            devices: Vec::new(),
            ksm: None,
            guard: None,
            proofs: Vec::new(),
            records,
            flash,
            flash_unknown,
            decisions: Vec::new(),
            start: Instant::now(),
            started_unix: unix_now(),
            stop,
            reload,
            signals,
        };
        if let Some(why) = damage {
            agent.decide(
                None,
                format!("switchback begins anew, what it had measured is lost: {why}"),
            );
        }
        agent.set_targets()?;
        Ok(agent)
    }

    /// Makes the targets those of the configuration. Those that stay keep what was read and done.
    fn set_targets(&mut self) -> anyhow::Result<()> {
        let history = pagewise_apply::aging::read_agings(&state_folder())?.0;
        let mut before = std::mem::take(&mut self.cgroups);
        for (path, settings) in self.loaded.config.aging_targets() {
            let cgroup = match before.iter().position(|cgroup| cgroup.path == path) {
                Some(at) => before.swap_remove(at).with(settings),
                None => Cgroup::new(path, settings, &history, unix_now()),
            };
            self.cgroups.push(cgroup);
        }
        let mut before = std::mem::take(&mut self.reclaimed);
        for (path, settings) in self.loaded.config.reclaim_targets() {
            let cgroup = match before.iter().position(|cgroup| cgroup.path == path) {
                Some(at) => before.swap_remove(at).with(settings),
                None => ReclaimedCgroup::new(path, settings),
            };
            self.reclaimed.push(cgroup);
        }
        let mut before = std::mem::take(&mut self.collapsed);
        for (path, settings) in self.loaded.config.hugepages_targets() {
            let cgroup = match before.iter().position(|cgroup| cgroup.path == path) {
                Some(at) => before.swap_remove(at).with(settings),
                None => HugepagesCgroup::new(path, settings),
            };
            self.collapsed.push(cgroup);
        }
        self.set_proofs();
        let mut before = std::mem::take(&mut self.devices);
        for (name, settings) in self.loaded.config.zram_targets() {
            let device = match before.iter().position(|device| device.name == name) {
                Some(at) => before.swap_remove(at).with(settings),
                None => Device::new(name, settings),
            };
            self.devices.push(device);
        }
        self.guard = match (self.loaded.config.guard_settings(), self.guard.take()) {
            (Some(settings), Some(mut guard)) => {
                guard.set(settings);
                Some(guard)
            }
            (settings, _) => settings.map(Guard::new),
        };
        match (self.loaded.config.ksm_settings(), self.ksm.take()) {
            (Some(settings), Some(ksm)) => self.ksm = Some(ksm.with(settings)),
            (Some(settings), None) => self.ksm = Some(Ksm::new(settings)),
            (None, before) => {
                self.ksm = before;
                self.end_ksm();
            }
        }
        Ok(())
    }

    /// Those whose settings stay go on; others go on with what was recorded of the same measurement.
    fn set_proofs(&mut self) {
        let mut before = std::mem::take(&mut self.proofs);
        if self.is_dry {
            return;
        }
        for (loop_, settings) in self.loaded.config.proved_loops() {
            let is_same = |proof: &Proof| proof.loop_ == loop_ && proof.settings() == settings;
            let proof = match before.iter().position(is_same) {
                Some(at) => Some(before.swap_remove(at)),
                None => Proof::new(loop_, settings.clone(), &self.records, unix_now()),
            };
            self.proofs.extend(proof);
        }
        self.save_proofs();
    }

    /// Records what was measured if it has changed.
    fn save_proofs(&mut self) {
        let before = self.records.clone();
        for proof in &self.proofs {
            self.records.insert(proof.loop_.name().to_owned(), proof.record().clone());
        }
        if self.records == before {
            return;
        }
        let written = self
            .files
            .as_ref()
            .map(|files| files.write_switchback(&self.records).map_err(anyhow::Error::from));
        self.tell_once(written);
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        while !self.stop.is_asked() {
            if self.reload.swap(false, Ordering::SeqCst) {
                self.read_configuration();
            }
            self.count_cpu();
            if self.budget.is_left() && self.round() {
                self.write_status();
            }
            if self.is_once && self.have_all_decided() {
                break;
            }
            self.signals.wait(self.sleep())?;
        }
        Ok(())
    }

    /// How long nothing is due, or may be done.
    fn sleep(&self) -> Duration {
        let now = self.start.elapsed();
        let (mut idle, mut sleep) = (Duration::ZERO, LONGEST_SLEEP);
        while sleep - idle > Duration::from_millis(1) {
            let middle = idle + (sleep - idle) / 2;
            if self.is_anything_due(now + middle) {
                sleep = middle;
            } else {
                idle = middle;
            }
        }
        sleep.max(self.budget.wait()).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    fn is_anything_due(&self, now: Duration) -> bool {
        self.proofs.iter().any(|proof| proof.is_due(now))
            || self.devices.iter().any(|device| device.is_due(now))
            || self.cgroups.iter().any(|cgroup| cgroup.is_due(now))
            || self.reclaimed.iter().any(|cgroup| cgroup.is_due(now))
            || self.collapsed.iter().any(|cgroup| cgroup.is_due(now))
            || self.ksm.as_ref().is_some_and(|ksm| ksm.is_due(now))
            || self.guard.as_ref().is_some_and(|guard| guard.is_due(now))
    }

    /// Switches KSM off if the agent has switched it on.
    fn end_ksm(&mut self) {
        let lines = self.ksm.take().map(|ksm| ksm.end()).unwrap_or_default();
        self.decide_about_ksm(lines);
    }

    fn decide_about_ksm(&mut self, lines: Vec<String>) {
        for line in lines {
            self.decide(Some("ksm".to_owned()), line);
        }
    }

    /// Undoes what a killed agent, or another killed run, left behind.
    fn undo_left_behind(&mut self) {
        if self.is_dry {
            return;
        }
        self.decide_about_ksm(ksm::undo_left_behind());
        if self.devices.is_empty() {
            return;
        }
        match recover(&state_folder(), Conflicts::Keep) {
            Ok(runs) => {
                for line in runs.iter().flat_map(text::describe_recovered) {
                    self.decide(None, line);
                }
            }
            Err(error) => {
                let why = anyhow::Error::new(error);
                self.decide(
                    None,
                    format!("what an earlier run left behind is not undone yet: {why:#}"),
                );
            }
        }
    }

    fn have_all_decided(&self) -> bool {
        let cgroups = self.cgroups.iter().all(|cgroup| cgroup.has_decided);
        let reclaimed = self.reclaimed.iter().all(|cgroup| cgroup.has_decided);
        let collapsed = self.collapsed.iter().all(|cgroup| cgroup.has_decided);
        let devices = self.devices.iter().all(|device| device.has_decided);
        let ksm = self.ksm.as_ref().is_none_or(|ksm| ksm.has_decided);
        cgroups && reclaimed && collapsed && devices && ksm
    }

    fn read_configuration(&mut self) {
        let loaded = configuration::load(self.named.as_deref()).and_then(|loaded| {
            // a file that is replaced, or on a file system that is not mounted, is no wish to stop
            let is_gone = loaded.paths.is_empty() && !self.loaded.paths.is_empty();
            anyhow::ensure!(
                !is_gone,
                "{} does not exist any more; a file without a section switches everything off",
                configuration::FILE
            );
            Ok(loaded)
        });
        match loaded {
            Ok(loaded) => {
                self.loaded = loaded;
                self.refused = None;
                self.budget.set(self.loaded.config.cpu_seconds_per_minute);
                self.looked_around = None;
                if let Err(error) = self.set_targets() {
                    self.refused = Some(format!("{error:#}"));
                }
                let text = format!("read its configuration again; {}", count_targets(&self.loaded));
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

    /// Handles what is due, as long as CPU time is left; false if nothing was due.
    fn round(&mut self) -> bool {
        let now = self.start.elapsed();
        let is_proof_due = self.proofs.iter().any(|proof| proof.is_due(now));
        if is_proof_due {
            self.handle_proofs(now);
        }
        let is_device_due = self.devices.iter().any(|device| device.is_due(now));
        let is_cgroup_due = self.cgroups.iter().any(|cgroup| cgroup.is_due(now));
        let is_reclaim_due = self.reclaimed.iter().any(|cgroup| cgroup.is_due(now));
        let is_guard_due = self.guard.as_ref().is_some_and(|guard| guard.is_due(now));
        if is_guard_due {
            self.handle_guard(now);
        }
        let is_ksm_due = self.ksm.as_ref().is_some_and(|ksm| ksm.is_due(now));
        let is_collapse_due = self.collapsed.iter().any(|cgroup| cgroup.is_due(now));
        if is_cgroup_due || is_reclaim_due || is_collapse_due || is_ksm_due {
            self.look_around(now);
        }
        if is_ksm_due {
            self.handle_ksm(now);
        }
        if is_cgroup_due {
            self.handle_cgroups();
        }
        if is_reclaim_due {
            self.handle_reclaim(now);
        }
        if is_collapse_due {
            self.handle_hugepages();
        }
        if is_device_due {
            self.handle_devices();
        }
        self.count_cpu();
        let is_loop_due = is_cgroup_due || is_reclaim_due || is_collapse_due || is_device_due;
        is_proof_due || is_guard_due || is_ksm_due || is_loop_due
    }

    fn may_go_on(&mut self) -> bool {
        self.count_cpu();
        !self.stop.is_asked() && self.budget.is_left()
    }

    /// Takes samples for the loops that are proved.
    fn handle_proofs(&mut self, now: Duration) {
        self.update_swap(now);
        let mut has_changed = false;
        for at in 0..self.proofs.len() {
            let round = ProofRound {
                host: &self.host,
                swap: &self.swap,
                stop: &self.stop,
                now: self.start.elapsed(),
                unix_now: unix_now(),
            };
            let proof = &mut self.proofs[at];
            if !proof.is_due(round.now) {
                continue;
            }
            let name = proof.loop_.name();
            let (lines, is_new) = proof.take_sample(&round);
            has_changed |= is_new;
            for line in lines {
                self.decide(None, format!("{name}: {line}"));
            }
        }
        if has_changed {
            self.save_proofs();
        }
    }

    /// Why a loop does nothing now, because memory was short or because it is proved; `None` if it may act.
    fn describe_off(&self, loop_: AgentLoop) -> Option<String> {
        let now = self.start.elapsed();
        if self.guard.as_ref().is_some_and(|guard| guard.paused_until(now).is_some()) {
            return Some("pauses: memory was short on this host within the last hour".to_owned());
        }
        let proof = self.proofs.iter().find(|proof| proof.loop_ == loop_)?;
        proof.describe_off(unix_now())
    }

    fn update_swap(&mut self, now: Duration) {
        if self.swap.is_due(now) {
            self.swap.update(&snapshot(&self.host, &Scope::glance()), now);
        }
    }

    fn look_around(&mut self, now: Duration) {
        if self.looked_around.is_none_or(|then| now.saturating_sub(then) >= LOOK_AROUND) {
            self.surroundings = Surroundings::read(&self.host);
            self.looked_around = Some(now);
        }
    }

    fn handle_reclaim(&mut self, now: Duration) {
        self.update_swap(now);
        let off = self.describe_off(AgentLoop::Reclaim);
        if self.refault_cost.is_none_or(|(_, at)| now.saturating_sub(at) >= MEASURE_COST) {
            let measured = refault_cost::measure();
            let cost = measured.unwrap_or(refault_cost::ASSUMED);
            if self.refault_cost.is_none() {
                let how = if measured.is_some() { "measured" } else { "assumed" };
                let text = format!("a refault costs {} µs of CPU time ({how})", cost.as_micros());
                self.decide(None, text);
            }
            self.refault_cost = Some((cost, now));
        }
        for at in 0..self.reclaimed.len() {
            if !self.may_go_on() {
                return;
            }
            let now = self.start.elapsed();
            let cgroup = &mut self.reclaimed[at];
            if !cgroup.is_due(now) {
                continue;
            }
            let round = ReclaimRound {
                host: &self.host,
                swap: &self.swap,
                processes: &self.surroundings.processes,
                obstacle: self.surroundings.no_cgroups.as_deref(),
                off: off.as_deref(),
                no_aging: self.surroundings.no_aging.as_deref(),
                refault_cost: self.refault_cost.map_or(refault_cost::ASSUMED, |(cost, _)| cost),
                now,
                is_dry: self.is_dry,
            };
            if let Some(line) = cgroup.handle(&round) {
                let path = cgroup.path.clone();
                self.decide(Some(path), line);
            }
        }
    }

    fn handle_guard(&mut self, now: Duration) {
        let Some(guard) = &mut self.guard else { return };
        for line in guard::handle(guard, &self.host, now, unix_now(), self.is_dry) {
            self.decide(None, line);
        }
    }

    fn handle_ksm(&mut self, now: Duration) {
        let Some(ksm) = &mut self.ksm else { return };
        let lines = ksm.handle(&KsmRound {
            host: &self.host,
            processes: &self.surroundings.processes,
            stop: &self.stop,
            now,
            is_dry: self.is_dry,
        });
        self.decide_about_ksm(lines);
    }

    fn handle_cgroups(&mut self) {
        let off = self.describe_off(AgentLoop::Aging);
        for at in 0..self.cgroups.len() {
            if !self.may_go_on() {
                return;
            }
            let now = self.start.elapsed();
            let cgroup = &mut self.cgroups[at];
            if !cgroup.is_due(now) {
                continue;
            }
            let is_reclaimed = self.reclaimed.iter().any(|other| other.path == cgroup.path);
            let why = if is_reclaimed {
                Some("left alone: the loop reclaim ages it")
            } else {
                off.as_deref()
            };
            if let Some(why) = why {
                if cgroup.leave_alone(now, why) {
                    let (path, text) = (cgroup.path.clone(), cgroup.state().to_owned());
                    self.decide(Some(path), text);
                }
                continue;
            }
            let is_news = cgroup.handle(
                &self.host,
                &self.surroundings,
                now,
                self.is_dry,
                &self.stop,
                &|| self.start.elapsed(),
            );
            if is_news {
                let (path, text) = (cgroup.path.clone(), cgroup.state().to_owned());
                self.decide(Some(path), text);
            }
        }
    }

    fn handle_hugepages(&mut self) {
        let off = self.describe_off(AgentLoop::Hugepages);
        for at in 0..self.collapsed.len() {
            if !self.may_go_on() {
                return;
            }
            let now = self.start.elapsed();
            let cgroup = &mut self.collapsed[at];
            if !cgroup.is_due(now) {
                continue;
            }
            let round = HugepagesRound {
                host: &self.host,
                processes: &self.surroundings.processes,
                obstacle: self.surroundings.no_cgroups.as_deref(),
                off: off.as_deref(),
                block: self.surroundings.huge_page,
                cpu_left: self.budget.left(),
                stop: &self.stop,
                now,
                is_dry: self.is_dry,
            };
            if let Some(line) = cgroup.handle(&round) {
                let path = cgroup.path.clone();
                self.decide(Some(path), line);
            }
        }
    }

    fn handle_devices(&mut self) {
        let off = self.describe_off(AgentLoop::Zram);
        for at in 0..self.devices.len() {
            if !self.may_go_on() {
                return;
            }
            let now = self.start.elapsed();
            let device = &mut self.devices[at];
            if !device.is_due(now) {
                continue;
            }
            let flash = Flash {
                accounts: &mut self.flash,
                unknown: self.flash_unknown.as_deref(),
                files: self.files.as_ref(),
            };
            let (budget, start, stop) = (&mut self.budget, self.start, &self.stop);
            let mut may_go_on = || {
                budget.count(start.elapsed(), cpu_time());
                !stop.is_asked() && budget.is_left()
            };
            let mut round = DeviceRound {
                host: &self.host,
                off: off.as_deref(),
                now,
                unix_now: unix_now(),
                is_dry: self.is_dry,
                flash,
                may_go_on: &mut may_go_on,
                lines: Vec::new(),
            };
            device.handle(&mut round);
            let (lines, name) = (round.lines, device.name.clone());
            for line in lines {
                self.decide(Some(name.clone()), line);
            }
        }
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
            targets: self.target_statuses(now),
            proofs: self.proofs.iter().map(|proof| proof.status(unix_now())).collect(),
            decisions: self.decisions.clone(),
        };
        let written = self
            .files
            .as_ref()
            .map(|files| files.write_status(&status).map_err(anyhow::Error::from));
        self.tell_once(written);
    }

    fn target_statuses(&self, now: Duration) -> Vec<AgentTarget> {
        let cgroups = self.cgroups.iter().map(|cgroup| cgroup.status(now));
        let reclaimed = self.reclaimed.iter().map(ReclaimedCgroup::status);
        let collapsed = self.collapsed.iter().map(HugepagesCgroup::status);
        let devices = self.devices.iter().map(Device::status);
        let ksm = self.ksm.iter().map(Ksm::status);
        cgroups.chain(reclaimed).chain(collapsed).chain(devices).chain(ksm).collect()
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

/// The CPU time of this process and of its children that have ended, including what the kernel did for
/// them.
fn cpu_time() -> Duration {
    let own = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    own + OwnUsage::of_ended_children().cpu
}
