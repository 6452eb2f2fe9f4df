// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nouns → pages that need no other file: no script, nothing fetched, colours for light and dark screens.
//!
//! Renders and never computes, like the crate report, whose printers and phrases it uses.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod answers;
mod blocks;
pub mod chart;
mod figure;
mod page;
mod report;
mod svg;
#[cfg(test)]
mod testing;
mod trial;
mod watched;

pub use answers::{bench, doctor, scan, thp};
pub use report::report;
pub use trial::trial;
pub use watched::watched;
