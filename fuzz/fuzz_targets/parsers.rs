// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds one parser, named by `PAGEWISE_PARSER`, whatever the fuzzer thinks of.
//!
//! The same program answers what the fuzzing needs to know, and stops: with `PAGEWISE_PARSER=list`
//! the names of all parsers; with `PAGEWISE_SEED=FOLDER` the input that stands for the files below
//! that folder (nothing where there are none).

#![no_main]

use std::io::Write;
use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pagewise_apply::fuzzing;
use pagewise_observe::HostRoot;
use pagewise_observe::parsers::{PARSERS, Parser};

enum Target {
    /// Of files of a host.
    Host(&'static Parser),
    /// Of what a killed run left behind.
    Journal,
}

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("PAGEWISE_PARSER").unwrap_or_default();
    if name == JOURNAL {
        return Target::Journal;
    }
    let parser = PARSERS.iter().find(|parser| parser.name == name);
    Target::Host(parser.unwrap_or_else(|| {
        panic!("PAGEWISE_PARSER={name:?} is none of: {}", names().join(" "))
    }))
});

const JOURNAL: &str = "journal";

fuzz_target!(
    init: {
        if std::env::var_os("PAGEWISE_PARSER").is_some_and(|name| name == "list") {
            println!("{}", names().join("\n"));
            exit(0);
        }
        if let Some(folder) = std::env::var_os("PAGEWISE_SEED") {
            print_seed(Path::new(&folder));
            exit(0);
        }
        LazyLock::force(&CHOSEN);
    },
    |input: &[u8]| match &*CHOSEN {
        Target::Host(parser) => parser.run(input),
        Target::Journal => fuzzing::run(input),
    }
);

fn names() -> Vec<&'static str> {
    PARSERS.iter().map(|parser| parser.name).chain([JOURNAL]).collect()
}

fn print_seed(folder: &Path) {
    let live = folder == Path::new("/");
    let host = if live { HostRoot::live() } else { HostRoot::folder(folder) }.expect("a folder");
    let seed = match &*CHOSEN {
        Target::Host(parser) => parser.seed(&host),
        Target::Journal => Some(fuzzing::seed()),
    };
    if let Some(seed) = seed {
        std::io::stdout().write_all(&seed).expect("standard output");
    }
}
