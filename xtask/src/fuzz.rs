// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes every parser of the table in `pagewise_observe::parsers`: builds the one fuzzing program,
//! seeds each parser's corpus from the recorded hosts and from this machine, runs it, prints a table.
//!
//! Without a sanitizer, because our code is safe Rust whose faults are panics: measured at 2.8
//! (meminfo) and 1.9 times (vmstat) the executions per second of the address sanitizer. It also
//! leaves no need for a nightly compiler, nor for cargo-fuzz: [`FLAGS`] are what it would pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// What cargo-fuzz passes to the compiler without a sanitizer: coverage for libFuzzer, and the checks of debug builds,
/// overflow among them.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Inputs for each parser; without it the time decides
    #[arg(long)]
    runs: Option<u64>,
    /// Seconds for all parsers together
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only this parser
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Largest input in bytes
    #[arg(long, default_value_t = 16384)]
    max_len: u32,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let fuzzer = Fuzzer::built()?;
    let names = chosen(fuzzer.parsers()?, args.only.as_deref())?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(names.len());
    let length = Length::of(args, names.len(), lanes);
    let todo = Mutex::new(names.into_iter());
    println!("{}", Row::HEADER);
    let lane = || fuzzer.lane(&todo, &length);
    let all_well = std::thread::scope(|scope| {
        let running: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ended = running.into_iter().map(|lane| match lane.join() {
            Ok(well) => well,
            Err(_) => bail!("a lane panicked"),
        });
        ended.collect::<Result<Vec<bool>>>()
    })?;
    ensure!(!all_well.contains(&false), "a parser failed; the input is named above");
    Ok(())
}

fn chosen(all: Vec<String>, only: Option<&str>) -> Result<Vec<String>> {
    let Some(only) = only else { return Ok(all) };
    ensure!(all.iter().any(|name| name == only), "{only} is none of: {}", all.join(" "));
    Ok(vec![only.to_owned()])
}

/// How long each parser is fuzzed, as arguments for the fuzzer.
#[derive(Debug, PartialEq, Eq)]
struct Length {
    arguments: Vec<String>,
}

impl Length {
    fn of(args: &Args, parsers: usize, lanes: usize) -> Self {
        let share = |seconds: u64| (seconds * lanes as u64 / parsers.max(1) as u64).max(1);
        let until = match args.runs {
            Some(runs) => format!("-runs={runs}"),
            None => format!("-max_total_time={}", share(args.seconds)),
        };
        Self { arguments: vec![until, format!("-max_len={}", args.max_len)] }
    }
}

/// The built program.
#[derive(Debug)]
struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
}

impl Fuzzer {
    fn built() -> Result<Self> {
        let target = target()?;
        let mut build = run::cargo();
        build.args(["build", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--release"]);
        // Cargo gives them to what it builds for the target alone: build scripts link no libFuzzer.
        build.args(["--target", &target]).env("RUSTFLAGS", FLAGS.join(" "));
        build.env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_TARGET_DIR", "fuzz/target");
        run::succeed(&mut build)?;
        let folder = run::project().join("fuzz");
        let program = folder.join("target").join(target).join("release/parsers");
        Ok(Self { program, folder })
    }

    fn command(&self, parser: &str) -> Command {
        let mut command = run::program(&self.program);
        command.env("PAGEWISE_PARSER", parser);
        command
    }

    fn parsers(&self) -> Result<Vec<String>> {
        let names = self.command("list").stderr(Stdio::null()).output()?.stdout;
        let names: Vec<String> = String::from_utf8(names)?.lines().map(str::to_owned).collect();
        ensure!(!names.is_empty(), "{} knows no parser", self.program.display());
        Ok(names)
    }

    /// Fuzzes one parser after the other until none is left to do; whether all went well.
    fn lane(&self, todo: &Mutex<impl Iterator<Item = String>>, length: &Length) -> Result<bool> {
        let next = || todo.lock().ok().and_then(|mut names| names.next());
        let mut well = true;
        while let Some(name) = next() {
            let row = self.fuzzed(&name, length)?;
            well &= row.crash.is_none();
            println!("{row}");
        }
        Ok(well)
    }

    fn fuzzed(&self, parser: &str, length: &Length) -> Result<Row> {
        let corpus = self.folder.join("corpus").join(parser);
        let artifacts = self.folder.join("artifacts").join(parser);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        for host in hosts()? {
            self.seed(parser, &host, &corpus.join(&host.name))?;
        }
        let mut command = self.command(parser);
        command.args(&length.arguments).args(["-print_final_stats=1", "-timeout=10"]);
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        let output = command.arg(&corpus).output().with_context(|| parser.to_owned())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let mut row = Row::of(parser, &said);
        if !output.status.success() {
            row.crash = Some(crash(&said).unwrap_or_else(|| output.status.to_string()));
        } else if counters(&said) == 0 {
            row.crash = Some("no coverage counters: the fuzzer searches blindly".to_owned());
        }
        Ok(row)
    }

    /// Writes the input that stands for a host's files, where it has some.
    fn seed(&self, parser: &str, host: &Host, into: &Path) -> Result<()> {
        let mut command = self.command(parser);
        command.env("PAGEWISE_SEED", &host.place).env("PAGEWISE_END", host.end);
        let seed = command.stderr(Stdio::null()).output()?;
        ensure!(seed.status.success(), "{parser}: no seed of {}: {}", host.name, seed.status);
        if !seed.stdout.is_empty() {
            fs::write(into, seed.stdout)?;
        }
        Ok(())
    }
}

/// What the compiler builds for by itself.
fn target() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = run::output(run::program(rustc).arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Whose files a corpus begins with.
#[derive(Debug)]
struct Host {
    name: String,
    /// A recording, or `/`.
    place: PathBuf,
    end: &'static str,
}

/// This machine, and both ends of each recording.
fn hosts() -> Result<Vec<Host>> {
    let live = Host { name: "live".to_owned(), place: PathBuf::from("/"), end: "end" };
    let mut hosts = vec![live];
    for entry in fs::read_dir(run::project().join("fixtures/hosts"))? {
        let place = entry?.path();
        let slug = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let host = |end| Host { name: format!("{slug}-{end}"), place: place.clone(), end };
        hosts.extend(["start", "end"].map(host));
    }
    Ok(hosts)
}

/// What became of one parser.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    name: String,
    executions: u64,
    per_second: u64,
    coverage: u64,
    corpus: u64,
    crash: Option<String>,
}

impl Row {
    const HEADER: &str = "parser         executions     exec/s   coverage   corpus";

    /// From the fuzzer's words: the last line of progress and the statistics.
    fn of(name: &str, said: &str) -> Self {
        let progress = said.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
        let statistic = |name: &str| {
            let line =
                said.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
            leading_number(line.unwrap_or_default().trim_start_matches(':'))
        };
        let after = |label: &str| leading_number(progress.split_once(label).map_or("", |(_, t)| t));
        Self {
            name: name.to_owned(),
            executions: statistic("number_of_executed_units"),
            per_second: statistic("average_exec_per_sec"),
            coverage: after(" cov: "),
            corpus: after(" corp: "),
            crash: None,
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, executions, per_second, coverage, corpus, crash } = self;
        write!(f, "{name:12} {executions:12} {per_second:10} {coverage:10} {corpus:8}")?;
        match crash {
            Some(crash) => write!(f, "\n  FAILED: {crash}"),
            None => Ok(()),
        }
    }
}

fn leading_number(text: &str) -> u64 {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

/// How many coverage counters the fuzzer found in its program.
fn counters(said: &str) -> u64 {
    let loaded = said.lines().find(|line| line.starts_with("INFO: Loaded "));
    loaded.and_then(|line| line.split_once('(')).map_or(0, |(_, count)| leading_number(count))
}

/// The input that failed, and what was said first.
fn crash(said: &str) -> Option<String> {
    let artifact = said.lines().find_map(|line| line.split_once("Test unit written to "))?.1;
    let mut lines = said.lines().skip_while(|line| !line.contains("panicked at"));
    let panic = [lines.next().unwrap_or_default(), lines.next().unwrap_or_default()].join(" ");
    Some(format!("{artifact}\n  {}", panic.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
#2\tINITED cov: 180 ft: 190 corp: 2/10b exec/s: 0 rss: 29Mb
#200000\tDONE   cov: 512 ft: 2213 corp: 643/1170Kb lim: 16384 exec/s: 20000 rss: 29Mb
Done 200000 runs in 10 second(s)
stat::number_of_executed_units: 200000
stat::average_exec_per_sec:     20000
";

    #[test]
    fn a_row_says_what_the_fuzzer_said() {
        let row = Row::of("memory", SAID);
        let expected = Row {
            name: "memory".into(),
            executions: 200_000,
            per_second: 20_000,
            coverage: 512,
            corpus: 643,
            crash: None,
        };
        assert_eq!(row, expected);
        assert_eq!(row.to_string().len(), Row::HEADER.len());
    }

    #[test]
    fn a_crash_names_its_input() {
        let said = "thread '<unnamed>' (1) panicked at crates/x.rs:1:2:\nattempt to add with overflow\n\
            artifact_prefix='a/'; Test unit written to a/crash-da39a3ee\nBase64: \n";
        let crash = crash(said).unwrap();
        assert!(crash.starts_with("a/crash-da39a3ee\n"), "{crash}");
        assert!(crash.contains("add with overflow"), "{crash}");
        assert_eq!(super::crash(SAID), None);
    }

    #[test]
    fn a_program_without_counters_is_noticed() {
        let loaded = "INFO: Seed: 1\nINFO: Loaded 1 modules   (9876 inline 8-bit counters): 9876 [0x5, 0x9), \n";
        assert_eq!(counters(loaded), 9876);
        assert_eq!(counters(SAID), 0);
    }

    #[test]
    fn seconds_are_shared_and_runs_are_not() {
        let args = |runs| Args { runs, seconds: 60, only: None, max_len: 10 };
        assert_eq!(Length::of(&args(None), 20, 2).arguments, ["-max_total_time=6", "-max_len=10"]);
        assert_eq!(Length::of(&args(None), 200, 2).arguments[0], "-max_total_time=1");
        assert_eq!(Length::of(&args(Some(5)), 20, 2).arguments[0], "-runs=5");
    }

    #[test]
    fn only_a_parser_that_exists() {
        let all = || vec!["memory".to_owned(), "zone".to_owned()];
        assert_eq!(chosen(all(), Some("zone")).unwrap(), ["zone"]);
        assert_eq!(chosen(all(), None).unwrap().len(), 2);
        assert!(chosen(all(), Some("mem")).is_err());
    }
}
