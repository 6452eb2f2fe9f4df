// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command, arms that differ in settings, a number of pairs → which arm is better, or that no
//! difference shows.
//!
//! ```text
//! let experiment = Experiment { .. };            what is run, what is compared, how often
//! experiment.check()?                            arms that are alike, metrics that cannot be
//! let conducted = conduct(&experiment, Some(&mut treatment), &mut control);
//! conducted.runs                                 every run, also where it was stopped
//! let trial = judge(&experiment, &conducted.runs);
//! ```
//!
//! `order` draws which arm runs first, `run` starts the command in a borrowed cgroup and measures it
//! with all its processes, `boundary` says when it may be looked, `compare` turns pairs into verdicts.
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
pub mod exercise;
mod forecast;
mod given;
mod host;
mod judge;
mod metric;
mod notes;
mod order;
mod output;
mod processes;
mod recorded;
mod replication;
mod run;
mod selftest;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use pagewise_model::{Clock, TrialArm};
use serde::{Deserialize, Serialize};

pub use arm::{alike, setting, twice};
pub use conduct::{Conducted, Control, Heard, Trouble, conduct};
pub use given::{Given, arm, swap};
pub use judge::judge;
pub use metric::{KNOWN, Known, Metric};
pub use recorded::{Described, EXPERIMENT, RUNS, Recorded, SUMMARY};
pub use replication::replicated;
pub use selftest::selftest;

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
            if metric.higher_is_better && again.known().is_some() {
                return Err(format!("more of {} is never wanted", metric.name));
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
        Ok(())
    }
}
