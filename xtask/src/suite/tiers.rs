// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `make check`, `make test` and `make test-long` consist of, as jobs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::Result;

use super::child;
use super::jobs::{Job, Work};
use super::leftovers::Machine;
use super::outcome::{Outcome, State};
use super::programs::{self, ForGuests, Targets, TestProgram};
use super::remembered::{self, Done, Passed, Runs, Step};
use super::steps::{self, STEPS};
use super::trace;
use super::turn::Turn;
use crate::commits::NOT_CHECKED;
use crate::run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Tier {
    /// What every commit passes; no root
    Check,
    /// What CI runs
    Test,
    /// Everything: the heavy steps too, whatever is remembered of them
    Long,
}

impl Tier {
    /// Its name in `budgets.toml`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Test => "test",
            Self::Long => "long",
        }
    }

    /// The phases that it has.
    pub(super) fn phases(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Self::Check => &[],
            Self::Test | Self::Long => &[
                "documentation",
                "caches",
                "oldest compiler",
                "shipped program",
                "zmerge core",
                "root",
                "guests",
                "heavy steps",
            ],
        };
        [&["static checks", "unit tests"], own].concat()
    }
}

/// What all jobs of a run know.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) tier: Tier,
    pub(super) toolchain: String,
    pub(super) passed: PathBuf,
    pub(super) given: ForGuests,
    /// Only tests whose name contains one of these; all without.
    pub(super) names: Vec<String>,
}

impl Setting {
    fn wants(&self, test: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| test.contains(name.as_str()))
    }
}

fn job(name: &str, phase: &'static str, after: &[&'static str], guess: f64, work: Work) -> Job {
    let (name, after) = (name.to_owned(), after.to_vec());
    let (borrows, guest_cpus, is_urgent, stops_all) = (false, 0, false, false);
    Job { name, phase, after, borrows, guest_cpus, is_urgent, guess, stops_all, work }
}

/// One that borrows settings of this machine: alone in this run, and in its turn among several runs. Without root it
/// can borrow nothing.
fn borrowing(
    name: &str,
    phase: &'static str,
    after: &[&'static str],
    guess: f64,
    work: impl FnOnce() -> Result<Outcome> + Send + 'static,
) -> Job {
    let work = move || {
        let is_root = rustix::process::geteuid().is_root();
        let turn = is_root.then(Turn::wait).transpose()?;
        let machine = Machine::look();
        let outcome = machine.judge(work()?);
        drop(turn);
        Ok((outcome, Vec::new()))
    };
    Job { borrows: true, ..job(name, phase, after, guess, Box::new(work)) }
}

fn urgent(job: Job) -> Job {
    Job { is_urgent: true, ..job }
}

/// A command whose exit status says all.
fn command(
    name: &'static str,
    phase: &'static str,
    after: &[&'static str],
    guess: f64,
    command: impl FnOnce() -> Command + Send + 'static,
) -> Job {
    let work = move || Ok((ran(name, &mut command())?, Vec::new()));
    job(name, phase, after, guess, Box::new(work))
}

fn ran(name: &str, command: &mut Command) -> Result<Outcome> {
    let ended = child::run_logged(command, name, child::DEADLINE)?;
    if ended.succeeded() {
        return Ok(Outcome::new(State::Passed, String::new()));
    }
    Ok(Outcome::new(State::Failed, format!("{}{}", ended.output()?, ended.why())))
}

/// Like [`ran`]; what it says that it could not check is shown also if it passed.
fn ran_with_notes(name: &str, command: &mut Command) -> Result<Outcome> {
    let ended = child::run_logged(command, name, child::DEADLINE)?;
    let output = ended.output()?;
    if !ended.succeeded() {
        return Ok(Outcome::new(State::Failed, output + &ended.why()));
    }
    let notes: Vec<&str> = output.lines().filter(|line| line.starts_with(NOT_CHECKED)).collect();
    Ok(Outcome::new(State::Passed, notes.join("; ")))
}

fn script(words: &'static [&'static str]) -> impl FnOnce() -> Command + Send + 'static {
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

/// A chore of this very program, as a process whose output can be kept.
fn chore(words: &[&str]) -> Result<Command> {
    let mut command = run::program(std::env::current_exe()?);
    command.args(words);
    Ok(command)
}

/// All jobs that are known before anything is built.
pub(super) fn jobs(setting: &Arc<Setting>) -> Result<Vec<Job>> {
    let mut jobs = static_checks()?;
    jobs.push(tests_anywhere(setting, &["clippy"]));
    let doc_tests = cargo(&["test", "--workspace", "--locked", "--doc"]);
    jobs.push(command("doc tests", "unit tests", &["build unit tests"], 15.0, doc_tests));
    jobs.push(job("tables of evidence", "unit tests", &["build unit tests"], 5.0, {
        let mut check = chore(&["tables", "--check"])?;
        Box::new(move || Ok((ran("tables of evidence", &mut check)?, Vec::new())))
    }));
    if setting.tier > Tier::Check {
        jobs.extend(beyond_check(setting));
    }
    Ok(jobs)
}

/// A style or a lint that is wrong is told at once, and before anything else is built.
fn static_checks() -> Result<Vec<Job>> {
    let phase = "static checks";
    let mut jobs = vec![
        command("format", phase, &[], 2.0, cargo(&["fmt", "--all", "--check"])),
        job("arrows and licences", phase, &["format"], 1.0, {
            let mut chores = [chore(&["dag"])?, chore(&["circles"])?, chore(&["heads"])?];
            Box::new(move || {
                let mut outcome = ran("arrows", &mut chores[0])?;
                for (name, chore) in ["circles", "licences"].into_iter().zip(&mut chores[1..]) {
                    if outcome.state.is_good() {
                        outcome = ran(name, chore)?;
                    }
                }
                Ok((outcome, Vec::new()))
            })
        }),
        job("commit messages", phase, &["format"], 1.0, {
            let mut check = chore(&["commits"])?;
            Box::new(move || Ok((ran_with_notes("commit messages", &mut check)?, Vec::new())))
        }),
        job("words", phase, &["format"], 2.0, {
            let mut check = chore(&["words"])?;
            Box::new(move || Ok((ran("words", &mut check)?, Vec::new())))
        }),
        job("clippy", phase, &["arrows and licences"], 200.0, {
            Box::new(|| {
                // --all-targets leaves out those that a bare `cargo test` leaves out.
                let anywhere: &[&str] = &["--all-targets"];
                let by_name: &[&str] = &["--test", "root", "--test", "guest"];
                let mut outcome = ran("clippy", &mut clippy(anywhere))?;
                if outcome.state.is_good() {
                    outcome = ran("clippy", &mut clippy(by_name))?;
                }
                Ok((outcome, Vec::new()))
            })
        }),
    ];
    for job in &mut jobs {
        job.stops_all = true;
        job.is_urgent = true;
    }
    Ok(jobs)
}

fn clippy(targets: &[&str]) -> Command {
    let mut command = run::cargo();
    command.args(["clippy", "--workspace", "--locked"]).args(targets);
    command.args(["--", "--deny", "warnings"]);
    command
}

/// The program for tests that need one beside guests, quick to build.
pub(super) fn quick_program(after: &[&'static str]) -> Job {
    let build = script(&["xtask/scripts/build-static.sh", "--quick"]);
    command("quick program", "root", after, 30.0, build)
}

/// Builds the tests that anybody can run, and brings a job for each program.
pub(super) fn tests_anywhere(setting: &Arc<Setting>, after: &[&'static str]) -> Job {
    let setting = Arc::clone(setting);
    let work = move || {
        let (outcome, programs) = built("build unit tests", Targets::Anywhere)?;
        let mut jobs = Vec::new();
        if setting.tier > Tier::Check && setting.names.is_empty() && outcome.state.is_good() {
            let steps = STEPS.iter().filter(|step| matches!(step.runs, Runs::Tests { .. }));
            jobs.extend(steps.map(|step| step_job(&setting, step, programs.clone())));
        }
        for program in programs {
            jobs.extend(unit_job(&setting, program)?);
        }
        Ok((outcome, jobs))
    };
    urgent(job("build unit tests", "unit tests", after, 300.0, Box::new(work)))
}

fn built(name: &str, targets: Targets) -> Result<(Outcome, Vec<TestProgram>)> {
    let ended = child::run_logged(&mut programs::build_command(targets), name, child::DEADLINE)?;
    let output = ended.output()?;
    if !ended.succeeded() {
        let messages = output.lines().filter(|line| !line.starts_with('{'));
        let why = ended.why();
        let text = messages.chain([why.as_str()]).collect::<Vec<_>>().join("\n");
        return Ok((Outcome::new(State::Failed, text), Vec::new()));
    }
    Ok((Outcome::new(State::Passed, String::new()), programs::built(&output)?))
}

/// A program's tests, where it has any that are wanted.
fn unit_job(setting: &Setting, program: TestProgram) -> Result<Option<Job>> {
    // Named on purpose, a test of a step is run as any other.
    let (tests, others) = if setting.names.is_empty() {
        program.tests_outside_steps()?
    } else {
        (program.tests()?, false)
    };
    let all = tests.len();
    let wanted: Vec<String> = tests.into_iter().filter(|name| setting.wants(name)).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let is_whole = wanted.len() == all && !others;
    let name = format!("unit tests of {}", program.name);
    let own = name.clone();
    // those that take minutes say so by `#[ignore]`
    let ignored = if setting.tier == Tier::Long { &["--include-ignored"][..] } else { &[] };
    let borrows = program.name == programs::WHOLE;
    let work = move || {
        let mut arguments = ignored.to_vec();
        if !is_whole {
            arguments.push("--exact");
            arguments.extend(wanted.iter().map(String::as_str));
        }
        program.run(&own, &arguments, None)
    };
    Ok(Some(if borrows {
        borrowing(&name, "unit tests", &[], 60.0, work)
    } else {
        job(&name, "unit tests", &[], 10.0, Box::new(move || Ok((work()?, Vec::new()))))
    }))
}

fn beyond_check(setting: &Arc<Setting>) -> Vec<Job> {
    let mut jobs = vec![
        command("documentation", "documentation", &["build unit tests"], 60.0, || {
            let mut command = run::cargo();
            command.args(["doc", "--workspace", "--no-deps", "--locked"]);
            command.env("RUSTDOCFLAGS", "--deny warnings");
            command
        }),
        command(
            "oldest compiler",
            "oldest compiler",
            &["shipped program"],
            150.0,
            script(&["xtask/scripts/check-oldest.sh"]),
        ),
        urgent(command(
            "shipped program",
            "shipped program",
            &["arrows and licences"],
            250.0,
            script(&["xtask/scripts/build-static.sh"]),
        )),
        command("caches", "caches", &["format"], 60.0, script(&["xtask/scripts/test-caches.sh"])),
        command(
            "zmerge core",
            "zmerge core",
            &["format"],
            90.0,
            script(&["make", "--directory", "kernel/zmerge", "test-core"]),
        ),
    ];
    let program = setting.given.static_program.clone();
    jobs.push(job("its size", "shipped program", &["shipped program"], 1.0, {
        Box::new(move || {
            let mut check = chore(&["artefact"])?;
            Ok((ran("its size", check.arg(program))?, Vec::new()))
        })
    }));
    jobs.push(tests_with_root(setting, &["build unit tests", "shipped program"]));
    let wanted = |step: &&Step| {
        let is_in_tier = setting.tier == Tier::Long || !steps::LONG_ONLY.contains(&step.name);
        is_in_tier && matches!(step.runs, Runs::Command(_) | Runs::Chore(_))
    };
    for step in STEPS.iter().filter(wanted) {
        jobs.push(step_job(setting, step, Vec::new()));
    }
    if setting.tier == Tier::Long {
        let work = || {
            trace::check_itself()?;
            Ok((Outcome::new(State::Passed, String::new()), Vec::new()))
        };
        jobs.push(job("declarations are checked", "heavy steps", &["format"], 1.0, Box::new(work)));
    }
    jobs
}

/// Builds the tests that need root or guests, and brings their jobs: those that need root one after
/// the other, as they borrow the same things, and each test with guests by itself.
pub(super) fn tests_with_root(setting: &Arc<Setting>, after: &[&'static str]) -> Job {
    let setting = Arc::clone(setting);
    let work = move || {
        let examples = ran("build examples", &mut programs::examples_command())?;
        if !examples.state.is_good() {
            return Ok((examples, Vec::new()));
        }
        let (outcome, programs) = built("build root tests", Targets::Root)?;
        let jobs =
            if outcome.state.is_good() { root_jobs(&setting, &programs)? } else { Vec::new() };
        Ok((outcome, jobs))
    };
    urgent(job("build root tests", "root", after, 60.0, Box::new(work)))
}

fn root_jobs(setting: &Arc<Setting>, programs: &[TestProgram]) -> Result<Vec<Job>> {
    let root = programs::find(programs, "pagewise root")?.clone();
    let guest = programs::find(programs, steps::GUEST)?;
    let mut jobs = Vec::new();
    if root.tests()?.iter().any(|name| setting.wants(name)) {
        let own = Arc::clone(setting);
        let work = move || {
            let names = own.names.iter().map(String::as_str);
            let arguments: Vec<&str> = ["--test-threads=1"].into_iter().chain(names).collect();
            root.run("root tests", &arguments, Some(&own.given))
        };
        jobs.push(borrowing("root tests", "root", &[], 240.0, work));
    }
    if setting.names.is_empty() {
        jobs.push(kills(setting)?);
    }
    let (tests, _) = if setting.names.is_empty() {
        guest.tests_outside_steps()?
    } else {
        (guest.tests()?, false)
    };
    let ignored = guest.ignored_tests()?;
    for name in tests.iter().filter(|name| setting.wants(name) && !ignored.contains(name)) {
        let (setting, guest, test) = (Arc::clone(setting), guest.clone(), name.clone());
        let job_name = format!("guest {name}");
        let own = job_name.clone();
        let work = move || {
            let outcome = guest.run(&own, &["--exact", &test], Some(&setting.given))?;
            Ok((outcome, Vec::new()))
        };
        let job = job(&job_name, "guests", &[], 30.0, Box::new(work));
        jobs.push(Job { guest_cpus: steps::guest_cpus(name), ..job });
    }
    if setting.names.is_empty() {
        for step in STEPS.iter().filter(|step| matches!(step.runs, Runs::Guests(_))) {
            jobs.push(step_job(setting, step, programs.to_vec()));
        }
    }
    Ok(jobs)
}

/// Runs of what borrows, killed at random moments: after the root tests, which borrow the same things.
fn kills(setting: &Setting) -> Result<Job> {
    let [kills, aborts] = if setting.tier == Tier::Long { ["200", "50"] } else { ["8", "4"] };
    let mut command = chore(&["bench", "--kills", kills, "--aborts", aborts, "--program"])?;
    command.arg(&setting.given.static_program);
    let seconds = if setting.tier == Tier::Long { 1200.0 } else { 60.0 };
    let work = move || ran("kills", &mut command);
    Ok(borrowing("kills", "root", &["root tests"], seconds, work))
}

/// One heavy step by itself, with what it needs.
pub(super) fn one_step(setting: &Arc<Setting>, step: &'static Step) -> Vec<Job> {
    let targets = match step.runs {
        Runs::Guests(_) => Targets::Root,
        Runs::Tests { .. } => Targets::Anywhere,
        Runs::Command(_) | Runs::Chore(_) => {
            let mut job = step_job(setting, step, Vec::new());
            job.after.clear();
            return vec![job];
        }
    };
    let own = Arc::clone(setting);
    let work = move || {
        let (outcome, programs) = built("build tests", targets)?;
        let follows = outcome.state.is_good().then(|| step_job(&own, step, programs));
        Ok((outcome, follows.into_iter().collect()))
    };
    let mut jobs = Vec::new();
    let mut after: &[&str] = &[];
    if let Runs::Guests(_) = step.runs {
        let program = script(&["xtask/scripts/build-static.sh"]);
        jobs.push(command("shipped program", "heavy steps", &[], 1.0, program));
        after = &["shipped program"];
    }
    jobs.push(job("build tests", "heavy steps", after, 1.0, Box::new(work)));
    jobs
}

/// Runs a heavy step, unless it is remembered or everything is to run.
fn step_job(setting: &Arc<Setting>, step: &'static Step, programs: Vec<TestProgram>) -> Job {
    let setting = Arc::clone(setting);
    let work = move || Ok((run_step(&setting, step, &programs)?, Vec::new()));
    let after: &[&str] = match step.runs {
        Runs::Guests(_) | Runs::Tests { .. } => &[],
        // By then what compiles with two processors has compiled.
        _ => &["build unit tests", "shipped program"],
    };
    let job = job(step.name, "heavy steps", after, step.minutes * 60.0, Box::new(work));
    let guest_cpus =
        if let Runs::Guests(module) = step.runs { steps::guest_cpus(module) } else { 0 };
    Job { guest_cpus, ..job }
}

fn run_step(setting: &Setting, step: &Step, programs: &[TestProgram]) -> Result<Outcome> {
    let passed = Passed::at(&setting.passed);
    let again = setting.tier == Tier::Long;
    let run = || {
        let outcome = step_outcome(setting, step, programs, again)?;
        Ok((outcome.state.is_good(), outcome))
    };
    let done = remembered::run_unless_passed(
        step,
        run::project(),
        &passed,
        &setting.toolchain,
        again,
        run,
    )?;
    Ok(match done {
        Done::Ran { answer, .. } => answer,
        Done::Remembered(pass) => {
            let text = format!("passed on these inputs on {} in {} min", pass.passed, pass.minutes);
            Outcome::new(State::Remembered, text)
        }
    })
}

fn step_outcome(
    setting: &Setting,
    step: &Step,
    programs: &[TestProgram],
    is_traced: bool,
) -> Result<Outcome> {
    let mut command = step_command(setting, step, programs)?;
    if is_traced {
        trace::forget_builds(step)?;
        command = trace::traced(&command, &trace::log(step));
    }
    let ended = child::run_logged(&mut command, step.name, child::DEADLINE)?;
    let mut outcome = match step.runs {
        Runs::Guests(_) | Runs::Tests { .. } => programs::outcome(&ended)?,
        _ if ended.succeeded() => Outcome::new(State::Passed, String::new()),
        _ => Outcome::new(State::Failed, format!("{}{}", ended.output()?, ended.why())),
    };
    if is_traced && outcome.state.is_good() {
        let (outside, inside) = trace::undeclared(step, sources(step)?)?;
        outcome.text = format!("{inside} of its declared files were opened");
        if !outside.is_empty() {
            let names: Vec<String> = outside.iter().map(|name| format!("  {name}")).collect();
            outcome.state = State::Failed;
            outcome.text = format!(
                "it opened files of the project that xtask/src/suite/steps.rs does not declare:\n{}",
                names.join("\n")
            );
        }
    }
    Ok(outcome)
}

/// What the test programs of a step were built from.
fn sources(step: &Step) -> Result<BTreeSet<String>> {
    match step.runs {
        Runs::Command(_) | Runs::Chore(_) => Ok(BTreeSet::new()),
        Runs::Guests(_) => trace::sources("pagewise", "guest"),
        Runs::Tests { program, .. } => {
            let (package, target) = program.split_once(' ').unwrap_or((program, program));
            trace::sources(&format!("pagewise-{package}"), target)
        }
    }
}

fn step_command(setting: &Setting, step: &Step, programs: &[TestProgram]) -> Result<Command> {
    Ok(match &step.runs {
        Runs::Command(words) => script(words)(),
        Runs::Chore(words) => chore(words)?,
        Runs::Guests(module) => {
            let guest = programs::find(programs, steps::GUEST)?;
            guest.command(&["--test-threads=1", module], Some(&setting.given))
        }
        Runs::Tests { program, module } => {
            programs::find(programs, program)?.command(&[module], None)
        }
    })
}
