// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file per thing that can be borrowed: how it is taken, and how it goes back.
//!
//! Giving back looks at the machine and never believes that the journal's last word was carried
//! out: a run may have been killed before or after any write. It may be repeated at any time.

pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod knob;
pub(crate) mod module;
pub(crate) mod swap;
pub(crate) mod zram;

use crate::error::Error;
use crate::hands::Hands;
use crate::journal::{Loan, Open};
use crate::outcome::Outcome;

/// How what we make is named: what is not named so is never removed.
pub(crate) const OURS: &str = "pagewise-";

/// Puts one thing back.
pub(crate) fn give_back(hands: &mut dyn Hands, it: &Open) -> Result<Outcome, Error> {
    match &it.what {
        Loan::Module { name } => module::give_back(hands, name),
        Loan::Zram { others, newest_diskseq } => {
            zram::give_back(hands, it.made, others, *newest_diskseq)
        }
        Loan::SwapFile { path, .. } => file::give_back(hands, path),
        Loan::SwapOn { area, diskseq } => swap::give_back(hands, area, *diskseq),
        Loan::Group { folder, home } => group::give_back(hands, folder, home.as_deref()),
        Loan::Controller { folder } => group::give_back_controller(hands, folder),
        Loan::Setting { name, path, old, ours, back } => {
            let change = knob::Change { path, old, ours, back };
            knob::give_back(hands, name, &change, it)
        }
    }
}

/// The same on a machine that has been started anew: the kernel's own things are gone by themselves.
pub(crate) fn give_back_after_boot(hands: &mut dyn Hands, it: &Open) -> Result<Outcome, Error> {
    match &it.what {
        Loan::SwapFile { path, folder_inode } => {
            file::give_back_after_boot(hands, path, *folder_inode)
        }
        _ => Ok(Outcome::Gone),
    }
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

/// Whether the last part of a path is named as we name things.
pub(crate) fn is_ours(path: &str) -> bool {
    path.starts_with('/') && path.rsplit('/').next().is_some_and(|name| name.starts_with(OURS))
}

#[cfg(test)]
mod tests;
