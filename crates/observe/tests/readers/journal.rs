// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the OOM killer in journald's files.

use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal};
use pagewise_journald::written::{Packing, Variant, Written, make_journal};
use pagewise_model::{KernelLog, Name, OomConstraint, Reading, Source, Taken};
use pagewise_observe::formats::kernel_log::{Rename, renamed_journal};
use pagewise_observe::kernel_log as read;
use proptest::prelude::*;

use crate::kernel_log::BY_LIMIT;
use crate::testing::{denied_entry, file, host};

/// The path in a recording.
const PATH: &str = "journal/kernel";
const FILE: &str = "var/log/journal/0123456789abcdef0123456789abcdef/system.journal";
const EARLIER: [u8; 16] = [0xab; 16];
const EARLIER_ID: &str = "abababab-abab-abab-abab-abababababab";
const NOW: [u8; 16] = *b"\0this boot's id.";
const NOW_ID: &str = "00746869-7320-626f-6f74-27732069642e";
/// Time at which the earlier boot began, in seconds since 1970.
const BEGAN: u64 = 1_000_000;

/// 400 seconds after this boot, 90,000 after the previous one.
fn taken() -> Taken {
    Taken {
        unix_seconds: (BEGAN + 90_000) as f64,
        awake_seconds: Some(400.0),
        boot_id: Reading::found(Name::from(NOW_ID), Source::file("/boot_id")),
        ..Taken::default()
    }
}

/// The report with its last message `end` seconds after boot and a millisecond between messages.
fn report(boot: [u8; 16], end: u64) -> Vec<Written> {
    let zero = if boot == EARLIER { BEGAN } else { BEGAN + 89_600 };
    let begin = end * 1_000_000 - (BY_LIMIT.len() as u64 - 1) * 1000;
    let lines = BY_LIMIT.iter().zip((begin..).step_by(1000));
    lines
        .map(|(text, at)| Written::by_kernel(boot, zero * 1_000_000, at, text.as_bytes()))
        .collect()
}

/// The same report in the format of the kernel log.
fn buffer(end: u64) -> String {
    let begin = end * 1_000_000 - (BY_LIMIT.len() as u64 - 1) * 1000;
    let lines = BY_LIMIT.iter().zip((begin..).step_by(1000)).zip(7..);
    lines.map(|((text, at), number)| format!("4,{number},{at},-;{text}\n")).collect()
}

fn file_of(entries: &[Written]) -> Vec<u8> {
    make_journal(
        &Variant { is_compact: true, is_keyed: true, packing: Packing::Zstd, buckets: 64 },
        entries,
    )
}

fn log_of(kmsg: &str, entries: &[Written]) -> KernelLog {
    let files = HostRoot::memory([file("dev/kmsg", kmsg), file(FILE, file_of(entries))]);
    read(&files, &taken())
}

#[test]
fn a_kill_that_the_kernel_log_lost_is_in_the_journal() {
    let log = log_of("6,900,390000000,-;x\n", &report(NOW, 100));
    let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
    assert_eq!((kill.boot_seconds, kill.seconds_ago), (100.0, Some(300.0)));
    assert_eq!((&kill.earlier_boot, kill.constraint), (&None, Some(OomConstraint::Cgroup)));
    assert_eq!(kill.victim.as_ref().unwrap().pid, 980);
    assert_eq!(kill.source.to_string(), format!("/var/log/journal:{}", BY_LIMIT.len()));
    assert_eq!((log.journal_files.get(), log.journal_files_left_out), (Some(1), 0));
    let since = log.journal_unix_seconds.unwrap() - (BEGAN + 89_600 + 99) as f64;
    assert!((0.0..1.0).contains(&since), "{since}");
}

#[test]
fn a_kill_of_an_earlier_boot_is_dated_by_the_clock_of_the_day() {
    let log = log_of("6,0,0,-;x\n", &report(EARLIER, 3_600));
    let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
    assert_eq!(kill.earlier_boot.as_ref().unwrap().as_str(), EARLIER_ID);
    assert_eq!((kill.boot_seconds, kill.seconds_ago), (3_600.0, Some(86_400.0)));
    assert_eq!(kill.unix_seconds, Some((BEGAN + 3_600) as f64));
}

/// The clock was ahead then, or was set back since.
#[test]
fn a_kill_of_an_earlier_boot_is_at_least_as_old_as_this_boot() {
    let log = log_of("6,0,0,-;x\n", &report(EARLIER, 95_000));
    assert_eq!(log.kills[0].seconds_ago, Some(400.0));
}

#[test]
fn a_report_that_both_have_is_one() {
    let log = log_of(&buffer(100), &report(NOW, 100));
    assert_eq!(log.kills.len(), 1, "{:#?}", log.kills);
    assert_eq!(log.kills[0].source.to_string(), "/dev/kmsg:21");
    // another process, or the same pid a second later
    let log = log_of(&buffer(100), &report(NOW, 99));
    assert_eq!(log.kills.iter().map(|kill| kill.boot_seconds).collect::<Vec<_>>(), [99.0, 100.0]);
}

#[test]
fn a_report_whose_beginning_was_overwritten_is_taken_from_the_journal() {
    let whole = buffer(100);
    let end = whole.lines().rev().take(2).collect::<Vec<_>>();
    let kmsg = format!("{}\n{}\n", end[1], end[0]);
    let log = log_of(&kmsg, &report(NOW, 100));
    let [kill] = &log.kills[..] else { panic!("{:#?}", log.kills) };
    assert!(kill.group_memory.is_some() && kill.tasks.len() == 2);
}

#[test]
fn only_the_newest_are_kept_of_many_sections() {
    let section = |at: u64| {
        let boot = format!("boot={at:x} clock_zero={at}\n");
        boot + &BY_LIMIT.iter().map(|text| format!("4,{at},{at},-;{text}\n")).collect::<String>()
    };
    let excerpt: String = (1..=200).map(section).collect();
    let log = read(&host([(PATH, excerpt)]), &taken());
    assert_eq!((log.kills.len(), log.left_out), (64, 136));
    assert_eq!(log.kills[63].earlier_boot.as_ref().unwrap().as_str(), "c8");
}

#[test]
fn two_files_with_the_same_messages_are_one() {
    let copy = FILE.replace("var/log", "run/log");
    let entries = file_of(&[report(EARLIER, 3_000), report(NOW, 100)].concat());
    let files = HostRoot::memory([file(FILE, &entries), file(copy, &entries)]);
    let log = read(&files, &taken());
    assert_eq!((log.kills.len(), log.journal_files.get()), (2, Some(2)));
}

#[test]
fn kills_of_all_boots_are_in_order() {
    let both = [report(EARLIER, 3_000), report(EARLIER, 3_600), report(NOW, 100)].concat();
    let log = log_of(&buffer(300), &both);
    let order: Vec<_> =
        log.kills.iter().map(|kill| (kill.earlier_boot.is_some(), kill.boot_seconds)).collect();
    assert_eq!(order, [(true, 3_000.0), (true, 3_600.0), (false, 100.0), (false, 300.0)]);
    let newest_last = log.kills.windows(2).all(|two| two[0].seconds_ago > two[1].seconds_ago);
    assert!(newest_last, "{:?}", log.kills);
}

#[test]
fn files_that_may_not_be_read_say_what_would_help() {
    let files = HostRoot::memory([file("dev/kmsg", "6,0,0,-;x\n"), denied_entry(FILE)]);
    let log = read(&files, &taken());
    assert!(format!("{:?}", log.journal_files).contains("the group systemd-journal"));
    assert_eq!(log.journal.value().unwrap().as_str(), "persistent");
    let log = read(&host([("dev/kmsg", "6,0,0,-;x\n")]), &taken());
    assert!(format!("{:?}", log.journal_files).contains("no files of journald here"));
    let gone = (FILE.to_owned(), Entry::Refused(Refusal::Absent("no such file".into())));
    let log = read(&HostRoot::memory([gone]), &taken());
    assert_eq!(log.journal_files.value(), None);
}

#[test]
fn files_that_are_damaged_or_newer_are_left_out() {
    let mut newer = file_of(&report(EARLIER, 3_000));
    newer[12] |= 1 << 5;
    for bytes in [b"LPKSHHRH".to_vec(), newer] {
        let log = read(&HostRoot::memory([file(FILE, bytes)]), &taken());
        assert_eq!((log.journal_files.get(), log.journal_files_left_out), (Some(0), 1));
        assert_eq!(log.kills.len(), 0);
    }
}

/// Time of each kill, in seconds after the earlier boot.
fn times(log: &KernelLog) -> Vec<f64> {
    log.kills.iter().map(|kill| kill.boot_seconds).collect()
}

#[test]
fn only_the_system_s_files_of_this_machine_are_read() {
    let other = "ffffffffffffffffffffffffffffffff";
    let of_this = |name: &str| FILE.replace("system.journal", name);
    let old = "0123456789abcdef0123456789abcdef-0000000000000001-0005f00000000000";
    let at = |seconds| file_of(&report(EARLIER, seconds));
    let files = HostRoot::memory([
        file("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        file(FILE, at(3_000)),
        file(of_this(&format!("system@{old}.journal")), at(1_000)),
        file(of_this("system@0005f10000000000-0123456789abcdef.journal~"), at(2_000)),
        file(of_this("user-1000.journal"), at(4_000)),
        file(of_this("system@nonsense.journal"), at(5_000)),
        file(format!("var/log/journal/{other}/system.journal"), at(6_000)),
        file("var/log/journal/remote/system.journal", at(7_000)),
    ]);
    let log = read(&files, &taken());
    assert_eq!(times(&log), [1_000.0, 2_000.0, 3_000.0]);
    assert_eq!((log.journal_files.get(), log.journal_files_left_out), (Some(3), 0));
    let since = log.journal_unix_seconds.unwrap() - (BEGAN + 999) as f64;
    assert!((0.0..2.0).contains(&since), "{since}");
    let files =
        HostRoot::memory([file("etc/machine-id", format!("{other}\n")), file(FILE, at(3_000))]);
    assert_eq!(read(&files, &taken()).journal_files.value(), None);
}

/// The active file is the newest; of the others the one whose first entry, or whose time of being
/// set aside, is latest.
#[test]
fn of_many_files_the_oldest_are_left_out() {
    let limit = crate::limit("files of journald that are searched for kills");
    let of_this = |name: &str| FILE.replace("system.journal", name);
    let archived = |time: usize, bytes: Vec<u8>| {
        let name = format!("system@0123456789abcdef0123456789abcdef-0000000000000001-{time:016x}");
        file(of_this(&format!("{name}.journal")), bytes)
    };
    let at = |seconds| file_of(&report(EARLIER, seconds));
    let noise = file_of(&[Written::by_kernel(EARLIER, BEGAN * 1_000_000, 1, b"usb 1-1: new")]);
    let aside = format!("system@{:016x}-0123456789abcdef.journal~", 10 + limit);
    let mut files =
        vec![file(FILE, at(3_000)), file(of_this(&aside), at(2_000)), archived(9, at(1_000))];
    files.extend((10..10 + limit).map(|time| archived(time, noise.clone())));
    let log = read(&HostRoot::memory(files), &taken());
    assert_eq!(times(&log), [2_000.0, 3_000.0]);
    assert_eq!((log.journal_files.get(), log.journal_files_left_out), (Some(limit as u64), 3));
}

/// The recorded excerpt gives the same kills and contains no names.
#[test]
fn an_excerpt_says_what_the_files_said() {
    let entries = [report(EARLIER, 3_000), report(NOW, 100)].concat();
    let files = HostRoot::memory([
        file("dev/kmsg", "6,900,390000000,-;x\n"),
        file(FILE, file_of(&entries)),
    ]);
    let files = files.start_remembering();
    let original = read(&files, &taken());
    let remembered = files.into_remembered_files();
    assert!(!remembered.contains_key(FILE), "files of journald are not recorded");
    let replay = read(&HostRoot::memory(remembered), &taken());
    assert_eq!(original.program_messages.get(), Some(0));
    assert_eq!(format!("{original:?}"), format!("{replay:?}"));
    assert_eq!(original.kills.len(), 2);
}

#[test]
fn an_excerpt_with_other_names_has_the_same_numbers() {
    struct Others;
    impl Rename for Others {
        fn program(&mut self, _: &[u8]) -> Vec<u8> {
            b"other".to_vec()
        }
        fn group(&mut self, _: &[u8]) -> Vec<u8> {
            b"/cg-1".to_vec()
        }
        fn user(&mut self, _: u32) -> u32 {
            1001
        }
        fn boot(&self, _: &[u8]) -> String {
            "b007".to_owned()
        }
    }
    let files =
        HostRoot::memory([file(FILE, file_of(&report(EARLIER, 3_000)))]).start_remembering();
    let before = read(&files, &taken());
    let remembered = files.into_remembered_files();
    let Some(Entry::File(kept)) = remembered.get(PATH) else { panic!("{remembered:?}") };
    let text = String::from_utf8(renamed_journal(kept, &mut Others)).unwrap();
    assert!(
        !text.contains("nginx") && !text.contains("web.service") && !text.contains("abab"),
        "{text}"
    );
    let after = read(&host([(PATH, text)]), &taken());
    assert_eq!(before.journal_files.get(), after.journal_files.get());
    assert_eq!((before.kills.len(), after.kills.len()), (1, 1));
    assert_eq!(after.kills[0].earlier_boot.as_ref().unwrap().as_str(), "b007");
    assert_eq!(before.kills[0].group_memory, after.kills[0].group_memory);
}

proptest! {
    /// With any content in place of the excerpt.
    #[test]
    fn a_spoilt_excerpt_never_panics(
        lines in prop::collection::vec(
            prop_oneof![
                Just("journal files=1 left_out=0 since=18446744073709551615".to_owned()),
                "boot=[a-f0-9-]{0,40} clock_zero=[0-9]{0,21}",
                "[ -~]{0,60}",
                prop::sample::select(BY_LIMIT).prop_map(|text| format!("4,1,18446744073709551615,-;{text}")),
            ],
            0..30,
        ),
    ) {
        let files = host([(PATH, lines.join("\n"))]);
        let log = read(&files, &taken());
        prop_assert!(log.kills.iter().all(|kill| kill.seconds_ago.is_none_or(|ago| ago >= 0.0)));
    }
}
