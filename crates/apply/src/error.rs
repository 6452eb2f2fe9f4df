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
        /// The folder of journals that both runs use.
        state: String,
        /// Id of the process that holds the lock; `None` if the lock file does not name it.
        pid: Option<u32>,
    },
    /// The folder of journals, or a file in it, could not be used.
    #[error("{path}")]
    State {
        /// The folder, or the file in it, that could not be used.
        path: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The folder of journals is refused, because another user could put journals there or replace
    /// the folder.
    #[error("{path} cannot hold the journals, by which settings are written: {why}")]
    Untrusted {
        /// The folder of journals or of the lock, or a folder above it.
        path: String,
        /// Why the folder is not safe: who owns it, or who may write to it.
        why: String,
    },
    /// The ledger of measured gains, or the record of actions, cannot be read or written.
    #[error("{path}: {why}")]
    Ledger {
        /// The path of the file.
        path: String,
        /// Why the file cannot be used.
        why: String,
    },
    /// The kernel refused an operation.
    #[error("{doing}")]
    Kernel {
        /// The operation, such as `zram1: disksize = 4096`.
        doing: String,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The kernel accepted the value that was written but stored another one.
    #[error("{what}: wrote {wrote:?}, found {found:?} after it")]
    Changed {
        /// The knob or file that was written.
        what: String,
        /// The value that was written to the knob or file.
        wrote: String,
        /// The value that was read back from the knob or file.
        found: String,
    },
    /// The kernel or host lacks something.
    #[error("{what}: {why}")]
    Absent {
        /// What the caller asked for.
        what: String,
        /// What the kernel or host lacks for this.
        why: &'static str,
    },
    /// No setting of this name is in the knob table.
    #[error("{0}: no knob of that name")]
    NoKnob(String),
    /// A knob is not lent because its value could not be restored.
    #[error("{name}: it cannot be borrowed: {why}")]
    NotLent {
        /// The name of the knob.
        name: String,
        /// Why its value could not be restored.
        why: String,
    },
    /// A value was requested that the knob does not accept.
    #[error("{name}: expected {expected}, found {found:?}")]
    Value {
        /// The name of the knob.
        name: String,
        /// The values that the knob accepts, in words.
        expected: String,
        /// The value that was requested for the knob.
        found: String,
    },
    /// Other swap is enabled: pages of other programs would be swapped to our area, and ours to
    /// theirs.
    #[error("the host's own swap is on: {}", areas.join(", "))]
    OtherSwap {
        /// Paths of the other swap areas.
        areas: Vec<String>,
    },
    /// The contents of the swap area do not fit into memory.
    #[error("{area}: {used} of it are in use and {available} of memory are available")]
    NoRoom {
        /// The device or file of the swap area.
        area: String,
        /// How much of the swap area is in use.
        used: Bytes,
        /// How much memory is available.
        available: Bytes,
    },
    /// The swap area stays enabled, because its contents may not fit elsewhere.
    #[error("{area} stays on: {why}")]
    WontFit {
        /// The device or file of the swap area.
        area: String,
        /// What could happen if the area were disabled.
        why: String,
    },
    /// A plan names a place to which no plan may write configuration.
    #[error("{what}: {why}")]
    Place {
        /// Path of the configuration file, folder or link that the plan names.
        what: String,
        /// Why the plan may not write there.
        why: String,
    },
    /// A knob, file or device has changed since the plan was made.
    #[error("{what}: the plan expects {planned}, found {found}")]
    Stale {
        /// The knob, file or device that has changed.
        what: String,
        /// The state when the plan was made, which the plan expects.
        planned: String,
        /// The state that was found before the plan was applied.
        found: String,
    },
    /// A signal stopped the run (Ctrl-C, or SIGTERM of another program) before or between two steps
    /// of a plan.
    #[error("stopped by a signal (Ctrl-C or SIGTERM)")]
    Stopped,
    /// Programs came under memory pressure after a plan was applied.
    #[error("{0}")]
    Strained(String),
    /// Another plan was interrupted, so it is neither fully applied nor undone.
    #[error("plan {plan} was interrupted, and its journal {id} names changes that are in force")]
    Interrupted {
        /// The number of the interrupted plan's journal.
        id: String,
        /// The id of the interrupted plan.
        plan: String,
    },
    /// A plan is on trial, so no other may be applied.
    #[error("plan {plan} (journal {id}) is on trial")]
    OnTrial {
        /// The number of the journal of the plan on trial.
        id: String,
        /// The id of the plan on trial.
        plan: String,
    },
    /// No plan on trial has the number or id that the user gave.
    #[error("plan {id} is not on trial; on trial {}", list_known(known))]
    NotOnTrial {
        /// The journal number or plan id that the user gave.
        id: String,
        /// Names of the plans that are on trial.
        known: Vec<String>,
    },
    /// A later plan changed the same setting, file or device.
    #[error("plan {plan} (journal {id}) changed {target} later")]
    Under {
        /// The number of the later plan's journal.
        id: String,
        /// The id of the later plan.
        plan: String,
        /// The setting, file or device that both plans changed.
        target: String,
    },
    /// A file to create does not fit into its file system.
    #[error("{folder}: expected room for {requested} and some to spare, found {found}")]
    NoSpace {
        /// The folder in which the file was to be created.
        folder: String,
        /// The size of the file to create.
        requested: Bytes,
        /// The free space of the file system.
        found: Bytes,
    },
    /// The session was asked to use a device or file that it did not lend.
    #[error("{0}: expected a device or file that this session made")]
    NotOurs(String),
    /// The swap area is enabled already.
    #[error("{0}: it is swapped to already")]
    IsOn(String),
    /// This change cannot be undone yet, because a later change depends on it.
    #[error("it has to wait for what rests on it: {by}")]
    Held {
        /// The later change, in words.
        by: String,
    },
    /// An object that may belong to somebody else is left unchanged.
    #[error("{what}: {why}")]
    Uncertain {
        /// The device, file or setting that may belong to somebody else.
        what: String,
        /// Why it is not certain that the object is ours.
        why: String,
    },
    /// No journal has the number or name that the user gave.
    #[error("no journal {id}; there {}", list_known(known))]
    NoJournal {
        /// The number or name that the user gave.
        id: String,
        /// Names of the journals that exist.
        known: Vec<String>,
    },
    /// A journal could not be removed.
    #[error("{path}: not removed, and still in force")]
    Kept {
        /// The path of the journal.
        path: String,
        /// The error of the system call that removes files.
        source: io::Error,
    },
    /// The loan with this number was returned already.
    #[error("loan {0} is not open")]
    NotOpen(u64),
}

/// The advice if the kernel denies a write. Root may write any file that nothing else protects.
fn advise_if_denied(is_root: bool) -> &'static str {
    if is_root {
        "root is not allowed either: look for the immutable attribute (`lsattr FILE`, and `lsattr -d` for \
         its folder), or for a security module that denies it (`dmesg`)"
    } else {
        "run as root"
    }
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
                advise_if_denied(rustix::process::geteuid().is_root())
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
                "move the file away, as with `mv`: the next run that records something begins a new one"
            }
            Self::Uncertain { .. } => {
                "look at it; what is nobody's you may remove by hand, then `pagewise undo --forget` \
                 puts the journal aside"
            }
            Self::Kept { .. } => "make its folder writable, or move it away by hand",
            Self::OtherSwap { .. } => {
                "switch it off with swapoff, or allow pages of other programs on ours with \
                 --allow-shared-swap"
            }
            Self::Stale { .. } => "run `pagewise plan` again",
            Self::WontFit { .. } => {
                "free memory, wait until programs no longer grow, raise the limits of the cgroup (memory.max, \
                 memory.swap.max), or add other swap first; then try again"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_run_as_root() {
        assert_eq!(advise_if_denied(false), "run as root");
        let advice = advise_if_denied(true);
        assert!(advice.contains("lsattr") && !advice.contains("run as root"), "{advice}");
    }
}
