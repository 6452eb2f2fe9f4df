// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file in the shared cache → this run's turn to borrow what a machine has once.
//!
//! Two runs on one machine may test in guests side by side, and share what they fetched. Tests that borrow
//! settings of the machine itself cannot: each would find the other's value in place of its own.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::child;

/// Held until it is dropped, or this process ends.
#[derive(Debug)]
pub(super) struct Turn(#[expect(dead_code, reason = "closing it ends the turn")] File);

/// Waits for the run that has its turn now, at most as long as any job may take.
pub(super) fn wait(file: &Path) -> Result<Turn> {
    wait_for(file, child::DEADLINE)
}

fn wait_for(file: &Path, longest: Duration) -> Result<Turn> {
    let began = Instant::now();
    let lock = File::create(file).with_context(|| file.display().to_string())?;
    let mut is_told = false;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn(lock)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        }
        if began.elapsed() >= longest {
            bail!(
                "another run holds {} since {} s: end it, then start this one again",
                file.display(),
                longest.as_secs()
            );
        }
        if !is_told {
            println!("  waits     for another run that borrows settings of this machine");
            is_told = true;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_its_turn_and_the_next_one_follows() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("turn");
        let first = wait_for(&file, Duration::ZERO).unwrap();
        let refused = wait_for(&file, Duration::ZERO).unwrap_err().to_string();
        assert!(refused.starts_with("another run holds "), "{refused}");
        drop(first);
        wait_for(&file, Duration::ZERO).unwrap();
    }
}
