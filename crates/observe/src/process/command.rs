// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/cmdline`: only for processes that are listed, and only for display.
//!
//! Arguments contain passwords and names, so they are never in a snapshot or a recording. Reading
//! this file also takes the process's memory lock (mmap lock), so it is done by the helper process.
//! The content comes from the memory of the process: arbitrary bytes, a zero byte after each
//! argument, and nothing for a process that has ended.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::Duration;

use pagewise_model::Name;

use super::helper::{self, FileAnswer};
use crate::calls::Job;
use pagewise_hostfs::HostRoot;

/// Time limit for reading all command lines together.
const BUDGET: Duration = Duration::from_millis(200);
/// Expected time to read one command line.
const COST: Duration = Duration::from_micros(30);
/// At most this many bytes of a command line are shown.
const SHOWN: usize = 400;

/// The command line of each process that has one; on a live machine only.
pub fn command_lines(host: &HostRoot, pids: &[u32]) -> BTreeMap<u32, Name> {
    if !host.is_live() {
        return BTreeMap::new();
    }
    let job = |pid: &u32| {
        let path = CString::new(format!("/proc/{pid}/cmdline")).ok()?;
        Some((*pid, Job { path, cost: COST }))
    };
    let (pids, jobs): (Vec<u32>, Vec<Job>) = pids.iter().filter_map(job).unzip();
    let answers = helper::read_all(&jobs, BUDGET);
    let read = pids.into_iter().zip(answers).filter_map(|(pid, answer)| match answer {
        FileAnswer::Read(bytes) => Some((pid, make_printable(&bytes)?)),
        FileAnswer::Refused(_)
        | FileAnswer::NotRead
        | FileAnswer::Stuck
        | FileAnswer::HelperEnded => None,
    });
    read.collect()
}

/// The processes of which a helper process could read the beginning of `/proc/PID/maps` in time, so
/// that nobody holds their memory locks; all of them if the host is a recording.
pub(crate) fn select_with_readable_maps(host: &HostRoot, pids: &[u32]) -> Vec<u32> {
    if !host.is_live() {
        return pids.to_vec();
    }
    let job = |pid: &u32| {
        let path = CString::new(format!("/proc/{pid}/maps")).ok()?;
        Some((*pid, Job { path, cost: COST }))
    };
    let (pids, jobs): (Vec<u32>, Vec<Job>) = pids.iter().filter_map(job).unzip();
    if jobs.is_empty() {
        return Vec::new();
    }
    let answers = pids.into_iter().zip(helper::read_all(&jobs, BUDGET));
    let is_read = |(_, answer): &(u32, FileAnswer)| matches!(answer, FileAnswer::Read(bytes) if !bytes.is_empty());
    answers.filter(is_read).map(|(pid, _)| pid).collect()
}

/// A command line with its arguments separated by spaces; `None` if it has none.
fn make_printable(bytes: &[u8]) -> Option<Name> {
    let end = bytes.iter().rposition(|&byte| byte != 0)? + 1;
    let shown = &bytes[..end.min(SHOWN)];
    let spaced: Vec<u8> = shown.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
    Some(Name::from_bytes(&spaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_separated_by_spaces_and_made_printable() {
        let shown = |bytes: &[u8]| make_printable(bytes).map(|name| name.as_str().to_owned());
        assert_eq!(shown(b"redis-server\0*:6379\0\0\0").as_deref(), Some("redis-server *:6379"));
        assert_eq!(shown(b"a\x1b[2J\0b").as_deref(), Some(r"a\u{1b}[2J b"));
        assert_eq!(shown(b"\0\0"), None);
        assert_eq!(shown(&[b'x'; 5000]).unwrap().len(), SHOWN);
    }

    #[test]
    fn our_own_command_line_is_read_and_a_recording_has_none() {
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let live = HostRoot::live().unwrap();
        let lines = command_lines(&live, &[own, u32::MAX]);
        let program = std::env::args().next().unwrap();
        assert!(lines[&own].as_str().starts_with(&program[..program.len().min(SHOWN)]));
        assert_eq!(lines.len(), 1);
        assert!(command_lines(&HostRoot::memory([]), &[own]).is_empty());
    }
}
