// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program on hostile inputs (`pagewise_testkit::hostile`): it answers or refuses within limits
//! of memory and CPU time, and prints nothing that controls a terminal.
//!
//! The limits are the kernel's, set before the program starts: RLIMIT_DATA of 64 MiB, above which
//! an allocation fails and the program aborts, and RLIMIT_CPU, above which it is killed. So the
//! load of the machine does not matter. The release program has two seconds
//! (`PAGEWISE_HOSTILE_PROGRAM` names it); the one built for tests is not optimised and has ten
//! times as much. A read that blocks for ever uses no CPU time: only for that there is a limit of
//! one minute by the clock.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::program::empty_folder;
use pagewise_lab::experiment::{EXPERIMENT, RUNS, SUMMARY};
use pagewise_lab::library::BUILT_IN;
use pagewise_model::Name;
use pagewise_observe::HostRoot;
use pagewise_observe::parsers::PARSERS;
use pagewise_testkit::hostile::{Corpus, FILE, Hostile, Kind, SeedInputs};
use pagewise_testkit::scene::recording;

const HOST: &str = "debian-sid-7.2-x86_64-512m-zram-full";
const SETTINGS: &[u8] = b"ignore = [\"zram-full\"]\nmin_severity = \"critical\"\n";

/// A configuration file of each kind that is read.
const CONFIGURATION: [(&str, &str); 13] = [
    ("etc/sysctl.conf", "vm.swappiness = 10\nkernel.hostname = a\n"),
    (
        "etc/sysctl.d/60-a.conf",
        "vm.swappiness = 30\n-vm.dirty_ratio = 20\nvm/overcommit_memory = 2\n",
    ),
    (
        "etc/udev/rules.d/60-a.rules",
        "KERNEL==\"zram[0-9]*\", ATTR{disksize}=\"4G\", RUN+=\"/bin/true\"\n",
    ),
    ("etc/modprobe.d/a.conf", "options zram num_devices=2\nblacklist zsmalloc\n"),
    ("etc/modules-load.d/a.conf", "zram\n# none\nzstd\n"),
    ("etc/tmpfiles.d/a.conf", "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"),
    (
        "etc/systemd/zram-generator.conf",
        "[zram0]\nzram-size = min(ram / 2, 4096)\ncompression-algorithm = zstd\n",
    ),
    ("etc/default/zramswap", "ALGO=lz4\nPERCENT=50\n"),
    ("etc/fstab", "/dev/sda2 none swap sw,pri=10 0 0\nUUID=1-2 / ext4 defaults 0 1\n"),
    ("etc/systemd/system/a.service", "[Service]\nMemoryMax=1G\nMemoryHigh=50%\nExecStart=/bin/a\n"),
    ("etc/systemd/system/dev-zram0.swap", "[Swap]\nWhat=/dev/zram0\nPriority=100\n"),
    ("etc/tuned/active_profile", "a\n"),
    ("etc/tuned/a/tuned.conf", "[main]\ninclude=a\n\n[sysctl]\nvm.swappiness=10\n"),
];
/// How a kind of input is named for the chore `mutants`.
const MUTANTS: [(&str, Kind); 7] = [
    ("recording", Kind::Recording),
    ("evidence", Kind::Evidence),
    ("plan", Kind::Plan),
    ("journal", Kind::Journal),
    ("core", Kind::Core),
    ("log", Kind::Log),
    ("configuration", Kind::Configuration),
];

/// Limit on the program's own memory, in KiB.
const MEMORY: u32 = 64 << 10;
/// The number of inputs in the whole corpus, and in the sample that always runs.
const ALL: u64 = 1600;
const SAMPLE: u64 = 80;
/// Limit on CPU time in seconds, for the release program and for one that is not optimised.
const SECONDS: u32 = 2;
const SECONDS_UNOPTIMISED: u32 = 20;

fn corpus() -> Corpus {
    let evidence = pagewise_lab::fuzzing::evidence();
    let parts = evidence.split(|&byte| byte == 0xff).map(<[u8]>::to_vec);
    let names = [EXPERIMENT, RUNS, SUMMARY].map(str::to_owned);
    let log = PARSERS.iter().find(|parser| parser.name == "log-text");
    Corpus::new(SeedInputs {
        host: HOST,
        evidence: names.into_iter().zip(parts).collect(),
        journal: pagewise_apply::fuzzing::seed(),
        experiment: BUILT_IN[0].1.as_bytes().to_vec(),
        settings: SETTINGS.to_vec(),
        core: pagewise_sample::fuzzing::seeds().swap_remove(0),
        log: log.and_then(|it| it.seed(&HostRoot::memory([]))).unwrap(),
        plan: pagewise_apply::fuzzing::plan_seed(),
        plan_journals: pagewise_apply::fuzzing::plan_journals(),
        configuration: CONFIGURATION.to_vec(),
    })
}

/// The commands to run on an input; none for journals, whose reader is called directly: `undo`
/// would undo changes of this machine that a journal names.
fn lines(kind: Kind, number: u64, folder: &Path) -> Vec<Vec<String>> {
    let line = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let file = folder.join(FILE);
    let (file, folder) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let host = recording(HOST);
    let host = host.to_str().unwrap();
    let verbs = [
        &["report"][..],
        &["report", "--json"],
        &["status", "-v"],
        &["doctor", "-v"],
        &["doctor", "--json"],
        &["doctor", "--oom"],
    ];
    match kind {
        Kind::Recording => {
            let verb = verbs[usize::try_from(number / 8).unwrap() % verbs.len()];
            vec![line(&[verb, &["--root", file]].concat())]
        }
        Kind::Evidence => match number / 8 % 3 {
            0 => vec![line(&["lab", "replay", folder])],
            1 => vec![line(&["lab", "replay", "--json", folder])],
            _ => vec![line(&["lab", "compare", folder, folder])],
        },
        // only a path selects an experiment's file
        Kind::Experiment => vec![line(&["lab", "show", file])],
        Kind::Settings => vec![line(&["doctor", "--root", host, "--config", file])],
        Kind::Core => vec![line(&["scan", "--core", file])],
        Kind::Log => vec![line(&["oom", file])],
        // `apply` and `undo` use the same readers, but would change this machine
        Kind::Plan => vec![line(&["verify", "--no-ledger", file])],
        Kind::Configuration => {
            let verbs = [&["plan"][..], &["doctor", "-v"], &["plan", "--json"]];
            vec![line(
                &[verbs[usize::try_from(number).unwrap() % verbs.len()], &["--root", file]]
                    .concat(),
            )]
        }
        Kind::Journal => Vec::new(),
    }
}

/// What is wrong with the program's reaction to an input.
fn failures(number: u64, input: &Hostile) -> Vec<String> {
    let folder = empty_folder();
    for (name, bytes) in &input.files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    if input.kind == Kind::Journal {
        pagewise_apply::fuzzing::run(&input.files[FILE]);
    }
    let of = |line: Vec<String>| {
        let (program, seconds) = program();
        let wrong = failure(&program, &line, seconds)?;
        let words = line.iter().map(|word| word.rsplit('/').next().unwrap_or(word));
        let line = words.collect::<Vec<_>>().join(" ");
        Some(format!("{number}: {}: {line}: {wrong}", Name::from(input.name.as_str())))
    };
    lines(input.kind, number, folder.path()).into_iter().filter_map(of).collect()
}

/// The release program if one is named, otherwise the one built for tests; and its limit in
/// seconds.
fn program() -> (String, u32) {
    match std::env::var("PAGEWISE_HOSTILE_PROGRAM") {
        Ok(shipped) => (shipped, SECONDS),
        Err(_) => (env!("CARGO_BIN_EXE_pagewise").to_owned(), SECONDS_UNOPTIMISED),
    }
}

fn failure(program: &str, line: &[String], seconds: u32) -> Option<String> {
    let limits =
        format!("ulimit -c 0; ulimit -S -t {seconds}; ulimit -d {MEMORY}; exec timeout -s KILL 60");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits} \"$0\" \"$@\""), program]).args(line);
    let ran = command.env("RUST_BACKTRACE", "0").output().unwrap();
    let message =
        [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // `timeout` reports a signal in its exit status, or dies of it as well if core is dumped
    let status = ran.status.code().or_else(|| Some(128 + ran.status.signal()?));
    let end: String = message[1].chars().take(300).collect();
    match status {
        Some(0 | 1 | 3) => {}
        Some(152) => return Some(format!("more than {seconds} s of the processor")),
        Some(137) => return Some("killed after a minute by the clock".to_owned()),
        Some(134) => return Some(format!("aborted: {end:?}")),
        other => return Some(format!("status {other:?}: {end:?}")),
    }
    if message[1].contains("panicked") {
        return Some(format!("panicked: {end:?}"));
    }
    let escapes: BTreeSet<char> =
        message.iter().flat_map(|text| text.chars()).filter(acts).collect();
    (!escapes.is_empty()).then(|| format!("prints {escapes:?}"))
}

/// Whether the character could control a terminal: [`Name`] would escape it. Newlines are allowed.
fn acts(letter: &char) -> bool {
    let plain = letter.is_ascii_graphic() || matches!(letter, ' ' | '\n');
    !plain && Name::from(letter.to_string().as_str()).as_str() != letter.to_string()
}

/// Runs these inputs, two at a time, and returns the failures.
fn run(numbers: std::ops::Range<u64>) -> Vec<String> {
    let corpus = corpus();
    let (next, wrong) = (AtomicU64::new(numbers.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    let found = failures(number, &corpus.input(number));
                    found.iter().for_each(|it| eprintln!("{it}"));
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn a_sample_of_hostile_inputs_is_survived_within_limits() {
    let wrong = run(0..SAMPLE);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tests the test: it must notice what it checks for.
#[test]
fn what_is_looked_for_is_noticed() {
    let noticed = |script: &str| failure("sh", &["-c".to_owned(), script.to_owned()], 1);
    let says = |script: &str, what: &str| {
        let noticed = noticed(script).unwrap_or_default();
        assert!(noticed.contains(what), "{script}: {noticed:?}");
    };
    assert_eq!(noticed("echo ordinary; exit 1"), None);
    says("kill -ABRT $$", "aborted");
    says("echo 'thread main panicked at x' >&2; exit 1", "panicked");
    says("exit 101", "status Some(101)");
    says("while :; do :; done", "more than 1 s of the processor");
    says("printf '\\033[2J'", "prints {'\\u{1b}'}");
    says("printf '\\302\\233' >&2", "prints {'\\u{9b}'}");
    says("awk 'BEGIN { a = \"x\"; while (1) a = a a }' || exit 9", "status Some(9)");
    assert!(!acts(&'ü') && !acts(&'…') && !acts(&'─'));
}

#[test]
#[ignore = "takes minutes: run by cargo xtask groups"]
fn all_hostile_inputs_are_survived_within_limits() {
    let wrong = run(0..ALL);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What one run of the program used.
struct Used {
    cpu_seconds: f64,
    peak_bytes: f64,
}

/// As [`failure`], with the journals in a folder; and what the program used, if there is a program
/// that measures it (PAGEWISE_MUTANTS_MEASURE).
fn measured(line: &[String], state: &Path) -> (Option<String>, Option<Used>) {
    let (program, seconds) = program();
    let state = format!("PAGEWISE_STATE={}", state.to_str().unwrap());
    let words = [&[state, program], line].concat();
    let Ok(measure) = std::env::var("PAGEWISE_MUTANTS_MEASURE") else {
        return (failure("env", &words, seconds), None);
    };
    let folder = empty_folder();
    let to = folder.path().join("used").to_str().unwrap().to_owned();
    let below = ["measure", "--to", &to, "--", "env"].map(str::to_owned);
    let wrong = failure(&measure, &[&below[..], &words].concat(), seconds);
    let used = std::fs::read(&to).ok();
    let used = used.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    let number = |key: &str| used.as_ref().and_then(|used| used[key].as_f64());
    let used = number("cpu_seconds").zip(number("peak_bytes"));
    (wrong, used.map(|(cpu_seconds, peak_bytes)| Used { cpu_seconds, peak_bytes }))
}

/// The worst of one kind: seconds of CPU time and bytes of memory, each with the input.
#[derive(Default)]
struct Worst {
    cpu: (f64, String),
    memory: (f64, String),
    runs: u64,
    measured: u64,
}

/// Limit on the memory for one input: SPECIFICATION.md.
const MUTANT_BYTES: f64 = (48 << 20) as f64;

/// Runs the program on an input, and notes what it cost; returns what is wrong.
fn try_mutant(input: &Hostile, number: u64, worst: &Mutex<Worst>) -> Vec<String> {
    let folder = empty_folder();
    for (name, bytes) in &input.files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut all = lines(input.kind, number, folder.path());
    if input.kind == Kind::Journal {
        let mut bytes = input.files[FILE].clone();
        if number % 2 == 0 {
            bytes = pagewise_apply::fuzzing::with_checksums(&bytes);
        }
        std::fs::write(folder.path().join("00000001.plan"), bytes).unwrap();
        all = vec![["verify", "--no-ledger"].map(str::to_owned).to_vec()];
    }
    let mut wrong = Vec::new();
    for line in all {
        let (failed, used) = measured(&line, folder.path());
        wrong.extend(failed);
        worst.lock().unwrap().runs += 1;
        let Some(used) = used else { continue };
        if used.peak_bytes > MUTANT_BYTES || used.cpu_seconds > f64::from(program().1) {
            let mib = used.peak_bytes / f64::from(1 << 20);
            wrong.push(format!("{:.2} s of CPU time and {mib:.1} MiB", used.cpu_seconds));
        }
        let name = || format!("{number}: {}", Name::from(input.name.as_str()));
        let mut worst = worst.lock().unwrap();
        worst.measured += 1;
        if used.cpu_seconds > worst.cpu.0 {
            worst.cpu = (used.cpu_seconds, name());
        }
        if used.peak_bytes > worst.memory.0 {
            worst.memory = (used.peak_bytes, name());
        }
    }
    let name = Name::from(input.name.as_str());
    wrong.into_iter().map(|it| format!("{number}: {name}: {it}")).collect()
}

/// Mutants of one kind at a time; prints the worst of each. Here a few of each kind with the program
/// that was built for tests; `cargo xtask mutants` runs thousands, with the shipped program, and
/// measures what each costs.
#[test]
fn mutants_of_each_kind_cost_little() {
    let number = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap())
    };
    let first = number("PAGEWISE_MUTANTS_FIRST", 0);
    let count = number("PAGEWISE_MUTANTS_COUNT", 10);
    let kinds = std::env::var("PAGEWISE_MUTANTS_KINDS");
    let kinds = kinds.unwrap_or_else(|_| MUTANTS.map(|(name, _)| name).join(" "));
    let is_measured = std::env::var_os("PAGEWISE_MUTANTS_MEASURE").is_some();
    let corpus = corpus();
    let mut all_wrong = Vec::new();
    for name in kinds.split(' ') {
        let kind = MUTANTS.iter().find(|(of, _)| *of == name).map(|(_, kind)| *kind);
        let kind = kind.unwrap_or_else(|| panic!("{name:?} is none of {MUTANTS:?}"));
        let (next, worst) = (AtomicU64::new(first), Mutex::new(Worst::default()));
        let wrong = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= first + count {
                            return;
                        }
                        let input = corpus.input_of(kind, number);
                        let found = try_mutant(&input, number, &worst);
                        found.iter().for_each(|it| eprintln!("{name} {it}"));
                        wrong.lock().unwrap().extend(found);
                    }
                });
            }
        });
        let (worst, wrong) = (worst.into_inner().unwrap(), wrong.into_inner().unwrap());
        let mib = worst.memory.0 / f64::from(1 << 20);
        if !is_measured {
            println!("{name}: {} runs, {} wrong; cost not measured", worst.runs, wrong.len());
        } else {
            println!(
                "{name}: {} runs, {} wrong; at most {:.2} s of CPU time ({}) and {mib:.1} MiB ({})",
                worst.runs,
                wrong.len(),
                worst.cpu.0,
                worst.cpu.1,
                worst.memory.1
            );
        }
        assert!(worst.runs >= count, "{name}: {} runs", worst.runs);
        let expected = if is_measured { worst.runs } else { 0 };
        assert_eq!(worst.measured, expected, "{name}: what it used is not known of all");
        all_wrong.extend(wrong);
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}
