// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel messages around each OOM killer report in the journal files of systemd's
//! journald.
//!
//! The kernel's own log is a ring buffer in memory. journald copies it into files, which are kept
//! longer than the buffer and, in `/var/log/journal`, across boots. No program is started to read
//! them: `pagewise-journald` parses their format, and the caller's reader interprets the messages.
//! Only the system journal of this machine is read, because only that contains kernel messages.

use std::time::Duration;

use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, Pieces, ReadHost, Refusal};
use pagewise_journald::{self as format, Budget, JournalFile, ReadPieces, Reader, Unreadable};
use rustix::fs::OFlags;

use crate::limits::{JOURNAL_BLOCKS, JOURNAL_ENTRIES, JOURNAL_FILES, JOURNAL_REPORTS};

/// Time limit for reading the files of a live machine, whose disk may be slow. Milliseconds are
/// normal; half a second was too short in a guest on an overloaded host. A recording is read
/// without a limit, so that it always gives the same result.
const LONGEST_READ: Duration = Duration::from_secs(2);

/// Where journald keeps its files: on disk, or in memory until shutdown.
pub(crate) const FOLDERS: [(&str, &str); 2] =
    [("var/log/journal", "persistent"), ("run/log/journal", "volatile")];

/// The advice if journald's files may not be read.
const NEEDED: &str = "run as root, or as a member of the group systemd-journal";

/// Statistics of a search through journald's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Searched {
    /// Number of journal files searched.
    pub(crate) files: u64,
    /// Number of journal files skipped, or read only in part.
    pub(crate) left_out: u64,
    /// Time of the oldest message in the files searched, in microseconds since 1970; 0 if unknown.
    pub(crate) since: u64,
}

/// An open journal file, in the interface that the parser requires.
#[derive(Debug)]
pub(crate) struct OpenFile<'a>(pub(crate) Pieces<'a>);

impl ReadPieces for OpenFile<'_> {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        self.0.read(offset, length)
    }
}

/// Passes to `reader` the kernel messages around the newest reports, starting with the newest file.
pub(crate) fn search(host: &HostRoot, reader: &mut dyn Reader) -> Result<Searched, Refusal> {
    let mut reports = JOURNAL_REPORTS;
    read_each(host, &mut |file| {
        reports -= format::search(file, reports, reader);
        reports > 0
    })
}

/// Passes the files of the system journal to `read`, the newest first, until it returns false.
pub(crate) fn read_each(
    host: &HostRoot,
    read: &mut dyn FnMut(&mut JournalFile<'_>) -> bool,
) -> Result<Searched, Refusal> {
    let paths = list_paths(host)?;
    let longest = host.is_live().then_some(LONGEST_READ);
    let budget = Budget::new(JOURNAL_BLOCKS, JOURNAL_ENTRIES, longest);
    let mut searched = Searched::default();
    let mut refused = None;
    for (at, path) in paths.iter().enumerate() {
        if at >= JOURNAL_FILES || budget.is_spent() {
            searched.left_out += 1;
            continue;
        }
        let mut goes_on = true;
        let pieces = host.pieces(path).map(OpenFile);
        match pieces.as_ref().map(|pieces| JournalFile::open(pieces, &budget)) {
            Ok(Ok(mut file)) => {
                goes_on = read(&mut file);
                searched.files += 1;
                if file.first_entry_time() > 0 {
                    let oldest = if searched.since == 0 { u64::MAX } else { searched.since };
                    searched.since = oldest.min(file.first_entry_time());
                }
                if budget.is_spent() {
                    searched.left_out += 1;
                }
            }
            Ok(Err(Unreadable::Garbled | Unreadable::Newer)) => searched.left_out += 1,
            Err(refusal) => {
                searched.left_out += 1;
                refused.get_or_insert(refusal.clone());
            }
        }
        if !goes_on {
            break;
        }
    }
    match refused {
        Some(Refusal::Denied(_)) if searched.files == 0 => Err(Refusal::Denied(NEEDED.into())),
        Some(refusal) if searched.files == 0 => Err(refusal),
        _ => Ok(searched),
    }
}

/// Paths of the files of the system journal, newest first.
fn list_paths(host: &HostRoot) -> Result<Vec<String>, Refusal> {
    let mut found: Vec<(u64, String)> = Vec::new();
    for (folder, _) in FOLDERS {
        let machines = machines(host, folder)?;
        for machine in machines {
            let folder = format!("{folder}/{machine}");
            let names = host.names(&folder).into_iter();
            found.extend(
                names.filter_map(|name| Some((age_rank(&name)?, format!("{folder}/{name}")))),
            );
        }
    }
    if found.is_empty() {
        return Err(Refusal::Absent(NO_SUCH_FILE.into()));
    }
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Names of the journal folders to search: that of this machine, or all if its machine id is
/// unknown. The journal folder may also hold collected files of other machines and links to those
/// of containers.
fn machines(host: &HostRoot, folder: &str) -> Result<Vec<String>, Refusal> {
    let is_id = |name: &[u8]| name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit);
    let mut all = host.folders(folder);
    all.retain(|name| is_id(name.as_bytes()));
    if all.is_empty() {
        return match host.live_folder(folder, OFlags::RDONLY) {
            Some(Err(Refusal::Denied(_))) => Err(Refusal::Denied(NEEDED.into())),
            _ => Ok(all),
        };
    }
    let own = host.pieces("etc/machine-id").map(|file| file.read(0, 32)).unwrap_or_default();
    if is_id(&own) {
        all.retain(|name| name.as_bytes() == own);
    }
    Ok(all)
}

/// A number that is larger for newer files of the system journal; `None` for any other name. The
/// active file has the plain name. The name of an archived file contains the time of its first
/// entry, that of a file that was not closed properly the time at which it was set aside.
fn age_rank(name: &str) -> Option<u64> {
    if name == "system.journal" {
        return Some(u64::MAX);
    }
    let rest = name.strip_prefix("system@")?;
    let time = match (rest.strip_suffix(".journal"), rest.strip_suffix(".journal~")) {
        (Some(rest), _) => rest.rsplit('-').next()?,
        (_, Some(rest)) => rest.split('-').next()?,
        _ => return None,
    };
    u64::from_str_radix(time, 16).ok()
}
