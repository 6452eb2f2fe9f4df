// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all kinds of changes need: facts about the run that made them, and the names of what it
//! creates.

use crate::error::Error;

/// Prefix of the names of files and groups that we create: nothing with another name is ever
/// removed.
pub(crate) const OURS: &str = "pagewise-";

/// The facts about the run that made a change, as far as undoing the change depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) boot: Boot,
    /// Whether an early version of Pagewise wrote the journal of the run, without identities of
    /// files.
    pub(crate) is_early: bool,
    /// Whether lines of the journal are missing, so that the run may have done more than the
    /// journal says.
    pub(crate) is_damaged: bool,
    /// Whether the run is this process.
    pub(crate) is_own: bool,
    /// Whether the run applied a plan.
    pub(crate) is_plan: bool,
}

impl Run {
    pub(crate) const OWN: Self =
        Self { boot: Boot::This, is_early: false, is_damaged: false, is_own: true, is_plan: false };
    pub(crate) const OWN_PLAN: Self = Self { is_plan: true, ..Self::OWN };
}

/// In which boot of the machine the run was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boot {
    This,
    Earlier,
    /// The boot is unknown, because the line of the journal that names it is missing.
    Unknown,
}

/// The sizes of pages: the kernel rounds values to whole pages, so a value below a page must be
/// stored unchanged.
const PAGES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;

/// Refuses a value that the kernel stored differently, apart from rounding to pages.
pub(crate) fn check_stored(what: &str, wrote: u64, found: &str) -> Result<(), Error> {
    let most = if wrote < *PAGES.start() { 1 } else { wrote.min(*PAGES.end()) };
    let is_it = |found: u64| found.abs_diff(wrote) < most;
    if found.parse().is_ok_and(is_it) {
        return Ok(());
    }
    let (what, found) = (what.to_owned(), found.to_owned());
    Err(Error::Changed { what, wrote: wrote.to_string(), found })
}

/// Whether the last part of a path has the form of our names for this kind: the kind, a process id
/// and a number.
pub(crate) fn is_ours(path: &str, kind: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let numbers = name.strip_prefix(OURS).and_then(|rest| rest.strip_prefix(kind));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_plain = path.starts_with('/') && !folder.split('/').any(|part| part == "..");
    is_plain && numbers.is_some_and(|it| it.splitn(2, '-').all(is_number))
}
