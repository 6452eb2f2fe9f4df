// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Snapshot`] or an [`Interval`] → what follows from its Readings, where several rules need it.
//!
//! Pure: it reads no file. It does not judge either: `clippy.toml` forbids levels, severities and findings here, and
//! `pagewise_decide` grades what this crate says. Some facts have a threshold, below which nothing happened: growth and
//! refaults that are mere noise. A fact is `None` if a Reading that it needs is absent or denied. What only one rule
//! needs stands with that rule.
//!
//! [`swap_choice`] is a decision, not a grade: findings, plans, `scan` and `bench` all take it from there.
//!
//! [`Snapshot`]: pagewise_model::Snapshot
//! [`Interval`]: pagewise_model::Interval

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod groups;
pub mod growth;
pub mod kubernetes;
pub mod memory_files;
pub mod protection;
pub mod ratio;
pub mod reclaim;
pub mod room;
pub mod settings;
pub mod swap_choice;
pub mod tiers;
pub mod zones;
