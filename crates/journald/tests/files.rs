// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Searches journal files that were created here and by journald.

use pagewise_journald::written::{Packing, Variant, Written, make_journal};
use pagewise_journald::{
    Budget, JournalFile, KernelMessage, ReadPieces, Reader, Unreadable, search,
};
use proptest::prelude::*;

const BOOT: [u8; 16] = [7; 16];

/// Collects all messages; lines from `begin` to `end` are a report.
#[derive(Debug, Default)]
struct Collected {
    texts: Vec<String>,
    stretches: usize,
    is_open: bool,
    /// Messages of this boot from here on are known already.
    has_from: Option<u64>,
}

impl Reader for Collected {
    fn has(&self, message: &KernelMessage) -> bool {
        self.has_from.is_some_and(|from| message.micros >= from)
    }

    fn take(&mut self, message: &KernelMessage) -> bool {
        let text = String::from_utf8_lossy(&message.text).into_owned();
        self.is_open |= text.contains("invoked oom-killer");
        let takes = self.is_open;
        self.is_open &= !text.contains("Killed process");
        self.texts.push(text);
        takes
    }

    fn end_stretch(&mut self) {
        self.stretches += 1;
        self.is_open = false;
    }
}

/// More than any file here needs; the same limit as in production.
const ENTRIES: usize = 16_384;
const REPORTS: usize = 16;

#[derive(Debug)]
struct Stored(Vec<u8>);

impl ReadPieces for Stored {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        self.0[from..].iter().copied().take(length).collect()
    }
}

fn found_by(mut reader: Collected, bytes: Vec<u8>) -> Result<Collected, Unreadable> {
    let (stored, budget) = (Stored(bytes), Budget::new(4096, ENTRIES, None));
    let mut file = JournalFile::open(&stored, &budget)?;
    search(&mut file, REPORTS, &mut reader);
    Ok(reader)
}

fn of_file(bytes: Vec<u8>) -> Result<Collected, Unreadable> {
    found_by(Collected::default(), bytes)
}

fn plain() -> Variant {
    Variant { buckets: 16, ..Variant::default() }
}

fn said(at: u64, text: &str) -> Written {
    Written::by_kernel(BOOT, 1_000_000_000, at * 1_000_000, text.as_bytes())
}

/// A report with `tasks` tasks, and `noise` other messages before and after.
fn report(noise: u64, tasks: u64, long: usize) -> Vec<Written> {
    let mut texts: Vec<String> = (0..noise).map(|at| format!("usb {at}: new device")).collect();
    texts.push("app invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0".to_owned());
    texts.push("Call Trace:".to_owned());
    texts.extend((0..30).map(|at| format!(" function_{at}+0x1/0x2")));
    texts.push("Tasks state (memory values in pages):".to_owned());
    texts.extend((0..tasks).map(|at| format!("[{at}] task")));
    texts.push(format!("Killed process {}", "x".repeat(long)));
    texts.extend((0..noise).map(|at| format!("eth0: link {at}")));
    texts.iter().zip(1..).map(|(text, at)| said(at, text)).collect()
}

fn variants() -> impl Iterator<Item = Variant> {
    let packings = [Packing::Plain, Packing::Lz4, Packing::Zstd];
    packings.into_iter().flat_map(|packing| {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(is_compact, is_keyed)| Variant { is_compact, is_keyed, packing, buckets: 16 })
    })
}

#[test]
fn a_report_is_found_in_every_variant_of_the_format() {
    for variant in variants() {
        let found = of_file(make_journal(&variant, &report(500, 100, 2000))).unwrap();
        let all = found.texts.join("\n");
        assert!(all.contains("app invoked oom-killer") && all.contains("[99] task"), "{variant:?}");
        assert!(all.contains(&format!("Killed process {}", "x".repeat(2000))), "{variant:?}");
        // only part of the file is read
        assert!(found.texts.len() < 400 && found.stretches == 1, "{}", found.texts.len());
    }
}

#[test]
fn without_a_table_of_tasks_the_stack_trace_leads_to_the_report() {
    let mut entries = report(200, 0, 5);
    entries.retain(|entry| !entry.fields[3].starts_with(b"MESSAGE=Tasks state"));
    let found = of_file(make_journal(&plain(), &entries)).unwrap();
    assert!(found.texts.iter().any(|text| text.starts_with("Killed process")));
    let other: Vec<Written> = entries
        .into_iter()
        .filter(|entry| memchr::memmem::find(&entry.fields[3], b"oom").is_none())
        .collect();
    assert!(
        of_file(make_journal(&plain(), &other)).unwrap().texts.is_empty(),
        "a trace of something else"
    );
}

/// Root may write into the kernel's log, and any user into the journal.
#[test]
fn what_programs_wrote_is_left_out() {
    for (at, field) in [(2, "SYSLOG_FACILITY=1"), (1, "_TRANSPORT=syslog")] {
        let mut entries = report(5, 2, 5);
        let own = said(1, "something of the kernel");
        for entry in &mut entries {
            entry.fields[at] = field.as_bytes().to_vec();
        }
        entries.push(own);
        let found = of_file(make_journal(&plain(), &entries)).unwrap();
        assert_eq!(found.texts, Vec::<String>::new(), "{field}");
    }
}

#[test]
fn what_the_reader_has_is_not_read_again() {
    let entries = report(20, 3, 5);
    let reader = Collected { has_from: Some(5_000_000), ..Collected::default() };
    let reader = found_by(reader, make_journal(&plain(), &entries)).unwrap();
    assert_eq!(reader.texts, Vec::<String>::new());
}

#[test]
fn what_cannot_be_read_says_why() {
    assert_eq!(of_file(b"LPKSHHRH".to_vec()).unwrap_err(), Unreadable::Garbled);
    let mut newer = make_journal(&plain(), &report(0, 0, 5));
    newer[12] |= 1 << 5;
    assert_eq!(of_file(newer).unwrap_err(), Unreadable::Newer);
}

/// It is known that something was left out because of the budget.
#[test]
fn a_budget_is_spent() {
    let stored = Stored(make_journal(&plain(), &report(500, 100, 5)));
    let read = |blocks, entries| {
        let budget = Budget::new(blocks, entries, None);
        let mut reader = Collected::default();
        search(&mut JournalFile::open(&stored, &budget).unwrap(), REPORTS, &mut reader);
        (budget.is_spent(), reader.texts.len())
    };
    let (is_spent, whole) = read(4096, ENTRIES);
    assert!(!is_spent && whole > 100, "{whole}");
    for (blocks, entries) in [(4, ENTRIES), (4096, 50)] {
        let (is_spent, texts) = read(blocks, entries);
        assert!(is_spent && texts < whole, "{texts}");
    }
}

/// A circular chain in the hash table, and circular arrays.
#[test]
fn circles_end() {
    let good = make_journal(&Variant { buckets: 1, ..plain() }, &report(50, 3, 5));
    for at in (272..good.len() - 8).step_by(8) {
        for target in [at as u64 & !7, 272, 16, u64::MAX, !7] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
            let _ = of_file(bytes);
        }
        if at > 4000 {
            break;
        }
    }
}

/// All files together cost no more than their budget, however many reports they contain.
#[test]
fn a_flood_of_reports_is_cut() {
    let one = report(300, 0, 5);
    let many: Vec<Written> = std::iter::repeat_n(one, 60).flatten().collect();
    let found = of_file(make_journal(&Variant { buckets: 2048, ..plain() }, &many)).unwrap();
    assert_eq!(found.stretches, REPORTS);
    assert!(found.texts.len() <= ENTRIES);
}

/// A file that systemd 257 wrote (compact, keyed, zstd), from a guest in which a process filled all
/// memory.
#[test]
fn a_file_that_journald_wrote_is_read() {
    const REAL: &[u8] = include_bytes!("recorded/systemd-257-oom.journal.zst");
    let real = zstd::decode_all(REAL).unwrap();
    let found = of_file(real).unwrap();
    let kill = found.texts.iter().find(|text| text.starts_with("Out of memory: Killed process"));
    assert!(kill.unwrap().contains("253 (tail) total-vm:185344kB, anon-rss:182400kB"));
    assert_eq!(found.stretches, 1);
}

fn entries() -> impl Strategy<Value = Vec<Written>> {
    let lines = prop_oneof![
        6 => "[a-z]{1,12}",
        1 => Just("a invoked oom-killer: gfp_mask=0x0(), order=0, oom_score_adj=0".to_owned()),
        1 => Just("Tasks state (memory values in pages):".to_owned()),
        1 => Just("Mem-Info:".to_owned()),
        1 => Just("Call Trace:".to_owned()),
        1 => Just("Out of memory: Killed process 7 (a) total-vm:1kB".to_owned()),
        1 => "[a-z]{512,600}",
    ];
    let entry = (lines, prop::bool::weighted(0.9));
    prop::collection::vec(entry, 0..120).prop_map(|all| {
        let written = all.into_iter().zip(1..).map(|((text, by_kernel), at)| {
            let mut entry = said(at, &text);
            if !by_kernel {
                entry.fields[1] = b"_TRANSPORT=syslog".to_vec();
            }
            entry
        });
        written.collect()
    })
}

proptest! {
    /// Compared with a simple implementation: of the kernel's messages, at least those around each
    /// mark are read, none more than once, and none that a program wrote.
    #[test]
    fn messages_around_every_mark_are_read_and_of_the_kernel_alone(
        all in entries(),
        is_compact: bool,
        is_keyed: bool,
        buckets in 1u64..40,
    ) {
        let variant = Variant { is_compact, is_keyed, packing: Packing::Zstd, buckets };
        let found = of_file(make_journal(&variant, &all)).unwrap();
        let of_kernel = all.iter().filter(|entry| entry.fields[1] == b"_TRANSPORT=kernel");
        let texts: Vec<String> = of_kernel
            .map(|entry| String::from_utf8_lossy(&entry.fields[3][8..]).into_owned())
            .collect();
        let is_mark = |text: &str| text.starts_with("Tasks state") || text == "Mem-Info:";
        let marks: Vec<usize> = (0..texts.len()).filter(|&at| is_mark(&texts[at])).collect();
        let is_near = |at: usize| marks.iter().any(|&mark| at + 160 >= mark && at < mark + 48);
        for text in &texts {
            let times = |all: &[String]| all.iter().filter(|other| *other == text).count();
            let near = (0..texts.len()).filter(|&at| texts[at] == *text && is_near(at)).count();
            prop_assert!((near..=times(&texts)).contains(&times(&found.texts)), "{text}");
        }
        prop_assert!(found.texts.iter().all(|text| texts.contains(text)));
    }

    /// With any bytes replaced, and with any length.
    #[test]
    fn a_damaged_file_is_read_as_far_as_it_goes(
        variant in prop::sample::select(variants().collect::<Vec<_>>()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..30),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = make_journal(&variant, &report(5, 3, 600));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = of_file(bytes.clone());
        bytes.truncate(end.index(bytes.len()) + 1);
        let _ = of_file(bytes);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = of_file([b"LPKSHHRH".as_slice(), &bytes].concat());
    }
}
