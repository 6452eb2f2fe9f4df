// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording over time: it opens as its last two readings, contains no names, and can be read if
//! it is truncated.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests write files of their own"
)]

use std::io::Read as _;

use pagewise_capture::{Stream, Timeline};
use pagewise_hostfs::{Entry, HostRoot, ReadHost, ReadValues, Refusal};
use pagewise_observe::{Recording, Tape, TapeEnd};
use proptest::prelude::*;

/// One reading: free memory in kB, and the processes with their size in kB.
type Reading = (u32, Vec<(u32, u32)>);

fn tape(second: u32, (free, processes): &Reading) -> Tape {
    let file = |path: &str, text: String| (path.to_owned(), Entry::File(text.into_bytes()));
    let mut files = vec![
        file(
            "proc/meminfo",
            format!("MemTotal: 9000 kB\nMemFree: {free} kB\nBuffers: 1 kB\nCached: 2 kB\n"),
        ),
        file("proc/sys/vm/swappiness", "60\n".to_owned()),
        file("proc/sys/kernel/hostname", "quokka\n".to_owned()),
        file("proc/sys/kernel/random/boot_id", "quokka-1\n".to_owned()),
    ];
    for (pid, size) in processes {
        let status = format!(
            "Name:\tquokka-{pid}\nState:\tS (sleeping)\nVmSize:\t 99 kB\nVmRSS:\t {size} kB\n"
        );
        files.push(file(&format!("proc/{pid}/status"), status));
        files.push(file(&format!("proc/{pid}/cgroup"), format!("0::/quokka-{pid}.slice\n")));
        let refused = Entry::Refused(Refusal::Denied("run as root".into()));
        files.push((format!("proc/{pid}/smaps_rollup"), refused));
    }
    let end = TapeEnd {
        name: "end",
        unix_seconds: 1e9 + f64::from(second),
        monotonic_seconds: f64::from(second),
        awake_seconds: None,
        files: files.into_iter().collect(),
    };
    Tape { page_size: Some(4096), ends: vec![end] }
}

/// The file, and its length after each complete reading.
fn packed(readings: &[Reading]) -> (Vec<u8>, Vec<usize>) {
    let (mut timeline, capture) = Timeline::begin(&tape(1, &readings[0]));
    let out = Shared::default();
    let mut stream = Stream::begin(&capture, out.clone()).unwrap();
    stream.flush().unwrap();
    let mut lengths = vec![out.len()];
    for (second, reading) in (2..).zip(&readings[1..]) {
        let step = timeline.step(&tape(second, reading)).unwrap();
        assert!(stream.add_step(&step).unwrap());
        lengths.push(out.len());
    }
    stream.finish().unwrap();
    let bytes = out.0.borrow().clone();
    (bytes, lengths)
}

#[derive(Debug, Default, Clone)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Shared {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Free memory and processes of a host: the reading from which it was made.
fn reading_of(host: &HostRoot) -> Reading {
    let number = |path: &str, key: &str| -> Option<u32> {
        let text = String::from_utf8(host.bytes(path).ok()?).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let free = number("proc/meminfo", "MemFree:").unwrap();
    let pids = host.list_numbers("proc", "").into_iter();
    let size = |pid| number(&format!("proc/{pid}/status"), "VmRSS:");
    (free, pids.filter_map(|pid| Some((pid, size(pid)?))).collect())
}

fn any_readings() -> impl Strategy<Value = Vec<Reading>> {
    let processes = prop::collection::btree_map(1_u32..6, 1_u32..4, 0..5);
    let reading = (1_u32..5, processes.prop_map(|all| all.into_iter().collect()));
    prop::collection::vec(reading, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The last two readings and the first two are as they were taken.
    #[test]
    fn what_was_read_is_opened(readings in any_readings()) {
        let (bytes, _) = packed(&readings);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar.zst");
        std::fs::write(&path, &bytes).unwrap();
        let (last, first) = pagewise_observe::open_readings(&path).unwrap();
        prop_assert_eq!(&reading_of(&last.end), readings.last().unwrap());
        prop_assert_eq!(last.start.is_some(), readings.len() > 1);
        if let (Some(start), Some(first)) = (&last.start, &first) {
            prop_assert_eq!(&reading_of(start), &readings[readings.len() - 2]);
            prop_assert_eq!(&reading_of(first.start.as_ref().unwrap()), &readings[0]);
            prop_assert_eq!(&reading_of(&first.end), &readings[1]);
        }
        prop_assert_eq!(first.is_some(), readings.len() > 1);
        prop_assert!(last.into_problems().is_empty());
    }

    /// In any order of moving through a recording, each reading is as it was taken, with its time.
    #[test]
    fn each_reading_is_as_it_was_taken_whichever_way_one_goes(
        readings in any_readings(),
        ways in prop::collection::vec(any::<bool>(), 0..30),
    ) {
        let (bytes, _) = packed(&readings);
        let mut replay = pagewise_hostfs::recording::unpack_replay(&bytes[..], "x").unwrap();
        prop_assert_eq!((replay.times().len(), replay.early()), (readings.len(), None));
        let mut at = 0_usize;
        for is_forward in ways {
            let to = if is_forward { at + 1 } else { at.wrapping_sub(1) };
            let is_there = to < readings.len();
            prop_assert_eq!(if is_forward { replay.forward() } else { replay.backward() }, is_there);
            at = if is_there { to } else { at };
            prop_assert_eq!(replay.at(), at);
            prop_assert_eq!(&reading_of(replay.host()), &readings[at]);
            prop_assert_eq!(replay.host().facts().monotonic_seconds, at as f64 + 1.0);
            prop_assert_eq!(replay.times()[at].monotonic_seconds, at as f64 + 1.0);
        }
    }

    /// A file that is truncated anywhere after its first reading opens as its last complete
    /// reading, and reports that it is truncated.
    #[test]
    fn a_file_that_is_cut_has_its_whole_readings(
        readings in any_readings(),
        at in any::<prop::sample::Index>(),
    ) {
        let (bytes, lengths) = packed(&readings);
        let behind_first = bytes.len() - lengths[0];
        let cut = lengths[0] + at.index(behind_first);
        let whole = lengths.iter().filter(|length| **length <= cut).count();
        let recording = Recording::from_archive(&bytes[..cut], "cut").unwrap();
        prop_assert_eq!(&reading_of(&recording.end), &readings[whole - 1]);
        let replay = pagewise_hostfs::recording::unpack_replay(&bytes[..cut], "cut").unwrap();
        prop_assert_eq!(replay.times().len(), whole);
        prop_assert!(replay.early().is_some());
        let told = recording.into_problems();
        prop_assert!(told.iter().any(|problem| problem.expected == "a whole archive"), "{told:?}");
    }
}

#[test]
fn no_name_is_in_any_reading() {
    let readings = [(1, vec![(7, 1)]), (2, vec![(7, 1), (8, 2)]), (3, vec![(8, 3)])];
    let (bytes, _) = packed(&readings);
    let mut all = String::new();
    zstd::Decoder::new(&bytes[..]).unwrap().read_to_string(&mut all).unwrap();
    assert!(!all.contains("quokka"));
    assert!(all.contains("steps/00002.json") && all.contains("proc-1") && all.contains("proc-2"));
    let recording = Recording::from_archive(&bytes[..], "x").unwrap();
    let name = |host: &HostRoot| {
        let text = String::from_utf8(host.bytes("proc/8/status").unwrap()).unwrap();
        text.lines().next().map(str::to_owned)
    };
    assert_eq!(name(recording.start.as_ref().unwrap()), Some("Name:\tproc-2".to_owned()));
    assert_eq!(name(&recording.end), name(recording.start.as_ref().unwrap()));
}

/// Text of the form `"0":"","1":""`.
fn many_files(number: u32) -> String {
    let all: Vec<String> = (0..number).map(|at| format!("\"{at}\":\"\"")).collect();
    all.join(",")
}

/// A step that does not fit is reported, and the readings before it are kept.
#[test]
fn a_step_that_does_not_fit_is_told() {
    let host = "format = \"pagewise-recording/1\"\nname = \"host-1\"\nkernel = \"6.12\"\n\
        [ends.end]\nunix_seconds = 1.0\nmonotonic_seconds = 1.0\n";
    let step = |text: &str| format!("{{\"unix_seconds\":2.0,\"monotonic_seconds\":2.0{text}}}");
    let cases = [
        ("steps/00001.json", "{".to_owned(), "a step of a recording"),
        ("steps/00002.json", step(""), "the next step, steps/00001.json"),
        (
            "steps/00001.json",
            step(",\"lines\":{\"proc/meminfo\":[[9,\"x\"]]}"),
            "lines of the reading before",
        ),
        (
            "steps/00001.json",
            step(",\"lines\":{\"proc/none\":[[0,\"x\"]]}"),
            "lines of the reading before",
        ),
        ("steps/00001.json", step(",\"unix_seconds\":-1"), "a step of a recording"),
        (
            "steps/00001.json",
            step(&format!(",\"lines\":{{\"proc/meminfo\":[[0,{:?}]]}}", "\n".repeat(1 << 19))),
            "a step of at most 1 MiB",
        ),
        (
            "steps/00001.json",
            step(&format!(",\"files\":{{{}}}", many_files(20_001))),
            "readings of at most 20,000 files",
        ),
    ];
    for (path, text, expected) in cases {
        let mut builder = tar::Builder::new(Vec::new());
        let meminfo = "MemTotal: 9000 kB\nMemFree: 7 kB\n";
        for (path, bytes) in [("host.toml", host), ("end/proc/meminfo", meminfo), (path, &text)] {
            let mut head = tar::Header::new_gnu();
            head.set_size(bytes.len() as u64);
            head.set_mode(0o600);
            builder.append_data(&mut head, path, bytes.as_bytes()).unwrap();
        }
        let recording = Recording::from_archive(&builder.into_inner().unwrap()[..], "x").unwrap();
        assert_eq!(reading_of(&recording.end).0, 7, "{text}");
        let told: Vec<String> = recording.into_problems().iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|it| it.contains(expected)), "{text}: {told:?}");
    }
}
