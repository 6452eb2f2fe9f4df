// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hostile inputs: recordings, evidence, journals, experiments, settings, core dumps and logs that
//! are truncated, have flipped bits, are enlarged, contain control characters, are nested, or
//! contain numbers at the limits of their types.
//!
//! All inputs are generated from a few valid inputs and a fixed seed. The same number gives the
//! same input on every machine, so that a failure can be reproduced from its number.

use std::collections::BTreeMap;

use fastrand::Rng;
use tar::{EntryType, Header};

use crate::scene::Scene;

/// The kind of file that an input pretends to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A recording in one archive.
    Recording,
    /// A folder of evidence with `experiment.json`, `runs.jsonl` and `summary.json`.
    Evidence,
    /// A journal of temporary changes (loans).
    Journal,
    /// A description of an experiment in TOML.
    Experiment,
    /// A settings file of `doctor`, `doctor.toml`.
    Settings,
    /// An ELF core dump of a process.
    Core,
    /// A text with messages of the kernel.
    Log,
    /// A plan, the document that `apply` reads.
    Plan,
    /// A recording with a damaged configuration file below /etc, such as one of sysctl or udev.
    Configuration,
}

/// One hostile input.
#[derive(Debug, Clone)]
pub struct Hostile {
    /// What was done to the valid input.
    pub name: String,
    /// The kind of file that the input pretends to be.
    pub kind: Kind,
    /// The files of the input, by name.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Valid inputs from which the hostile inputs are made.
#[derive(Debug, Clone)]
pub struct SeedInputs {
    /// Name of a recorded host in `fixtures/hosts`.
    pub host: &'static str,
    /// The three files of a folder of evidence (the data of an experiment), by name.
    pub evidence: Vec<(String, Vec<u8>)>,
    /// A valid journal of temporary changes.
    pub journal: Vec<u8>,
    /// A valid experiment in TOML.
    pub experiment: Vec<u8>,
    /// Valid settings of `doctor`.
    pub settings: Vec<u8>,
    /// A valid core dump.
    pub core: Vec<u8>,
    /// A text with reports of kills.
    pub log: Vec<u8>,
    /// A valid plan.
    pub plan: Vec<u8>,
    /// Valid journals of plans, of which one is damaged at a time.
    pub plan_journals: Vec<Vec<u8>>,
    /// Configuration files with their paths below the root of a host.
    pub configuration: Vec<(&'static str, &'static str)>,
}

/// Generates hostile inputs from valid ones.
#[derive(Debug)]
pub struct Corpus {
    good: SeedInputs,
    host: BTreeMap<String, Vec<u8>>,
}

/// The name of an archive, and of the file of an input that consists of a single file.
pub const FILE: &str = "input";

/// Only these processes and cgroups of the recorded host are kept, because unoptimised test
/// programs read each input.
const KEPT: [&str; 4] =
    ["end/proc/1/", "end/proc/106/", "end/proc/30/", "end/sys/fs/cgroup/init.scope/"];

impl Corpus {
    /// Creates a corpus that generates its inputs from these valid inputs.
    #[must_use]
    pub fn new(good: SeedInputs) -> Self {
        let is_many = |path: &str| {
            path.split('/').nth(2).is_some_and(|part| part.parse::<u32>().is_ok())
                || path.contains("fs/cgroup/") && path.split('/').count() > 5
        };
        let is_kept = |path: &str| {
            !path.starts_with("start/")
                && (!is_many(path) || KEPT.iter().any(|it| path.starts_with(it)))
        };
        let host = Scene::load(good.host).into_files().into_iter();
        Self { host: host.filter(|(path, _)| is_kept(path)).collect(), good }
    }

    /// Generates the input with this number. All kinds of inputs are about equally frequent, but
    /// recordings are more frequent.
    #[must_use]
    pub fn input(&self, number: u64) -> Hostile {
        let mut rng = Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match number % 8 {
            0..=2 => self.recording(&mut rng),
            3 => archive(&mut rng, &self.host),
            4 => self.evidence(&mut rng),
            5 => match number / 8 % 3 {
                0 => self.evidence(&mut rng),
                1 => core(&self.good.core, &mut rng),
                _ => log(&self.good.log, &mut rng),
            },
            6 => match number / 8 % 2 {
                0 => single(Kind::Experiment, &self.good.experiment, TOML, &mut rng),
                _ => single(Kind::Settings, &self.good.settings, TOML, &mut rng),
            },
            _ => single(Kind::Journal, &self.good.journal, JSON, &mut rng),
        }
    }

    /// Generates the input of this kind with this number. A kind and a number give the same input
    /// on every machine.
    #[must_use]
    pub fn input_of(&self, kind: Kind, number: u64) -> Hostile {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (kind as u64).wrapping_mul(0xd1b5);
        let mut rng = Rng::with_seed(seed);
        match kind {
            Kind::Recording if number % 4 == 3 => archive(&mut rng, &self.host),
            Kind::Recording => self.recording(&mut rng),
            Kind::Evidence => self.evidence(&mut rng),
            Kind::Journal => {
                let all = &self.good.plan_journals;
                single(kind, &all[rng.usize(..all.len())], JSON, &mut rng)
            }
            Kind::Experiment => single(kind, &self.good.experiment, TOML, &mut rng),
            Kind::Settings => single(kind, &self.good.settings, TOML, &mut rng),
            Kind::Core => core(&self.good.core, &mut rng),
            Kind::Log => log(&self.good.log, &mut rng),
            Kind::Plan => single(kind, &self.good.plan, JSON, &mut rng),
            Kind::Configuration => self.configuration(&mut rng),
        }
    }

    /// Adds configuration files to the recorded host, of which one is changed.
    fn configuration(&self, rng: &mut Rng) -> Hostile {
        let mut files = self.host.clone();
        let all = &self.good.configuration;
        files.extend(
            all.iter().map(|(path, text)| (format!("end/{path}"), text.as_bytes().to_vec())),
        );
        let (path, text) = all[rng.usize(..all.len())];
        let (what, changed) = change_bytes(text.as_bytes(), LINES, rng);
        files.insert(format!("end/{path}"), changed);
        let files = [(FILE.to_owned(), pack(&files, rng.bool()))].into();
        Hostile { name: format!("{path}: {what}"), kind: Kind::Configuration, files }
    }

    /// Changes one file of the recorded host, and packs all files as `pagewise capture` would.
    fn recording(&self, rng: &mut Rng) -> Hostile {
        let at = rng.usize(..self.host.len());
        let Some((path, bytes)) = self.host.iter().nth(at) else { unreachable!("it has files") };
        let (what, changed) =
            change_bytes(bytes, if path == "host.toml" { TOML } else { LINES }, rng);
        let mut files = self.host.clone();
        files.insert(path.clone(), changed);
        let files = [(FILE.to_owned(), pack(&files, rng.bool()))].into();
        Hostile { name: format!("{path}: {what}"), kind: Kind::Recording, files }
    }

    fn evidence(&self, rng: &mut Rng) -> Hostile {
        let mut files: BTreeMap<String, Vec<u8>> = self.good.evidence.iter().cloned().collect();
        let at = rng.usize(..files.len());
        let Some((path, bytes)) = files.iter_mut().nth(at) else { unreachable!("it has files") };
        let (what, changed) = change_bytes(bytes, JSON, rng);
        *bytes = changed;
        Hostile { name: format!("{path}: {what}"), kind: Kind::Evidence, files }
    }
}

fn single(kind: Kind, good: &[u8], form: Form, rng: &mut Rng) -> Hostile {
    let (what, changed) = change_bytes(good, form, rng);
    Hostile { name: what, kind, files: [(FILE.to_owned(), changed)].into() }
}

/// Damages a core dump, or adds headers that all point to the same notes or the same memory.
fn core(good: &[u8], rng: &mut Rng) -> Hostile {
    /// Size of the ELF header of a 64-bit core dump, in bytes.
    const HEAD: usize = 64;
    const ENTRY: usize = 56;
    let headers: u16 = [2, 1000, 60_000][rng.usize(..3)];
    if rng.bool() {
        return single(Kind::Core, good, LINES, rng);
    }
    let entry = [0, ENTRY][rng.usize(..2)];
    let Some(repeated) = good.get(HEAD + entry..HEAD + entry + ENTRY) else {
        return single(Kind::Core, good, LINES, rng);
    };
    let mut repeated = repeated.to_vec();
    let begin = HEAD as u64 + u64::from(headers) * ENTRY as u64;
    let length: u64 = [4096, 16 << 20][rng.usize(..2)];
    repeated[8..16].copy_from_slice(&begin.to_le_bytes());
    repeated[32..40].copy_from_slice(&length.to_le_bytes());
    let mut bytes = good[..HEAD].to_vec();
    bytes[56..58].copy_from_slice(&headers.to_le_bytes());
    bytes.extend(repeated.repeat(usize::from(headers)));
    let (fill, shown) = [(0, "zeros"), (0xff, "ones")][rng.usize(..2)];
    bytes.resize(bytes.len() + usize::try_from(length).unwrap_or(0), fill);
    let name = format!("{headers} headers of kind {} with {length} bytes of {shown}", repeated[0]);
    Hostile { name, kind: Kind::Core, files: [(FILE.to_owned(), bytes)].into() }
}

/// Damages a log, which may be compressed.
fn log(good: &[u8], rng: &mut Rng) -> Hostile {
    let (name, bytes) = change_bytes(good, LINES, rng);
    let (name, bytes) = match rng.u8(..3) {
        0 => (name, bytes),
        1 => (format!("packed: {name}"), zstd(&bytes)),
        _ => flip_byte(&zstd(&bytes), rng),
    };
    Hostile { name, kind: Kind::Log, files: [(FILE.to_owned(), bytes)].into() }
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory is enough")
}

/// How parts of a file format can be nested and repeated.
#[derive(Debug, Clone, Copy)]
struct Form {
    open: &'static str,
    close: &'static str,
    /// A part of the format that may be repeated any number of times.
    unit: &'static str,
}

const JSON: Form = Form { open: "{\"a\":[", close: "]}", unit: "0," };
const TOML: Form = Form { open: "a = [{ a = ", close: "}]", unit: "\n[[arm]]\nname = \"a\"" };
const LINES: Form = Form { open: "[", close: "]", unit: " 1" };

/// Characters that control terminals, change the text direction or are invisible, and bytes that
/// are not valid characters.
const CONTROLS: [&[u8]; 12] = [
    b"\x1b[2J",
    b"\x1b]0;title\x07",
    b"\x1bP1$r\x1b\\",
    b"\x00",
    b"\r\x08\x7f",
    "\u{9b}31m".as_bytes(),
    "\u{202e}evil".as_bytes(),
    "\u{61c}\u{2066}".as_bytes(),
    "\u{200b}\u{feff}".as_bytes(),
    "\u{e0041}\u{e007f}".as_bytes(),
    b"\xff\xfe\xc0\xaf",
    b"\\u001b[2J",
];

/// Numbers at the limits of integer types and beyond them.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "255",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "1e308",
    "-1e999",
    "0.00000000000000000001",
    "NaN",
];

/// Makes one change to `bytes`. Returns a description of the change, and the changed bytes.
fn change_bytes(bytes: &[u8], form: Form, rng: &mut Rng) -> (String, Vec<u8>) {
    let at = rng.usize(..=bytes.len());
    match rng.u8(..10) {
        0 => (format!("cut at {at}"), bytes[..at].to_vec()),
        1 | 2 => flip_byte(bytes, rng),
        3 | 4 => replace_number(bytes, rng),
        5 => {
            let controls = CONTROLS[rng.usize(..CONTROLS.len())];
            (format!("{controls:?} at {at}"), splice(bytes, at, controls))
        }
        6 => {
            let times = [10_000, 300_000, 2_000_000][rng.usize(..3)];
            let many = form.unit.repeat(times / form.unit.len());
            (
                format!("{:?} to {times} bytes at {at}", form.unit),
                splice(bytes, at, many.as_bytes()),
            )
        }
        7 => {
            let deep = [50, 127, 5000, 200_000][rng.usize(..4)];
            let nested = form.open.repeat(deep) + &form.close.repeat(deep);
            (format!("{deep} deep at {at}"), splice(bytes, at, nested.as_bytes()))
        }
        8 => repeat_line(bytes, rng),
        _ => {
            let letters = [b"a", b"\x1b", b"\xff", b"9"][rng.usize(..4)];
            let length = [5000, 100_000, 7 << 20][rng.usize(..3)];
            (
                format!("{length} times {letters:?} at {at}"),
                splice(bytes, at, &letters.repeat(length)),
            )
        }
    }
}

fn splice(bytes: &[u8], at: usize, more: &[u8]) -> Vec<u8> {
    [&bytes[..at], more, &bytes[at..]].concat()
}

fn flip_byte(bytes: &[u8], rng: &mut Rng) -> (String, Vec<u8>) {
    let mut changed = bytes.to_vec();
    let times = rng.usize(1..8);
    for _ in 0..times {
        if changed.is_empty() {
            break;
        }
        let at = rng.usize(..changed.len());
        changed[at] ^= 1 << rng.u8(..8);
    }
    (format!("{times} bits flipped"), changed)
}

/// Replaces one number in the text with another number.
fn replace_number(bytes: &[u8], rng: &mut Rng) -> (String, Vec<u8>) {
    let is_start =
        |at: &usize| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[*at - 1].is_ascii_digit());
    let starts: Vec<usize> = (0..bytes.len()).filter(is_start).collect();
    let new = NUMBERS[rng.usize(..NUMBERS.len())];
    if starts.is_empty() {
        return (format!("{new} alone"), new.as_bytes().to_vec());
    }
    let start = starts[rng.usize(..starts.len())];
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let changed = [&bytes[..start], new.as_bytes(), &bytes[start + length..]].concat();
    (format!("{new} at {start}"), changed)
}

fn repeat_line(bytes: &[u8], rng: &mut Rng) -> (String, Vec<u8>) {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    if lines.is_empty() {
        return ("nothing".to_owned(), Vec::new());
    }
    let at = rng.usize(..lines.len());
    let times = [2, 1000, 50_000][rng.usize(..3)].min((4 << 20) / lines[at].len().max(1));
    let many = lines[at].repeat(times);
    let changed = [lines[..at].concat(), many, lines[at..].concat()].concat();
    (format!("line {} {times} times", at + 1), changed)
}

fn pack(files: &BTreeMap<String, Vec<u8>>, compressed: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, path, bytes.as_slice()).expect("memory is enough");
    }
    let plain = builder.into_inner().expect("memory is enough");
    if compressed {
        zstd::encode_all(plain.as_slice(), 1).expect("memory is enough")
    } else {
        plain
    }
}

/// Damages the archive of a recording: its headers or its compressed stream.
fn archive(rng: &mut Rng, host: &BTreeMap<String, Vec<u8>>) -> Hostile {
    let compressed = rng.bool();
    let (name, bytes) = match rng.u8(..8) {
        0 => change_bytes(&pack(host, compressed), LINES, rng),
        1 => flip_byte(&pack(host, compressed), rng),
        2 | 3 => make_bad_header(rng, host),
        4 => long_name(rng, host),
        5 => oversized_file(rng, host),
        6 => many_files(rng, host),
        _ => {
            let whole = pack(host, compressed);
            let at = rng.usize(..whole.len());
            (format!("archive cut at {at}"), whole[..at].to_vec())
        }
    };
    Hostile { name, kind: Kind::Recording, files: [(FILE.to_owned(), bytes)].into() }
}

/// Makes an archive that has a header with a wrong size, or with a type that no recording contains.
fn make_bad_header(rng: &mut Rng, host: &BTreeMap<String, Vec<u8>>) -> (String, Vec<u8>) {
    let kinds =
        [b'0', b'1', b'2', b'3', b'4', b'5', b'6', b'7', b'S', b'g', b'x', b'K', b'L', b'M', 0xff];
    let kind = EntryType::new(kinds[rng.usize(..kinds.len())]);
    let paths =
        ["end/proc/meminfo", "/etc/shadow", "end/../../x", "end/\x1b[2J", "", "host.toml", "end"];
    let path = paths[rng.usize(..paths.len())];
    let size = [0, 7, 513, 1 << 20, 1 << 33, u64::MAX][rng.usize(..6)];
    let mut header = Header::new_gnu();
    if let Some(gnu) = header.as_gnu_mut() {
        gnu.name[..path.len()].copy_from_slice(path.as_bytes());
    }
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(vec![b'7'; usize::try_from(size.min(2 << 20)).unwrap_or(0).next_multiple_of(512)]);
    bytes.extend(pack(host, false));
    (format!("a head of kind {:#x}, {path:?}, {size} bytes", kind.as_byte()), bytes)
}

/// Adds a name of many megabytes for the next file in the archive.
fn long_name(rng: &mut Rng, host: &BTreeMap<String, Vec<u8>>) -> (String, Vec<u8>) {
    let kind = [b'L', b'K', b'x', b'g'][rng.usize(..4)];
    let length: usize = [1000, 70_000, 30 << 20, 63 << 20][rng.usize(..4)];
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(length as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(format!("{length} path=").into_bytes());
    bytes.resize(512 + length.next_multiple_of(512), b'n');
    bytes.extend(pack(host, false));
    let bytes = zstd::encode_all(bytes.as_slice(), 1).expect("memory is enough");
    (format!("a long name of kind {:?}, {length} bytes", char::from(kind)), bytes)
}

/// Makes a decompression bomb: files of one repeated byte, compressed.
fn oversized_file(rng: &mut Rng, host: &BTreeMap<String, Vec<u8>>) -> (String, Vec<u8>) {
    let length = [9 << 20, 70 << 20, 7 << 20][rng.usize(..3)];
    let byte = [0, b'\n', b'1', 0xff][rng.usize(..4)];
    let path = ["end/proc/vmstat", "end/dev/kmsg", "end/proc/swaps", "end/none"][rng.usize(..4)];
    let mut files = host.clone();
    files.insert(path.to_owned(), vec![byte; length]);
    (format!("{path} of {length} times {byte:#x}"), pack(&files, true))
}

fn many_files(rng: &mut Rng, host: &BTreeMap<String, Vec<u8>>) -> (String, Vec<u8>) {
    let folders = [
        "end/proc/{}/status",
        "end/sys/block/zram{}/initstate",
        "end/sys/fs/cgroup/a{}/memory.current",
    ];
    let folder = folders[rng.usize(..folders.len())];
    let times = [300, 5000, 20_000][rng.usize(..3)];
    let mut files = host.clone();
    files.extend((0..times).map(|at| (folder.replace("{}", &at.to_string()), b"1\n".to_vec())));
    (format!("{times} times {folder}"), pack(&files, true))
}
