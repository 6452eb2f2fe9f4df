// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup whose memory is collapsed into huge pages: reads it, asks `pagewise_agent` what to do, and lets
//! `pagewise_hugepages` do it.

use std::time::Duration;

use pagewise_agent::{
    HugepagesReading, HugepagesSettings, HugepagesStep, HugepagesTarget, other_manager,
};
use pagewise_hugepages::{CollapseTargets, CollapseWish, collapse};
use pagewise_model::{AgentLimit, AgentLoop, AgentTarget, Bytes, Collapse};
use pagewise_observe::{HostRoot, cgroup_processes, charge, memory_cgroup};
use pagewise_terminal::interrupt::Stop;

use super::device::describe_time;
use super::target_state::TargetState;

/// The longest time of a run: the agent does nothing else meanwhile.
const LONGEST_RUN: Duration = Duration::from_secs(2);
/// If run follows run, the log gets one line in this time.
const SUMMARY: Duration = Duration::from_secs(600);

/// What a run needs of the agent.
pub(super) struct HugepagesRound<'a> {
    pub(super) host: &'a HostRoot,
    pub(super) processes: &'a [String],
    /// Why no cgroup can be changed; `None` if they can.
    pub(super) obstacle: Option<&'a str>,
    /// Why the loop does nothing now; `None` if it may act.
    pub(super) off: Option<&'a str>,
    /// Size of a huge page; `None` if this kernel has none.
    pub(super) block: Option<Bytes>,
    /// CPU time that the agent may use at once.
    pub(super) cpu_left: Duration,
    pub(super) stop: &'a Stop,
    pub(super) now: Duration,
    pub(super) is_dry: bool,
}

#[derive(Debug)]
pub(super) struct HugepagesCgroup {
    pub(super) path: String,
    target: HugepagesTarget,
    settings: HugepagesSettings,
    state: TargetState,
    /// Bytes by which collapses have made these processes grow.
    growth: Bytes,
    pids: Vec<u32>,
    last: Option<HugepagesReading>,
    /// When the log got the last line about a run.
    said: Duration,
    pub(super) has_decided: bool,
}

impl HugepagesCgroup {
    pub(super) fn new(path: &str, settings: HugepagesSettings) -> Self {
        Self {
            path: path.to_owned(),
            target: HugepagesTarget::new(settings),
            settings,
            state: TargetState::new(),
            growth: Bytes::new(0),
            pids: Vec::new(),
            last: None,
            said: Duration::ZERO,
            has_decided: false,
        }
    }

    /// The same cgroup with other settings.
    pub(super) fn with(mut self, settings: HugepagesSettings) -> Self {
        self.target.set(settings);
        self.settings = settings;
        self
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.target.is_due(now)
    }

    pub(super) fn status(&self) -> AgentTarget {
        let zero = Bytes::new(0);
        AgentTarget {
            loop_: AgentLoop::Hugepages,
            target: self.path.clone(),
            state: self.state.text().to_owned(),
            limit: AgentLimit::Growth {
                growth_bytes: self.growth,
                growth_limit_bytes: self.settings.max_growth,
                huge_bytes: self.last.map_or(zero, |last| last.huge),
                anon_bytes: self.last.map_or(zero, |last| last.anon),
            },
        }
    }

    /// Reads the cgroup, and collapses memory if that is decided. Returns a line for the log.
    pub(super) fn handle(&mut self, at: &HugepagesRound<'_>) -> Option<String> {
        if let Some(why) = at.obstacle {
            return self.set_aside(at.now, format!("left alone: {why}"));
        }
        let names = at.processes.iter().map(String::as_str);
        if let Some(manager) = other_manager(&self.path, names) {
            return self.set_aside(at.now, format!("left alone: {manager} manages this cgroup"));
        }
        let Some(block) = at.block else {
            return self.set_aside(at.now, "left alone: this kernel has no huge pages".to_owned());
        };
        self.last = self.read(at.host, block);
        if let Some(why) = at.off {
            return self.set_aside(at.now, why.to_owned());
        }
        let Some(reading) = self.last else {
            let why = "waits: there is no such memory cgroup now, or it does not count huge pages";
            return self.set_aside(at.now, why.to_owned());
        };
        let line = match self.target.decide(at.now, &reading) {
            HugepagesStep::Collapse => return self.run(at, block),
            HugepagesStep::Little => {
                self.set("waits: it has too little anonymous memory".to_owned(), "little")
            }
            HugepagesStep::Covered(percent) => self.set(
                format!("waits: {percent:.0} % of its anonymous memory is in huge pages"),
                "covered",
            ),
            // the sentence about the last run stays
            HugepagesStep::Paused(_) => None,
        };
        self.has_decided = true;
        line
    }

    fn read(&self, host: &HostRoot, block: Bytes) -> Option<HugepagesReading> {
        let group = memory_cgroup(host, &self.path)?;
        let (anon, huge) = (group.anon.get()?, group.anon_thp.get()?);
        Some(HugepagesReading { anon, huge, block })
    }

    fn run(&mut self, at: &HugepagesRound<'_>, block: Bytes) -> Option<String> {
        self.has_decided = true;
        let processes = cgroup_processes(at.host, &self.path);
        let pids: Vec<u32> = processes.iter().map(|(pid, _)| *pid).collect();
        if !self.pids.iter().any(|pid| pids.contains(pid)) {
            // the memory of the programs before is gone, and with it what collapses had added
            self.growth = Bytes::new(0);
        }
        self.pids = pids;
        let current = charge(at.host, &self.path).map_or(Bytes::new(0), |charge| charge.current);
        let targets = CollapseTargets {
            processes,
            cgroup: Some(self.path.clone()),
            cgroups: vec![self.path.clone()],
            heat: None,
        };
        let wish = CollapseWish {
            max_growth: share_of(self.settings.max_growth, current.saturating_sub(self.growth)),
            spent: self.growth,
            deadline: at.cpu_left.min(LONGEST_RUN),
            pace: 1.0,
            swapped: false,
            dry_run: at.is_dry,
            watch: None,
            block: block.get(),
        };
        let done = collapse(at.host, &targets, &wish, at.stop.flag(), &mut |_, _, _| {});
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                let why = format!("left alone: {:#}", anyhow::Error::new(error));
                self.finish(at, 0, false);
                let kind = why.clone();
                return self.set(why, &kind);
            }
        };
        if at.is_dry {
            self.finish(at, 0, false);
            let size = Bytes::new(block.get().saturating_mul(done.would_collapse));
            return self.set(format!("would collapse {size} into huge pages now"), "dry");
        }
        self.growth = done.growth;
        let before = self.last.map_or(0.0, |reading| reading.coverage_percent());
        let huge_before = self.last.map_or(Bytes::new(0), |reading| reading.huge);
        self.last = self.read(at.host, block).or(self.last);
        let huge = self.last.map_or(Bytes::new(0), |reading| reading.huge);
        let gained = huge.saturating_sub(huge_before);
        // kernels without PAGEMAP_SCAN do not tell which blocks are huge, and collapse these again
        let collapsed = if gained < block { 0 } else { done.collapsed };
        self.finish(at, collapsed, done.left_alone.shared > 0);
        if collapsed == 0 {
            return self.set(describe_nothing(&done), "nothing");
        }
        let after = self.last.map_or(0.0, |reading| reading.coverage_percent());
        let growth = done.growth.saturating_sub(wish.spent);
        let ended = done.stopped.map(|why| format!("; ended: {why}")).unwrap_or_default();
        let text = format!(
            "collapsed {gained}: {before:.0} → {after:.0} % of its anonymous memory in huge pages, grew by {growth} \
             for it{ended}"
        );
        let is_time = at.now.saturating_sub(self.said) >= SUMMARY;
        let is_new = self.state.set(text, "collapsed");
        if !(is_new || is_time) {
            return None;
        }
        self.said = at.now;
        Some(self.state.text().to_owned())
    }

    fn finish(&mut self, at: &HugepagesRound<'_>, collapsed: u64, has_shared: bool) {
        if let Some(reading) = &self.last {
            self.target.finish(at.now, collapsed, has_shared, reading);
        }
    }

    fn set_aside(&mut self, now: Duration, why: String) -> Option<String> {
        self.target.skip(now);
        self.has_decided = true;
        let kind = why.clone();
        self.set(why, &kind)
    }

    /// Returns a line for the log if the kind of the state is not the one that was said last.
    fn set(&mut self, state: String, kind: &str) -> Option<String> {
        self.state.set(state, kind).then(|| self.state.text().to_owned())
    }
}

/// Why a run collapsed nothing.
fn describe_nothing(done: &Collapse) -> String {
    if let Some(why) = &done.stopped {
        return format!("waits: {why}");
    }
    let left = &done.left_alone;
    let failed = done.failed.no_memory + done.failed.busy;
    let reasons = [
        (left.shared, "another process shares them, as after a fork"),
        (left.over_budget, "it would grow by more than max_growth"),
        (left.sparse, "less than half of their pages are in memory"),
        (left.swapped, "some of their pages are in swap"),
        (left.refused, "the kernel refuses it"),
        (failed, "no huge page was free, or pages were in use"),
        (left.changed + left.not_reached, "they changed meanwhile"),
    ];
    let most = reasons.into_iter().max_by_key(|(number, _)| *number);
    match most {
        Some((number, why)) if number > 0 => {
            let blocks = if number == 1 { "block" } else { "blocks" };
            format!("waits: nothing could be collapsed; of {number} {blocks}: {why}")
        }
        _ => "waits: nothing could be collapsed: no block is half full".to_owned(),
    }
}

/// `bytes` as a fraction of `whole`.
fn share_of(bytes: Bytes, whole: Bytes) -> f64 {
    if whole.get() == 0 { 0.0 } else { bytes.get() as f64 / whole.get() as f64 }
}

/// A line of `--check`.
pub(super) fn describe_settings(settings: HugepagesSettings) -> String {
    format!(
        "memory is collapsed into huge pages if less than {} % of it is in some; it may grow by {} for them; every {}",
        settings.coverage_percent,
        settings.max_growth,
        describe_time(settings.interval)
    )
}

#[cfg(test)]
mod tests {
    use pagewise_model::LeftAlone;

    use super::*;

    #[test]
    fn the_reason_of_most_blocks_is_said() {
        let left_alone = LeftAlone { shared: 12, sparse: 3, ..LeftAlone::default() };
        let done = Collapse { left_alone, ..Collapse::default() };
        let said = "waits: nothing could be collapsed; of 12 blocks: another process shares them, as after a fork";
        assert_eq!(describe_nothing(&done), said);
        let braked = Collapse { stopped: Some("only 1.0 MiB are available".to_owned()), ..done };
        assert_eq!(describe_nothing(&braked), "waits: only 1.0 MiB are available");
        let none = describe_nothing(&Collapse::default());
        assert_eq!(none, "waits: nothing could be collapsed: no block is half full");
    }

    #[test]
    fn growth_is_a_share_of_the_memory_without_it() {
        let mib = |mib: u64| Bytes::new(mib << 20);
        assert!((share_of(mib(8), mib(80)) - 0.1).abs() < 1e-12);
        assert!(share_of(mib(8), mib(0)).abs() < 1e-12);
    }
}
