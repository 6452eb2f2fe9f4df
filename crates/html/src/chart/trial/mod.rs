// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of an experiment in the order in which they ran, its pairs, its intervals, and how its
//! workload went.

mod arms;
mod course;
mod intervals;
mod pairs;
mod runs;

pub use course::{latencies, settling};
pub use intervals::{arms, intervals};
pub use pairs::pairs;
pub use runs::runs;
