// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of an experiment: its runs in order of time, its pairs, its confidence intervals, and its
//! workload over time.

mod arms;
mod course;
mod intervals;
mod pairs;
mod runs;

pub use course::{latencies, settling};
pub use intervals::{arms, intervals};
pub use pairs::pairs;
pub use runs::runs;
