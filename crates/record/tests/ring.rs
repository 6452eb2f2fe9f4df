// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring keeps the newest readings within its limits, whole, and in the order in which they were
//! taken, whatever happens to its files.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests write files of their own"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use pagewise_hostfs::recording::unpack_replay;
use pagewise_hostfs::{Entry, ReadHost};
use pagewise_model::Bytes;
use pagewise_observe::{Rest, Tape, TapeEnd};
use pagewise_record::{FileName, Ring, RingError, RingLimits, Shelf, Unwhole};
use proptest::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);

/// A kill that a program's message reports, as the kernel log's reader records it.
const KILLS: &str = "programs read=12 left_out=0 of=var/log/journal\n\
                     kill\tearlyoom\t0\t7\t1795885236\t\tquokka\tquokka-payroll\tSIGTERM\n";

/// A reading whose number is its free memory in kB. With `noise`, it has that many bytes that do not
/// compress.
fn tape(second: f64, number: u64, noise: usize) -> Tape {
    let meminfo =
        format!("MemTotal: 9000000 kB\nMemFree: {number} kB\nBuffers: 1 kB\nCached: 2 kB\n");
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let lines = (0..noise / 20).map(|at| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("counter_{at} {state}\n")
    });
    let file = |path: &str, text: String| (path.to_owned(), Entry::File(text.into_bytes()));
    let files = [
        file("proc/meminfo", meminfo),
        file("proc/vmstat", lines.collect()),
        file("proc/sys/kernel/hostname", "quokka\n".to_owned()),
        file("proc/7/status", "Name:\tquokka-payroll\nState:\tS (sleeping)\n".to_owned()),
        file("proc/7/cmdline", "quokka-payroll\0--password=x\0".to_owned()),
        file("proc/7/environ", "SECRET=quokka-key\0".to_owned()),
        file("journal/programs", KILLS.to_owned()),
    ];
    let end = TapeEnd {
        name: "end",
        unix_seconds: second,
        monotonic_seconds: second,
        awake_seconds: None,
        files: files.into_iter().collect(),
    };
    Tape { page_size: Some(4096), ends: vec![end] }
}

fn limits(size: u64, age: Duration) -> RingLimits {
    RingLimits { size: Bytes::new(size), age }
}

/// The numbers of all readings in the ring, in order.
fn numbers(folder: &Path) -> Vec<u64> {
    let shelf = Shelf::open(folder).unwrap();
    let mut all = Vec::new();
    for file in shelf.files().unwrap() {
        let (bytes, _) = shelf.recording(file.name).unwrap();
        let Ok(mut replay) = unpack_replay(&bytes[..], "x") else { continue };
        loop {
            let text = String::from_utf8(replay.host().bytes("proc/meminfo").unwrap()).unwrap();
            let line = text.lines().nth(1).unwrap().to_owned();
            all.push(line.split_whitespace().nth(1).unwrap().parse().unwrap());
            if !replay.forward() {
                break;
            }
        }
    }
    all
}

fn size(folder: &Path) -> u64 {
    let files = Shelf::open(folder).unwrap().files().unwrap();
    files.iter().map(|file| file.size.get()).sum()
}

#[test]
fn readings_come_back_with_names_and_without_what_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    for number in 1..=5 {
        let added = ring.add(tape(1e9 + number as f64, number, 0), &Rest::Nothing).unwrap();
        assert_eq!((added.began, added.removed), (number == 1, 0));
    }
    assert_eq!(numbers(&path), [1, 2, 3, 4, 5]);
    let shelf = Shelf::open(&path).unwrap();
    let [file] = shelf.files().unwrap()[..] else { panic!("one file") };
    assert_eq!(file.name, FileName { unix_seconds: 1_000_000_001, number: 1 });
    let (bytes, unwhole) = shelf.recording(file.name).unwrap();
    assert_eq!(unwhole, None);
    let replay = unpack_replay(&bytes[..], "x").unwrap();
    let status = String::from_utf8(replay.host().bytes("proc/7/status").unwrap()).unwrap();
    assert!(status.contains("quokka-payroll"), "{status}");
    let kills = replay.host().bytes("journal/programs").unwrap();
    assert_eq!(String::from_utf8(kills).unwrap(), KILLS);
    for private in ["proc/7/cmdline", "proc/7/environ"] {
        assert!(replay.host().bytes(private).is_err(), "{private}");
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join(file.name.to_string()))), (0o700, 0o600));
}

/// A reading of a part leaves files of processes that exist as they were, and drops the others; a new
/// file that begins with such a reading has all of it.
#[test]
fn a_reading_of_a_part_is_completed_by_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    let without_status = |second: f64, number| {
        let mut part = tape(second, number, 0);
        part.ends[0].files.retain(|path, _| path == "proc/meminfo");
        part
    };
    let rest = |processes: &[u32]| Rest::Unread {
        cgroups: Default::default(),
        processes: processes.iter().copied().collect(),
        disks: Default::default(),
    };
    ring.add(tape(1e9, 1, 0), &Rest::Nothing).unwrap();
    ring.add(without_status(1e9 + 1.0, 2), &rest(&[7])).unwrap();
    // the clock is set back, so that a file begins with a part
    assert!(ring.add(without_status(1e9 - 5.0, 3), &rest(&[7])).unwrap().began);
    ring.add(without_status(1e9 - 4.0, 4), &rest(&[])).unwrap();
    assert_eq!(numbers(&path), [1, 2, 3, 4]);
    let shelf = Shelf::open(&path).unwrap();
    let mut has_status = Vec::new();
    for file in shelf.files().unwrap() {
        let (bytes, _) = shelf.recording(file.name).unwrap();
        let mut replay = unpack_replay(&bytes[..], "x").unwrap();
        loop {
            has_status.push(replay.host().bytes("proc/7/status").is_ok());
            if !replay.forward() {
                break;
            }
        }
    }
    assert_eq!(has_status, [true, true, true, false]);
}

/// The index has each reading, is not believed when it is not of these frames, and goes with its file.
#[test]
fn an_index_has_the_readings_of_its_file_or_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    for number in 1..=5 {
        let mut tape = tape(1e9 + number as f64, number, 0);
        let vmstat = format!("pgfault 7\noom_kill {number}\n").into_bytes();
        tape.ends[0].files.insert("proc/vmstat".to_owned(), Entry::File(vmstat));
        ring.add(tape, &Rest::Nothing).unwrap();
    }
    drop(ring);
    let shelf = Shelf::open(&path).unwrap();
    let name = shelf.files().unwrap()[0].name;
    let (summaries, unwhole) = shelf.summaries(name).unwrap().unwrap();
    assert_eq!(unwhole, None);
    let found: Vec<_> = summaries.iter().map(|it| (it.unix_seconds - 1e9, it.kills)).collect();
    assert_eq!(found, [1_u32, 2, 3, 4, 5].map(|it| (f64::from(it), Some(u64::from(it)))));
    assert!(summaries.iter().all(|it| it.stalled_us.is_none()), "there is no pressure file");

    let file = path.join(name.to_string());
    let index = file.with_extension("index");
    let (frames, whole) = (std::fs::read(&file).unwrap(), std::fs::read(&index).unwrap());
    // the file lost its end: the readings that are left
    std::fs::write(&file, &frames[..frames.len() - 1]).unwrap();
    assert_eq!(shelf.summaries(name).unwrap().unwrap().0, summaries[..4]);
    std::fs::write(&file, &frames).unwrap();
    std::fs::write(&index, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(shelf.summaries(name).unwrap(), None);
    std::fs::remove_file(&index).unwrap();
    assert_eq!(shelf.summaries(name).unwrap(), None);
    assert_eq!(numbers(&path), [1, 2, 3, 4, 5]);

    // an index whose file is gone is removed at the next start
    std::fs::write(&index, &whole).unwrap();
    std::fs::remove_file(&file).unwrap();
    Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    assert!(!index.exists());
}

#[test]
fn the_ring_is_within_its_bytes_and_has_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let most = 1 << 20;
    let mut ring = Ring::open(&path, limits(most, DAY)).unwrap();
    let mut removed = 0;
    for number in 1..=60 {
        removed +=
            ring.add(tape(1e9 + number as f64, number, 60_000), &Rest::Nothing).unwrap().removed;
        assert!(size(&path) <= most, "{number}: {}", size(&path));
    }
    let left = numbers(&path);
    assert!(removed > 0 && left.len() > 10, "{removed} {left:?}");
    let first = *left.first().unwrap();
    assert_eq!(left, (first..=60).collect::<Vec<_>>());
}

#[test]
fn what_is_too_old_is_removed_and_a_clock_that_is_set_back_begins_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let hour = Duration::from_secs(3600);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = now.as_secs_f64();
    let begin = |second: f64, number| {
        // each start begins a file
        let mut ring = Ring::open(&path, limits(1 << 20, hour)).unwrap();
        ring.add(tape(second, number, 0), &Rest::Nothing).unwrap();
        ring.add(tape(second + 1.0, number + 1, 0), &Rest::Nothing).unwrap();
    };
    begin(now - 7000.0, 1);
    begin(now - 6000.0, 3);
    let old = std::time::SystemTime::now() - Duration::from_secs(6999);
    let first = Shelf::open(&path).unwrap().files().unwrap()[0].name.to_string();
    std::fs::File::options().write(true).open(path.join(first)).unwrap().set_modified(old).unwrap();
    assert_eq!(numbers(&path), [1, 2, 3, 4]);
    begin(now, 5);
    assert_eq!(numbers(&path), [3, 4, 5, 6]);
    let mut ring = Ring::open(&path, limits(1 << 20, hour)).unwrap();
    assert!(ring.add(tape(now + 9.0, 7, 0), &Rest::Nothing).unwrap().began);
    assert!(!ring.add(tape(now + 10.0, 8, 0), &Rest::Nothing).unwrap().began);
    assert!(
        ring.add(tape(now - 500.0, 9, 0), &Rest::Nothing).unwrap().began,
        "the clock was set back"
    );
    assert_eq!(numbers(&path), [3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn one_process_writes_a_ring() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let first = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    let second = Ring::open(&path, limits(1 << 20, DAY));
    assert!(matches!(second, Err(RingError::InUse { .. })), "{second:?}");
    drop(first);
    Ring::open(&path, limits(1 << 20, DAY)).unwrap();
}

#[test]
fn a_reading_that_no_ring_could_hold_is_refused_and_the_ring_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    ring.add(tape(1e9, 1, 0), &Rest::Nothing).unwrap();
    let refused = ring.add(tape(1e9 + 1.0, 2, 5_000_000), &Rest::Nothing);
    assert!(matches!(refused, Err(RingError::TooLarge { .. })), "{refused:?}");
    ring.add(tape(1e9 + 2.0, 3, 0), &Rest::Nothing).unwrap();
    assert_eq!(numbers(&path), [1, 3]);
}

#[test]
fn files_of_others_stay_and_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
    ring.add(tape(1e9, 1, 0), &Rest::Nothing).unwrap();
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    std::fs::write(path.join("1-0000.ring"), "no ring").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("2-0002.ring")).unwrap();
    let shelf = Shelf::open(&path).unwrap();
    let foreign = FileName { unix_seconds: 1, number: 0 };
    assert_eq!(shelf.recording(foreign).unwrap(), (Vec::new(), Some(Unwhole::NoMagic)));
    assert!(shelf.recording(FileName { unix_seconds: 2, number: 2 }).is_err(), "a link");
    assert_eq!(numbers(&path), [1]);
    assert_eq!(std::fs::read(path.join("notes.txt")).unwrap(), b"mine");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Cut anywhere, the readings before are there, and it is said that the file is cut.
    #[test]
    fn a_file_that_was_cut_has_the_readings_before(
        count in 1..6_u64,
        at in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
        let mut ends = Vec::new();
        for number in 1..=count {
            ring.add(tape(1e9 + number as f64, number, 400), &Rest::Nothing).unwrap();
            let name = ring.shelf().files().unwrap()[0].name.to_string();
            ends.push(std::fs::metadata(path.join(name)).unwrap().len());
        }
        let name = ring.shelf().files().unwrap()[0].name.to_string();
        let bytes = std::fs::read(path.join(&name)).unwrap();
        let cut = at.index(bytes.len() + 1);
        std::fs::write(path.join(&name), &bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut as u64).count() as u64;
        prop_assert_eq!(numbers(&path), (1..=whole).collect::<Vec<_>>());
        // a new start goes on after it
        drop(ring);
        let mut ring = Ring::open(&path, limits(1 << 20, DAY)).unwrap();
        ring.add(tape(2e9, 99, 0), &Rest::Nothing).unwrap();
        prop_assert_eq!(numbers(&path).last().copied(), Some(99));
    }
}
