// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads standard output and error of a command together, and keeps the end of both.
//!
//! The output is read as it arrives, so that the command never blocks. It is not written to a file,
//! because the page cache of the file would be charged to the command's cgroup.

use std::io::Read;
use std::thread::JoinHandle;

use super::mark::LineFinder;

/// Number of bytes that are kept of the end of the output.
const KEPT: usize = 1 << 20;

/// The thread that reads the output until all writers have closed the pipe.
#[derive(Debug)]
pub(super) struct Output(JoinHandle<Vec<u8>>);

impl Output {
    pub(super) fn read_in_thread(
        from: impl Read + Send + 'static,
        finder: Option<LineFinder>,
    ) -> Self {
        Self(std::thread::spawn(move || read_and_keep_end(from, finder)))
    }

    /// Waits for the end of the output and returns it.
    pub(super) fn into_text(self) -> String {
        let end = self.0.join().unwrap_or_default();
        String::from_utf8_lossy(&end).into_owned()
    }
}

fn read_and_keep_end(mut from: impl Read, mut finder: Option<LineFinder>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(more) => {
                let more = &piece[..more];
                finder.iter_mut().for_each(|finder| finder.read(more));
                kept.extend_from_slice(more);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
    kept.drain(..kept.len().saturating_sub(KEPT));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_memory_is_bounded() {
        assert_eq!(Output::read_in_thread(&b"short"[..], None).into_text(), "short");
        let long = std::io::repeat(b'x').take(10 * KEPT as u64).chain(&b"end"[..]);
        let output = Output::read_in_thread(long, None).into_text();
        assert!(output.len() == KEPT && output.ends_with("xend"));
    }
}
