// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a kernel gets as far as PID 1 on the processor itself; found out once per boot of this
//! machine, and kept in the cache.
//!
//! QEMU sets a machine up with some hypervisors inside of hypervisors, and no kernel ever comes up in
//! it: it stops at an instruction that the outer one cannot emulate. So the first guest is preceded by
//! one with nothing to do. While one run finds out, others wait for its answer, and have no place in the queue yet:
//! so it starts at once, as with `--now`.

use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::accelerator::Accelerator;
use super::guest::Guest;
use crate::cache::Cache;
use crate::error::Error;
use crate::files;
use crate::kernel::Kernel;
use crate::lock::{Kind, Lock};

/// Even busy machines start a kernel ten times as fast.
const PATIENCE: Duration = Duration::from_secs(20);
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const COMES_UP: &str = "comes up";

/// Asks the cache, else starts a guest with KVM that has nothing to do.
///
/// # Errors
/// Where no guest can be started at all.
pub(super) fn comes_up(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    let locks = cache.folder().join("locks");
    let _lock = Lock::wait(&locks.join("kvm.lock"), Kind::Alone, stop)?;
    let path = locks.join("kvm");
    let boot = fs::read_to_string(BOOT).unwrap_or_default();
    let known = fs::read_to_string(&path).unwrap_or_default();
    if let Some(known) = known.strip_prefix(boot.trim()).filter(|_| !boot.is_empty()) {
        return Ok(known.trim() == COMES_UP);
    }
    let idle = Guest {
        accelerator: Some(Accelerator::Kvm),
        start_deadline: PATIENCE,
        deadline: PATIENCE,
        budget: guest.budget,
        now: true,
        purpose: Some("trying KVM".to_owned()),
        ..Guest::new(guest.program.clone(), vec!["true".to_owned()])
    };
    let run = super::run(&idle, kernel, cache, stop, &mut |_| ControlFlow::Continue(()))?;
    let came = run.boot_seconds.is_some();
    let word = if came { COMES_UP } else { "does not" };
    files::write(&path, format!("{} {word}\n", boot.trim()).as_bytes(), 0o600)?;
    Ok(came)
}
