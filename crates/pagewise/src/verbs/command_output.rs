// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what a command of the user prints, while it runs.

use std::io::Read;
use std::process::ChildStdout;
use std::thread::JoinHandle;

/// Maximum bytes that are kept of the output.
pub(super) const MOST_OUTPUT: u64 = 1 << 20;

/// Starts a thread that reads the output to its end, and returns the first [`MOST_OUTPUT`] bytes of it.
pub(super) fn read_output(out: Option<ChildStdout>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut out) = out {
            let _ = (&mut out).take(MOST_OUTPUT).read_to_end(&mut text);
            // a command that prints more must not block on a full pipe
            let _ = std::io::copy(&mut out, &mut std::io::sink());
        }
        text
    })
}
