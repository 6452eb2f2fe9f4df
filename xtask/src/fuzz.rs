// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes what reads foreign bytes: builds the one fuzzing program, seeds the corpus of each of its
//! targets (parsers of host files from the recorded hosts and from this machine), runs them, prints a table.
//!
//! Without a sanitizer, because our code is safe Rust whose faults are panics: measured at 2.8
//! (meminfo) and 1.9 times (vmstat) the executions per second of the address sanitizer. It also
//! leaves no need for a nightly compiler, nor for cargo-fuzz: [`FLAGS`] are what it would pass.

use std::fs::{self, File};
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
    /// What is fuzzed [default: everything]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Inputs for each target; without it the time decides
    #[arg(long, value_name = "N")]
    executions: Option<u64>,
    /// Seconds for all targets together
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The longest input in bytes [default: the longest that is worth trying, which each target says]
    #[arg(long, value_name = "BYTES")]
    max_len: Option<u32>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let fuzzer = Fuzzer::built()?;
    let targets = chosen(fuzzer.targets()?, &args.targets)?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let length = Length::of(args, targets.len(), lanes);
    let todo = Mutex::new(targets.into_iter());
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
    ensure!(!all_well.contains(&false), "a target failed; the input is named above");
    Ok(())
}

/// One line of what the program lists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    name: String,
    /// The longest input that is worth trying, in bytes.
    longest: u32,
}

impl Target {
    fn parse(line: &str) -> Result<Self> {
        let words = line.split_once(' ').map(|(name, longest)| (name.to_owned(), longest.parse()));
        match words {
            Some((name, Ok(longest))) => Ok(Self { name, longest }),
            _ => bail!("expected a target and its longest input, found {line:?}"),
        }
    }
}

/// All of them where none is named.
fn chosen(all: Vec<Target>, named: &[String]) -> Result<Vec<Target>> {
    let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
    if let Some(unknown) = named.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("{unknown} is none of: {}", names.join(" "));
    }
    let is_wanted = |target: &Target| named.is_empty() || named.contains(&target.name);
    Ok(all.into_iter().filter(is_wanted).collect())
}

/// How long each target is fuzzed, and with what.
#[derive(Debug, PartialEq, Eq)]
struct Length {
    until: String,
    max_len: Option<u32>,
}

impl Length {
    fn of(args: &Args, targets: usize, lanes: usize) -> Self {
        let share = |seconds: u64| (seconds * lanes as u64 / targets.max(1) as u64).max(1);
        let until = match args.executions {
            Some(executions) => format!("-runs={executions}"),
            None => format!("-max_total_time={}", share(args.seconds)),
        };
        Self { until, max_len: args.max_len }
    }

    /// What the fuzzer is told.
    fn arguments(&self, target: &Target) -> [String; 2] {
        let longest = self.max_len.unwrap_or(target.longest);
        [self.until.clone(), format!("-max_len={longest}")]
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

    fn command(&self) -> Command {
        run::program(&self.program)
    }

    fn targets(&self) -> Result<Vec<Target>> {
        let listed = answer(self.command().arg("list"))?;
        let targets = listed.lines().map(Target::parse).collect::<Result<Vec<_>>>()?;
        ensure!(!targets.is_empty(), "{} knows no target", self.program.display());
        Ok(targets)
    }

    /// Fuzzes one target after the other until none is left to do; whether all went well.
    fn lane(&self, todo: &Mutex<impl Iterator<Item = Target>>, length: &Length) -> Result<bool> {
        let next = || todo.lock().ok().and_then(|mut targets| targets.next());
        let mut well = true;
        while let Some(target) = next() {
            let row = self.fuzzed(&target, length)?;
            well &= row.crash.is_none();
            println!("{row}");
        }
        Ok(well)
    }

    fn fuzzed(&self, target: &Target, length: &Length) -> Result<Row> {
        let corpus = self.folder.join("corpus").join(&target.name);
        let artifacts = self.folder.join("artifacts").join(&target.name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let mut command = self.command();
        command.env("PAGEWISE_PARSER", &target.name).args(length.arguments(target));
        command.args(["-print_final_stats=1", "-timeout=10"]);
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        if let Some(dictionary) = self.seed(&target.name, &corpus)? {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        // a file, so that it can be followed
        let log = artifacts.join("log");
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let status = command.arg(&corpus).status().with_context(|| target.name.clone())?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut row = Row::of(&target.name, &said);
        if !status.success() {
            row.crash = Some(crash(&said).unwrap_or_else(|| status.to_string()));
        } else if counters(&said) == 0 {
            row.crash = Some("no coverage counters: the fuzzer searches blindly".to_owned());
        }
        Ok(row)
    }

    /// Writes the inputs to begin with; the path of the target's dictionary, where it has one.
    fn seed(&self, name: &str, corpus: &Path) -> Result<Option<PathBuf>> {
        let words = answer(self.command().args(["seed", name]).arg(corpus).args(hosts()?))?;
        let dictionary = corpus.with_extension("words");
        fs::write(&dictionary, &words)?;
        Ok((!words.is_empty()).then_some(dictionary))
    }
}

/// What the program prints; libFuzzer warns on standard error each time, which only a failure shows.
fn answer(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let warned = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{warned}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// What the compiler builds for by itself.
fn target() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = run::output(run::program(rustc).arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Hosts whose files a corpus begins with: this machine, and recordings.
fn hosts() -> Result<Vec<PathBuf>> {
    let mut hosts = vec![PathBuf::from("/")];
    for entry in fs::read_dir(run::project().join("fixtures/hosts"))? {
        hosts.push(entry?.path());
    }
    Ok(hosts)
}

/// What became of one target.
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
    const HEADER: &str = "target         executions     exec/s   coverage   corpus";

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

    fn target(name: &str) -> Target {
        Target { name: name.to_owned(), longest: 7 }
    }

    #[test]
    fn seconds_are_shared_and_executions_are_not() {
        let args = |executions| {
            let (targets, max_len) = (Vec::new(), Some(10));
            Args { targets, executions, seconds: 60, max_len }
        };
        let memory = target("memory");
        let arguments =
            |executions, targets| Length::of(&args(executions), targets, 2).arguments(&memory);
        assert_eq!(arguments(None, 20), ["-max_total_time=6", "-max_len=10"]);
        assert_eq!(arguments(None, 200)[0], "-max_total_time=1");
        assert_eq!(arguments(Some(5), 20)[0], "-runs=5");
        let length = Length { until: String::new(), max_len: None };
        assert_eq!(length.arguments(&memory)[1], "-max_len=7");
    }

    #[test]
    fn only_targets_that_exist() {
        let all = || vec![target("memory"), target("zone")];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            super::chosen(all(), &names)
        };
        assert_eq!(chosen(&["zone"]).unwrap(), [target("zone")]);
        assert_eq!(chosen(&["zone", "memory"]).unwrap(), all());
        assert_eq!(chosen(&[]).unwrap(), all());
        assert!(chosen(&["zone", "mem"]).is_err());
    }

    #[test]
    fn a_line_of_the_list_is_a_target() {
        assert_eq!(Target::parse("zone 7").unwrap(), target("zone"));
        assert!(Target::parse("zone").is_err() && Target::parse("zone many").is_err());
    }
}
