// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise undo`.

/// The long help of the verb.
pub(super) const UNDO: &str = "Undo the changes that a killed run of pagewise left behind (devices and \
    settings), or undo a plan. Needs root.\n\n\
    Before pagewise creates a zram device, a swap area or a cgroup, or changes a setting, it records the \
    change in a journal (a file) in /var/lib/pagewise. When a run of pagewise ends, it undoes its changes to \
    the machine (except those of a plan), so only a killed run leaves changes behind. The next run that \
    creates devices or changes settings first undoes the changes of the killed run; `pagewise undo` without \
    an ID undoes them immediately. If a crash or a power failure interrupted `pagewise apply`, `pagewise \
    undo` without an ID also undoes the steps of the plan that apply had already carried out. If somebody \
    else changed a setting after the killed run had changed it, undo keeps the new value and names the \
    setting. To store journals in another folder, set the environment variable PAGEWISE_STATE.\n\n\
    The changes of an applied plan stay until you undo the plan; only a plan that was applied with \
    --trial-for is undone automatically if you do not confirm it. `pagewise undo` without an ID lists the \
    applied plans and does not undo them, except plans on trial whose time is over. If undo had to leave a \
    part of a plan, it ends with exit status 1, and `pagewise undo` without an ID tries again. `pagewise undo ID` undoes the plan with this ID, its last change \
    first. If somebody else has changed a setting, file or link since the plan was applied, undo leaves this \
    setting, file or link unchanged, reports it, and keeps the journal of the plan.\n\n\
    Pagewise reads a journal only if it is a regular file that belongs to you and to which nobody else can \
    write. If a journal is damaged, undo undoes the changes that the intact lines of the journal record, \
    keeps the journal, and ends with exit status 1. After you have checked the machine, put the damaged \
    journal aside with --forget. Only one run at a time can create devices or change settings on a machine: each \
    run locks a file in /run/pagewise, or in the folder that the environment variable PAGEWISE_LOCK names. \
    This also holds for runs that store their journals in different folders.";

/// What `undo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// Undo this applied plan, named by its journal number or its plan ID (`pagewise undo` without an ID prints both)
    #[arg(value_name = "ID", conflicts_with_all = ["all", "forget"])]
    pub(crate) plan: Option<String>,
    /// Undo the changes of killed runs, and then undo all applied plans, the newest plan first
    #[arg(long, conflicts_with = "forget")]
    pub(crate) all: bool,
    /// Undo the plans on trial whose time is over, or only the one with this ID: for the timer and the unit of `apply --trial-for`
    #[arg(long, hide = true, conflicts_with_all = ["all", "forget"])]
    pub(crate) unconfirmed: bool,
    /// Before the program is removed: undo the changes of killed runs, interrupted plans and plans on trial; list
    /// the plans that stay in force. For the scripts of packages
    #[arg(long, hide = true, conflicts_with_all = ["plan", "all", "forget", "unconfirmed"])]
    pub(crate) before_removal: bool,
    /// Put the journal with this number aside: undo as many of its changes as possible, list the changes that
    /// cannot be undone, and move the journal, with the old contents of files, into the folder "forgotten" beside it
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,
}
