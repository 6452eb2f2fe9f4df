// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command, arms that differ in settings, a number of pairs → which arm is better, or that no
//! difference shows.
//!
//! ```text
//! let experiment = Experiment { .. };            what is run, what is compared, how often
//! experiment.check()?                            arms that are alike, metrics that cannot be
//! let conducted = conduct(&experiment, Some(&mut lender), &mut control);
//! conducted.runs                                 every run, also where it was stopped
//! let trial = judge(&experiment, &conducted.runs);
//! ```
//!
//! `lend` borrows what an arm has, `order` draws which arm runs first, `run` starts the command in a
//! borrowed cgroup and measures it with all its processes (`host` by counters, `gauges` by looking),
//! `boundary` says when it may be looked, `compare` turns pairs into verdicts, `dropped` gives up arms.
//! [`judge`] needs raw runs and nothing else: who kept them can judge again.
//!
//! How it is kept honest: runs come in pairs of random order, so that drift hits both sides alike; the
//! first run of all and some rounds after it are discarded; the interval is that of the signed-rank
//! test; it is looked only where that was planned. `simulation` holds all of it against made-up
//! machines that drift and have bursts.

mod arm;
mod boundary;
mod compare;
mod conduct;
mod dropped;
pub mod exercise;
mod forecast;
mod gauges;
mod given;
mod host;
mod idle;
mod judge;
mod lend;
mod metric;
mod notes;
mod order;
mod output;
mod processes;
mod profile;
mod recorded;
mod replication;
mod run;
mod selftest;
#[cfg(test)]
mod simulation;
mod surroundings;
#[cfg(test)]
mod testing;
mod trouble;
mod victims;
mod watcher;

use std::time::Duration;

use pagewise_model::{Clock, TrialArm, TrialSwap};
use serde::{Deserialize, Serialize};

pub use arm::{alike, setting, twice};
pub use conduct::{Conducted, Control, Heard, conduct};
pub use given::{Given, arm, swap};
pub(crate) use given::{in_range, large_enough, word};
pub use judge::judge;
pub use metric::{KNOWN, Known, Metric, prefer_more};
pub(crate) use recorded::LONGEST_DOCUMENT;
pub use recorded::{Described, EXPERIMENT, RUNS, Recorded, SUMMARY};
pub use replication::replicated;
pub use selftest::{TRIALS as SELFTEST_TRIALS, selftest};
pub use surroundings::{Surroundings, surroundings};
pub use trouble::Trouble;

/// Pairs where nothing else is said: fewer than six tell nothing, and seven cover 95 %.
pub const USUAL_PAIRS: u32 = 7;
/// The most pairs.
pub const MOST_PAIRS: u32 = 100;

/// What is run, and what is to be found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// At least two; the first is what the others are compared with.
    pub arms: Vec<TrialArm>,
    /// At least one; the first decides.
    pub metrics: Vec<Metric>,
    /// At most so many pairs.
    pub pairs: u32,
    /// Effects up to this do not matter, as 0.02 for 2 %.
    pub min_effect: f64,
    /// Rounds that are discarded, after a first run that is discarded too.
    pub warm_up: u32,
    /// Draws the order of the runs.
    pub seed: u64,
    /// The most memory that the command may use.
    pub memory_limit_bytes: Option<u64>,
    /// A run that lasts longer is ended.
    pub deadline: Duration,
    /// Whose clock it runs by.
    #[serde(default)]
    pub clock: Clock,
    /// Look where the kernel's reclaim thread spends its time.
    #[serde(default)]
    pub profile: bool,
}

impl Experiment {
    /// The metric that decides; time where there is none.
    fn primary(&self) -> &Metric {
        static TIME: std::sync::LazyLock<Metric> = std::sync::LazyLock::new(Metric::time);
        self.metrics.first().unwrap_or(&TIME)
    }

    /// Whether it makes sense as it stands.
    ///
    /// # Errors
    /// What does not, in words for the user.
    pub fn check(&self) -> Result<(), String> {
        if self.command.is_empty() || self.arms.len() < 2 {
            return Err("expected a command and two arms".to_owned());
        }
        if let Some((arm, knob)) = self.arms.iter().find_map(|arm| Some((arm, twice(arm)?))) {
            return Err(format!("arm {} sets {knob} twice", arm.name));
        }
        for metric in &self.metrics {
            let again = Metric::parse(&metric.name)?;
            let wanted = again.known().map(|known| known.higher_is_better);
            if wanted.is_some_and(|wanted| wanted != metric.higher_is_better) {
                let less = if metric.higher_is_better { "more" } else { "less" };
                return Err(format!("{less} of {} is never wanted", metric.name));
            }
            if self.metrics.iter().filter(|other| other.name == metric.name).count() > 1 {
                return Err(format!("{} is asked for twice", metric.name));
            }
        }
        if !(1..=MOST_PAIRS).contains(&self.pairs) || self.warm_up > MOST_PAIRS {
            return Err(format!("expected 1 to {MOST_PAIRS} pairs, found {}", self.pairs));
        }
        if !(0.0..1.0).contains(&self.min_effect) {
            return Err(format!("expected a least effect below 1, found {}", self.min_effect));
        }
        self.arms.iter().try_for_each(checked_arm)?;
        self.checked_clock()
    }

    /// What an arm runs.
    #[must_use]
    pub fn command_of<'a>(&'a self, arm: &'a TrialArm) -> &'a [String] {
        arm.command.as_ref().unwrap_or(&self.command)
    }

    /// Whether an arm brings swap: then that of the host has to be off, or to be allowed beside it.
    #[must_use]
    pub fn lends_swap(&self) -> bool {
        self.arms.iter().any(|arm| arm.swap.as_ref().is_some_and(|areas| !areas.is_empty()))
    }

    /// Whether it needs somebody who lends: settings, swap or a limit on memory.
    #[must_use]
    pub fn borrows(&self) -> bool {
        let of_arm = |arm: &TrialArm| !arm.settings.is_empty() || arm.swap.is_some();
        self.memory_limit_bytes.is_some() || self.arms.iter().any(of_arm)
    }

    fn checked_clock(&self) -> Result<(), String> {
        let primary = self.primary();
        let Some(why) = compare::not_judged(primary.kind(), self.clock) else { return Ok(()) };
        let instead = match self.clock {
            Clock::Counted => "cpu (which counts instructions there), refaults or scanned",
            _ => "refaults, scanned or major-faults",
        };
        Err(format!("{} cannot decide: {why}; let a count decide, as {instead}", primary.name))
    }
}

fn checked_arm(arm: &TrialArm) -> Result<(), String> {
    let name = &arm.name;
    if arm.command.as_ref().is_some_and(Vec::is_empty) {
        return Err(format!("arm {name} has an empty command"));
    }
    let areas = arm.swap.as_deref().unwrap_or_default();
    for area in areas {
        let (TrialSwap::Zram { priority, .. }
        | TrialSwap::File { priority, .. }
        | TrialSwap::Device { priority, .. }) = area;
        if let Some(below) = priority.filter(|priority| *priority < 0) {
            return Err(format!("arm {name}: expected a swap priority from 0 on, found {below}"));
        }
        let (TrialSwap::Zram { size_bytes: 0, .. } | TrialSwap::File { size_bytes: 0, .. }) = area
        else {
            continue;
        };
        return Err(format!("arm {name} has a swap area of no size"));
    }
    let has_zram = areas.iter().any(|area| matches!(area, TrialSwap::Zram { .. }));
    let of_zram = arm.settings.iter().find(|set| arm::is_of_zram(&set.knob));
    match of_zram.filter(|_| !has_zram) {
        Some(set) => Err(format!("arm {name} sets {} and has no zram device of its own", set.knob)),
        None => Ok(()),
    }
}
