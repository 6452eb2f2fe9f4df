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
//! `lend` borrows what an arm has, `run` starts the command in a borrowed cgroup and measures it with all its
//! processes (`host` by counters, `gauges` by reading now and then what the run holds), from its start or from a
//! line that it prints (`mark`).
//! [`judge`](pagewise_stats::judge) needs raw runs and nothing else: who kept them can judge again.
//!
//! How it is kept honest: runs come in pairs of random order, so that drift hits both sides alike; the
//! first run of all and some rounds after it are discarded; results are read only where that was planned.
//! What the runs mean, and after how many pairs they may be read, is `pagewise_stats`' business.

mod arm_source;
mod conduct;
mod event;
pub mod exercise;
mod gauges;
mod host;
mod lend;
mod mark;
mod output;
mod processes;
mod recorded;
mod run;
mod selftest;
mod surroundings;
mod swap_traffic;
mod trouble;
mod usage;
mod victims;
mod watcher;

pub use arm_source::{ArmSource, arm, swap};
pub(crate) use arm_source::{in_range, large_enough, whole_percent, word};
pub use conduct::{Control, ExperimentRuns, conduct};
pub use event::TrialEvent;
pub(crate) use recorded::LONGEST_DOCUMENT;
pub use recorded::{Described, EXPERIMENT, RUNS, Recorded, SUMMARY};
pub use selftest::{TRIALS as SELFTEST_TRIALS, selftest};
pub use surroundings::{TimingConditions, surroundings};
pub use trouble::ExperimentError;
