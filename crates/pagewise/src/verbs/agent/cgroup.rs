// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup for which aging is switched on: reads it, asks `pagewise_agent` what to do, and does it.

use std::time::Duration;

use pagewise_agent::{AgingSettings, AgingStep, AgingTarget, other_manager};
use pagewise_apply::aging::{self, AgingBudget, AgingFailure};
use pagewise_apply::state_folder;
use pagewise_model::{
    AgentLimit, AgentLoop, AgentTarget, Aging, AgingEnd, AgingRecord, Bytes, Snapshot, group_digits,
};
use pagewise_observe::{HostRoot, Scope, memory_cgroups, process_names, refaults, snapshot};
use pagewise_terminal::interrupt::Stop;

use super::target_state::TargetState;

/// The longest time between two agings: a run holds the lock that `apply` takes.
const LONGEST_BETWEEN: Duration = Duration::from_secs(10);

/// What of the host decides whether a loop may act at all.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) processes: Vec<String>,
    /// Why nothing can be done about any cgroup; `None` if something can.
    pub(super) no_cgroups: Option<String>,
    /// Why no cgroup can be aged; `None` if they can.
    pub(super) no_aging: Option<String>,
    /// Size of a huge page; `None` if this kernel has none.
    pub(super) huge_page: Option<Bytes>,
}

impl Surroundings {
    pub(super) fn read(host: &HostRoot) -> Self {
        let processes = process_names(host).into_iter().map(|(_, name)| name.to_string()).collect();
        let no_cgroups = describe_no_cgroups(host);
        let seen = snapshot(host, &Scope::glance());
        let no_aging = no_cgroups.clone().or_else(|| describe_no_aging(&seen));
        let huge_page = seen.thp.pmd_size.get();
        Self { processes, no_cgroups, no_aging, huge_page }
    }
}

fn describe_no_cgroups(host: &HostRoot) -> Option<String> {
    let wrong = match memory_cgroups(host) {
        Some((_, true)) => return None,
        Some((_, false)) => {
            "memory is in cgroups of version 1, alone or beside version 2 (hybrid), and the agent needs version 2; \
             `pagewise age` ages a cgroup of version 1 by hand"
        }
        None => "no cgroup hierarchy with a memory controller is mounted",
    };
    Some(wrong.to_owned())
}

fn describe_no_aging(seen: &Snapshot) -> Option<String> {
    match seen.mglru.is_on() {
        // otherwise the state would be that of the refaults until there are many
        Some(true) => {
            aging::check_aging().err().map(|why| format!("{:#}", anyhow::Error::new(why)))
        }
        Some(false) => Some("multi-gen LRU is off, so that aging has no effect".to_owned()),
        None => {
            Some("this kernel has no multi-gen LRU, or does not say whether it is on".to_owned())
        }
    }
}

#[derive(Debug)]
pub(super) struct Cgroup {
    pub(super) path: String,
    aging: AgingTarget,
    settings: AgingSettings,
    state: TargetState,
    /// Whether there was a decision other than to read again.
    pub(super) has_decided: bool,
}

impl Cgroup {
    /// A target; the agings of the last hour count as its own.
    pub(super) fn new(
        path: &str,
        settings: AgingSettings,
        history: &[AgingRecord],
        unix_now: u64,
    ) -> Self {
        let mut aging = AgingTarget::new(settings);
        let of_it = history
            .iter()
            .filter(|record| record.group.trim_matches('/') == path.trim_matches('/'));
        aging.add_earlier(
            of_it.map(|record| Duration::from_secs(unix_now.saturating_sub(record.unix_seconds))),
        );
        Self {
            path: path.to_owned(),
            aging,
            settings,
            state: TargetState::new(),
            has_decided: false,
        }
    }

    /// The same target with other settings.
    pub(super) fn with(mut self, settings: AgingSettings) -> Self {
        self.aging.set(settings);
        self.settings = settings;
        self
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.aging.is_due(now)
    }

    /// What is done about it now and why.
    pub(super) fn state(&self) -> &str {
        self.state.text()
    }

    pub(super) fn status(&self, now: Duration) -> AgentTarget {
        AgentTarget {
            loop_: AgentLoop::Aging,
            target: self.path.clone(),
            state: self.state.text().to_owned(),
            limit: AgentLimit::Actions {
                actions_in_hour: self.aging.agings_in_hour(now),
                actions_per_hour: self.settings.agings_per_hour,
            },
        }
    }

    /// Reads the cgroup, and ages it if that is decided. True if the new state belongs in the log.
    pub(super) fn handle(
        &mut self,
        host: &HostRoot,
        around: &Surroundings,
        now: Duration,
        is_dry: bool,
        stop: &Stop,
        clock: &dyn Fn() -> Duration,
    ) -> bool {
        let names = around.processes.iter().map(String::as_str);
        if let Some(why) = &around.no_aging {
            return self.set_aside(now, format!("left alone: {why}"));
        }
        if let Some(manager) = other_manager(&self.path, names) {
            return self.set_aside(
                now,
                format!("left alone: {manager} manages the reclaim of this cgroup"),
            );
        }
        let Some(counters) = refaults(host, &self.path) else {
            let why = "waits: there is no such memory cgroup now, or its refaults are not readable";
            return self.set_aside(now, why.to_owned());
        };
        let step = self.aging.decide(now, counters, || aging::read_youngest(&self.path));
        match step {
            Err(error) => {
                self.set_aside(now, format!("left alone: {:#}", anyhow::Error::new(error)))
            }
            Ok(AgingStep::Age { times, per_second }) if is_dry => {
                self.aging.finish(now, times, AgingEnd::Budget);
                let rate = rate(per_second);
                self.state
                    .set(format!("would be aged at most {times} times: {rate} of files"), "dry");
                self.has_decided = true;
                true
            }
            Ok(AgingStep::Age { times, .. }) => {
                self.age(times, stop, clock);
                true
            }
            Ok(step) => self.describe(step),
        }
    }

    /// Nothing can be done about it now; says so once.
    fn set_aside(&mut self, now: Duration, why: String) -> bool {
        self.aging.skip(now);
        self.has_decided = true;
        let kind = why.clone();
        self.state.set(why, &kind)
    }

    /// Does nothing about it for this reason. True if the state belongs in the log.
    pub(super) fn leave_alone(&mut self, now: Duration, why: &str) -> bool {
        self.set_aside(now, why.to_owned())
    }

    fn describe(&mut self, step: AgingStep) -> bool {
        let fewer = self.settings.refaults_per_second;
        let (state, kind) = match step {
            AgingStep::FirstReading => {
                self.state.show("waits for the second reading");
                return false;
            }
            AgingStep::Confirming(per_second) => {
                self.state.show(format!(
                    "watches whether the kernel ages it: {} of files",
                    rate(per_second)
                ));
                return false;
            }
            AgingStep::FewRefaults(per_second) => {
                (format!("waits: {} of files, fewer than {fewer}", rate(per_second)), "few")
            }
            AgingStep::KernelAges(per_second) => (
                format!("left alone: the kernel ages it ({} of files)", rate(per_second)),
                "kernel",
            ),
            AgingStep::HourSpent => {
                let most = self.settings.agings_per_hour;
                (format!("waits: aged {most} times in the last hour, as often as allowed"), "hour")
            }
            AgingStep::Paused(left) => {
                let minutes = left.as_secs().div_ceil(60);
                (
                    format!("pauses for {minutes} min, because the last agings did not help"),
                    "paused",
                )
            }
            AgingStep::Age { .. } => return false,
        };
        self.has_decided = true;
        self.state.set(state, kind)
    }

    fn age(&mut self, times: u32, stop: &Stop, clock: &dyn Fn() -> Duration) {
        self.has_decided = true;
        let budget = AgingBudget { times, every: self.settings.interval.min(LONGEST_BETWEEN) };
        let aged = aging::age(&state_folder(), &self.path, budget, stop.flag(), &mut |_| {});
        let now = clock();
        let state = match aged {
            Ok(aging) => {
                let done = u32::try_from(aging.rounds.len()).unwrap_or(u32::MAX);
                self.aging.finish(now, done, aging.ended);
                describe_run(&aging)
            }
            Err(failure) => {
                // how often it was aged until then is not known: all count
                let counts = matches!(&failure, AgingFailure::Aging(_));
                self.aging.finish(now, if counts { times } else { 0 }, AgingEnd::Stopped);
                format!("not aged, or not again: {:#}", anyhow::Error::new(failure))
            }
        };
        self.state.set(state, "aged");
    }
}

fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pages")]
    let whole = per_second.round().max(0.0) as u64;
    format!("{} refaults/s", group_digits(whole))
}

fn describe_run(aging: &Aging) -> String {
    let times = match aging.rounds.len() {
        1 => "aged once".to_owned(),
        times => format!("aged {times} times"),
    };
    let arrow = |after: f64| {
        let before = rate(aging.before.per_second());
        format!("{} → {}", before.trim_end_matches(" refaults/s"), rate(after))
    };
    let after = aging.after().map(|after| arrow(after.per_second()));
    match (aging.ended, after) {
        (AgingEnd::FewRefaults, _) => "not aged: its refaults ended by themselves".to_owned(),
        (AgingEnd::Stopped, _) | (_, None) => {
            format!("{times}; stopped before its refaults were counted")
        }
        (AgingEnd::Fell, Some(after)) => format!("{times}, {after}"),
        (AgingEnd::Budget, Some(after)) => format!("{times}, as often as allowed, {after}"),
        (AgingEnd::DidNotFall, Some(after)) => format!("{times}, which did not help, {after}"),
    }
}
