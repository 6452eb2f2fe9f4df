// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out whether a kernel boots up to PID 1 with KVM. This is tested once per boot of this
//! machine; the result is stored in the cache.
//!
//! Under some nested hypervisors QEMU can set up a machine with KVM, but no kernel ever boots: it
//! stops at an instruction that the outer hypervisor cannot emulate. So before the first guest, an
//! idle guest is started as a test. The test guest starts at once, as with `--now`: other runs wait
//! for its result, and are not in the queue for guests meanwhile.

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

/// Time limit for the test guest to boot: even busy machines boot a kernel in a tenth of this.
const PATIENCE: Duration = Duration::from_secs(20);
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const COMES_UP: &str = "comes up";

/// Tests whether a guest boots with KVM: returns the cached result, or starts an idle guest to get
/// it.
///
/// # Errors
/// If no guest can be started at all.
pub(super) fn does_kernel_boot(
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
