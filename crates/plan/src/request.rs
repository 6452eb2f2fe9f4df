// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of a plan: [`Request`].

use pagewise_model::plan::{Goal, Want};
use pagewise_model::{Installation, Interval};

use crate::measured::Measured;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The host at both ends of an interval.
    pub interval: &'a Interval,
    /// How the host is configured at boot.
    pub installation: &'a Installation,
    /// Results of `bench`, `scan` or `trial`.
    pub measured: &'a Measured,
    /// What the plan is to optimize for.
    pub goal: Goal,
    /// Names of rules or findings to which the plan is limited; empty means all.
    pub only: &'a [String],
    /// What the user asks for, whether or not memory is short. If it is not empty and `only` is,
    /// the plan contains nothing else.
    pub wants: &'a [Want],
    /// Whether to plan what the user asks for although there is a reason against it that is no harm
    /// by itself.
    pub anyway: bool,
}
