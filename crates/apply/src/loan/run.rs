// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all kinds of loans share: what is known of the run that borrowed, and how it names what it makes.

use crate::error::Error;

/// How what we make is named: what is not named so is never removed.
pub(crate) const OURS: &str = "pagewise-";

/// What is known of the run that borrowed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) boot: Boot,
    /// An early version wrote its journal, and named no identities in it.
    pub(crate) is_early: bool,
    /// Lines of its journal are missing: what is not in it may have been.
    pub(crate) is_damaged: bool,
    /// It is this very process.
    pub(crate) is_own: bool,
    /// It carried out a plan.
    pub(crate) is_plan: bool,
}

impl Run {
    pub(crate) const OWN: Self =
        Self { boot: Boot::This, is_early: false, is_damaged: false, is_own: true, is_plan: false };
    pub(crate) const OWN_PLAN: Self = Self { is_plan: true, ..Self::OWN };
}

/// Which boot of the machine it was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boot {
    This,
    Earlier,
    /// Its journal does not say it any more.
    Unknown,
}

/// Sizes become whole pages; all else, which is less than a page, stays what was written.
const PAGES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;

/// Refuses what the kernel made something else of.
pub(crate) fn rounded(what: &str, wrote: u64, found: &str) -> Result<(), Error> {
    let most = if wrote < *PAGES.start() { 1 } else { wrote.min(*PAGES.end()) };
    let is_it = |found: u64| found.abs_diff(wrote) < most;
    if found.parse().is_ok_and(is_it) {
        return Ok(());
    }
    let (what, found) = (what.to_owned(), found.to_owned());
    Err(Error::Changed { what, wrote: wrote.to_string(), found })
}

/// Whether the last part of a path is named as we name things of that kind: by the kind, a process
/// and a number.
pub(crate) fn is_ours(path: &str, kind: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let numbers = name.strip_prefix(OURS).and_then(|rest| rest.strip_prefix(kind));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_plain = path.starts_with('/') && !folder.split('/').any(|part| part == "..");
    is_plain && numbers.is_some_and(|it| it.splitn(2, '-').all(is_number))
}
