// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a ring has after its writer was killed or the machine lost power: every reading that was
//! written (kill) or was on disk (power loss), none that was never taken, and an index that agrees or
//! is not used.
//!
//! `PAGEWISE_KILLS` and `PAGEWISE_POWER_LOSSES` set how often; the numbers here are for each change.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests write files of their own and start themselves"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pagewise_hostfs::recording::unpack_replay;
use pagewise_hostfs::{Entry, ReadHost};
use pagewise_model::Bytes;
use pagewise_observe::{Rest, Tape, TapeEnd};
use pagewise_record::{ReadingSummary, Ring, RingError, RingLimits, Shelf};
use proptest::prelude::*;

const WRITER: &str = "PAGEWISE_RING_WRITER";
const BEGUN: f64 = 1e9;

/// A reading whose number is its time, its free memory and its number of kills. The first of each
/// dozen processes changes its name, as programs that come and go do.
fn tape(number: u64) -> Tape {
    let file = |path: String, text: String| (path, Entry::File(text.into_bytes()));
    let mut files = vec![
        file("proc/meminfo".into(), format!("MemTotal: 9000000 kB\nMemFree: {number} kB\n")),
        file("proc/vmstat".into(), format!("pgfault {}\noom_kill {number}\n", number * 7)),
        file(
            "proc/pressure/memory".into(),
            format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n", number * 11),
        ),
    ];
    for pid in 1..12 {
        let text = format!("Name:\tprogram-{}\nState:\tS (sleeping)\n", number / 12 + pid);
        files.push(file(format!("proc/{pid}/status"), text));
    }
    let second = BEGUN + number as f64;
    let end = TapeEnd {
        name: "end",
        unix_seconds: second,
        monotonic_seconds: second,
        awake_seconds: None,
        files: files.into_iter().collect(),
    };
    Tape { page_size: Some(4096), ends: vec![end] }
}

fn open(folder: &Path) -> Ring {
    let limits = RingLimits { size: Bytes::new(64 << 20), age: Duration::from_secs(1 << 40) };
    // a process that another test is starting has the lock of a ring that was closed, until it runs its
    // own program
    for _ in 0..600 {
        match Ring::open(folder, limits) {
            Err(RingError::InUse { .. }) => std::thread::sleep(Duration::from_millis(100)),
            opened => return opened.unwrap(),
        }
    }
    panic!("{}: the lock was held for a minute", folder.display());
}

/// The numbers of all readings in the ring, in order. Each index agrees with the readings, or is not
/// used.
fn numbers(folder: &Path) -> Vec<u64> {
    let shelf = Shelf::open(folder).unwrap();
    let mut all = Vec::new();
    for file in shelf.files().unwrap() {
        let (bytes, _) = shelf.recording(file.name).unwrap();
        let mut summaries = Vec::new();
        if let Ok(mut replay) = unpack_replay(&bytes[..], "x") {
            loop {
                let at = replay.times()[replay.at()].unix_seconds;
                summaries.push(ReadingSummary::from_host(at, replay.host()));
                let text = String::from_utf8(replay.host().bytes("proc/meminfo").unwrap()).unwrap();
                let free = text.split_whitespace().nth(4).unwrap().parse().unwrap();
                assert_eq!(at, BEGUN + free as f64);
                all.push(free);
                if !replay.forward() {
                    break;
                }
            }
        }
        if let Some((found, _)) = shelf.summaries(file.name).unwrap() {
            assert_eq!(found, summaries, "{}", file.name);
        }
    }
    all
}

fn times(variable: &str, usual: u32) -> u32 {
    let named = std::env::var(variable).ok();
    named.map_or(usual, |text| text.parse().unwrap())
}

/// Not a test by itself: the process that the next test kills. It writes readings and prints the number
/// of each when it is written.
#[test]
fn a_writer_that_is_killed() {
    let Ok(folder) = std::env::var(WRITER) else { return };
    let first = numbers(Path::new(&folder)).last().map_or(1, |last| last + 1);
    let mut ring = open(Path::new(&folder));
    let mut out = std::io::stdout();
    // bounded, in case that nobody kills it
    for number in first..first + 100_000 {
        ring.add(tape(number), &Rest::Nothing).unwrap();
        writeln!(out, "written {number}").unwrap();
    }
}

#[test]
fn after_kills_every_reading_that_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = pseudo_random(7);
    let mut written = 0;
    for round in 0..times("PAGEWISE_KILLS", 8) {
        // everything is read after each kill, so a ring is continued a few times only
        let path = folder.path().join(format!("record-{}", round / 8));
        written = if round % 8 == 0 { 0 } else { written };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_writer_that_is_killed", "--nocapture"]).env(WRITER, &path);
        drop(std::fs::create_dir_all(&path));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // killed at a random moment after a random number of readings
        for _ in 0..=random() % 40 {
            let line = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("written"));
            written = line.unwrap()[8..].parse().unwrap();
        }
        std::thread::sleep(Duration::from_micros(random() % 3000));
        child.kill().unwrap();
        for line in lines {
            // the last line may be cut
            let line = line.unwrap_or_default();
            let number = line.strip_prefix("written ").and_then(|it| it.parse().ok());
            written = number.unwrap_or(written);
        }
        child.wait().unwrap();
        let read = numbers(&path);
        assert!(read.len() as u64 >= written, "round {round}: {written} written, {}", read.len());
        // one more may be on disk than was printed
        assert_eq!(read, (1..=read.len() as u64).collect::<Vec<_>>(), "round {round}");
    }
}

/// Numbers that only have to differ from run to run of the loop.
fn pseudo_random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// The contents of all files of a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect()
}

/// What a file system may do with what was written to a file after it was last synced.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// Nothing.
    Kept,
    /// The file is cut somewhere.
    Cut(f64),
    /// The file has its length, but zeros from somewhere on.
    Zeros(f64),
    /// The file has its length, but what was there before (another file's) from somewhere on.
    Garbage(f64),
    /// The name of the file is not in the folder, if it was never synced.
    NoName,
}

impl Loss {
    /// The bytes after the loss; `None` if the file is gone.
    fn of(self, bytes: &[u8], synced: usize) -> Option<Vec<u8>> {
        let at = |part: f64| synced + ((bytes.len() - synced) as f64 * part) as usize;
        let (at, fill) = match self {
            Self::Kept => return Some(bytes.to_vec()),
            Self::Cut(part) => return Some(bytes[..at(part)].to_vec()),
            Self::NoName if synced == 0 => return None,
            Self::NoName => (synced, 0),
            Self::Zeros(part) => (at(part), 0),
            Self::Garbage(part) => (at(part), 0x5a),
        };
        let filled = std::iter::repeat_n(fill, bytes.len() - at);
        Some(bytes[..at].iter().copied().chain(filled).collect())
    }
}

fn any_loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::Kept),
        (0.0..=1.0).prop_map(Loss::Cut),
        (0.0..=1.0).prop_map(Loss::Zeros),
        (0.0..=1.0).prop_map(Loss::Garbage),
        Just(Loss::NoName),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: times("PAGEWISE_POWER_LOSSES", 40),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Readings that were synced are read; of later ones, those that are whole; no other; and the ring
    /// goes on. Indexes are never synced, so anything may have happened to them.
    #[test]
    fn after_a_loss_of_power_what_was_synced_is_read(
        (before, after) in (0..30_u64, 0..30_u64),
        (starts, of_ring, of_index) in (1..3_u64, any_loss(), any_loss()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let mut number = 0;
        let mut synced = BTreeMap::new();
        let mut synced_readings = 0;
        for start in 0..starts {
            let mut ring = open(&path);
            let is_last = start + 1 == starts;
            for _ in 0..before {
                number += 1;
                ring.add(tape(number), &Rest::Nothing).unwrap();
            }
            synced = contents(&path).into_iter().map(|(name, bytes)| (name, bytes.len())).collect();
            synced_readings = number;
            for _ in 0..if is_last { after } else { 0 } {
                number += 1;
                ring.add(tape(number), &Rest::Nothing).unwrap();
            }
        }
        for (name, bytes) in contents(&path) {
            let left = if name.ends_with(".ring") {
                of_ring.of(&bytes, synced.get(&name).copied().unwrap_or(0))
            } else if name.ends_with(".index") {
                of_index.of(&bytes, 0)
            } else {
                continue;
            };
            match left {
                Some(left) => std::fs::write(path.join(&name), left).unwrap(),
                None => std::fs::remove_file(path.join(&name)).unwrap(),
            }
        }
        let read = numbers(&path);
        prop_assert!(read.len() as u64 >= synced_readings, "{synced_readings} synced, {read:?}");
        prop_assert_eq!(&read, &(1..=read.len() as u64).collect::<Vec<_>>());
        prop_assert!(read.len() as u64 <= number);
        let mut ring = open(&path);
        ring.add(tape(number + 1), &Rest::Nothing).unwrap();
        prop_assert_eq!(numbers(&path).last().copied(), Some(number + 1));
    }
}

/// Ten thousand cgroups come and go, a thousand at a time: the last reading has those that exist, and
/// the ring is within its limit.
#[test]
fn cgroups_that_come_and_go_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let limit = Bytes::new(4 << 20);
    let limits = RingLimits { size: limit, age: Duration::from_secs(1 << 40) };
    let mut ring = Ring::open(&path, limits).unwrap();
    for round in 0..10 {
        let mut tape = tape(round);
        for group in 0..1000 {
            let path = format!("sys/fs/cgroup/batch-{round}-{group}\u{7}\".scope/memory.current");
            tape.ends[0].files.insert(path, Entry::File(b"4096\n".to_vec()));
        }
        ring.add(tape, &Rest::Nothing).unwrap();
        let size: u64 = ring.shelf().files().unwrap().iter().map(|file| file.size.get()).sum();
        assert!(size <= limit.get());
    }
    let shelf = Shelf::open(&path).unwrap();
    let last = *shelf.files().unwrap().last().unwrap();
    let (bytes, _) = shelf.recording(last.name).unwrap();
    let mut replay = unpack_replay(&bytes[..], "x").unwrap();
    while replay.forward() {}
    let groups = replay.host().folders("sys/fs/cgroup");
    assert_eq!(groups.len(), 1000);
    // a name with control characters is no name that is kept
    assert!(groups.iter().all(|name| !name.contains(char::is_control)), "{:?}", groups[0]);
}
