// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds to the kernel's kills those by programs (systemd-oomd, earlyoom, nohang, kubelet), what
//! Docker reports of kills in containers, and what systemd reports of units in which the kernel
//! killed.
//!
//! Their messages are in journald's files. Only messages are used whose sender journald itself
//! recorded: of the unit of such a program, or of process 1. Of a machine without such files, the
//! end of its syslog is read as a text, whose messages any program can have written.
//!
//! The messages are not part of a recording: only their number is, if there was no kill among them.

use std::io::BufReader;

use pagewise_hostfs::text::{lines, number, words};
use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal, absolute_path};
use pagewise_model::{KernelLog, Reading, Source};

use super::collected::Text;
use super::text::program_messages::ProgramMessages;
use super::text::read_text;
use crate::journald::{self, FOLDERS};
use crate::limits::SYSLOG_MIB;

/// Files of a syslog with the messages of programs, on Debian and on Fedora.
const SYSLOGS: [&str; 2] = ["var/log/syslog", "var/log/messages"];

/// The path in a recording of the file with the number of messages.
const PATH: &str = "journal/programs";
/// Why the number of messages is not known if a recording has no such file.
const NOT_RECORDED: &str = "a recording has no messages of programs";

/// Adds to `log` the kills by programs that journald's files or a syslog report.
pub(super) fn complete(host: &HostRoot, log: KernelLog) -> KernelLog {
    if !host.is_live() {
        match host.bytes(PATH) {
            Err(refusal) if refusal.is_missing() => {}
            Err(refusal) => {
                let program_messages = refusal.reading(Source::file(absolute_path(FOLDERS[0].0)));
                return KernelLog { program_messages, ..log };
            }
            Ok(kept) => return Counted::parse(&kept).map_or(log.clone(), |it| it.add_to(log)),
        }
    }
    match search(host, &log) {
        Ok(found) => {
            host.remember(PATH, || Counted::entry(&found));
            found
        }
        Err(refusal) => {
            host.remember(PATH, || Entry::Refused(refusal.clone()));
            let program_messages = refusal.reading(Source::file(absolute_path(FOLDERS[0].0)));
            KernelLog { program_messages, ..log }
        }
    }
}

/// What a recording stores about the messages: how many there were, and in which file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    read: u64,
    left_out: u64,
    path: &'static str,
}

impl Counted {
    fn entry(log: &KernelLog) -> Entry {
        let has_kill = !log.user_kills.is_empty() || !log.unit_kills.is_empty();
        let counted = log.program_messages.get().filter(|_| !has_kill).and_then(|read| {
            let shown = log.program_messages.source.path();
            let path = Self::paths().find(|path| absolute_path(path) == shown)?;
            Some(Self { read, left_out: log.program_messages_left_out, path })
        });
        let not_recorded = Refusal::Absent(NOT_RECORDED.into());
        Entry::from_answer(&counted.map(|counted| counted.print()).ok_or(not_recorded))
    }

    fn paths() -> impl Iterator<Item = &'static str> {
        [FOLDERS[0].0].into_iter().chain(SYSLOGS)
    }

    /// Formats the count: `programs read=12 left_out=0 of=var/log/journal`.
    fn print(&self) -> Vec<u8> {
        let Self { read, left_out, path } = self;
        format!("programs read={read} left_out={left_out} of={path}\n").into_bytes()
    }

    fn parse(kept: &[u8]) -> Option<Self> {
        let mut parts = words(lines(kept).next()?.strip_prefix(b"programs ")?);
        let read = number(parts.next()?.strip_prefix(b"read=")?)?;
        let left_out = number(parts.next()?.strip_prefix(b"left_out=")?)?;
        let path = parts.next()?.strip_prefix(b"of=")?;
        let path = Self::paths().find(|known| known.as_bytes() == path)?;
        Some(Self { read, left_out, path })
    }

    fn add_to(self, log: KernelLog) -> KernelLog {
        KernelLog {
            program_messages: Reading::found(self.read, Source::file(absolute_path(self.path))),
            program_messages_left_out: self.left_out,
            ..log
        }
    }
}

/// Checks a recorded count for a capture: only its numbers may be in the capture.
pub fn check_count(kept: &[u8]) -> Option<Vec<u8>> {
    Counted::parse(kept).map(|counted| counted.print())
}

/// Adds to `log` the kills that the files of this host report.
fn search(host: &HostRoot, log: &KernelLog) -> Result<KernelLog, Refusal> {
    let source = Source::file(absolute_path(FOLDERS[0].0));
    let mut messages = ProgramMessages::default();
    let answer = journald::read_each(host, &mut |file| {
        messages.read_from(file);
        true
    });
    let Err(refusal) = answer else { return Ok(messages.add_to(log.clone(), source)) };
    // the logs of a folder, which were collected, have been searched for programs already
    if log.program_messages.get().is_some() {
        return Ok(log.clone());
    }
    if let Some((lines, of_syslog)) = SYSLOGS.iter().find_map(|path| read_syslog(host, path)) {
        return Ok(KernelLog {
            program_messages: Reading::found(lines, of_syslog.records.source),
            user_kills: of_syslog.user_kills,
            unit_kills: of_syslog.unit_kills,
            ..log.clone()
        });
    }
    Err(match refusal {
        Refusal::Absent(_) if !host.is_live() && !host.is_copy() => {
            Refusal::Absent(NOT_RECORDED.into())
        }
        Refusal::Absent(_) => Refusal::Absent("no files of journald and no syslog here".into()),
        denied @ Refusal::Denied(_) => denied,
    })
}

/// Reads the end of a syslog; `None` if it is missing, empty or not readable. Returns the number of
/// lines.
fn read_syslog(host: &HostRoot, path: &str) -> Option<(u64, KernelLog)> {
    let pieces = host.pieces(path).ok()?;
    let mut left = (SYSLOG_MIB as u64) << 20;
    let at = pieces.length().saturating_sub(left);
    let text = BufReader::new(Text { pieces, at, left: &mut left });
    let (log, about) = read_text(text, &absolute_path(path)).ok()?;
    (about.lines > 0).then_some((about.lines, log))
}
