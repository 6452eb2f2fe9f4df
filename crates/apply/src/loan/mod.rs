// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module for each kind of change: how it is made, and how it is undone.
//!
//! Undoing examines the machine and does not assume that the last record of the journal was carried
//! out, because a run may have been killed before or after any write. It can be repeated at any
//! time.

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
use crate::journal::{OpenChange, RecordedChange};
use crate::loan::run::{Boot, Run};
use pagewise_model::undo::Outcome;

/// Undoes one change that a journal names as in force.
pub(crate) fn undo(host: &mut dyn HostOps, it: &OpenChange, run: Run) -> Result<Outcome, Error> {
    use RecordedChange as C;
    if !it.change.outlives_boot() {
        match run.boot {
            Boot::This => {}
            Boot::Earlier => return undo_after_reboot(host, it, run),
            Boot::Unknown => {
                return Err(Error::Uncertain {
                    what: it.describe(),
                    why: "its journal does not say any more in which boot it was taken".to_owned(),
                });
            }
        }
    }
    match &it.change {
        C::Module(module) => module::undo(host, &module.name),
        C::Zram(zram) => zram::undo(host, zram, it.made, run),
        C::SwapFile(file) => file::undo(host, file, it.identity, run),
        C::SwapOn(swap) => swap::undo(host, &swap.area, swap.diskseq, run),
        C::Group(group) => group::undo(host, group, it.identity, run),
        C::Controller(controller) => group::undo_controller(host, &controller.folder),
        C::Setting(setting) => knob::undo(host, setting, it),
        C::File(file) => config::undo_file(host, file),
        C::Link(link) => config::undo_link(host, link),
        C::Folder(folder) => config::undo_folder(host, &folder.path),
        C::Units => config::reload(host).map(|()| Outcome::Returned),
        C::Timer => config::disarm(host),
        C::ZramSize(change) => zram::undo_size(host, change),
        C::Drained(swap) => drained::undo(host, swap),
    }
}

/// Undoes a change of an earlier boot. Kernel objects do not survive a reboot, but files of a plan
/// may have made them again.
fn undo_after_reboot(host: &mut dyn HostOps, it: &OpenChange, run: Run) -> Result<Outcome, Error> {
    match &it.change {
        RecordedChange::Setting(setting) if run.is_plan => {
            let outcome = knob::undo(host, setting, it)?;
            let is_conflict = matches!(outcome, Outcome::Conflict { .. });
            Ok(if is_conflict { Outcome::Gone } else { outcome })
        }
        RecordedChange::SwapOn(swap) if run.is_plan => match &swap.zram {
            Some(setup) => swap::undo_made_at_boot(host, &swap.area, setup),
            // the unit that the plan wrote may have enabled the swap file at this boot
            None if swap::is_swap_file(host, &swap.area) => swap::undo(host, &swap.area, None, run),
            None => Ok(Outcome::Gone),
        },
        _ => Ok(Outcome::Gone),
    }
}

#[cfg(test)]
mod tests;
