// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conducts an experiment: finds out by pairs of runs which of several arms (settings of the
//! machine) is better for a command, or that no difference can be shown.
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
//! measures it with all its child processes, from its start or from a line that it prints (`mark`).
//! `host` reads counters; `gauges` samples memory and swap in use. [`judge`](pagewise_stats::judge)
//! needs only the raw runs, so recorded runs can be judged again.
//!
//! Safeguards: runs come in pairs in random order, so that drift affects both arms equally; the
//! first run and some warm-up rounds are discarded; a verdict is computed only at planned points.
//! `pagewise_stats` defines the meaning of the runs, and the numbers of pairs after which a verdict
//! may be computed.

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
pub use surroundings::{TimingConditions, read_conditions};
pub use trouble::ExperimentError;
