// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the proportional size of a process, which is needed repeatedly to keep within a budget,
//! and whether the process may have huge pages.

use std::io::Read;

use pagewise_model::Bytes;
use pagewise_model::text::{flag, kib, lines};

use super::memory::{LookError, error_for, open_file};

/// Length limit of `smaps_rollup` or `status` as read, in bytes.
const MOST_TEXT: u64 = 1 << 14;

/// Returns the proportional set size of a process: `Pss` of smaps_rollup.
///
/// # Errors
/// If the process has exited, if we may not examine it, or if the kernel has no smaps_rollup.
pub fn read_proportional_size(pid: u32) -> Result<Bytes, LookError> {
    let text = read_text(pid, "smaps_rollup")?;
    find_field(&text, b"Pss:").and_then(kib).ok_or(LookError::Gone(pid))
}

/// Whether a process may have huge pages at all (`THP_enabled` in `/proc/PID/status`); `None` if
/// the kernel does not report it.
pub fn is_thp_allowed(pid: u32) -> Option<bool> {
    find_field(&read_text(pid, "status").ok()?, b"THP_enabled:").and_then(flag)
}

pub(super) fn read_text(pid: u32, name: &'static str) -> Result<Vec<u8>, LookError> {
    let mut text = Vec::new();
    let read = open_file(pid, name)?.take(MOST_TEXT).read_to_end(&mut text);
    read.map_err(|error| error_for(pid, name, error))?;
    Ok(text)
}

pub(super) fn find_field<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    lines(text).find_map(|line| line.strip_prefix(key)).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_size_is_known() {
        assert!(read_proportional_size(std::process::id()).unwrap() > Bytes::new(100_000));
        assert_eq!(is_thp_allowed(std::process::id()), Some(true));
        assert!(matches!(read_proportional_size(u32::MAX), Err(LookError::Gone(_))));
    }
}
