// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise metrics`: the numbers of this machine's memory once, as OpenMetrics.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_apply::plan::{VerifyTarget, doubtful_journals, verify_plans};
use pagewise_apply::{read_agent_status, state_folder};
use pagewise_decide::{LimitInputs, survey_limits};
use pagewise_facts::groups;
use pagewise_metrics::{Plans, Scrape, format_classic, format_openmetrics};
use pagewise_model::{
    AgentProof, Cost, Finding, GroupGenerations, HostVerdict, Interval, Millis, Name, Reading,
    Refusal, Snapshot, WatchedMemory, WorkingSet,
};
use pagewise_observe::{HostRoot, Scope, generations};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output};

use crate::{cli, input};

/// Maximum number of cgroups with metrics of their own: each adds four series.
const MOST_GROUPS: usize = 64;
/// Memory of a cgroup that was not accessed for this long is idle.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(60);

pub(super) fn run(
    global: &Global,
    args: &cli::Metrics,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let wanted = WantedGroups::new(&args.groups)?;
    let host = input::open(global)?.without_start();
    let interval = host.interval(&scope(), || anyhow::Ok(()))?;
    wanted.check(&interval.end)?;
    let judged = Judged::new(&interval, &host.end, &wanted, &BTreeMap::new());
    let scrape = judged.scrape(&interval, cost::measure_since(started, &interval));
    match &args.textfile {
        Some(path) => output::replace_file(path, format_classic(&scrape).as_bytes())?,
        None => _ = output::print_document(&format_openmetrics(&scrape))?,
    }
    Ok(Outcome::Done)
}

/// What is read for metrics: everything that findings need, without proportional sizes (PSS).
pub(super) const fn scope() -> Scope {
    Scope { process_rates: true, kernel_threads: true, ..Scope::everything(Duration::ZERO) }
}

/// The cgroups named with `--group`, as typed: paths or systemd units.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedGroups(Vec<String>);

impl WantedGroups {
    /// Takes paths or units as typed; refuses more than [`MOST_GROUPS`].
    pub(super) fn new(typed: &[String]) -> anyhow::Result<Self> {
        if typed.len() > MOST_GROUPS {
            let what = format!("--group: expected at most {MOST_GROUPS}, found {}", typed.len());
            anyhow::bail!(Refusal::with_advice(
                what,
                "choose those that have a limit, or could have one"
            ));
        }
        Ok(Self(typed.to_vec()))
    }

    /// Refuses a path or unit if this host has no such cgroup now.
    pub(super) fn check(&self, seen: &Snapshot) -> anyhow::Result<()> {
        let missing = self.0.iter().find(|typed| find_groups(seen, typed).is_empty());
        let Some(typed) = missing else { return Ok(()) };
        let what = format!(
            "--group: no memory cgroup or unit {} on this host",
            Name::from(typed.as_str())
        );
        anyhow::bail!(Refusal::with_advice(what, "`pagewise limits` lists those there are"))
    }

    /// The paths of the cgroups that there are now.
    pub(super) fn paths(&self, seen: &Snapshot) -> Vec<Name> {
        let mut paths: Vec<Name> =
            self.0.iter().flat_map(|typed| find_groups(seen, typed)).collect();
        paths.truncate(MOST_GROUPS);
        paths
    }
}

fn find_groups(seen: &Snapshot, typed: &str) -> Vec<Name> {
    if let Some(group) = groups::find(seen, typed) {
        return vec![group.path.clone()];
    }
    groups::find_by_unit(seen, typed).into_iter().map(|group| group.path.clone()).collect()
}

/// What `monitor --advise` has learnt of the memory of a cgroup.
#[derive(Debug, Clone)]
pub(super) enum Learnt {
    Generations(Vec<GroupGenerations>),
    Watched(WatchedMemory),
}

/// The verdict, the findings and the other values that the metrics show of an interval.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) verdict: HostVerdict,
    pub(super) findings: Vec<Finding>,
    groups: Vec<WorkingSet>,
    oldest_generation_seconds: Option<f64>,
    plans: Option<Plans>,
    proofs: Vec<AgentProof>,
    program_kills: Option<u64>,
}

impl Judged {
    /// Judges an interval of a host.
    pub(super) fn new(
        interval: &Interval,
        host: &HostRoot,
        wanted: &WantedGroups,
        learnt: &BTreeMap<Name, Learnt>,
    ) -> Self {
        let generations = read_generations(host);
        let log = &interval.end.kernel_log;
        Self {
            verdict: pagewise_decide::judge(interval),
            findings: super::findings(interval, &[]),
            groups: survey(interval, wanted, &generations, learnt),
            oldest_generation_seconds: generations
                .value()
                .and_then(|all| oldest_generation_seconds(all)),
            plans: host.is_live().then(|| count_plans(&interval.end)).flatten(),
            proofs: if host.is_live() { read_proofs() } else { Vec::new() },
            program_kills: log.program_messages.get().map(|_| log.user_kills.len() as u64),
        }
    }

    pub(super) fn scrape<'a>(&'a self, interval: &'a Interval, cost: Cost) -> Scrape<'a> {
        Scrape {
            interval,
            verdict: &self.verdict,
            findings: &self.findings,
            groups: &self.groups,
            oldest_generation_seconds: self.oldest_generation_seconds,
            plans: self.plans,
            proofs: &self.proofs,
            program_kills: self.program_kills,
            cost,
        }
    }
}

fn read_generations(host: &HostRoot) -> Reading<Vec<GroupGenerations>> {
    if host.is_live() { generations(host) } else { Reading::not_read() }
}

/// The age in seconds of the oldest multi-gen LRU generation that has pages, over all cgroups and
/// nodes.
fn oldest_generation_seconds(all: &[GroupGenerations]) -> Option<f64> {
    let nodes = all.iter().flat_map(|group| &group.nodes);
    let held = nodes.flat_map(|node| &node.generations);
    let held = held.filter(|generation| generation.anon.get() + generation.file.get() > 0);
    held.map(|generation| generation.age.get() as f64 / 1e3).max_by(f64::total_cmp)
}

fn survey(
    interval: &Interval,
    wanted: &WantedGroups,
    generations: &Reading<Vec<GroupGenerations>>,
    learnt: &BTreeMap<Name, Learnt>,
) -> Vec<WorkingSet> {
    let age = Millis::new(IDLE_AFTER.as_secs() * 1000);
    let of = |path: &Name| {
        let (aged, watched) = match learnt.get(path) {
            Some(Learnt::Generations(aged)) => {
                (Some(Reading::found(aged.clone(), generations.source.clone())), None)
            }
            Some(Learnt::Watched(watched)) => (None, Some(watched)),
            None => (None, None),
        };
        let generations = aged.as_ref().unwrap_or(generations);
        let inputs = LimitInputs { selected: Some(path), age, generations, watched };
        survey_limits(interval, &inputs).groups
    };
    wanted.paths(&interval.end).iter().flat_map(of).collect()
}

/// The loops that an agent which runs now proves; none if its state cannot be read, which needs root.
fn read_proofs() -> Vec<AgentProof> {
    match read_agent_status(&state_folder()) {
        Ok((Some(agent), true)) => agent.proofs,
        _ => Vec::new(),
    }
}

/// Numbers of applied plans and of drifted settings; `None` if a journal or a setting is uncertain.
fn count_plans(end: &Snapshot) -> Option<Plans> {
    let state = state_folder();
    let doubtful = doubtful_journals(&state).ok()?;
    let verified = verify_plans(&state, VerifyTarget::All, &end.configuration).ok()?;
    if !doubtful.is_empty() || verified.iter().any(|plan| plan.unknown_steps().next().is_some()) {
        return None;
    }
    let steps = verified.iter().flat_map(|plan| &plan.steps);
    let drifted = steps.filter(|step| !step.differences.is_empty()).count() as u64;
    Some(Plans { applied: verified.len() as u64, drifted })
}
