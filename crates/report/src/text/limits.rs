// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What could not be read: malformed files, and sections for which root is needed.
//!
//! A section that contains something only root can read is detected by its JSON: the key `denied`
//! with its text. New fields are therefore covered without a change here. What is denied even to
//! root is not counted.

use std::io::{self, Write};

use pagewise_model::{Bytes, FeatureState, Outcome, Reading, Snapshot};
use serde::Serialize;

use super::kit::{Line, Page, Role};
use super::words::{UNCOLLECTED, can_root_read, count, plural};

const SHOWN: usize = 10;

/// Prints the Problems: places in the host's files that could not be parsed, and were skipped.
pub(super) fn print_problems(page: &mut Page, snapshot: &Snapshot) {
    let problems = &snapshot.problems;
    if problems.is_empty() {
        return;
    }
    let number = plural(problems.len() as u64, "place");
    page.heading("Not understood", &format!("{number}; what stands there counts as absent"));
    for problem in problems.iter().take(SHOWN) {
        page.hang(Line::indent(4), 6, Role::Plain, &problem.to_string());
    }
    if problems.len() > SHOWN {
        let rest = count((problems.len() - SHOWN) as u64);
        page.prose(4, Role::Quiet, &format!("and {rest} more: pagewise report --json lists all"));
    }
}

/// Prints what a run as root would add; nothing if nothing was denied.
pub(super) fn print_denied(page: &mut Page, snapshot: &Snapshot) {
    let sections = denied_sections(snapshot);
    if !sections.is_empty() {
        page.gap();
        page.fact_items("Root would add", &sections);
    }
}

fn denied_sections(snapshot: &Snapshot) -> Vec<String> {
    let s = snapshot;
    let sections = [
        ("the memory totals", has_denied(&s.memory)),
        (
            "the counters of vmstat",
            can_root_read(&s.vmstat.get("pgfault")) || has_denied(&s.vmstat),
        ),
        ("pressure", has_denied(&s.psi)),
        ("zones", has_denied(&s.zones)),
        ("fragmentation", has_denied(&s.free_blocks)),
        ("sizes of tmpfs", has_denied(&s.memory_files.mounts)),
        ("who keeps deleted files open", s.memory_files.processes_denied > 0),
        ("swap tiers", has_denied(&s.tiers)),
        ("details of zram", has_denied(&s.zram)),
        ("details of zmerge", has_denied(&s.zmerge)),
        ("zswap", has_denied(&s.zswap)),
        ("KSM", has_denied(&s.ksm)),
        ("hugetlb pools", has_denied(&s.hugetlb)),
        ("details of huge pages", has_denied(&s.thp)),
        ("MGLRU", has_denied(&s.mglru)),
        ("DAMON", has_denied(&s.damon)),
        ("the kernel log", has_denied(&s.kernel_log)),
        ("some settings", has_denied(&s.knobs)),
        ("some kernel features", missing(s).is_empty() && has_denied_feature(s)),
        ("details of cgroups", has_denied(&s.cgroups)),
    ];
    let mut names: Vec<String> =
        sections.iter().filter(|(_, denied)| *denied).map(|(name, _)| (*name).to_owned()).collect();
    names.extend(denied_processes(s));
    names
}

fn has_denied_feature(snapshot: &Snapshot) -> bool {
    snapshot.capabilities.iter().any(|feature| feature.state == FeatureState::Denied)
}

/// The most important things that are not among copied files of a machine; empty if nothing is
/// missing, or the files are not such copies.
pub(super) fn missing(snapshot: &Snapshot) -> Vec<&'static str> {
    let s = snapshot;
    // the searches take time, and only copies lack files that their host had
    if s.host.copies.is_none() {
        return Vec::new();
    }
    let (psi, mglru) = (has_uncollected(&s.psi), has_uncollected(&s.mglru));
    let memory = is_uncollected(&s.memory.total);
    let counters =
        is_uncollected(&s.vmstat.get("pgfault")) || is_uncollected(&s.vmstat.get("oom_kill"));
    if !(psi || mglru || memory || counters || has_uncollected(&s.knobs)) {
        return Vec::new();
    }
    let has_swap = s.memory.swap_total.get().is_none_or(|size| size > Bytes::new(0));
    let sections = [
        ("memory totals", memory),
        ("counters (vmstat)", counters),
        ("pressure", psi),
        ("zones", s.zones.is_empty()),
        ("swap areas", s.tiers.is_empty() && has_swap),
        ("MGLRU", mglru),
        ("processes", s.processes.list.is_empty()),
        ("cgroups", s.cgroups.groups.is_empty()),
        ("the kernel log", s.kernel_log.records.get().is_none()),
    ];
    sections.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect()
}

fn is_uncollected<T>(reading: &Reading<T>) -> bool {
    matches!(&reading.outcome, Outcome::Denied(help) if help == UNCOLLECTED)
}

/// Whether any Reading inside of this value is of a file that was not collected.
fn has_uncollected(noun: &impl Serialize) -> bool {
    let mut search = Search { needle: NOT_IN_COPY, ..Search::default() };
    // the search never fails, see `has_denied`
    let _ = serde_json::to_writer(&mut search, noun);
    search.found
}

fn denied_processes(snapshot: &Snapshot) -> Option<String> {
    let processes = &snapshot.processes;
    let denied =
        processes.list.iter().filter(|process| can_root_read(&process.proportional)).count();
    if denied > 0 {
        return Some(format!("proportional sizes of up to {}", plural(denied as u64, "process")));
    }
    has_denied(processes).then(|| "details of processes".to_owned())
}

/// Whether any Reading inside of this value is denied but readable as root.
fn has_denied(noun: &impl Serialize) -> bool {
    let mut search = Search::default();
    // the search never fails, and a value that JSON cannot represent contains nothing denied
    let _ = serde_json::to_writer(&mut search, noun);
    search.found
}

/// A writer that searches for [`NEEDLE`] and stores nothing.
#[derive(Debug)]
struct Search {
    needle: &'static [u8],
    matched: usize,
    found: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self { needle: NEEDLE, matched: 0, found: false }
    }
}

/// The JSON that only a denied Reading prints: quotes inside of strings are escaped.
const NEEDLE: &[u8] = b"\"denied\":\"run as root\"";
/// The JSON that only a Reading of a file prints that is not among copied files of a machine.
const NOT_IN_COPY: &[u8] = b"\"denied\":\"not in this recording\"";

impl Search {
    fn take(&mut self, byte: u8) {
        if self.needle.get(self.matched) == Some(&byte) {
            self.matched += 1;
        } else {
            self.matched = usize::from(byte == b'"');
        }
        if self.matched == self.needle.len() {
            self.found = true;
            self.matched = 0;
        }
    }
}

impl Write for Search {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.found {
            bytes.iter().for_each(|&byte| self.take(byte));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Bytes, Memory, Name, Problem, Reading, SmapsTally, Source};

    use super::*;
    use crate::text::words::AS_ROOT;

    #[test]
    fn a_denied_reading_is_found_wherever_it_is() {
        let at = || Source::file("/proc/x");
        let mut memory = Memory::default();
        assert!(!has_denied(&memory));
        memory.other.insert(Name::from("denied"), Reading::found(Bytes::new(1), at()));
        assert!(!has_denied(&memory));
        memory.other.insert(Name::from("New"), Reading::denied(AS_ROOT, at()));
        assert!(has_denied(&memory));
    }

    #[test]
    fn the_word_elsewhere_is_no_denial() {
        assert!(!has_denied(&SmapsTally { denied: 3, ..SmapsTally::default() }));
        let found = b"\"denied\":\"run as root\"";
        assert!(!has_denied(&Problem::new(&Source::file("/x"), "a word", found)));
        assert!(!has_denied(&"\"denied\":\"run as root\""));
        let refused = Reading::<u64>::denied("refused even to root", Source::file("/proc/x"));
        assert!(!has_denied(&refused));
    }

    #[test]
    fn what_is_split_between_writes_is_found() {
        let mut search = Search::default();
        for piece in ["{\"\":0,\"den", "ied", "\"", ":", "\"run", " as root", "\""] {
            search.write_all(piece.as_bytes()).unwrap();
        }
        assert!(search.found);
    }
}
