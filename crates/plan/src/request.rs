// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of a plan: [`Request`].

use pagewise_model::plan::{Goal, Want};
use pagewise_model::{Installation, Interval};

use crate::measured::Measured;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The host's snapshots at the start and at the end of an interval.
    pub interval: &'a Interval,
    /// How the host is configured at boot.
    pub installation: &'a Installation,
    /// The results of `bench`, `scan` or `trial`.
    pub measured: &'a Measured,
    /// What the plan should optimize for.
    pub goal: Goal,
    /// Names of rules or findings to which the plan is limited; empty means no limit.
    pub only: &'a [String],
    /// Changes that the user requests, whether or not memory is short. If there are any and `only`
    /// is empty, the plan contains nothing else.
    pub wants: &'a [Want],
    /// Whether to plan requested changes even if there is a reason against them, provided that they
    /// do no harm.
    pub anyway: bool,
}
