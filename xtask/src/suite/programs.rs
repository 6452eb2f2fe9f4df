// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds test programs with cargo, and starts them without cargo.
//!
//! Test programs that cargo does not start can run at the same time as each other and as a build;
//! the longest can start first, and the tests in guests can be started one by one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::child::{self, Ended};
use super::fixed;
use super::jobs::Job;
use super::leftovers::Machine;
use super::libtest::{self, Results};
use super::outcome::{Outcome, State};
use crate::run;

/// The test program that starts the complete program; as root, the trials in its tests make cgroups
/// on this machine.
pub(super) const WHOLE: &str = "pagewise program";

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// Package and target, such as `pagewise-lab` and `pagewise program`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The working folder in which cargo would run the program.
    folder: PathBuf,
}

/// Which test programs to build.
#[derive(Debug, Clone, Copy)]
pub(super) enum Targets {
    /// Test programs that need no root, with the example programs that tests start.
    Anywhere,
    /// Test programs that need root or guests.
    Root,
}

/// The cargo command that builds the test programs and prints their paths.
pub(super) fn build_command(targets: Targets) -> Command {
    let mut command = run::cargo();
    command.args(["test", "--workspace", "--locked", "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if let Targets::Root = targets {
        command.args(["--test", "root", "--test", "guest"]);
    }
    command
}

/// The command that builds the example programs that tests with root and in guests start: cargo
/// builds examples automatically only if it builds all tests.
pub(super) fn examples_command() -> Command {
    let mut command = run::cargo();
    command.args(["build", "--workspace", "--locked", "--examples"]);
    command
}

/// Finds the test programs in the messages of cargo.
pub(super) fn parse_built(messages: &str) -> Result<Vec<TestProgram>> {
    let lines = messages.lines().filter(|line| line.starts_with('{'));
    let programs: Vec<TestProgram> = lines.filter_map(parse_program).collect();
    ensure!(!programs.is_empty(), "cargo named no test program");
    Ok(programs)
}

fn parse_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let is_unit = message["target"]["kind"][0] != "test";
    let name = if is_unit { package.to_owned() } else { format!("{package} {target}") };
    is_test.then_some(TestProgram { name, path, folder })
}

/// The paths that tests with guests need, passed to them in environment variables.
#[derive(Debug, Clone)]
pub(crate) struct ForGuests {
    pub(super) static_program: PathBuf,
    /// Path of the cache of kernels and userlands.
    pub(super) cache: PathBuf,
}

impl ForGuests {
    /// Sets the environment variables from which the tests read the paths.
    pub(crate) fn set_variables(&self, command: &mut Command) {
        command.env("PAGEWISE_STATIC", &self.static_program);
        command.env("PAGEWISE_CACHE", &self.cache);
    }
}

impl TestProgram {
    /// Makes a command that starts the program with these arguments of libtest.
    pub(super) fn command(&self, arguments: &[&str], given: Option<&ForGuests>) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).args(arguments);
        if let Some(given) = given {
            given.set_variables(&mut command);
        }
        command
    }

    /// The names of the program's tests.
    pub(super) fn tests(&self) -> Result<Vec<String>> {
        let mut list = self.command(&["--list", "--format", "terse"], None);
        Ok(libtest::parse_names(&run::output(&mut list)?))
    }

    /// The names of the program's tests that run only if a chore asks for them.
    pub(super) fn ignored_tests(&self) -> Result<Vec<String>> {
        let mut list = self.command(&["--list", "--ignored", "--format", "terse"], None);
        Ok(libtest::parse_names(&run::output(&mut list)?))
    }

    /// Runs tests with `--report-time`; a stable libtest accepts that only with
    /// `-Zunstable-options`, and that only if `RUSTC_BOOTSTRAP` is set.
    pub(super) fn run(
        &self,
        job: &str,
        arguments: &[&str],
        given: Option<&ForGuests>,
    ) -> Result<Outcome> {
        let times = ["-Zunstable-options", "--report-time"];
        let mut command = self.command(&[arguments, &times].concat(), given);
        let ended = child::run_logged(command.env("RUSTC_BOOTSTRAP", "1"), job, child::DEADLINE)?;
        outcome(&ended)
    }
}

/// The suffix of the name of a job that runs failed tests once more.
pub(super) const AGAIN: &str = ", again alone";

/// The outcome of tests on a real kernel. If tests failed, also returns the job that runs them
/// again while nothing else runs.
///
/// With `borrows`, the tests change settings of this machine. If all pass the second time, the run
/// passes, and the tests that failed once are listed, because they must be fixed.
pub(super) fn outcome_with_retry(
    outcome: Outcome,
    job: &str,
    phase: &'static str,
    program: &TestProgram,
    given: &ForGuests,
    borrows: bool,
) -> (Outcome, Vec<Job>) {
    let failures = outcome.tests.failures.clone();
    // a program that ended without naming the failed tests has no tests to run again
    let is_named = failures.len() as u64 == outcome.tests.failed && !failures.is_empty();
    if outcome.state != State::Failed || !is_named || child::is_stopped() {
        return (outcome, Vec::new());
    }
    let name = format!("{job}{AGAIN}");
    let (own, program, given) = (name.clone(), program.clone(), given.clone());
    let work = move || {
        let turn = if borrows { fixed::wait_for_turn()? } else { None };
        let machine = borrows.then(Machine::read_now);
        let names = failures.iter().map(String::as_str);
        let arguments: Vec<&str> =
            ["--exact", "--test-threads=1"].into_iter().chain(names).collect();
        let mut outcome = program.run(&own, &arguments, Some(&given))?;
        if let Some(machine) = machine {
            outcome = machine.add_leftovers(outcome);
        }
        drop(turn);
        if outcome.state == State::Passed {
            outcome.text = format!("failed once, passed alone: {}", failures.join(", "));
        }
        Ok((outcome, Vec::new()))
    };
    let again = Job {
        name,
        phase,
        after: Vec::new(),
        borrows: false,
        is_alone: true,
        guest_cpus: 0,
        is_urgent: false,
        guess: 30.0,
        stops_all: false,
        may_be_left_out: false,
        work: Box::new(work),
    };
    let tests = Results { failed: 0, failures: Vec::new(), ..outcome.tests };
    (Outcome { state: State::FailedOnce, tests, ..outcome }, vec![again])
}

/// The outcome of a test program. The counts of tests that it printed are used only if it was not
/// ended by a deadline or by the user.
pub(super) fn outcome(ended: &Ended) -> Result<Outcome> {
    let output = ended.output()?;
    let tests = Results::read(&output);
    let text = match (ended.cut, tests.passed) {
        _ if !ended.has_succeeded() => {
            format!("{output}{}", ended.describe_end())
        }
        (_, 0) => "no test ran".to_owned(),
        (_, 1) => String::new(),
        (_, passed) => format!("{passed} tests"),
    };
    let passed = ended.has_succeeded() && tests.passed > 0;
    let state = if passed { State::Passed } else { State::Failed };
    Ok(Outcome { state, text, tests })
}

/// Finds the built test program of this name.
pub(super) fn find<'a>(programs: &'a [TestProgram], name: &str) -> Result<&'a TestProgram> {
    let found = programs.iter().find(|program| program.name == name);
    found.with_context(|| format!("cargo built no test program {name}"))
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn cargos_messages_name_programs_and_their_folders() {
        let artifact = |kind: &str, target: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/p/crates/lab/Cargo.toml",
                "target": {"kind": [kind], "name": target}, "profile": {"test": test},
                "executable": format!("/p/target/{target}"),
            })
            .to_string()
        };
        let messages = [
            "   Compiling x v1".to_owned(),
            artifact("lib", "pagewise_lab", true),
            artifact("test", "experiment", true),
            artifact("example", "hold", false),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let programs = parse_built(&messages.join("\n")).unwrap();
        let names: Vec<&str> = programs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["lab", "lab experiment"]);
        assert_eq!(programs[0].folder, Path::new("/p/crates/lab"));
        assert!(find(&programs, "lab").is_ok() && find(&programs, "la").is_err());
        assert!(parse_built("Finished\n").is_err());
    }

    #[test]
    fn a_program_that_runs_no_test_has_failed() {
        let mut command = run::program("echo");
        command.arg("test result: ok. 0 passed; 0 failed; 0 ignored");
        let ended = child::run_logged(&mut command, "check no tests", child::DEADLINE).unwrap();
        let outcome = outcome(&ended).unwrap();
        assert_eq!((outcome.state, outcome.text.as_str()), (State::Failed, "no test ran"));
    }
}
