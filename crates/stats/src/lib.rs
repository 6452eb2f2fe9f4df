// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges an experiment from its raw runs: whether one of its arms (variants of settings) is
//! better, or whether no difference was found. Pure: no I/O, no clock.
//!
//! [`judge`] needs only the description of an [`Experiment`] and its runs, so that recorded runs
//! can be judged again. [`paired`] estimates the ratio of B to A with its confidence interval
//! (Hodges-Lehmann estimate, signed-rank interval). [`boundary`] determines after how many pairs
//! the result may be checked, and how wide the interval must be at that point. [`order`] draws the
//! order of the arms at random. [`dropped`] determines which arms are dropped. [`switchback`] plans
//! and judges something that is switched on and off on a running machine.
//!
//! The tests in `simulation` verify all of this with simulated machines that drift and have bursts
//! of load. This crate does not know how runs are made and measured; see `pagewise_lab` and
//! `pagewise_bench`.

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
pub mod periods;
mod replication;
#[cfg(test)]
mod simulation;
mod standard_metrics;
mod swap_kinds;
pub mod switchback;
#[cfg(test)]
mod testing;
mod workload_metrics;

pub use experiment::{Experiment, MOST_PAIRS, Neighbour, USUAL_PAIRS, Unsound};
pub use forecast::forecast;
pub use judge::judge;
pub use metric::{Metric, NotAMetric, Pattern, prefer_more};
pub use notes::describe_end;
pub use paired::{PairedRatio, median};
pub use replication::replicate_all;
pub use standard_metrics::{KNOWN, StandardMetric};
pub use workload_metrics::SAID;
