// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds the fuzzer's inputs to one target, named by `PAGEWISE_PARSER`: a parser of host files,
//! journals, evidence, messages of guests, experiments, or the command line.
//!
//! The same program also prints what the fuzzing tool needs, and exits:
//!
//! ```text
//! parsers list                       prints the name and maximum input length of each target
//! parsers seed NAME FOLDER HOST...   writes the initial inputs into the folder, a file each; prints
//!                                    a dictionary of their words if the target has one
//! ```

#![no_main]

#[path = "../../crates/pagewise/src/accepted.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod accepted;
#[path = "../../crates/pagewise/src/chosen.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod chosen;
#[path = "../../crates/pagewise/src/cli.rs"]
#[allow(dead_code, unused_imports, reason = "parsing alone is used")]
mod cli;
mod command_line;
#[path = "../../crates/pagewise/src/verbs/apply/document.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod document;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;
use std::{env, fs};

use libfuzzer_sys::fuzz_target;
use pagewise_hostfs::parser::{self, Parser};
use pagewise_lab::fuzzing::{LONGEST_EVIDENCE, TARGETS, evidence_seeds, judge_evidence};
use pagewise_model::{Cost, Snapshot};
use pagewise_observe::HostRoot;
use pagewise_report::text::TextStyle;
use pagewise_report::{TrialReport, json, text};

/// These readers combine several files, of which some are long.
const LONGEST_HOST: usize = 16384;
/// The seed has a record of each kind.
const LONGEST_JOURNAL: usize = 2048;

/// The seed has two steps.
const LONGEST_PLAN: usize = 8192;
/// The seeds have three headers and a note.
const LONGEST_CORE: usize = 1024;
const LONGEST_SETTINGS: usize = 256;
const LONGEST_COUNTER: usize = 512;

struct Target {
    name: &'static str,
    longest: usize,
    reads: Reads,
}

enum Reads {
    /// A parser of host files.
    Host(&'static Parser),
    /// Anything else, with its initial inputs.
    Other(fn(&[u8]), fn() -> Vec<Vec<u8>>),
}

/// Readers of a host's files and of recordings, and code that rewrites them.
fn parsers() -> impl Iterator<Item = &'static Parser> {
    let lists = [
        pagewise_observe::parsers::PARSERS,
        pagewise_settings::parsers::PARSERS,
        pagewise_capture::parsers::PARSERS,
        parser::PARSERS,
    ];
    lists.into_iter().flatten()
}

fn targets() -> impl Iterator<Item = Target> {
    let host = |parser: &'static Parser| Target {
        name: parser.name,
        longest: LONGEST_HOST,
        reads: Reads::Host(parser),
    };
    let other =
        |name, longest, run, seeds| Target { name, longest, reads: Reads::Other(run, seeds) };
    let journals = || vec![pagewise_apply::fuzzing::seed()];
    let ours = [
        other("journal", LONGEST_JOURNAL, pagewise_apply::fuzzing::run, journals),
        // like `lab replay`: read, evaluated, printed
        other("replay", LONGEST_EVIDENCE, replay, evidence_seeds),
        other("plan", LONGEST_PLAN, plan, || vec![pagewise_apply::fuzzing::plan_seed()]),
        other("core", LONGEST_CORE, pagewise_sample::fuzzing::run, pagewise_sample::fuzzing::seeds),
        other("doctor-settings", LONGEST_SETTINGS, doctor_settings, doctor_settings_seeds),
        other("counter", LONGEST_COUNTER, counter, counter_seeds),
        other("command-line", command_line::LONGEST, command_line::run, command_line::seeds),
    ];
    let lab = TARGETS.iter().map(move |it| other(it.name, it.longest, it.run, it.seeds));
    parsers().map(host).chain(ours).chain(lab)
}

/// The counter of a user's program, by which the agent judges its loops.
fn counter(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for name in [None, Some("requests_total")] {
        let value = pagewise_agent::parse_metric(&text, name);
        assert!(value.is_none_or(|value| value >= 0.0), "{value:?}");
    }
}

fn counter_seeds() -> Vec<Vec<u8>> {
    let prometheus = "# TYPE requests_total counter\nrequests_total{code=\"200\",path=\"/a\\\"}\"} 12 1795700000\n\
                      requests_total{code=\"500\"} 3.5e2 # {trace=\"a\"} 1\n# EOF\n";
    [prometheus, "served 12\n"].map(|text| text.as_bytes().to_vec()).to_vec()
}

fn named(name: &str) -> Target {
    let names = || targets().map(|target| target.name).collect::<Vec<_>>().join(" ");
    let target = targets().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("{name:?} is none of: {}", names()))
}

static CHOSEN: LazyLock<Target> =
    LazyLock::new(|| named(&env::var("PAGEWISE_PARSER").unwrap_or_default()));

fn replay(input: &[u8]) {
    let Some((recorded, trial, _)) = judge_evidence(input) else { return };
    let tried = TrialReport {
        name: recorded.name.as_deref(),
        snapshot: &Snapshot::default(),
        trial: &trial,
        runs: &recorded.runs,
        evidence: Some(Path::new("fuzz")),
        cost: Cost::default(),
    };
    let page = text::trial(&tried, TextStyle { width: 80, colour: false });
    assert!(!page.contains(['\x1b', '\u{9b}']), "escapes are shown");
    std::hint::black_box((page, pagewise_html::trial_page(&tried), json::trial(&tried)));
}

/// Like `apply`: parsed, checked as far as that does not need the machine, and shown.
fn plan(input: &[u8]) {
    let Some(plan) = std::str::from_utf8(input).ok().and_then(|text| document::parse(text).ok())
    else {
        return;
    };
    pagewise_apply::fuzzing::check_plan(&plan);
    std::hint::black_box(pagewise_plan::root_commands(&plan));
    std::hint::black_box(text::plan_diff(&plan));
}

fn doctor_settings(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    drop(std::hint::black_box(accepted::parse(text)));
}

fn doctor_settings_seeds() -> Vec<Vec<u8>> {
    vec![b"ignore = [\"zram-oversized\"]\nmin_severity = \"critical\"\n".to_vec()]
}

fuzz_target!(
    init: {
        let arguments: Vec<String> = env::args().skip(1).collect();
        match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["list"] => {
                targets().for_each(|target| println!("{} {}", target.name, target.longest));
                exit(0)
            }
            ["seed", name, folder, hosts @ ..] => {
                seed(&named(name), Path::new(folder), hosts);
                exit(0)
            }
            _ => drop(LazyLock::force(&CHOSEN)),
        }
    },
    |input: &[u8]| match CHOSEN.reads {
        Reads::Host(parser) => parser.run(input),
        Reads::Other(run, _) => run(input),
    }
);

/// Writes the initial inputs. Equal inputs, as in recordings of the same kernel, become one file.
fn seed(target: &Target, folder: &Path, hosts: &[&str]) {
    let seeds = match target.reads {
        Reads::Host(parser) => {
            let opened = hosts.iter().flat_map(|host| opened(host));
            opened.filter_map(|host| parser.seed(&host)).collect()
        }
        Reads::Other(_, seeds) => seeds(),
    };
    for seed in &seeds {
        let mut hash = DefaultHasher::new();
        seed.hash(&mut hash);
        let path = folder.join(format!("seed-{:016x}", hash.finish()));
        fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let words = match target.reads {
        Reads::Host(_) => BTreeSet::new(),
        Reads::Other(..) if target.name == "command-line" => command_line::words(),
        Reads::Other(..) => seeds.iter().flat_map(|seed| words_of(seed)).collect(),
    };
    words.iter().for_each(|word| println!("{}", entry(word)));
}

/// Opens this machine (`/`), or both ends of a recording.
fn opened(host: &str) -> Vec<HostRoot> {
    if host == "/" {
        return vec![HostRoot::live().expect("/")];
    }
    let recording = pagewise_observe::open(Path::new(host));
    let recording = recording.unwrap_or_else(|error| panic!("{host}: {error}"));
    recording.start.into_iter().chain([recording.end]).collect()
}

/// The words among the names of keys and values.
fn words_of(seed: &[u8]) -> BTreeSet<String> {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let text = String::from_utf8_lossy(seed);
    let words = text.split(|letter| !is_inside(letter));
    let is_word = |word: &&str| (3..=32).contains(&word.len()) && !word.starts_with('.');
    words.filter(is_word).map(str::to_owned).collect()
}

/// A line of a libFuzzer dictionary.
fn entry(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
