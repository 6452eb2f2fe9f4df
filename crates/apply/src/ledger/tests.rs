// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger after its end was lost, a line was changed, or a write failed.

use pagewise_model::Evidence;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::fake::{Fake, Fault, STATE};
use crate::live::MAX_JOURNAL;

fn entry() -> impl Strategy<Value = LedgerEntry> {
    let text = "\\PC{0,8}";
    (text, text, 0u32..4000, any::<bool>(), prop::option::of(text)).prop_map(
        |(plan, source, measured, hit, kernel)| LedgerEntry {
            time: Some("2026-11-23T14:02:33Z".to_owned()),
            boot_id: None,
            kernel,
            plan,
            journal: "1".to_owned(),
            applied_unix_seconds: 1,
            step: "zram".to_owned(),
            metric: "swap_area_bytes".to_owned(),
            predicted: 2.5,
            interval: [2.25, 3.0],
            before: None,
            measured: f64::from(measured) / 8.0,
            hit,
            source,
            evidence: vec![Evidence { path: "/x".to_owned(), line: Some(1), value: String::new() }],
        },
    )
}

fn any_entry() -> LedgerEntry {
    entry().new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

/// The bytes of a ledger with these entries.
fn bytes_of(entries: &[LedgerEntry]) -> Vec<u8> {
    let mut fake = Fake::new(true, true);
    add(&mut fake, STATE, entries).unwrap();
    fake.journal(&ledger_path(STATE)).unwrap()
}

fn file_with(bytes: &[u8]) -> Fake {
    let fake = Fake::new(true, true);
    fake.world().journals.insert(ledger_path(STATE), bytes.to_vec());
    fake
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Wherever the file is cut, all complete lines before that are read, and lines appended later
    /// are read after them.
    #[test]
    fn a_ledger_that_is_cut_at_any_byte_keeps_its_whole_lines(
        entries in prop::collection::vec(entry(), 1..3), more in entry(),
    ) {
        let bytes = bytes_of(&entries);
        for end in 0..=bytes.len() {
            let cut = LedgerFile::parse(&bytes[..end]);
            let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            // a record is complete even without its line end
            let whole = ends.filter(|(at, _)| *at <= end).count();
            prop_assert_eq!(&cut.entries[..], &entries[..whole], "{}", end);
            prop_assert!(cut.damaged_lines.is_empty(), "{} {:?}", end, cut);
            let mut fake = file_with(&bytes[..end]);
            add(&mut fake, STATE, std::slice::from_ref(&more)).unwrap();
            let after = LedgerFile::parse(&fake.journal(&ledger_path(STATE)).unwrap());
            prop_assert_eq!(&after.entries[..whole], &entries[..whole]);
            prop_assert_eq!(&after.entries[whole..], std::slice::from_ref(&more));
            prop_assert!(!after.is_torn && after.damaged_lines.is_empty(), "{} {:?}", end, after);
        }
    }

    /// A changed byte affects only its own line, or two lines if it is a line end; it never adds an
    /// entry.
    #[test]
    fn a_changed_byte_is_reported_and_costs_no_other_line(
        entries in prop::collection::vec(entry(), 2..4), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let mut bytes = bytes_of(&entries);
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let read = LedgerFile::parse(&bytes);
        prop_assert!(read.entries.iter().all(|entry| entries.contains(entry)), "{:?}", read);
        prop_assert!(read.entries.len() + 2 >= entries.len());
        let is_end = at + 1 == bytes.len();
        prop_assert!(!read.damaged_lines.is_empty() || is_end, "{:?}", read);
        let mut fake = file_with(&bytes);
        add(&mut fake, STATE, &entries[..1]).unwrap();
        let after = LedgerFile::parse(&fake.journal(&ledger_path(STATE)).unwrap());
        prop_assert_eq!(after.entries.last(), Some(&entries[0]));
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        LedgerFile::parse(&bytes);
    }
}

#[test]
fn a_failed_write_leaves_what_was_there_and_a_later_one_succeeds() {
    let made = &[any_entry()];
    for fault in [Fault::Fail(0), Fault::FailOn(0), Fault::KillBefore(0)] {
        let mut fake = file_with(&bytes_of(made));
        fake.world().faults = vec![fault];
        assert!(matches!(add(&mut fake, STATE, made), Err(Error::State { .. })));
        let bytes = fake.journal(&ledger_path(STATE)).unwrap();
        assert_eq!(LedgerFile::parse(&bytes).entries, made, "{fault:?}");
        let mut next = file_with(&bytes);
        add(&mut next, STATE, made).unwrap();
        let bytes = next.journal(&ledger_path(STATE)).unwrap();
        let file = LedgerFile::parse(&bytes);
        assert_eq!((file.entries.len(), file.is_torn), (2, false), "{fault:?}");
    }
}

#[test]
fn a_ledger_that_is_no_file_or_too_long_is_refused() {
    let mut fake = Fake::new(true, true);
    fake.world().others.insert(ledger_path(STATE));
    let refused = add(&mut fake, STATE, &[]).unwrap_err();
    assert!(matches!(&refused, Error::Ledger { why, .. } if why.contains("a folder")), "{refused}");
    let made = any_entry();
    let most = usize::try_from(MAX_JOURNAL).unwrap();
    let mut long = file_with(&vec![b'\n'; most]);
    let refused = add(&mut long, STATE, &[made]).unwrap_err();
    assert!(refused.to_string().contains("longer than 16 MiB"), "{refused}");
    assert_eq!(long.journal(&ledger_path(STATE)).unwrap().len(), most);
}
