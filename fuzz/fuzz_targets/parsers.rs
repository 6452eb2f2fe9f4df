// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds one parser, named by `PAGEWISE_PARSER`, whatever the fuzzer thinks of: of files of a host,
//! journals, evidence, what guests say, experiments, and the command line.
//!
//! The same program answers what the fuzzing needs to know, and stops: with `PAGEWISE_PARSER=list`
//! the names of all parsers; with `PAGEWISE_SEED=RECORDING` and `PAGEWISE_END=start` or `end` the input that
//! stands for the files of a recorded host, with `PAGEWISE_SEED=/` for those of this machine (nothing where
//! there are none).

#![no_main]

#[path = "../../crates/pagewise/src/chosen.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod chosen;
#[path = "../../crates/pagewise/src/cli.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod cli;
mod command_line;
#[path = "../../crates/pagewise/src/disk.rs"]
mod disk;
#[path = "../../crates/pagewise/src/duration.rs"]
mod duration;
#[path = "../../crates/pagewise/src/size.rs"]
#[allow(dead_code, reason = "parsing alone is used")]
mod size;
/// What the table takes from the verbs: a part of the help.
mod verbs {
    pub(crate) fn workload_keys() -> String {
        String::new()
    }
}

use std::io::Write;
use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pagewise_lab::fuzzing::TARGETS;
use pagewise_model::{Cost, Snapshot};
use pagewise_observe::HostRoot;
use pagewise_observe::parsers::{PARSERS, Parser};
use pagewise_report::text::Look;
use pagewise_report::{Tried, html, json, text};

enum Target {
    /// Of files of a host.
    Host(&'static Parser),
    /// Of anything else, with an input to begin with.
    Other(fn(&[u8]), fn() -> Vec<u8>),
}

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("PAGEWISE_PARSER").unwrap_or_default();
    let host = PARSERS.iter().find(|parser| parser.name == name).map(Target::Host);
    let other = || others().find(|(known, ..)| *known == name);
    let other = || other().map(|(_, run, seed)| Target::Other(run, seed));
    host.or_else(other).unwrap_or_else(|| {
        panic!("PAGEWISE_PARSER={name:?} is none of: {}", names().join(" "))
    })
});

type Other = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

fn others() -> impl Iterator<Item = Other> {
    let journal: Other = ("journal", pagewise_apply::fuzzing::run, pagewise_apply::fuzzing::seed);
    // replayed as `lab replay` does: read, judged, printed
    let replay: Other = ("replay", replay, pagewise_lab::fuzzing::evidence);
    let line: Other = ("command-line", command_line::run, command_line::seed);
    let lab = TARGETS.iter().map(|target| (target.name, target.run, target.seed));
    [journal, replay, line].into_iter().chain(lab)
}

fn replay(input: &[u8]) {
    let Some((recorded, trial, _)) = pagewise_lab::fuzzing::judged(input) else { return };
    let tried = Tried {
        name: recorded.name.as_deref(),
        snapshot: &Snapshot::default(),
        trial: &trial,
        runs: &recorded.runs,
        evidence: Some(Path::new("fuzz")),
        cost: Cost::default(),
    };
    let page = text::trial(&tried, Look { width: 80, colour: false });
    assert!(!page.contains(['\x1b', '\u{9b}']), "escapes are shown");
    std::hint::black_box((page, html::trial(&tried), json::trial(&tried)));
}

fuzz_target!(
    init: {
        if std::env::var_os("PAGEWISE_PARSER").is_some_and(|name| name == "list") {
            println!("{}", names().join("\n"));
            exit(0);
        }
        if let Some(place) = std::env::var_os("PAGEWISE_SEED") {
            print_seed(Path::new(&place));
            exit(0);
        }
        LazyLock::force(&CHOSEN);
    },
    |input: &[u8]| match &*CHOSEN {
        Target::Host(parser) => parser.run(input),
        Target::Other(run, _) => run(input),
    }
);

fn names() -> Vec<&'static str> {
    PARSERS.iter().map(|parser| parser.name).chain(others().map(|(name, ..)| name)).collect()
}

fn print_seed(place: &Path) {
    let live = place == Path::new("/");
    let host = if live { Some(HostRoot::live().expect("/")) } else { recorded(place) };
    let seed = match &*CHOSEN {
        Target::Host(parser) => host.and_then(|host| parser.seed(&host)),
        Target::Other(_, seed) => Some(seed()),
    };
    if let Some(seed) = seed {
        std::io::stdout().write_all(&seed).expect("standard output");
    }
}

/// One end of a recording; `None` where it has no earlier one.
fn recorded(archive: &Path) -> Option<HostRoot> {
    let recording = pagewise_observe::open(archive).expect("a recording");
    match std::env::var("PAGEWISE_END").expect("PAGEWISE_END").as_str() {
        "start" => recording.start,
        _ => Some(recording.end),
    }
}
