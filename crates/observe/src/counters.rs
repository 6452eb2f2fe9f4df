// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of `name value` lines (`/proc/vmstat`, `memory.stat`) into [`Counters`].
//!
//! Which counters exist depends on the kernel, so every line is kept under its name. If a file
//! cannot be read, each counter asked for is absent or denied for the file's reason, so that "not
//! permitted" is never confused with "not counted by this kernel".

use pagewise_model::{Counters, Name, Reading, Source};

use crate::limits::COUNTER_LINES;
use pagewise_hostfs::text::{Line, Text, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, Refusal, absolute_path};

/// Reads the counters of a file. If it cannot be read, the result is empty and every counter gives
/// the reason.
pub fn read(host: &HostRoot, path: &str) -> Counters {
    parse(host, path, host.bytes(path))
}

/// As [`read`], of a file that was read already.
pub(crate) fn parse(host: &HostRoot, path: &str, read: Result<Vec<u8>, Refusal>) -> Counters {
    match read.map(|bytes| Text::new(&absolute_path(path), bytes)) {
        Ok(text) => {
            text.first_lines(host, COUNTER_LINES).map(|line| counter(host, &line)).collect()
        }
        Err(refusal) => Counters::unread(refusal.reading(Source::file(absolute_path(path)))),
    }
}

/// The number on the line that begins with this word, such as `oom_kill` or `MemAvailable:`. For
/// values that are asked for every second: the other lines are not parsed.
pub(crate) fn find_number(text: &[u8], word: &[u8]) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| {
        line.strip_prefix(word).filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
    })?;
    number(words(rest).next()?)
}

fn counter(host: &HostRoot, line: &Line<'_>) -> (Name, Reading<u64>) {
    let text = line.bytes.trim_ascii();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let value = number(rest.trim_ascii_start());
    (Name::from_bytes(name), line.reading(host, "a name and a whole number", value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagewise_model::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};
    use pagewise_hostfs::ReadHost;

    const VMSTAT: &str = "nr_free_pages 5930332\nnr_zone_inactive_anon 2621\nworkingset_refault_file 707966\npgfault 8146316\npgmajfault 5119\nzswpwb 0\n";

    #[test]
    fn every_text_a_counter_that_knows_where_it_stands() {
        let counters = read(&host([("proc/vmstat", VMSTAT)]), "proc/vmstat");
        assert_eq!(counters.len(), 6);
        let faults = counters.get("pgmajfault");
        assert_eq!(
            (faults.get(), faults.source.to_string().as_str()),
            (Some(5119), "/proc/vmstat:5")
        );
        assert_eq!(counters.get("zswpwb").get(), Some(0));
        assert_eq!(counters.get("zswpwbs").get(), None);
    }

    #[test]
    fn one_number_is_found_by_its_whole_word() {
        let text = b"MemFree:  1 kB\nMemAvailable:   24233328 kB\noom_kill_x 1\noom_kill 7\nlast";
        for (word, expected) in [
            ("MemAvailable:", Some(24_233_328)),
            ("oom_kill", Some(7)),
            ("kB", None),
            ("last", None),
            ("oom_kil", None),
        ] {
            assert_eq!(find_number(text, word.as_bytes()), expected, "{word}");
        }
        assert_eq!(find_number(b"a \nb x\n", b"a"), None);
        assert_eq!(find_number(b"a \nb x\n", b"b"), None);
    }

    #[test]
    fn a_line_that_is_no_counter_is_absent_and_a_problem() {
        let host = host([(
            "proc/vmstat",
            "pgfault 1 2\npgmajfault 99999999999999999999999999999999\nx\n",
        )]);
        let counters = read(&host, "proc/vmstat");
        assert!(
            ["pgfault", "pgmajfault", "x"].iter().all(|name| counters.get(name).get().is_none())
        );
        let lines: Vec<_> = host.take_problems().iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn counters_of_a_file_that_is_not_ours_are_denied_and_not_absent() {
        let host = HostRoot::memory([denied_entry("proc/vmstat")]);
        let faults = read(&host, "proc/vmstat").get("pgfault");
        assert!(faults.is_denied());
        assert_eq!(faults.source.to_string(), "/proc/vmstat");
        let missing = read(&host, "proc/other").get("pgfault");
        assert_eq!(missing.outcome, Outcome::Absent("no such file".into()));
    }

    #[test]
    fn a_file_of_millions_of_lines_stays_small() {
        let lines: String = (0..100_000).map(|n| format!("c{n} 1\n")).collect();
        let host = host([("proc/vmstat", &lines)]);
        assert_eq!(read(&host, "proc/vmstat").len(), COUNTER_LINES);
        assert_eq!(host.take_problems().len(), 1);
    }

    proptest! {
        /// Counters printed as `name value` lines are read back, with any white space around them.
        #[test]
        fn printed_counters_are_read_back(
            wanted in prop::collection::btree_map("[a-z_]{1,12}", any::<u64>(), 0..40),
            gap in "[ \t]{1,4}",
        ) {
            let text: String = wanted.iter().map(|(name, n)| format!("{name}{gap}{n}\n\n")).collect();
            let counters = read(&host([("f", &text)]), "f");
            let found: BTreeMap<String, u64> =
                counters.iter().map(|(name, n)| (name.to_string(), n.get().unwrap())).collect();
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in mangle(VMSTAT)) {
            read(&host([("f", &bytes)]), "f");
        }
    }
}
