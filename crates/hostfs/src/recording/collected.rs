// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which files of an archive are files of a host that a support tool, such as sosreport,
//! collected.
//!
//! All files of such an archive are in one folder, whose name contains the name of the host. Most
//! of them are never read here; only those that a reader may ask for are kept. A file that the
//! archive lacks was not collected; the host may have had it.

use std::collections::VecDeque;
use std::io::Read;

use super::limits::refused_path;
use super::manifest::FILE;

/// Top folders of a recording of Pagewise.
const OF_RECORDING: [&str; 3] = ["start", "end", "steps"];

/// Folders at the top of a host. An archive whose first path begins with one of them has no folder
/// around its files.
const OF_HOST: [&str; 11] =
    ["proc", "sys", "etc", "dev", "run", "usr", "lib", "boot", "var", "journal", "sos_commands"];

/// Folders of which all files are kept, because readers of settings read most of them.
const KEPT: [&str; 17] = [
    "proc/",
    "sys/",
    "etc/",
    "run/",
    "lib/",
    "usr/lib/",
    "dev/kmsg",
    "boot/config-",
    "journal/",
    "sos_commands/kernel/",
    "sos_commands/memory/",
    "sos_commands/general/",
    "sos_commands/host/",
    "sos_commands/date/",
    "sos_commands/sar/sar",
    "var/log/sa/sar",
    "var/log/sysstat/sar",
];

/// How the paths of binary files of sysstat begin; digits follow.
const SYSSTAT: [&str; 2] = ["var/log/sa/sa", "var/log/sysstat/sa"];

/// Large files that no reader asks for.
const LEFT_OUT: [&str; 2] = ["proc/kallsyms", "proc/vmallocinfo"];

/// How the names of logs begin that may hold messages of the kernel.
const LOGS: [&str; 9] = [
    "dmesg",
    "vmcore-dmesg",
    "kern.log",
    "messages",
    "syslog",
    "journalctl_",
    "journal.log",
    "boot.txt",
    "console",
];

/// Files whose names begin like those of logs, and the commands of sosreport that list files.
const NO_LOGS: [&str; 4] =
    ["journalctl_--disk-usage", "journalctl_--list-boots", "console-setup", "dmesg_grep"];

/// Whether a file of a collection is a log, by its name.
pub fn is_log(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_of_kernel = ["proc/", "sys/", "etc/", "usr/"].iter().any(|top| path.starts_with(top));
    let is_named = LOGS.iter().any(|log| name.starts_with(log))
        && !NO_LOGS.iter().any(|other| name.starts_with(other));
    let is_service = folder.contains("host_service_logs") && name.ends_with(".log");
    let is_journal =
        ["var/log/journal/", "run/log/journal/"].iter().any(|top| path.starts_with(top));
    !is_of_kernel && (is_named || is_service || is_journal)
}

/// Whether a log is in a format of which the end cannot be parsed without the beginning.
pub(super) fn is_binary(path: &str) -> bool {
    [".gz", ".xz", ".zst", ".journal", ".journal~"].iter().any(|end| path.ends_with(end))
}

/// Whether only the name of a file is kept, because no reader understands its contents, but one says
/// that it is there: binary files of sysstat.
pub(super) fn is_only_named(path: &str) -> bool {
    let digits = SYSSTAT.iter().find_map(|begin| path.strip_prefix(begin)).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn is_kept(path: &str) -> bool {
    let is_at_top = !path.contains('/');
    let is_kept = is_at_top || KEPT.iter().any(|begin| path.starts_with(begin)) || is_log(path);
    let is_kept = is_kept || is_only_named(path);
    is_kept && !LEFT_OUT.contains(&path)
}

/// What an entry of an archive is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A part of a recording of Pagewise, or a path that no archive should have.
    Recording(Vec<u8>),
    /// A file of a host, by its path on the host.
    Collected(String),
    /// A file that no reader asks for.
    Unused,
}

/// How the paths of an archive begin.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The folder around all files, with a slash; empty if there is none, `None` before the first
    /// entry.
    around: Option<String>,
}

impl Layout {
    /// Finds out what an entry with this path is. The first entry determines the folder that is
    /// around all files.
    pub(super) fn place(&mut self, raw: &[u8]) -> Place {
        let Ok(path) = std::str::from_utf8(raw) else { return Place::Recording(raw.to_vec()) };
        let path = path.strip_prefix("./").unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        if matches!(path, "" | ".") {
            return Place::Unused;
        }
        if refused_path(path).is_some() {
            return Place::Recording(raw.to_vec());
        }
        let top = path.split('/').next().unwrap_or_default();
        let is_inner = top == FILE || OF_RECORDING.contains(&top) || OF_HOST.contains(&top);
        self.around.get_or_insert_with(|| if is_inner { String::new() } else { format!("{top}/") });
        let Some(inner) = self.strip(path) else { return Place::Unused };
        let top = inner.split('/').next().unwrap_or_default();
        if top == FILE || OF_RECORDING.contains(&top) {
            Place::Recording(inner.as_bytes().to_vec())
        } else if is_kept(inner) {
            Place::Collected(inner.to_owned())
        } else {
            Place::Unused
        }
    }

    /// The path inside of the folder that is around all files.
    pub(super) fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_prefix("./").unwrap_or(path);
        path.strip_prefix(self.around.as_deref().unwrap_or_default())
    }
}

/// The last bytes of a file, at most `most`, and the size of the file: the newest messages of a log
/// are at its end. The first line is left out if it was cut.
pub(super) fn read_tail(file: &mut impl Read, most: usize) -> std::io::Result<(Vec<u8>, u64)> {
    let mut kept = VecDeque::new();
    let mut piece = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        size += length as u64;
        kept.extend(piece.get(..length).unwrap_or_default());
        let over = kept.len().saturating_sub(most);
        kept.drain(..over);
    }
    let mut kept = Vec::from(kept);
    if size > kept.len() as u64 {
        let end = memchr::memchr(b'\n', &kept).map_or(kept.len(), |at| at + 1);
        kept.drain(..end);
    }
    Ok((kept, size))
}

/// The path on the host to which a link leads; `None` if it leads outside.
pub(super) fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        path.rsplit_once('/').map(|(folder, _)| folder.split('/').collect()).unwrap_or_default()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(paths: &[&str]) -> Vec<Place> {
        let mut layout = Layout::default();
        paths.iter().map(|path| layout.place(path.as_bytes())).collect()
    }

    #[test]
    fn the_folder_around_all_files_is_no_part_of_a_path() {
        let collected = |path: &str| Place::Collected(path.to_owned());
        for around in ["sosreport-db1-2026-11-27/", "./case/", "", "./"] {
            let paths = ["", "proc/meminfo", "srv/data", "var/log/messages-1.gz", "proc/kallsyms"];
            let paths = paths.map(|path| format!("{around}{path}"));
            let found = places(&paths.each_ref().map(String::as_str));
            let expected = [collected("proc/meminfo"), Place::Unused];
            assert_eq!(found[1..3], expected, "{around}");
            assert_eq!(found[3..], [collected("var/log/messages-1.gz"), Place::Unused]);
        }
        let packed_again = places(&["host-1", "host-1/host.toml", "host-1/end/proc/stat"]);
        assert_eq!(packed_again[2], Place::Recording(b"end/proc/stat".to_vec()));
        assert_eq!(places(&["a/proc/stat", "b/proc/stat"])[1], Place::Unused);
    }

    #[test]
    fn links_stay_inside() {
        let at = |target| resolve("sys/block/sda", target);
        assert_eq!(at("../devices/x/sda").as_deref(), Some("sys/devices/x/sda"));
        assert_eq!(at("/proc/stat").as_deref(), Some("proc/stat"));
        assert_eq!(at("../../../etc/shadow"), None);
    }

    #[test]
    fn of_a_long_log_the_end_is_kept() {
        let text = (0..9).map(|line| format!("line {line}\n")).collect::<String>();
        let (kept, size) = read_tail(&mut text.as_bytes(), 20).unwrap();
        assert_eq!((kept.as_slice(), size), (b"line 7\nline 8\n".as_slice(), 63));
        assert_eq!(read_tail(&mut text.as_bytes(), 63).unwrap().0, text.as_bytes());
    }
}
