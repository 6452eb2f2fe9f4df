// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan is made from ([`Request`]).

use pagewise_model::plan::Goal;
use pagewise_model::{Installation, Interval};

use crate::measured::Measured;

/// For what a plan is made.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The host.
    pub interval: &'a Interval,
    /// How it is set up at boot.
    pub installation: &'a Installation,
    /// What `bench` or `scan` measured.
    pub measured: &'a Measured,
    /// What to optimize for.
    pub goal: Goal,
    /// Names of rules or of findings to plan for; empty for all.
    pub only: &'a [String],
}
