// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module for each kind of loan: how it is taken, and how it is returned.
//!
//! Returning examines the machine and does not assume that the last record of the journal was
//! carried out, because a run may have been killed before or after any write. It can be repeated at
//! any time.

pub(crate) mod config;
pub(crate) mod drain;
pub(crate) mod drained;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod knob;
pub(crate) mod module;
pub(crate) mod place;
pub(crate) mod run;
pub(crate) mod swap;
pub(crate) mod writeback;
pub(crate) mod zram;
pub(crate) mod zswap;

use crate::error::Error;
use crate::host_ops::HostOps;
use crate::journal::{Loan, Open};
use crate::loan::run::{Boot, Run};
use pagewise_model::undo::Outcome;

/// Returns one loan.
pub(crate) fn give_back(hands: &mut dyn HostOps, it: &Open, run: Run) -> Result<Outcome, Error> {
    match (&it.what, run.boot) {
        (Loan::SwapFile { path, folder_inode }, _) => {
            file::give_back(hands, path, *folder_inode, it.identity, run)
        }
        (Loan::File { .. } | Loan::Link { .. } | Loan::Folder { .. } | Loan::Units, _) => {
            config::give_back(hands, &it.what)
        }
        (_, Boot::This) => give_back_of_this_boot(hands, it, run),
        // the plan's files may have set them again
        (Loan::Setting { name, path, old, ours, back }, Boot::Earlier) if run.is_plan => {
            let change = knob::Change { path, old, ours, back };
            let outcome = knob::give_back(hands, name, &change, it)?;
            let is_conflict = matches!(outcome, Outcome::Conflict { .. });
            Ok(if is_conflict { Outcome::Gone } else { outcome })
        }
        (Loan::SwapOn { area, zram: Some(setup), .. }, Boot::Earlier) if run.is_plan => {
            swap::give_back_made_at_boot(hands, area, setup)
        }
        // the plan's unit may have enabled it
        (Loan::SwapOn { area, zram: None, .. }, Boot::Earlier)
            if run.is_plan && swap::is_swap_file(hands, area) =>
        {
            swap::give_back(hands, area, None, run)
        }
        // kernel objects do not survive a reboot
        (_, Boot::Earlier) => Ok(Outcome::Gone),
        (_, Boot::Unknown) => Err(Error::Uncertain {
            what: it.described(),
            why: "its journal does not say any more in which boot it was taken".to_owned(),
        }),
    }
}

fn give_back_of_this_boot(hands: &mut dyn HostOps, it: &Open, run: Run) -> Result<Outcome, Error> {
    match &it.what {
        Loan::Module { name } => module::give_back(hands, name),
        Loan::Zram { others, newest_diskseq, announced } => {
            let before = zram::ExistingDisks { others, newest_diskseq: *newest_diskseq };
            zram::give_back(hands, it.made, before, *announced, run)
        }
        Loan::SwapFile { path, folder_inode } => {
            file::give_back(hands, path, *folder_inode, it.identity, run)
        }
        Loan::SwapOn { area, diskseq, .. } => swap::give_back(hands, area, *diskseq, run),
        Loan::Group { folder, home } => {
            group::give_back(hands, folder, home.as_deref(), it.identity, run)
        }
        Loan::Controller { folder } => group::give_back_controller(hands, folder),
        Loan::Setting { name, path, old, ours, back } => {
            let change = knob::Change { path, old, ours, back };
            knob::give_back(hands, name, &change, it)
        }
        Loan::Timer => config::disarm(hands),
        Loan::ZramSize { device, algorithm, disksize } => {
            zram::give_back_size(hands, *device, algorithm, *disksize)
        }
        Loan::Drained { area, priority, zram } => {
            drained::give_back(hands, area, *priority, zram.as_ref())
        }
        Loan::File { .. } | Loan::Link { .. } | Loan::Folder { .. } | Loan::Units => {
            config::give_back(hands, &it.what)
        }
    }
}

#[cfg(test)]
mod tests;
