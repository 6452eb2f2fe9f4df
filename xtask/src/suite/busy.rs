// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts threads that compute without pause, to simulate a busy machine.
//!
//! The threads run at the same priority as the tests, and end when the value is dropped or the
//! process exits. While they run, a test fails that passes only on an idle machine.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Threads that compute without pause until this is dropped.
#[derive(Debug)]
pub(super) struct BusyThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyThreads {
    /// Starts this number of threads.
    pub(super) fn start(count: u8) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        };
        let threads = (0..count).map(spin).collect();
        Self { stop, threads }
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only computes in a loop does not panic, so there is no error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_run_until_they_are_dropped() {
        let busy = BusyThreads::start(3);
        assert_eq!(busy.threads.len(), 3);
        assert!(busy.threads.iter().all(|thread| !thread.is_finished()));
        let stop = Arc::downgrade(&busy.stop);
        drop(busy);
        assert!(stop.upgrade().is_none(), "a thread still holds the flag");
    }
}
