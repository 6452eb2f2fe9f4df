// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A merge pass of the zmerge module over one of its devices: identical pages are stored once, and
//! the freed pages are released.
//!
//! A pass changes no setting and no contents, so there is nothing to undo; writing to a merged page
//! separates it again. The kernel runs the pass beside I/O until it is complete, even if our
//! process ends, unless 0 is written to `merge`. Reading `merge` returns the number of slots that
//! the pass still has to read, which is zero once it has compacted; the file can be polled for
//! changes.

use pagewise_model::Advice;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::live::{self, WatchedFile};

/// Longest sleep before the stop flag is checked again: a signal may arrive in another thread.
const NEWS: Duration = Duration::from_millis(250);

/// Why no pass was started, or why its result is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The sysfs file that starts a pass is not writable for us.
    #[error(
        "zmerge{0}: not allowed to start or end a pass: /sys/block/zmerge{0}/merge is for root"
    )]
    NotAllowed(u32),
    /// Another pass over the device is still running.
    #[error("zmerge{0}: a pass is running already")]
    Running(u32),
    /// The device has no size, so it stores nothing.
    #[error("zmerge{0}: it has no disksize, so it stores nothing to merge")]
    NoSize(u32),
    /// The device's `merge_mode` is `off`.
    #[error("zmerge{0}: its merge_mode is off")]
    Off(u32),
    /// The device was removed before or during the pass.
    #[error("zmerge{0}: no such device any more")]
    Gone(u32),
    /// Any other error that the kernel returned.
    #[error("zmerge{id}: merge")]
    Kernel {
        /// The number of the zmerge device.
        id: u32,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

impl Advice for MergeError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::NotAllowed(_) => "run as root",
            Self::Running(_) => "wait for it: `pagewise status` says how far it is",
            Self::NoSize(_) => {
                "give it a size first: echo 2G > disksize, in its folder in /sys/block"
            }
            Self::Off(_) => "allow it: echo request > merge_mode, in its folder in /sys/block",
            Self::Gone(_) => "`pagewise status` names the devices",
            Self::Kernel { .. } => "dmesg says more: zmerge writes a line for what it refuses",
        };
        Some(next.to_owned())
    }
}

impl MergeError {
    fn from_io(id: u32, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM) => Self::NotAllowed(id),
            Some(Errno::BUSY) => Self::Running(id),
            Some(Errno::INVAL) => Self::NoSize(id),
            Some(Errno::OPNOTSUPP) => Self::Off(id),
            Some(Errno::NOENT | Errno::NODEV) => Self::Gone(id),
            _ => Self::Kernel { id, source },
        }
    }
}

/// The sysfs file of a zmerge device that starts a pass and shows its progress.
fn file(id: u32) -> String {
    format!("/sys/block/zmerge{id}/merge")
}

/// Checks whether this process may start a pass over zmerge `id`; changes nothing.
///
/// # Errors
/// If we are not allowed to, or there is no such device.
pub fn check_merge_allowed(id: u32) -> Result<(), MergeError> {
    live::check_writable(&file(id)).map_err(|error| MergeError::from_io(id, error))
}

/// Starts a pass over zmerge `id`, which continues by itself.
///
/// # Errors
/// If the kernel refuses; nothing has changed in this case.
pub fn start_merge(id: u32) -> Result<(), MergeError> {
    live::write(&file(id), "1").map_err(|error| MergeError::from_io(id, error))
}

/// How a merge pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassEnd {
    /// The pass examined all slots of the device; how long it took.
    Complete(Duration),
    /// The pass was stopped before it had examined all slots. Pages that it had merged stay
    /// merged.
    Stopped,
    /// The pass continues: this version of the module cannot stop it.
    Running,
}

/// Stops the pass over zmerge `id` and waits until it has stopped; without a pass nothing happens.
/// Returns false if this version of the module cannot stop a pass.
///
/// # Errors
/// If we are not allowed to, or there is no such device.
pub fn stop_merge(id: u32) -> Result<bool, MergeError> {
    match live::write(&file(id), "0").map_err(|error| MergeError::from_io(id, error)) {
        Ok(()) => Ok(true),
        // the error that the module returns for a value that it does not know
        Err(MergeError::NoSize(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Starts a pass and follows it until it is complete; `tell` is called with the number of slots to
/// go. If `stop` is set meanwhile, the pass is stopped.
///
/// # Errors
/// If it is refused, or the device disappears meanwhile.
pub fn merge(id: u32, stop: &AtomicBool, tell: &mut dyn FnMut(u64)) -> Result<PassEnd, MergeError> {
    let of = |error| MergeError::from_io(id, error);
    let mut progress = WatchedFile::open(&file(id)).map_err(of)?;
    let started = Instant::now();
    start_merge(id)?;
    loop {
        match progress.number().map_err(of)? {
            0 => return Ok(PassEnd::Complete(started.elapsed())),
            left => tell(left),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(if stop_merge(id)? { PassEnd::Stopped } else { PassEnd::Running });
        }
        progress.wait(NEWS).map_err(of)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_the_kernel_is_told_apart_and_knows_the_way_on() {
        let of = |errno: Errno| MergeError::from_io(3, errno.into()).to_string();
        assert!(of(Errno::ACCESS).contains("is for root"));
        assert_eq!(of(Errno::BUSY), "zmerge3: a pass is running already");
        assert!(of(Errno::INVAL).contains("no disksize"));
        assert_eq!(of(Errno::OPNOTSUPP), "zmerge3: its merge_mode is off");
        assert!(of(Errno::NOENT).contains("no such device"));
        assert_eq!(of(Errno::IO), "zmerge3: merge");
        for errno in [Errno::PERM, Errno::BUSY, Errno::INVAL, Errno::OPNOTSUPP, Errno::NODEV] {
            assert!(MergeError::from_io(3, errno.into()).next().is_some());
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_said_to_be_gone() {
        let stopped = stop_merge(4_000_000).map(|_| ());
        for refused in [check_merge_allowed(4_000_000), start_merge(4_000_000), stopped] {
            assert!(matches!(refused, Err(MergeError::Gone(4_000_000))), "{refused:?}");
        }
        let stop = AtomicBool::new(false);
        let refused = merge(4_000_000, &stop, &mut |_| panic!("nothing runs"));
        assert!(matches!(refused, Err(MergeError::Gone(_))), "{refused:?}");
    }
}
