// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For each rule and each of its reasons: a change that makes it fire on a recorded host, and a
//! nearly equal change that must not.

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

/// What the near miss results in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Near {
    /// Not this rule, and no other rules than the case expects anyway.
    Silent(Change),
    /// Not this rule, but these others.
    But(Change, &'static [&'static str]),
    /// The same rule, with another severity or title.
    Told(Change, Severity, &'static str),
}

impl Near {
    /// The nearly equal change.
    pub(crate) fn change(self) -> Change {
        let (Self::Silent(change) | Self::But(change, _) | Self::Told(change, ..)) = self;
        change
    }
}

/// One reason for one finding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The ID of the rule.
    pub(crate) id: &'static str,
    /// The reason, in words.
    pub(crate) reason: &'static str,
    /// The recording that is changed.
    pub(crate) host: &'static str,
    /// The change that makes the rule fire.
    pub(crate) fires: Change,
    /// The expected severity.
    pub(crate) severity: Severity,
    /// Part of the expected title.
    pub(crate) title: &'static str,
    /// Other rules that fire because of this change (not those of the unchanged recording).
    pub(crate) also: &'static [&'static str],
    /// The near miss, which changes the original recording.
    pub(crate) near: Near,
}

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    unused::CASES.iter().chain(other::CASES)
}
