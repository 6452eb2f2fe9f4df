// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conducts an experiment: finds which of several arms (settings of the machine) is better for a
//! command, from a number of pairs of runs, or that no difference was found.
//!
//! ```text
//! let experiment = Experiment { .. };            what is run, what is compared, how often
//! experiment.check()?                            refuses inconsistent arms, unknown metrics
//! let conducted = conduct(&experiment, Some(&mut lender), &mut control);
//! conducted.runs                                 every run, even if it was stopped
//! let trial = judge(&experiment, &conducted.runs);
//! ```
//!
//! `lend` borrows the settings of an arm; `run` starts the command in a borrowed cgroup and
//! measures it with all its child processes (`host` reads counters, `gauges` samples what the run
//! holds), from its start or from a line that it prints (`mark`). [`judge`](pagewise_stats::judge)
//! needs the raw runs only, so recorded runs can be judged again.
//!
//! Safeguards: runs come in pairs in random order, so that drift affects both sides equally; the
//! first run and some warm-up rounds are discarded; results are read only at planned points. The
//! meaning of the runs, and the number of pairs after which they may be read, are defined in
//! `pagewise_stats`.

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

pub use arm_source::{ArmSource, build_arm, parse_swap};
pub(crate) use arm_source::{check_priority, check_size, check_word, whole_percent};
pub use conduct::{Control, ExperimentRuns, conduct};
pub use event::TrialEvent;
pub(crate) use recorded::LONGEST_DOCUMENT;
pub use recorded::{Described, EXPERIMENT, RUNS, Recorded, SUMMARY};
pub use selftest::{TRIALS as SELFTEST_TRIALS, selftest};
pub use surroundings::{TimingConditions, surroundings};
pub use trouble::ExperimentError;
