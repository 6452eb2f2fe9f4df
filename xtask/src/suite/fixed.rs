// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The jobs of `make lint`, `make check` and `make test`. They are the same for every commit,
//! whatever has passed before. Longer tests are in groups ([`mod@super::groups`]).

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::child;
use super::groups::{self, Group, Program};
use super::jobs::{Job, Work};
use super::leftovers::Machine;
use super::outcome::{Outcome, State};
use super::programs::{self, ForGuests, Targets, TestProgram};
use super::turn::Turn;
use crate::commits::NOT_CHECKED;
use crate::run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Style, lints, documentation, the oldest compiler, the size of the shipped program; no root
    Lint,
    /// Lint, and the tests that need no root
    Check,
    /// All tests of a fixed set; root
    Test,
}

impl Part {
    /// Name of the part in `budgets.toml`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lint => "lint",
            Self::Check => "check",
            Self::Test => "test",
        }
    }

    /// Names of the phases that the part consists of.
    pub(super) fn phases(self) -> Vec<&'static str> {
        let lint = ["static checks", "documentation", "oldest compiler", "shipped program"];
        match self {
            Self::Lint => lint.to_vec(),
            Self::Check => [&lint[..], &["unit tests"]].concat(),
            Self::Test => vec!["unit tests", "zmerge core", "root", "guests"],
        }
    }
}

/// Paths and options that all jobs of a run share.
#[derive(Debug)]
pub(super) struct Setting {
    /// Path of the program with the release profile, which this run builds.
    pub(super) shipped: PathBuf,
    /// Path of the lean program (`crates/pagewise/src/lean.rs`).
    pub(super) lean: PathBuf,
    pub(super) given: ForGuests,
    /// Run only tests whose name contains one of these; all tests if empty.
    pub(super) names: Vec<String>,
}

impl Setting {
    /// The paths that the tests in guests of a group need.
    pub(super) fn inputs_for(&self, group: &Group) -> ForGuests {
        if group.runs_program(Program::Lean) {
            ForGuests { static_program: self.lean.clone(), ..self.given.clone() }
        } else {
            self.given.clone()
        }
    }

    fn wants(&self, test: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| test.contains(name.as_str()))
    }
}

pub(super) fn job(
    name: &str,
    phase: &'static str,
    after: &[&'static str],
    guess: f64,
    work: Work,
) -> Job {
    let (name, after) = (name.to_owned(), after.to_vec());
    Job {
        name,
        phase,
        after,
        borrows: false,
        is_alone: false,
        guest_cpus: 0,
        is_urgent: false,
        guess,
        stops_all: false,
        may_be_left_out: false,
        work,
    }
}

/// Makes a job that changes settings of this machine. At a time, only one such job of this run is
/// active, and runs that happen at the same time take turns. A job without root cannot change
/// settings, so it needs no turn.
pub(super) fn machine_changing_job(
    name: &str,
    phase: &'static str,
    after: &[&'static str],
    guess: f64,
    work: impl FnOnce() -> Result<Outcome> + Send + 'static,
) -> Job {
    let work = move || {
        let turn = wait_for_turn()?;
        let machine = Machine::read_now();
        let outcome = machine.add_leftovers(work()?);
        drop(turn);
        Ok((outcome, Vec::new()))
    };
    Job { borrows: true, ..job(name, phase, after, guess, Box::new(work)) }
}

/// Waits for this run's turn to change settings of this machine.
pub(super) fn wait_for_turn() -> Result<Option<Turn>> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(Turn::wait).transpose().map_err(Into::into)
}

pub(super) fn make_urgent(job: Job) -> Job {
    Job { is_urgent: true, ..job }
}

/// Makes a job whose result is the exit status of a command.
pub(super) fn command_job(
    name: &'static str,
    phase: &'static str,
    after: &[&'static str],
    guess: f64,
    command: impl FnOnce() -> Command + Send + 'static,
) -> Job {
    let work = move || Ok((run_command(name, &mut command())?, Vec::new()));
    job(name, phase, after, guess, Box::new(work))
}

pub(super) fn run_command(name: &str, command: &mut Command) -> Result<Outcome> {
    let ended = child::run_logged(command, name, child::DEADLINE)?;
    if ended.has_succeeded() {
        return Ok(Outcome::new(State::Passed, String::new()));
    }
    Ok(Outcome::new(State::Failed, format!("{}{}", ended.output()?, ended.describe_end())))
}

/// Runs a command like [`run_command`], but prints its lines about what could not be checked even if the
/// command passed.
fn run_command_with_notes(name: &str, command: &mut Command) -> Result<Outcome> {
    let ended = child::run_logged(command, name, child::DEADLINE)?;
    let output = ended.output()?;
    if !ended.has_succeeded() {
        return Ok(Outcome::new(State::Failed, output + &ended.describe_end()));
    }
    let notes: Vec<&str> = output.lines().filter(|line| line.starts_with(NOT_CHECKED)).collect();
    Ok(Outcome::new(State::Passed, notes.join("; ")))
}

pub(super) fn script_command(
    words: &'static [&'static str],
) -> impl FnOnce() -> Command + Send + 'static {
    move || {
        let mut command = run::program(words[0]);
        command.args(&words[1..]);
        command
    }
}

fn cargo(words: &'static [&'static str]) -> impl FnOnce() -> Command + Send + 'static {
    move || {
        let mut command = run::cargo();
        command.args(words);
        command
    }
}

/// A command that runs this program with other arguments, as a process whose output can be kept.
pub(super) fn chore_command(words: &[&str]) -> Result<Command> {
    let mut command = run::program(std::env::current_exe()?);
    command.args(words);
    Ok(command)
}

/// Makes all jobs of a part that are known before anything is built.
pub(super) fn jobs(part: Part, setting: &Arc<Setting>) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    if part != Part::Test {
        jobs.extend(lint_jobs(setting)?);
    }
    if part != Part::Lint {
        let after: &[&str] = if part == Part::Check { &["clippy"] } else { &[] };
        jobs.push(tests_anywhere_job(setting, after));
        let doc_tests = cargo(&["test", "--workspace", "--locked", "--doc"]);
        jobs.push(command_job("doc tests", "unit tests", &["build unit tests"], 15.0, doc_tests));
    }
    if part == Part::Test {
        jobs.push(make_urgent(quick_program_job(&["build unit tests"])));
        jobs.push(tests_with_root_job(setting, &["build unit tests", "quick program"]));
        let core = script_command(&["make", "--directory", "kernel/zmerge", "test-core"]);
        jobs.push(command_job("zmerge core", "zmerge core", &["build unit tests"], 90.0, core));
    }
    Ok(jobs)
}

/// Makes the jobs of `lint`; style is checked first, before anything is built.
fn lint_jobs(setting: &Setting) -> Result<Vec<Job>> {
    let phase = "static checks";
    let quick = |name: &'static str, words: &[&str]| -> Result<Job> {
        let mut check = chore_command(words)?;
        let work = move || Ok((run_command_with_notes(name, &mut check)?, Vec::new()));
        Ok(job(name, phase, &["format"], 1.0, Box::new(work)))
    };
    let mut jobs = vec![
        command_job("format", phase, &[], 2.0, cargo(&["fmt", "--all", "--check"])),
        quick("arrows", &["dag"])?,
        quick("circles", &["circles"])?,
        quick("licences", &["heads"])?,
        quick("packages of others", &["deny"])?,
        job("advisories", phase, &["format"], 3.0, {
            // a new advisory is not the fault of the commit, so it is only a note
            let mut check = run::program("xtask/scripts/advisories.sh");
            check.arg("--note");
            Box::new(move || Ok((run_command_with_notes("advisories", &mut check)?, Vec::new())))
        }),
        quick("commit messages", &["commits"])?,
        quick("words", &["words"])?,
        // fuzz is a separate workspace, whose lock file must follow our crates' dependencies
        command_job("lock file of fuzz", phase, &["format"], 1.0, || {
            let mut metadata = run::cargo();
            metadata.args(["metadata", "--locked", "--format-version", "1"]);
            metadata.args(["--manifest-path", "fuzz/Cargo.toml"]);
            metadata
        }),
        job("clippy", phase, &["format"], 200.0, {
            Box::new(|| {
                // --all-targets leaves out the targets that a plain `cargo test` leaves out; they
                // are named below.
                let mut outcome = run_command("clippy", &mut clippy(&["--all-targets"]))?;
                for more in [
                    &["--test", "root", "--test", "guest"][..],
                    &["--package", "pagewise", "--features", "lean", "--bin", "pagewise-lean"],
                ] {
                    if outcome.state.is_good() {
                        outcome = run_command("clippy", &mut clippy(more))?;
                    }
                }
                Ok((outcome, Vec::new()))
            })
        }),
    ];
    for job in &mut jobs {
        job.stops_all = true;
        job.is_urgent = true;
    }
    // linting and documenting would wait for each other's lock of the build folder, so they run one
    // after the other; other jobs have their own folders
    jobs.push(command_job("documentation", "documentation", &["clippy"], 60.0, || {
        let mut command = run::cargo();
        command.args(["doc", "--workspace", "--no-deps", "--locked"]);
        command.env("RUSTDOCFLAGS", "--deny warnings");
        command
    }));
    let build = script_command(&["xtask/scripts/build-static.sh"]);
    jobs.push(make_urgent(command_job(
        "shipped program",
        "shipped program",
        &["format"],
        250.0,
        build,
    )));
    for (name, words) in [
        ("its size", &["artefact"][..]),
        ("tables of evidence", &["tables", "--check", "--program"]),
    ] {
        let mut check = chore_command(words)?;
        check.arg(&setting.shipped);
        let check = move || Ok((run_command(name, &mut check)?, Vec::new()));
        jobs.push(job(name, "shipped program", &["shipped program"], 5.0, Box::new(check)));
    }
    let oldest = script_command(&["xtask/scripts/check-oldest.sh"]);
    jobs.push(command_job(
        "oldest compiler",
        "oldest compiler",
        &["shipped program"],
        150.0,
        oldest,
    ));
    Ok(jobs)
}

fn clippy(targets: &[&str]) -> Command {
    let mut command = run::cargo();
    command.args(["clippy", "--workspace", "--locked"]).args(targets);
    command.args(["--", "--deny", "warnings"]);
    command
}

/// Makes a job that builds the program with a profile that compiles fast, for tests outside of
/// guests.
pub(super) fn quick_program_job(after: &[&'static str]) -> Job {
    let build = script_command(&["xtask/scripts/build-static.sh", "--quick"]);
    command_job("quick program", "root", after, 30.0, build)
}

/// Makes a job that builds the tests that need no root, and adds a job for each test program.
pub(super) fn tests_anywhere_job(setting: &Arc<Setting>, after: &[&'static str]) -> Job {
    let setting = Arc::clone(setting);
    let work = move || {
        let (outcome, programs) = build("build unit tests", Targets::Anywhere)?;
        let mut jobs = Vec::new();
        for program in programs {
            jobs.extend(unit_job(&setting, program)?);
        }
        Ok((outcome, jobs))
    };
    make_urgent(job("build unit tests", "unit tests", after, 300.0, Box::new(work)))
}

/// Builds test programs; cargo's messages about an error are the outcome's text.
pub(super) fn build(name: &str, targets: Targets) -> Result<(Outcome, Vec<TestProgram>)> {
    let ended = child::run_logged(&mut programs::build_command(targets), name, child::DEADLINE)?;
    let output = ended.output()?;
    if !ended.has_succeeded() {
        let messages = output.lines().filter(|line| !line.starts_with('{'));
        let why = ended.describe_end();
        let text = messages.chain([why.as_str()]).collect::<Vec<_>>().join("\n");
        return Ok((Outcome::new(State::Failed, text), Vec::new()));
    }
    Ok((Outcome::new(State::Passed, String::new()), programs::parse_built(&output)?))
}

/// Makes the job for a program's tests; `None` if none of its tests was requested.
fn unit_job(setting: &Setting, program: TestProgram) -> Result<Option<Job>> {
    let all = program.tests()?;
    let in_group = groups::modules_in_groups(&program.name);
    for module in &in_group {
        let there = all.iter().any(|name| name.starts_with(module));
        ensure!(there, "{} has no test in {module}, which a group runs", program.name);
    }
    // A test that belongs to a group, but was requested by name, is run like any other test.
    let is_wanted = |name: &&String| {
        let is_in_group = in_group.iter().any(|module| name.starts_with(module));
        setting.wants(name) && !(setting.names.is_empty() && is_in_group)
    };
    let wanted: Vec<String> = all.iter().filter(is_wanted).cloned().collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let is_whole = wanted.len() == all.len();
    let name = format!("unit tests of {}", program.name);
    let own = name.clone();
    let borrows = program.name == programs::WHOLE;
    let work = move || {
        let mut arguments = Vec::new();
        if !is_whole {
            arguments.push("--exact");
            arguments.extend(wanted.iter().map(String::as_str));
        }
        program.run(&own, &arguments, None)
    };
    Ok(Some(if borrows {
        machine_changing_job(&name, "unit tests", &[], 60.0, work)
    } else {
        job(&name, "unit tests", &[], 10.0, Box::new(move || Ok((work()?, Vec::new()))))
    }))
}

/// Builds the tests that need root or guests, and adds their jobs. Tests that need root run one
/// after the other, because they change the same settings; each test with guests is a separate job.
pub(super) fn tests_with_root_job(setting: &Arc<Setting>, after: &[&'static str]) -> Job {
    let setting = Arc::clone(setting);
    let work = move || {
        let (outcome, programs) = build_root_tests()?;
        let jobs =
            if outcome.state.is_good() { root_jobs(&setting, &programs)? } else { Vec::new() };
        Ok((outcome, jobs))
    };
    make_urgent(job("build root tests", "root", after, 60.0, Box::new(work)))
}

/// Builds the tests that need root or guests, with the example programs that they start.
pub(super) fn build_root_tests() -> Result<(Outcome, Vec<TestProgram>)> {
    let examples = run_command("build examples", &mut programs::examples_command())?;
    if !examples.state.is_good() {
        return Ok((examples, Vec::new()));
    }
    build("build root tests", Targets::Root)
}

fn root_jobs(setting: &Arc<Setting>, programs: &[TestProgram]) -> Result<Vec<Job>> {
    let root = programs::find(programs, "pagewise root")?.clone();
    let guest = programs::find(programs, groups::GUEST)?;
    let mut jobs = Vec::new();
    if root.tests()?.iter().any(|name| setting.wants(name)) {
        let names = setting.names.clone();
        jobs.push(root_job(setting, "root tests", root, names));
    }
    let ignored = guest.ignored_tests()?;
    for name in guest.tests()? {
        let group = groups::group_of_guest_test(&name);
        let is_fixed = name.starts_with(groups::FIXED);
        ensure!(is_fixed || group.is_some(), "{name}: no group runs this test, nor does make test");
        let is_chosen = if setting.names.is_empty() { is_fixed } else { setting.wants(&name) };
        if is_chosen && !ignored.contains(&name) {
            jobs.push(guest_job(setting, guest, &name));
        }
    }
    Ok(jobs)
}

fn root_job(setting: &Arc<Setting>, name: &str, root: TestProgram, tests: Vec<String>) -> Job {
    let (own, job_name) = (Arc::clone(setting), name.to_owned());
    let work = move || {
        let turn = wait_for_turn()?;
        let machine = Machine::read_now();
        let names = tests.iter().map(String::as_str);
        let arguments: Vec<&str> = ["--test-threads=1"].into_iter().chain(names).collect();
        let outcome = machine.add_leftovers(root.run(&job_name, &arguments, Some(&own.given))?);
        drop(turn);
        Ok(programs::outcome_with_retry(outcome, &job_name, "root", &root, &own.given, true))
    };
    Job { borrows: true, ..job(name, "root", &[], 240.0, Box::new(work)) }
}

fn guest_job(setting: &Arc<Setting>, guest: &TestProgram, test: &str) -> Job {
    let (setting, guest, name) = (Arc::clone(setting), guest.clone(), test.to_owned());
    let job_name = format!("guest {test}");
    let own = job_name.clone();
    let work = move || {
        let outcome = guest.run(&own, &["--exact", &name], Some(&setting.given))?;
        Ok(programs::outcome_with_retry(outcome, &own, "guests", &guest, &setting.given, false))
    };
    let job = job(&job_name, "guests", &[], 60.0, Box::new(work));
    Job { guest_cpus: groups::guest_cpus(test), ..job }
}
