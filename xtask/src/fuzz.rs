// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes code that reads untrusted bytes: builds the fuzzing program, writes the initial inputs of
//! each of its targets (for parsers of host files, from the recordings and from this machine), runs
//! the targets, and prints a table.
//!
//! No sanitizer is used, because our code is safe Rust, whose faults are panics. Without the
//! address sanitizer, 2.8 times (meminfo) and 1.9 times (vmstat) as many executions per second were
//! measured. So neither a nightly compiler nor cargo-fuzz is needed: [`FLAGS`] are the flags that
//! cargo-fuzz would pass.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result, bail, ensure};
use regex_lite::Regex;

use crate::run;

/// The flags that cargo-fuzz passes to the compiler without a sanitizer: coverage for libFuzzer,
/// and the checks of debug builds, including overflow.
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

/// A regular expression for the text before the number of coverage counters that libFuzzer found in
/// the program.
const COUNTERS: &str = r"INFO: Loaded .*\(";

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

impl Args {
    /// libFuzzer's limits for a target: a number of executions or a time, and the input length.
    fn limits(&self, target: &Target, seconds: u64) -> [String; 2] {
        let until = match self.executions {
            Some(executions) => format!("-runs={executions}"),
            None => format!("-max_total_time={seconds}"),
        };
        [until, format!("-max_len={}", self.max_len.unwrap_or(target.longest))]
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let fuzzer = Fuzzer::build()?;
    let targets = choose(fuzzer.targets()?, &args.targets)?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let seconds = seconds_for_each(args.seconds, targets.len(), lanes);
    let todo = Mutex::new(targets.into_iter());
    println!("target         executions     exec/s   coverage   corpus");
    let lane = || fuzzer.fuzz_in_turn(&todo, args, seconds);
    let all_well = std::thread::scope(|scope| {
        let running: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let join =
            |lane: ScopedJoinHandle<'_, _>| lane.join().unwrap_or_else(|_| bail!("panicked"));
        running.into_iter().map(join).collect::<Result<Vec<bool>>>()
    })?;
    ensure!(!all_well.contains(&false), "a target failed; the input is named above");
    Ok(())
}

/// A fuzz target: one line of the list that the fuzzing program prints.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    name: String,
    /// Maximum length in bytes of an input; longer inputs are not worth trying.
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

/// The targets with these names; all of them if no name is given.
fn choose(mut all: Vec<Target>, named: &[String]) -> Result<Vec<Target>> {
    if let Some(unknown) = named.iter().find(|name| all.iter().all(|it| it.name != **name)) {
        let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        bail!("{unknown} is none of: {}", names.join(" "));
    }
    all.retain(|target| named.is_empty() || named.contains(&target.name));
    Ok(all)
}

/// Seconds for each target, if all targets together get this time.
fn seconds_for_each(seconds: u64, targets: usize, lanes: usize) -> u64 {
    (seconds * lanes as u64 / targets.max(1) as u64).max(1)
}

/// The fuzzing program, which is already built.
#[derive(Debug)]
struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
}

impl Fuzzer {
    fn build() -> Result<Self> {
        let target = run::host_target()?;
        let mut build = run::cargo();
        build.args(["build", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--release"]);
        // Cargo uses these flags only for code that it builds for the target, so build scripts do
        // not need libFuzzer.
        build.args(["--target", &target]).env("RUSTFLAGS", FLAGS.join(" "));
        build.env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_TARGET_DIR", "fuzz/target");
        run::run_to_success(&mut build)?;
        let folder = run::project().join("fuzz");
        let program = folder.join("target").join(target).join("release/parsers");
        Ok(Self { program, folder })
    }

    fn command(&self) -> Command {
        run::program(&self.program)
    }

    fn targets(&self) -> Result<Vec<Target>> {
        let listed = output_of_fuzzer(self.command().arg("list"))?;
        let targets = listed.lines().map(Target::parse).collect::<Result<Vec<_>>>()?;
        ensure!(!targets.is_empty(), "{} knows no target", self.program.display());
        Ok(targets)
    }

    /// Takes one target after the other and fuzzes it until no target is left; returns whether all
    /// succeeded.
    fn fuzz_in_turn(
        &self,
        todo: &Mutex<impl Iterator<Item = Target>>,
        args: &Args,
        seconds: u64,
    ) -> Result<bool> {
        let next = || todo.lock().ok().and_then(|mut targets| targets.next());
        let mut well = true;
        while let Some(target) = next() {
            let (row, crash) = self.fuzz(&target, args, seconds)?;
            println!("{row}");
            if let Some(crash) = crash {
                println!("  FAILED: {crash}");
                well = false;
            }
        }
        Ok(well)
    }

    /// Fuzzes a target; returns its row of the table and, if it failed, a description of the
    /// failure.
    fn fuzz(&self, target: &Target, args: &Args, seconds: u64) -> Result<(String, Option<String>)> {
        let corpus = self.folder.join("corpus").join(&target.name);
        let artifacts = self.folder.join("artifacts").join(&target.name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let mut command = self.command();
        command.env("PAGEWISE_PARSER", &target.name).args(args.limits(target, seconds));
        command.args(["-print_final_stats=1", "-timeout=10"]);
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        if let Some(dictionary) = self.seed(&target.name, &corpus)? {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        // the output goes to a file, so that it can be followed with tail
        let log = artifacts.join("log");
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let status = command.arg(&corpus).status().with_context(|| target.name.clone())?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let crash = if !status.success() {
            Some(find_crash(&said).unwrap_or_else(|| status.to_string()))
        } else if number_after(&said, COUNTERS) == 0 {
            Some("no coverage counters: the fuzzer searches blindly".to_owned())
        } else {
            None
        };
        Ok((table_row(&target.name, &said), crash))
    }

    /// Writes the initial inputs of a target; returns the path of its dictionary, if it has one.
    fn seed(&self, name: &str, corpus: &Path) -> Result<Option<PathBuf>> {
        let words =
            output_of_fuzzer(self.command().args(["seed", name]).arg(corpus).args(list_hosts()?))?;
        let dictionary = corpus.with_extension("words");
        fs::write(&dictionary, &words)?;
        Ok((!words.is_empty()).then_some(dictionary))
    }
}

/// The output of a call of the fuzzing program. libFuzzer prints warnings to standard error in each
/// call; they are shown only if the call fails.
fn output_of_fuzzer(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let warned = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{warned}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The hosts whose files seed a corpus: this machine, and the recordings.
fn list_hosts() -> Result<Vec<String>> {
    Ok(std::iter::once("/".to_owned()).chain(run::files(&["fixtures/hosts/*.tar"])?).collect())
}

/// Makes the table row of a target from libFuzzer's output: the last line of progress, and the
/// statistics.
fn table_row(name: &str, said: &str) -> String {
    let progress = said.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
    let executions = number_after(said, "stat::number_of_executed_units: *");
    let per_second = number_after(said, "stat::average_exec_per_sec: *");
    let (coverage, corpus) = (number_after(progress, " cov: "), number_after(progress, " corp: "));
    format!("{name:12} {executions:12} {per_second:10} {coverage:10} {corpus:8}")
}

/// The first number after a match of this pattern, or 0.
fn number_after(text: &str, pattern: &str) -> u64 {
    let number = Regex::new(&format!("{pattern}([0-9]+)")).ok().and_then(|it| it.captures(text));
    number.and_then(|found| found[1].parse().ok()).unwrap_or(0)
}

/// Finds the input that failed, and the first error message, in libFuzzer's output.
fn find_crash(said: &str) -> Option<String> {
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
        let expected = "memory             200000      20000        512      643";
        assert_eq!(table_row("memory", SAID), expected);
    }

    #[test]
    fn a_crash_names_its_input() {
        let said = "thread '<unnamed>' (1) panicked at crates/x.rs:1:2:\nattempt to add with overflow\n\
            artifact_prefix='a/'; Test unit written to a/crash-da39a3ee\nBase64: \n";
        let crash = find_crash(said).unwrap();
        assert!(crash.starts_with("a/crash-da39a3ee\n"), "{crash}");
        assert!(crash.contains("add with overflow"), "{crash}");
        assert_eq!(super::find_crash(SAID), None);
    }

    #[test]
    fn a_program_without_counters_is_noticed() {
        let loaded = "INFO: Seed: 1\nINFO: Loaded 1 modules   (9876 inline 8-bit counters): 9876 [0x5, 0x9), \n";
        assert_eq!([loaded, SAID].map(|said| number_after(said, COUNTERS)), [9876, 0]);
    }

    #[test]
    fn seconds_are_shared_and_executions_are_not() {
        assert_eq!([20, 200].map(|targets| seconds_for_each(60, targets, 2)), [6, 1]);
        let limits = |executions, max_len| {
            let args = Args { targets: Vec::new(), executions, seconds: 60, max_len };
            args.limits(&target("memory"), 6)
        };
        assert_eq!(limits(None, Some(10)), ["-max_total_time=6", "-max_len=10"]);
        assert_eq!(limits(Some(5), None), ["-runs=5", "-max_len=7"]);
    }

    fn target(name: &str) -> Target {
        Target { name: name.to_owned(), longest: 7 }
    }

    #[test]
    fn only_targets_that_exist() {
        let all = || vec![target("memory"), target("zone")];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            super::choose(all(), &names)
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
