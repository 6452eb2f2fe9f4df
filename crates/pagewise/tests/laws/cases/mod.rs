// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For each rule and each reason that it knows: a change that makes it fire on a recorded host, and
//! one that is nearly the same and must not.

mod hosts;
mod other;
mod unused;

use pagewise_model::Severity;

use crate::scene::Scene;

pub(crate) use hosts::{
    BEHIND_FILE, BEHIND_FILE_USED, OOM_LIMIT, PLAIN, THP, ZRAM_SWAP, ZRAM_SWAP_USED, ZSWAP_OFF,
};
pub(crate) use other::on_nvme;

/// Changes the files of a host.
pub(crate) type Change = fn(Scene) -> Scene;

/// What the near miss leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Near {
    /// Nothing by this rule, and nothing else but what the case expects anyway.
    Silent(Change),
    /// Nothing by this rule, but these others.
    But(Change, &'static [&'static str]),
    /// The same rule, and another severity or title.
    Told(Change, Severity, &'static str),
}

impl Near {
    /// The change that is nearly the same.
    pub(crate) fn change(self) -> Change {
        let (Self::Silent(change) | Self::But(change, _) | Self::Told(change, ..)) = self;
        change
    }
}

/// One reason for one finding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The rule.
    pub(crate) id: &'static str,
    /// What is the case.
    pub(crate) reason: &'static str,
    /// The recording that is changed.
    pub(crate) host: &'static str,
    /// What makes the rule fire.
    pub(crate) fires: Change,
    /// How severe it is then.
    pub(crate) severity: Severity,
    /// What the title says then, in part.
    pub(crate) title: &'static str,
    /// Other rules that fire by the same change, which the recording as it is does not.
    pub(crate) also: &'static [&'static str],
    /// The near miss, starting from the recording again.
    pub(crate) near: Near,
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    unused::CASES.iter().chain(other::CASES)
}
