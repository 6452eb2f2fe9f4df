// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the logs among files that somebody else collected, and reads them as texts: those of an
//! sosreport, a supportconfig, a must-gather, a crash dump, or a folder with a `dmesg.txt`.
//!
//! The same kill is often in several logs: in the output of `dmesg` and in a syslog. How far back
//! the logs go together is not known, so that they are treated as if older messages had been
//! overwritten.

use std::io::Read;
use std::path::Path;

use pagewise_hostfs::recording::is_log;
use pagewise_hostfs::{HostRoot, Pieces, ReadHost, unpack};
use pagewise_model::{KernelLog, LogText, Name, OomKill, Reading, Source};

use super::text::read_text;
use crate::limits::{COLLECTED_FOLDERS, COLLECTED_LOG_MIB, COLLECTED_LOGS, OOM_KILLS};

/// Folders that have no logs.
const NO_LOGS: [&str; 7] = ["proc", "sys", "dev", "usr", "lib", "boot", "etc"];
/// Logs are searched in folders of at most this depth: those of a must-gather are in
/// `must-gather.local.1/quay-io-…/host_service_logs/masters`.
const DEPTH: usize = 6;

/// The paths of logs among copied files.
fn find_logs(host: &HostRoot) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        seen += 1;
        if seen > COLLECTED_FOLDERS {
            break;
        }
        let inside = |name: String| match folder.as_str() {
            "" => name,
            folder => format!("{folder}/{name}"),
        };
        // the given folder has no name in a recording in memory, and is `.` on disk
        let is_top = folder.is_empty();
        let list = |list: &dyn Fn(&str) -> Vec<String>| {
            let more = if is_top { list(".") } else { Vec::new() };
            [list(&folder), more].concat()
        };
        let paths = list(&|at| host.names(at)).into_iter().map(inside);
        found.extend(paths.filter(|path| is_log(path) && !path.contains("/journal/")));
        if depth < DEPTH {
            let inner = list(&|at| host.folders(at)).into_iter();
            let inner = inner.filter(|name| !(is_top && NO_LOGS.contains(&name.as_str())));
            folders.extend(inner.rev().map(|name| (inside(name), depth + 1)));
        }
    }
    found
}

/// Reads the logs in a folder that the user named, at any place in it; `None` if there is no log.
///
/// # Errors
///
/// If the folder cannot be opened.
pub fn read_folder(path: &Path) -> std::io::Result<Option<(KernelLog, LogText)>> {
    Ok(read(&HostRoot::folder(path)?))
}

/// The kernel's messages in all logs that were collected; `None` if there is no log.
pub(super) fn read(host: &HostRoot) -> Option<(KernelLog, LogText)> {
    let mut all: Option<(KernelLog, LogText)> = None;
    let mut paths = Vec::new();
    let mut left = (COLLECTED_LOG_MIB as u64) << 20;
    for path in find_logs(host).into_iter().take(COLLECTED_LOGS) {
        let Ok(pieces) = host.pieces(&path) else { continue };
        let file = Text { pieces, at: 0, left: &mut left };
        let Ok(text) = unpack(file) else { continue };
        let Ok((log, about)) = read_text(text, &path) else { continue };
        if about.lines == 0 {
            continue;
        }
        paths.push(path);
        all = Some(match all {
            None => (log, about),
            Some((before, text)) => (merge(before, log), merge_texts(text, about)),
        });
    }
    let (mut log, mut text) = all?;
    let lines = log.records.get().unwrap_or(0);
    let over = log.kills.len().saturating_sub(OOM_KILLS);
    log.kills.drain(..over);
    let source = Source::file(list_first_names(&paths));
    log.records = Reading::found(lines, source);
    log.wrapped = true;
    log.left_out += over as u64;
    text.forms
        .insert(0, Name::from(format!("logs in a folder: {}", list_first_names(&paths)).as_str()));
    Some((log, text))
}

/// The names of logs, the first few of them in full.
fn list_first_names(paths: &[String]) -> String {
    const NAMED: usize = 3;
    let named = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn merge_texts(one: LogText, other: LogText) -> LogText {
    let join = |mut one: Vec<Name>, other: Vec<Name>| {
        for name in other {
            if !one.contains(&name) {
                one.push(name);
            }
        }
        one
    };
    LogText {
        lines: one.lines + other.lines,
        is_cut: one.is_cut || other.is_cut,
        is_reversed: one.is_reversed || other.is_reversed,
        files_unread: one.files_unread + other.files_unread,
        messages_unread: one.messages_unread + other.messages_unread,
        forms: join(one.forms, other.forms),
        machines: join(one.machines, other.machines),
        kernels: join(one.kernels, other.kernels),
        boots: one.boots.max(other.boots),
        names_kernel: one.names_kernel || other.names_kernel,
        by_programs: one.by_programs + other.by_programs,
        signs: one.signs + other.signs,
        first_sign: one.first_sign.or(other.first_sign),
        page_size: one.page_size.or(other.page_size),
    }
}

/// Adds to `log` what another log contains. Two kills are taken to be the same if their victims are
/// equal: process id, name and sizes.
fn merge(mut log: KernelLog, other: KernelLog) -> KernelLog {
    let is_same = |one: &OomKill, other: &OomKill| one.victim == other.victim;
    for kill in other.kills {
        match log.kills.iter_mut().find(|known| is_same(known, &kill)) {
            Some(known) if known.host.is_none() && known.group_memory.is_none() => *known = kill,
            Some(_) => {}
            None => log.kills.push(kill),
        }
    }
    for failure in other.failures {
        let is_known = log.failures.iter().any(|known| {
            (&known.name, known.order, known.boot_seconds.to_bits())
                == (&failure.name, failure.order, failure.boot_seconds.to_bits())
        });
        if !is_known {
            log.failures.push(failure);
        }
    }
    for kill in other.user_kills {
        let is_known = log
            .user_kills
            .iter()
            .any(|known| (&known.victim, known.pid, known.by) == (&kill.victim, kill.pid, kill.by));
        if !is_known {
            log.user_kills.push(kill);
        }
    }
    for kill in other.unit_kills {
        let is_known = log.unit_kills.iter().any(|known| known.unit == kill.unit);
        if !is_known {
            log.unit_kills.push(kill);
        }
    }
    for task in other.hung_tasks {
        let is_known =
            log.hung_tasks.iter().any(|known| (known.pid, &known.name) == (task.pid, &task.name));
        if !is_known {
            log.hung_tasks.push(task);
        }
    }
    let lines = log.records.get().unwrap_or(0) + other.records.get().unwrap_or(0);
    KernelLog {
        records: Reading::found(lines, log.records.source.clone()),
        left_out: log.left_out + other.left_out,
        failures_left_out: log.failures_left_out + other.failures_left_out,
        hung_tasks_left_out: log.hung_tasks_left_out + other.hung_tasks_left_out,
        not_understood: log.not_understood + other.not_understood,
        first_not_understood: log.first_not_understood.or(other.first_not_understood),
        ..log
    }
}

/// Reads a log from start to end, at most as many bytes as may still be read of all logs together.
pub(super) struct Text<'a> {
    pub(super) pieces: Pieces<'a>,
    pub(super) at: u64,
    pub(super) left: &'a mut u64,
}

impl Read for Text<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(*self.left).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = self.pieces.read(self.at, most);
        if let Some(begin) = buffer.get_mut(..bytes.len()) {
            begin.copy_from_slice(&bytes);
        }
        self.at += bytes.len() as u64;
        *self.left -= bytes.len() as u64;
        Ok(bytes.len())
    }
}
