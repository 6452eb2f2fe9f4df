// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts that several rules need, derived from the Readings of a [`Snapshot`] or an [`Interval`].
//!
//! This crate is pure: it reads no file. It does not rate the facts: `clippy.toml` forbids levels,
//! severities and findings here, and `pagewise_decide` rates what this crate returns. Some facts
//! have a threshold below which they are `None`, such as growth and refaults that are only noise. A
//! fact is also `None` if a Reading that it needs is absent or denied. Facts that only one rule
//! needs are defined in the module of that rule.
//!
//! [`swap_choice`] is an exception: it decides. Findings, plans, `scan` and `bench` all use its
//! decision.
//!
//! [`Snapshot`]: pagewise_model::Snapshot
//! [`Interval`]: pagewise_model::Interval

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod groups;
pub mod growth;
pub mod io_limit;
pub mod ksm;
pub mod kubernetes;
pub mod memory_files;
pub mod protection;
pub mod ratio;
pub mod reclaim;
pub mod room;
pub mod settings;
pub mod stalls;
pub mod swap_choice;
pub mod swap_disk;
pub mod tiers;
pub mod unexplained;
pub mod zones;
