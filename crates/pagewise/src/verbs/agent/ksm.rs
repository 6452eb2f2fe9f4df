// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel same-page merging (KSM): reads it, asks `pagewise_agent` what to do, and switches it on by a plan
//! of one step, so that its journal lists it and `pagewise undo` can undo it, too.

use std::time::Duration;

use anyhow::Context;
use pagewise_agent::{KsmReading, KsmSettings, KsmStep, KsmTarget, describe_profit, ksm_manager};
use pagewise_apply::plan::{Options, ReadyPlan, Refused, UndoTarget, plans_in_force, undo_plans};
use pagewise_apply::state_folder;
use pagewise_facts::ksm::{profit, tracked_pages};
use pagewise_model::plan::{Change, Goal, Plan};
use pagewise_model::undo::{InForce, Recovered};
use pagewise_model::{AgentLimit, AgentLoop, AgentTarget, Bytes, Interval, TrialSetting};
use pagewise_observe::{HostGauges, HostRoot, Scope, ThreadCpu, installation, snapshot};
use pagewise_plan::{Measured, Request, make_temporary_plan};
use pagewise_report::text;
use pagewise_terminal::interrupt::Stop;

use super::device::describe_time;
use super::target_state::TargetState;

const KNOB: &str = "ksm.run";
/// The reason of the step by which a later run finds the plan that a killed agent left behind.
const REASON: &str = "The agent tries whether merging identical pages pays.";

/// What one round needs.
pub(super) struct KsmRound<'a> {
    pub(super) host: &'a HostRoot,
    pub(super) processes: &'a [String],
    pub(super) stop: &'a Stop,
    pub(super) now: Duration,
    pub(super) is_dry: bool,
}

#[derive(Debug)]
pub(super) struct Ksm {
    target: KsmTarget,
    settings: KsmSettings,
    state: TargetState,
    limit: AgentLimit,
    /// The thread that scans and merges, once it was found.
    thread: ThreadCpu,
    pub(super) has_decided: bool,
}

impl Ksm {
    pub(super) fn new(settings: KsmSettings) -> Self {
        Self {
            target: KsmTarget::new(settings),
            settings,
            state: TargetState::new(),
            limit: limit(&settings, None, None),
            thread: ThreadCpu::default(),
            has_decided: false,
        }
    }

    /// The same with other settings.
    pub(super) fn with(mut self, settings: KsmSettings) -> Self {
        self.target.set(settings);
        self.settings = settings;
        self
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.target.is_due(now)
    }

    pub(super) fn status(&self) -> AgentTarget {
        AgentTarget {
            loop_: AgentLoop::Ksm,
            target: "ksm".to_owned(),
            state: self.state.text().to_owned(),
            limit: self.limit,
        }
    }

    /// Reads KSM and switches it on or off. Returns the lines for the log.
    pub(super) fn handle(&mut self, at: &KsmRound<'_>) -> Vec<String> {
        self.has_decided = true;
        let reading = self.read(at.host, at.processes);
        let mut percent = None;
        let (text, kind) = match self.target.decide(at.now, &reading) {
            KsmStep::LeaveAlone(why) => (format!("left alone: {why}"), why),
            KsmStep::Rest(why, left) => {
                (format!("off: {why}; tried again in {}", describe_time(left)), why)
            }
            KsmStep::Measure => {
                ("on: has not scanned everything twice".to_owned(), "on".to_owned())
            }
            KsmStep::Doubt(why) => {
                (format!("on: {why}; the next readings decide"), "doubt".to_owned())
            }
            KsmStep::Keep(profit, used) => {
                self.target.succeed();
                percent = used;
                let used =
                    used.map(|used| format!(", for {used:.1} % of a CPU")).unwrap_or_default();
                (format!("on: saves {}{used}", describe_profit(profit)), "pays".to_owned())
            }
            KsmStep::SwitchOn if at.is_dry => {
                ("would switch KSM on, and measure what that saves".to_owned(), "dry".to_owned())
            }
            KsmStep::SwitchOn => match switch_on(at) {
                Ok(journal) => {
                    self.target.begin(at.now, &reading);
                    (
                        format!("switched on, to measure what that saves ({journal})"),
                        "on".to_owned(),
                    )
                }
                Err(error) => {
                    let why = format!("it could not be switched on: {error:#}");
                    self.target.end(at.now, why.clone());
                    (why.clone(), why)
                }
            },
            KsmStep::SwitchOff(why) => {
                let mut lines = match switch_off() {
                    Ok(lines) => lines,
                    // it stays switched on, so the next reading tries again
                    Err(error) => {
                        let is_news = self.state.set(describe_not_undone(&error), "not undone");
                        return Vec::from_iter(is_news.then(|| self.state.text().to_owned()));
                    }
                };
                let wait = describe_time(self.target.end(at.now, why.clone()));
                let line = format!("switched off, tried again in {wait}: {why}");
                self.state.set(&*line, &why);
                lines.push(line);
                self.limit = limit(&self.settings, None, None);
                return lines;
            }
        };
        let profit = reading.profit.filter(|_| reading.run == Some(1));
        self.limit = limit(&self.settings, profit, percent);
        let is_news = self.state.set(text, &kind);
        Vec::from_iter(is_news.then(|| self.state.text().to_owned()))
    }

    fn read(&mut self, host: &HostRoot, processes: &[String]) -> KsmReading {
        let ksm = HostGauges(host).ksm();
        let page = Bytes::new(rustix::param::page_size() as u64);
        if self.thread.threads.is_empty() {
            self.thread = ThreadCpu::ksmd(host);
        }
        let cpu = self.thread.time(host);
        KsmReading {
            run: ksm.run.get(),
            full_scans: ksm.full_scans.get(),
            profit: profit(&ksm, page),
            tracked: tracked_pages(&ksm),
            cpu: cpu.map(|cpu| Duration::from_nanos(cpu.get())),
            manager: ksm_manager(processes.iter().map(String::as_str)),
        }
    }

    /// Switches off what it switched on, because the agent ends or the loop is switched off.
    pub(super) fn end(&self) -> Vec<String> {
        if !self.target.is_on() {
            return Vec::new();
        }
        match switch_off() {
            Ok(mut lines) => {
                let line = "switched off, because the loop ends; pages that are merged stay merged";
                lines.push(line.to_owned());
                lines
            }
            Err(error) => vec![describe_not_undone(&error)],
        }
    }
}

fn limit(
    settings: &KsmSettings,
    profit_bytes: Option<i64>,
    cpu_percent: Option<f64>,
) -> AgentLimit {
    AgentLimit::Merging { profit_bytes, cpu_percent, cpu_percent_limit: settings.cpu_percent }
}

/// Carries out the plan, and returns the number of its journal.
fn switch_on(at: &KsmRound<'_>) -> anyhow::Result<String> {
    let plan = make_plan(at.host)?;
    let ready = match ReadyPlan::check(&state_folder(), &plan, false, false) {
        Ok((ready, _)) => ready,
        Err(Refused::Unready(error)) => return Err(error.into()),
        Err(Refused::Unfit(complaints)) => {
            let all: Vec<&str> =
                complaints.iter().map(|complaint| complaint.why.as_str()).collect();
            anyhow::bail!("{}", all.join("; "));
        }
    };
    let options = Options { settle: Duration::ZERO, trial: None, stop: at.stop.shared() };
    let applied = ready.carry_out(&options, &mut |_| ()).map_err(|failed| *failed)?;
    let journal = applied.journal.context("it was on already")?;
    Ok(format!("journal {journal}"))
}

fn make_plan(host: &HostRoot) -> anyhow::Result<Plan> {
    let interval = Interval::single(snapshot(host, &Scope::everything(Duration::ZERO)));
    let request = Request {
        interval: &interval,
        installation: &installation(host),
        measured: &Measured::default(),
        goal: Goal::default(),
        only: &[],
        wants: &[],
        anyway: false,
    };
    let setting = TrialSetting { knob: KNOB.to_owned(), value: "1".to_owned() };
    let plan = make_temporary_plan(&request, &setting, REASON);
    if plan.steps.is_empty() {
        let declined = plan.declined.iter().map(|declined| declined.why.as_str());
        anyhow::bail!("{}", declined.collect::<Vec<_>>().join("; "));
    }
    Ok(plan)
}

/// Undoes what a killed agent has left behind. Returns what was done, and what could not be.
pub(super) fn undo_left_behind() -> Vec<String> {
    let state = state_folder();
    let is_left = plans_in_force(&state).is_ok_and(|plans| plans.iter().any(is_own));
    if !is_left {
        return Vec::new();
    }
    match switch_off() {
        Ok(lines) if lines.is_empty() => {
            vec!["switched off what an agent that was killed had switched on".to_owned()]
        }
        Ok(lines) => lines,
        Err(error) => vec![describe_not_undone(&error)],
    }
}

/// Undoes the plans by which an agent has switched KSM on. Returns what is not as it was before, because
/// somebody else has changed it since.
///
/// # Errors
/// If another run holds the lock, or the journals cannot be read.
fn switch_off() -> anyhow::Result<Vec<String>> {
    let state = state_folder();
    let mut lines = Vec::new();
    for plan in plans_in_force(&state)?.iter().filter(|plan| is_own(plan)) {
        let runs = undo_plans(&state, UndoTarget::One(&plan.journal))?;
        let is_unsettled = |run: &&Recovered| run.returns.iter().any(|it| !it.outcome.is_settled());
        lines.extend(runs.iter().filter(is_unsettled).flat_map(text::describe_recovered));
    }
    Ok(lines)
}

fn describe_not_undone(error: &anyhow::Error) -> String {
    format!("what it has set is not undone: {error:#}; `pagewise undo` undoes it")
}

/// Whether an agent made this plan.
pub(super) fn is_own(plan: &InForce) -> bool {
    let [step] = &plan.plan.steps[..] else { return false };
    let is_switch = matches!(&step.change, Change::SetKnob { target, .. } if target == KNOB);
    is_switch && step.reason.starts_with(REASON)
}
