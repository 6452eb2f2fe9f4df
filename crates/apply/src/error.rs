// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something is not lent, or does not go back.

use std::io;

use pagewise_model::{Advice, Bytes};

/// What went wrong, with what was expected and found. What became of what had been lent is not said
/// here: [`Session::end`](crate::Session::end) does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Only one run borrows at a time.
    #[error("{state}: another run of pagewise borrows from this machine ({})", holder(*.pid))]
    Busy {
        /// The folder that both use.
        state: String,
        /// The other run, where it has said so.
        pid: Option<u32>,
    },
    /// The folder of journals, or a file in it.
    #[error("{path}")]
    State {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could put journals there, or another folder in its place.
    #[error("{path} cannot hold the journals, by which settings are written: {why}")]
    Untrusted {
        /// The folder of journals or of the lock, or one above it.
        path: String,
        /// Whose it is, or who may write there.
        why: String,
    },
    /// The ledger of measured gains is not read or not written.
    #[error("{path}: {why}")]
    Ledger {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// The kernel refused something.
    #[error("{doing}")]
    Kernel {
        /// What was tried, as `zram1: disksize = 4096`.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// The kernel took something and made something else of it.
    #[error("{what}: wrote {wrote:?}, found {found:?} after it")]
    Changed {
        /// The knob or file.
        what: String,
        /// What was asked for.
        wrote: String,
        /// What stands there.
        found: String,
    },
    /// This kernel lacks it.
    #[error("{what}: {why}")]
    Absent {
        /// What was asked for.
        what: String,
        /// What is not there.
        why: &'static str,
    },
    /// The table of knobs has no such row.
    #[error("{0}: no knob of that name")]
    NoKnob(String),
    /// A knob that cannot be put back is not lent.
    #[error("{name}: it cannot be borrowed: {why}")]
    NotLent {
        /// The knob.
        name: String,
        /// Why not.
        why: String,
    },
    /// A value outside of what the knob takes.
    #[error("{name}: expected {expected}, found {found:?}")]
    Value {
        /// The knob.
        name: String,
        /// What it takes.
        expected: String,
        /// What was asked for.
        found: String,
    },
    /// Strangers' pages would land on our area, and ours on theirs.
    #[error("the host's own swap is on: {}", areas.join(", "))]
    OtherSwap {
        /// Which.
        areas: Vec<String>,
    },
    /// What is in the area does not fit into memory.
    #[error("{area}: {used} of it are in use and {available} of memory are available")]
    NoRoom {
        /// The swap area.
        area: String,
        /// What it holds.
        used: Bytes,
        /// What there is.
        available: Bytes,
    },
    /// The contents of a swap area do not certainly fit elsewhere, so it stays on.
    #[error("{area} stays on: {why}")]
    WontFit {
        /// The swap area.
        area: String,
        /// What would happen.
        why: String,
    },
    /// A plan writes configuration to known places only.
    #[error("{what}: {why}")]
    Place {
        /// The file or link.
        what: String,
        /// Where it may be.
        why: String,
    },
    /// The machine is no longer as it was when the plan was made.
    #[error("{what}: the plan expects {planned}, found {found}")]
    Stale {
        /// The knob, file or device.
        what: String,
        /// What was there when the plan was made.
        planned: String,
        /// What is there now.
        found: String,
    },
    /// Ctrl-C, before or between two steps of a plan.
    #[error("stopped by Ctrl-C")]
    Stopped,
    /// Programs suffered after a plan was carried out.
    #[error("{0}")]
    Strained(String),
    /// A plan was interrupted: it is neither applied nor undone.
    #[error("plan {plan} was interrupted, and its journal {id} names changes that are in force")]
    Interrupted {
        /// The number of its journal.
        id: String,
        /// The id of the plan.
        plan: String,
    },
    /// A plan is on trial.
    #[error("plan {plan} (journal {id}) is on trial")]
    OnTrial {
        /// The number of its journal.
        id: String,
        /// The id of the plan.
        plan: String,
    },
    /// No plan of that name is on trial.
    #[error("plan {id} is not on trial; on trial {}", those(known))]
    NotOnTrial {
        /// What was asked for.
        id: String,
        /// Those that are.
        known: Vec<String>,
    },
    /// A later plan changed the same.
    #[error("plan {plan} (journal {id}) changed {target} later")]
    Under {
        /// The number of the later plan's journal.
        id: String,
        /// Its id.
        plan: String,
        /// What both changed.
        target: String,
    },
    /// A file would not fit.
    #[error("{folder}: expected room for {requested} and some to spare, found {found}")]
    NoSpace {
        /// Where it was to be.
        folder: String,
        /// Its size.
        requested: Bytes,
        /// What is free.
        found: Bytes,
    },
    /// Only what was lent is used.
    #[error("{0}: expected a device or file that this session made")]
    NotOurs(String),
    /// It is switched on already.
    #[error("{0}: it is swapped to already")]
    IsOn(String),
    /// Something that was taken later rests on it.
    #[error("it has to wait for what rests on it: {by}")]
    Held {
        /// What.
        by: String,
    },
    /// It cannot be told from what others have, so it is left as it is.
    #[error("{what}: {why}")]
    Uncertain {
        /// What.
        what: String,
        /// Why not.
        why: String,
    },
    /// No journal of that number or name.
    #[error("no journal {id}; there {}", those(known))]
    NoJournal {
        /// What was asked for.
        id: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A journal could not be removed.
    #[error("{path}: not removed")]
    Kept {
        /// Its file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// It went back already.
    #[error("loan {0} is not open")]
    NotOpen(u64),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "it does not say its pid".to_owned(), |pid| format!("pid {pid}"))
}

fn those(known: &[String]) -> String {
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

/// Says what was tried.
pub(crate) trait Doing<T> {
    /// The error of the kernel with it.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Kernel { doing: what(), source })
    }
}
