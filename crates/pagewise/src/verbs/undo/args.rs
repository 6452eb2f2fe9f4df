// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise undo`.

/// The long help of the verb.
pub(super) const UNDO: &str = "Remove the devices and restore the settings that a killed run of pagewise left \
    behind, or undo a plan. Needs root.\n\n\
    Before pagewise creates a zram device, a swap area or a cgroup, or changes a setting, it records the \
    change in a journal (a file) in /var/lib/pagewise. When a run of pagewise ends, it undoes its changes to \
    the machine, so only a killed run leaves changes behind. The next run that creates devices or changes \
    settings first undoes the changes of the killed run; `pagewise undo` undoes them immediately. It also undoes the \
    changes of a plan that was interrupted by a crash or a power failure. If somebody \
    else changed a setting after the killed run had changed it, undo keeps the new value and names the \
    setting. The environment variable PAGEWISE_STATE names another folder for the journal.\n\n\
    The changes of a plan that `pagewise apply` carried out stay until you undo that plan: `pagewise undo` \
    lists the applied plans, and `pagewise undo ID` undoes one of them, the last change first. Undo restores a \
    setting, file or link only if it is still as the plan left it; otherwise, undo keeps it, names it, and keeps \
    the journal.\n\n\
    Pagewise reads a journal only if it is a regular file to which only root or you can write. If a journal is \
    damaged, undo reverts the changes that its intact lines record, keeps the journal, and ends with exit \
    status 1. After you have checked a damaged journal, remove it with --forget. Only one run at a time can \
    create devices or change settings on a machine, even if runs use different folders for their journals. The \
    lock that ensures this is in /run/pagewise, or in the folder that the environment variable PAGEWISE_LOCK \
    names.";

/// What `undo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// Undo this applied plan: the number of its journal, or the ID of the plan
    #[arg(value_name = "ID", conflicts_with_all = ["all", "forget"])]
    pub(crate) plan: Option<String>,
    /// Also undo all applied plans, the newest first
    #[arg(long, conflicts_with = "forget")]
    pub(crate) all: bool,
    /// Undo the plans on trial whose time is over: for the timer and the unit of `apply --trial-for`
    #[arg(long, hide = true, conflicts_with_all = ["all", "forget", "plan"])]
    pub(crate) unconfirmed: bool,
    /// Undo everything in the journal with this ID that can be undone, list the rest, and remove the journal
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,
}
