// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of a plan: [`Request`].

use pagewise_model::plan::Goal;
use pagewise_model::{Installation, Interval};

use crate::measured::Measured;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The host.
    pub interval: &'a Interval,
    /// How it is configured at boot.
    pub installation: &'a Installation,
    /// Results of `bench`, `scan` or `trial`.
    pub measured: &'a Measured,
    /// What to optimize for.
    pub goal: Goal,
    /// Names of rules or findings to which the plan is limited; empty means all.
    pub only: &'a [String],
}
