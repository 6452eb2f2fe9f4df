// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same pages sized by a kernel and by us: images of real memory, and how far the results
//! differ.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pagewise_pages::codec::{Algorithm, Sizer};
use pagewise_pages::kernel::Kernel;
use pagewise_pages::{aging, same};

pub(crate) const PAGE: usize = 4096;
/// Pages of each kind of memory, taken at equal distances.
const PAGES: usize = 800;

/// A program that waits with its memory in use, and is killed when the test ends.
struct Alive(Child);

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Images whose pages are the same in every run on one machine. Programs choose random seeds and
/// addresses.
const FIXED: [&str; 4] = ["binary", "text", "random", "made up"];

/// The kinds of memory, each with [`PAGES`] pages.
pub(crate) fn images() -> Vec<(&'static str, Vec<u8>)> {
    let binary = largest_library();
    vec![
        ("jvm", of_process("keytool", &["-genkeypair", "-alias", "a", "-keystore", "/none"], None)),
        ("node", of_process("node", &["-e", NODE], Some("ready"))),
        ("python", of_process("python3", &["-c", PYTHON], Some("ready"))),
        ("redis", redis()),
        ("binary", of_file(&std::fs::read(binary).unwrap())),
        ("text", of_file(&licences())),
        ("random", random()),
        ("made up", made_up()),
    ]
}

const PYTHON: &str = "import json,sys\n\
    rows = [{'id': n, 'name': 'user-%d' % n, 'tags': ['a', 'b', str(n % 97)]} for n in range(40000)]\n\
    text = json.dumps(rows)\nprint('ready', flush=True)\nsys.stdin.read()";
const NODE: &str = "const rows = []; for (let n = 0; n < 60000; n++) \
    rows.push({id: n, name: `user-${n}`, at: new Date(n * 1e6).toISOString()}); \
    globalThis.kept = [rows, JSON.stringify(rows)]; console.log('ready'); process.stdin.resume();";

/// Starts a program, waits until it prints `word`, and dumps its memory with `pagewise scan`.
fn of_process(program: &str, arguments: &[&str], word: Option<&str>) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut alive = Alive(command.process_group(0).spawn().expect(program));
    match word {
        Some(word) => {
            let mut line = String::new();
            BufReader::new(alive.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line.trim(), word);
        }
        // a JVM that asks for a password on standard error
        None => {
            let mut asked = Vec::new();
            let err = alive.0.stderr.as_mut().unwrap();
            BufReader::new(err).read_until(b':', &mut asked).unwrap();
        }
    }
    dumped(alive.0.id())
}

fn dumped(pid: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    let scan = ["scan", "--exact", "--measure", "--quiet", "--json", "--pid"];
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(scan)
        .args([&pid.to_string(), "--dump", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    of_file(&std::fs::read(&path).unwrap())
}

fn redis() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis");
    // redis-check-rdb is the server's binary; the package that starts redis as a service is not
    // needed
    let mut server = Command::new("redis-check-rdb");
    server
        .arg0("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(&socket)
        .stdout(Stdio::null());
    let alive = Alive(server.process_group(0).spawn().expect("redis-tools"));
    let connected = (0..1200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::os::unix::net::UnixStream::connect(&socket).ok()
    });
    let mut stream = connected.expect("redis listens");
    for key in 0..30_000_u32 {
        let value = format!(r#"{{"user":{key},"seen":{},"city":"{}"}}"#, key * 7919, key % 613);
        let name = format!("session:{key}");
        let set = format!("*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n", name.len());
        write!(stream, "{set}${}\r\n{value}\r\n", value.len()).unwrap();
        let mut answer = String::new();
        BufReader::with_capacity(5, &mut stream).read_line(&mut answer).unwrap();
        assert_eq!(answer, "+OK\r\n");
    }
    dumped(alive.0.id())
}

fn largest_library() -> PathBuf {
    let folder = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").unwrap().flatten();
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
    let is_library = |path: &PathBuf| path.to_string_lossy().contains(".so") && path.is_file();
    folder.map(|entry| entry.path()).filter(is_library).max_by_key(size).unwrap()
}

fn licences() -> Vec<u8> {
    let packages = std::fs::read_dir("/usr/share/doc").unwrap().flatten();
    let texts = packages.filter_map(|package| std::fs::read(package.path().join("copyright")).ok());
    texts.flatten().take(2 * PAGES * PAGE).collect()
}

fn random() -> Vec<u8> {
    let mut bytes = vec![0; 100 * PAGE];
    let file = std::fs::File::open("/dev/urandom").unwrap();
    std::io::Read::read_exact(&mut &file, &mut bytes).unwrap();
    bytes
}

/// Runs of zeros, copies and random bytes, of the lengths at which compressed streams use other
/// instructions.
fn made_up() -> Vec<u8> {
    let mut random = 4711_u64;
    let mut draw = |end: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(random >> 33).unwrap() % end
    };
    let (runs, copies) = ([1, 3, 4, 5, 8, 33, 64, 700, 2051, 2052], [3, 4, 8, 9, 33, 34, 288, 600]);
    let mut image = Vec::new();
    while image.len() < PAGES * PAGE {
        match draw(3) {
            0 => image.resize(image.len() + runs[draw(runs.len())], 0),
            1 if image.len() > PAGE => {
                let from = image.len() - 1 - draw(PAGE);
                let length = copies[draw(copies.len())];
                (0..length).for_each(|at| image.push(image[from + at]));
            }
            _ => (0..[1, 4, 18, 19, 100][draw(5)]).for_each(|_| image.push(draw(256) as u8)),
        }
    }
    of_file(&image)
}

/// Whole pages of a file, taken at equal distances.
fn of_file(bytes: &[u8]) -> Vec<u8> {
    let pages: Vec<&[u8]> = bytes.chunks_exact(PAGE).collect();
    let every = pages.len().div_ceil(PAGES).max(1);
    assert!(pages.len() >= 100, "expected some memory, found {} pages", pages.len());
    pages.into_iter().step_by(every).flatten().copied().collect()
}

/// A kernel's results for an image: the size of each page, and the memory used at the end.
pub(crate) struct Said {
    pub(crate) sizes: Vec<usize>,
    pub(crate) used: u64,
    /// Memory used after each round of overwriting.
    pub(crate) worn: Vec<u64>,
}

impl Said {
    pub(crate) fn read(text: &str) -> Self {
        let number = |line: &str| line.trim_start_matches("used ").parse::<u64>().unwrap();
        let (used, sizes): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("used "));
        let mut used = used.into_iter().map(number);
        Self {
            sizes: sizes.into_iter().map(|line| line.parse().unwrap()).collect(),
            used: used.next().unwrap(),
            worn: used.collect(),
        }
    }
}

/// How far our results differ from a kernel's.
#[derive(Debug)]
pub(crate) struct Apart {
    pub(crate) pages: usize,
    pub(crate) differ: usize,
    ours: usize,
    theirs: usize,
    pub(crate) used: u64,
    pub(crate) said_used: u64,
    /// Our upper estimate of memory used after overwriting.
    worn: u64,
}

impl Apart {
    /// The limit for memory used after overwriting. Our upper estimate is the end of an interval,
    /// which the pool of a small image sometimes exceeds (by 0.35 % where it was seen): images
    /// whose pages differ in each run get a tolerance.
    pub(crate) fn most_worn(&self, name: &str) -> u64 {
        if FIXED.contains(&name) { self.worn } else { self.worn + self.worn / 20 }
    }
}

pub(crate) fn apart(image: &[u8], kernel: Kernel, algorithm: Algorithm, said: &Said) -> Apart {
    let pool = kernel.pool_for_page_size(PAGE);
    let mut stored = pool.empty_class_pages();
    let mut sizer = Sizer::new(algorithm, kernel.zstd);
    let (mut differ, mut ours, mut theirs) = (0, 0, 0);
    for (page, said) in image.chunks_exact(PAGE).zip(&said.sizes) {
        let size = match same::fill_word(page) {
            Some(_) => 0,
            None => {
                let size = sizer.size(page);
                stored.add(&pool, size);
                pool.stored_size(size)
            }
        };
        differ += usize::from(size != *said);
        (ours, theirs) = (ours + size, theirs + said);
    }
    let used = pool.used_after_fresh_fill(&stored).get();
    Apart {
        pages: said.sizes.len(),
        differ,
        ours,
        theirs,
        used,
        said_used: said.used,
        worn: (used as f64 * aging::estimate_wear(&pool, &stored)).ceil() as u64,
    }
}

/// The comparisons so far for one kernel and algorithm.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    ours: usize,
    theirs: usize,
}

impl Compared {
    /// Adds a row and prints it. No page may differ unless a tolerance is given.
    pub(crate) fn add(&mut self, what: &str, apart: &Apart, within: Option<f64>) {
        println!(
            "| {what} | {} of {} | {:+.3} % | {} | {} |",
            apart.pages - apart.differ,
            apart.pages,
            percent(apart.ours, apart.theirs),
            apart.used,
            apart.said_used
        );
        self.ours += apart.ours;
        self.theirs += apart.theirs;
        if within.is_none() {
            assert_eq!((apart.differ, apart.used), (0, apart.said_used), "{what}: {apart:?}");
        }
    }

    /// Checks the total over all images, within this many percent.
    pub(crate) fn check(&self, what: &str, within: Option<f64>) {
        let percent = percent(self.ours, self.theirs);
        println!("| {what} | all | {percent:+.3} % | | |");
        assert!(percent.abs() <= within.unwrap_or(0.0), "{what}: {percent:+.3} %");
    }
}

fn percent(ours: usize, theirs: usize) -> f64 {
    (ours as f64 / theirs as f64 - 1.0) * 100.0
}
