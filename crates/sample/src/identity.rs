// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the identity of a process from `/proc/PID/stat` and `/proc/PID/status`, and checks whether
//! a pid still belongs to the same process.
//!
//! A pid may be reused after its process has ended; the start time distinguishes the two processes.
//! An exec keeps pid and start time but replaces the memory; the addresses of code, stack and
//! arguments distinguish the memory before and after it (the kernel randomizes them at each exec).
//!
//! A set-user-id program has several user ids: its process belongs to our user only if all four are
//! ours.

use std::io;

use pagewise_model::Name;

use pagewise_procmem::open::text_of_process;

use crate::WhyUnread;

/// Identifies one address space of one process: changes when the process calls exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    start: u64,
    /// Addresses of the process's code, stack and arguments.
    memory: [u64; 3],
}

impl Identity {
    /// Whether `other` is the same process, possibly after an exec.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        (self.pid, self.start) == (other.pid, other.start)
    }
}

/// The fields of `/proc/PID/stat` that sampling needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: Name,
    pub(crate) identity: Identity,
    is_kernel_thread: bool,
    has_ended: bool,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let text = text_of_process(pid, "stat")?;
        Self::parse(pid, &text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The name in brackets may itself contain a bracket, as in `) R 1`, so it ends at the *last*
    /// bracket.
    fn parse(pid: u32, text: &[u8]) -> Option<Self> {
        const FLAG_KERNEL_THREAD: u64 = 0x0020_0000;
        let begin = text.iter().position(|&byte| byte == b'(')?;
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(begin + 1..end)?;
        let fields: Vec<&[u8]> = text.get(end + 1..)?.split(u8::is_ascii_whitespace).collect();
        // proc(5) counts fields from 1; the third field is the first one after the name and a space
        let field = |number: usize| fields.get(number - 2).copied();
        let value = |number| field(number).and_then(parse_number);
        Some(Self {
            name: Name::from_bytes(name),
            identity: Identity {
                pid,
                start: value(22)?,
                memory: [26, 28, 48].map(|number| value(number).unwrap_or(0)),
            },
            is_kernel_thread: value(9)? & FLAG_KERNEL_THREAD != 0,
            has_ended: matches!(field(3)?, b"Z" | b"X"),
        })
    }

    /// Why the process has no memory to sample; `None` if it has memory.
    pub(crate) fn why_no_memory(&self) -> Option<WhyUnread> {
        match (self.is_kernel_thread, self.has_ended) {
            (true, _) => Some(WhyUnread::KernelThread),
            (_, true) => Some(WhyUnread::Zombie),
            _ => None,
        }
    }
}

fn parse_number(word: &[u8]) -> Option<u64> {
    let plain = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok()
}

/// Whether every user id of a process is `ours`; `None` if it cannot be read.
pub(crate) fn is_ours(pid: u32, ours: u32) -> Option<bool> {
    has_only_ids(&text_of_process(pid, "status").ok()?, ours)
}

fn has_only_ids(status: &[u8], ours: u32) -> Option<bool> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let ids = lines.find_map(|line| line.strip_prefix(b"Uid:"))?;
    let mut ids = ids.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    ids.peek()?;
    Some(ids.all(|id| parse_number(id) == Some(ours.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A shell as printed by a real kernel, with a malicious name.
    const SHELL: &[u8] = b"4711 (a) Z 1 2 (x) S 1 4711 4711 34817 4720 4194304 1120 2 3 4 5 6 7 8 20 0 1 0 8821344 7274496 900 18446744073709551615 94000000000000 94000000900000 140720000000000 0 0 0 65536 3686404 1266761467 1 0 0 17 1 0 0 0 0 0 94000001000000 94000001048000 94000010000000 140720000001000 140720000001010 140720000001010 140720000001023 0\n";
    const KERNEL_THREAD: &[u8] = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_name_cannot_pretend_to_be_the_rest_of_the_line() {
        let stat = Stat::parse(4711, SHELL).unwrap();
        assert_eq!(stat.name.as_str(), "a) Z 1 2 (x");
        assert_eq!(stat.identity.start, 8_821_344);
        assert_eq!(
            stat.identity.memory,
            [94_000_000_000_000, 140_720_000_000_000, 140_720_000_001_000]
        );
        assert_eq!(stat.why_no_memory(), None);
    }

    #[test]
    fn threads_of_the_kernel_and_the_dead_have_no_memory() {
        let thread = Stat::parse(2, KERNEL_THREAD).unwrap();
        assert_eq!(thread.why_no_memory(), Some(WhyUnread::KernelThread));
        let dead = String::from_utf8_lossy(SHELL).replace("(x) S ", "(x) Z ");
        assert_eq!(
            Stat::parse(1, dead.as_bytes()).unwrap().why_no_memory(),
            Some(WhyUnread::Zombie)
        );
    }

    #[test]
    fn we_are_ourselves() {
        let (first, second) = (Stat::read(std::process::id()), Stat::read(std::process::id()));
        assert_eq!(first.unwrap(), second.unwrap());
        let ours = rustix::process::geteuid().as_raw();
        assert_eq!(is_ours(std::process::id(), ours), Some(true));
    }

    #[test]
    fn a_process_is_ours_only_with_all_its_ids() {
        let status = |ids: &str| format!("Name:\tx\nUid:\t{ids}\nGid:\t0\t0\t0\t0\n");
        let ours = |ids: &str| has_only_ids(status(ids).as_bytes(), 0);
        assert_eq!(ours("0\t0\t0\t0"), Some(true));
        assert_eq!(ours("1000\t0\t0\t0"), Some(false));
        assert_eq!(ours("0\t0\t0\t99999999999999999999"), Some(false));
        assert_eq!(ours(""), None);
    }

    proptest! {
        #[test]
        fn garbage_is_no_process(text: Vec<u8>, cut in 0usize..400) {
            let _ = Stat::parse(1, &text);
            let _ = Stat::parse(1, SHELL.get(..cut).unwrap_or(SHELL));
            let _ = has_only_ids(&text, 0);
        }
    }
}
