// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of an experiment: its runs in order of time, its pairs, its confidence intervals, and its
//! workload over time.

mod arms;
mod course;
mod intervals;
mod pairs;
mod runs;

pub use course::{draw_latencies, draw_settling};
pub use intervals::{draw_arms, draw_intervals};
pub use pairs::draw_pairs;
pub use runs::draw_runs;
