// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment and its raw runs → which arm is better, or that no difference shows. Pure: no I/O, no clock.
//!
//! [`judge`] needs the description of an [`Experiment`] and its runs and nothing else: whoever kept them can
//! judge again. [`paired`] estimates how much B is of A and between what bounds (Hodges and Lehmann's estimate,
//! the signed-rank interval), [`boundary`] says after how many pairs the result may be read and how wide its
//! interval has to be then, [`order`] draws which arm runs first, [`dropped`] gives up arms.
//!
//! The tests in `simulation` hold all of it against made-up machines that drift and have bursts. What is
//! measured and how is not known here; see `pagewise_lab` and `pagewise_bench`.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod boundary;
mod clock;
pub mod compare;
pub mod dropped;
mod experiment;
mod forecast;
mod idle;
mod judge;
mod metric;
pub mod name;
mod notes;
pub mod order;
pub mod paired;
mod replication;
#[cfg(test)]
mod simulation;
mod standard_metrics;
mod swap_kinds;
#[cfg(test)]
mod testing;
mod workload_metrics;

pub use experiment::{Experiment, MOST_PAIRS, Neighbour, USUAL_PAIRS, Unsound};
pub use forecast::forecast;
pub use judge::judge;
pub use metric::{Metric, NotAMetric, Pattern, prefer_more};
pub use notes::end_in_words;
pub use paired::{PairedRatio, median};
pub use replication::replicated;
pub use standard_metrics::{KNOWN, StandardMetric};
pub use workload_metrics::SAID;
