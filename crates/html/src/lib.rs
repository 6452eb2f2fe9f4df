// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders results as self-contained HTML pages, without scripts and without anything to download,
//! with colours for light and dark screens.
//!
//! It computes nothing, like the crate `pagewise_report`, whose text functions it uses.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod answers;
mod blocks;
pub mod chart;
mod figure;
mod fleet;
mod page;
mod report;
mod svg;
#[cfg(test)]
mod testing;
mod trial;
mod watched;
mod why;

pub use answers::{bench_page, doctor_page, scan_page, thp_page};
pub use fleet::fleet_page;
pub use report::report_page;
pub use trial::trial_page;
pub use watched::watched_page;
pub use why::why_page;
