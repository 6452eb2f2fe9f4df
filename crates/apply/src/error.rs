// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of lending, returning and applying.

use std::io;

use pagewise_model::{Advice, Bytes};

/// What went wrong, with what was expected and what was found. Whether loans were returned is not
/// part of the error; see [`Session::end`](crate::Session::end).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another run holds the lock: only one may borrow at a time.
    #[error("{state}: another run of pagewise borrows from this machine ({})", holder(*.pid))]
    Busy {
        /// The folder of journals that both use.
        state: String,
        /// The process of the other run, if its lock file names it.
        pid: Option<u32>,
    },
    /// The folder of journals, or a file in it, could not be used.
    #[error("{path}")]
    State {
        /// The folder or file.
        path: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another user could put journals there, or replace the folder.
    #[error("{path} cannot hold the journals, by which settings are written: {why}")]
    Untrusted {
        /// The folder of journals or of the lock, or a folder above it.
        path: String,
        /// Who owns it, or who may write to it.
        why: String,
    },
    /// The ledger of measured gains cannot be read or written.
    #[error("{path}: {why}")]
    Ledger {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The kernel refused an operation.
    #[error("{doing}")]
    Kernel {
        /// The operation, such as `zram1: disksize = 4096`.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel accepted a value but stored another one.
    #[error("{what}: wrote {wrote:?}, found {found:?} after it")]
    Changed {
        /// The knob or file.
        what: String,
        /// The value that was written.
        wrote: String,
        /// The value that was read back.
        found: String,
    },
    /// The kernel or host lacks something.
    #[error("{what}: {why}")]
    Absent {
        /// What was requested.
        what: String,
        /// What is missing.
        why: &'static str,
    },
    /// No setting of this name is in the knob table.
    #[error("{0}: no knob of that name")]
    NoKnob(String),
    /// A knob is not lent because its value could not be restored.
    #[error("{name}: it cannot be borrowed: {why}")]
    NotLent {
        /// The knob.
        name: String,
        /// The reason.
        why: String,
    },
    /// A value that the knob does not accept.
    #[error("{name}: expected {expected}, found {found:?}")]
    Value {
        /// The knob.
        name: String,
        /// What it accepts.
        expected: String,
        /// The value that was requested.
        found: String,
    },
    /// Other swap is enabled: pages of other programs would be swapped to our area, and ours to
    /// theirs.
    #[error("the host's own swap is on: {}", areas.join(", "))]
    OtherSwap {
        /// The other swap areas.
        areas: Vec<String>,
    },
    /// The contents of the swap area do not fit into memory.
    #[error("{area}: {used} of it are in use and {available} of memory are available")]
    NoRoom {
        /// The swap area.
        area: String,
        /// How much of it is in use.
        used: Bytes,
        /// The available memory.
        available: Bytes,
    },
    /// It is not certain that the contents of a swap area fit elsewhere, so it stays enabled.
    #[error("{area} stays on: {why}")]
    WontFit {
        /// The swap area.
        area: String,
        /// What could happen.
        why: String,
    },
    /// A plan may write configuration only to known places.
    #[error("{what}: {why}")]
    Place {
        /// The file or link.
        what: String,
        /// Where it may be.
        why: String,
    },
    /// The machine has changed since the plan was made.
    #[error("{what}: the plan expects {planned}, found {found}")]
    Stale {
        /// The knob, file or device.
        what: String,
        /// The state when the plan was made.
        planned: String,
        /// The state now.
        found: String,
    },
    /// The user stopped the run (Ctrl-C) before or between two steps of a plan.
    #[error("stopped by Ctrl-C")]
    Stopped,
    /// Programs came under memory pressure after a plan was applied.
    #[error("{0}")]
    Strained(String),
    /// A plan was interrupted: it is neither fully applied nor undone.
    #[error("plan {plan} was interrupted, and its journal {id} names changes that are in force")]
    Interrupted {
        /// The number of its journal.
        id: String,
        /// The id of the plan.
        plan: String,
    },
    /// A plan is on trial, so no other may be applied.
    #[error("plan {plan} (journal {id}) is on trial")]
    OnTrial {
        /// The number of its journal.
        id: String,
        /// The id of the plan.
        plan: String,
    },
    /// No plan with that number or id is on trial.
    #[error("plan {id} is not on trial; on trial {}", list_known(known))]
    NotOnTrial {
        /// The number or id that was given.
        id: String,
        /// The plans on trial.
        known: Vec<String>,
    },
    /// A later plan changed the same setting, file or device.
    #[error("plan {plan} (journal {id}) changed {target} later")]
    Under {
        /// The number of the later plan's journal.
        id: String,
        /// Its id.
        plan: String,
        /// What both changed.
        target: String,
    },
    /// A file does not fit into its file system.
    #[error("{folder}: expected room for {requested} and some to spare, found {found}")]
    NoSpace {
        /// The folder for it.
        folder: String,
        /// Its size.
        requested: Bytes,
        /// The free space.
        found: Bytes,
    },
    /// A device or file that this session did not lend: it is not used.
    #[error("{0}: expected a device or file that this session made")]
    NotOurs(String),
    /// The swap area is enabled already.
    #[error("{0}: it is swapped to already")]
    IsOn(String),
    /// A later change depends on it, so it cannot be undone yet.
    #[error("it has to wait for what rests on it: {by}")]
    Held {
        /// The later change.
        by: String,
    },
    /// It may belong to somebody else, so it is left unchanged.
    #[error("{what}: {why}")]
    Uncertain {
        /// The device, file or setting.
        what: String,
        /// Why it is not certain.
        why: String,
    },
    /// There is no journal of that number or name.
    #[error("no journal {id}; there {}", list_known(known))]
    NoJournal {
        /// The number or name that was given.
        id: String,
        /// The journals that exist.
        known: Vec<String>,
    },
    /// A journal could not be removed.
    #[error("{path}: not removed")]
    Kept {
        /// The journal file.
        path: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The loan was returned already.
    #[error("loan {0} is not open")]
    NotOpen(u64),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "it does not say its pid".to_owned(), |pid| format!("pid {pid}"))
}

fn list_known(known: &[String]) -> String {
    if known.is_empty() { "are none".to_owned() } else { format!("are: {}", known.join(", ")) }
}

impl Advice for Error {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Busy { pid: Some(pid), .. } => {
                return Some(format!("wait until process {pid} has ended, or end it"));
            }
            Self::Busy { .. } => "wait until it has ended",
            Self::State { source, .. } | Self::Kernel { source, .. } if is_denied(source) => {
                "run as root"
            }
            Self::Kernel { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "make its file system writable; on an image that is read-only by design, leave out the \
                 steps that write files (`pagewise plan --only …`)"
            }
            Self::Place { .. } => "leave the step out, or make the change by hand",
            Self::State { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "make its file system writable (mount -o remount,rw), then run it again"
            }
            Self::State { source, .. } if is_full(source) => {
                "free some space on its disk, or let PAGEWISE_STATE name a folder on another one"
            }
            Self::Untrusted { path, .. } => {
                return Some(format!(
                    "let PAGEWISE_STATE name a folder below one of your own; or, if nobody else has put \
                     anything there, `chown` it to yourself or `chmod go-w {path}`"
                ));
            }
            Self::State { .. } => {
                "see to it that it is a folder on a disk that belongs to you alone; PAGEWISE_STATE \
                 names the folder, and `pagewise undo` looks into no other"
            }
            Self::Ledger { .. } => {
                "move the file away, as with `mv`: the next `pagewise verify` begins a new one"
            }
            Self::Uncertain { .. } => {
                "look at it; what is nobody's you may remove by hand, then `pagewise undo --forget` \
                 removes the journal"
            }
            Self::Kept { .. } => "make its folder writable, or remove it by hand",
            Self::OtherSwap { .. } => {
                "switch it off with swapoff, or allow pages of other programs on ours with \
                 --allow-shared-swap"
            }
            Self::Stale { .. } => "run `pagewise plan` again",
            Self::WontFit { .. } => {
                "free memory, raise the limits of the cgroup (memory.max, memory.swap.max), or add other swap first; then try \
                 again"
            }
            Self::Interrupted { .. } => "`pagewise undo` undoes it",
            Self::OnTrial { id, .. } => {
                return Some(format!(
                    "`pagewise apply --confirm {id}` keeps it, `pagewise undo {id}` undoes it"
                ));
            }
            Self::NotOnTrial { .. } => "`pagewise undo` lists the plans that are applied",
            Self::Under { id, .. } => {
                return Some(format!("`pagewise undo {id}` undoes the later plan first"));
            }
            Self::NoRoom { .. } => "end some programs, then run `pagewise undo`",
            Self::NoSpace { .. } => "free some space, or ask for less",
            _ => return None,
        };
        Some(next.to_owned())
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds to a system error what was being done.
pub(crate) trait Doing<T> {
    /// Converts the error to [`Error::Kernel`] with this description.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Kernel { doing: what(), source })
    }
}
