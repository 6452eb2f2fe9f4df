// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that is tested, in three tiers: what runs, in which order, what is remembered, where the time
//! went. `make check`, `make test` and `make test-long` are this; `cargo xtask test` runs a part of it.

mod busy;
mod child;
mod jobs;
mod leftovers;
mod libtest;
mod outcome;
mod programs;
mod remembered;
mod steps;
mod table;
#[path = "../../../crates/testkit/src/thing.rs"]
#[expect(dead_code, unreachable_pub, reason = "tests need more of it")]
mod thing;
mod tiers;
mod times;
mod trace;
#[path = "../../../crates/testkit/src/turn.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "tests need more of it"))]
#[expect(unreachable_pub, reason = "other crates use it")]
mod turn;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use self::busy::BusyThreads;
use self::jobs::{Finished, Job};
use self::libtest::Results;
use self::outcome::{State, span};
use self::programs::ForGuests;
use self::remembered::Passed;
use self::steps::STEPS;
use self::table::Budgets;
use self::tiers::{Setting, Tier};
use self::times::Times;
use crate::run;

#[derive(Debug, clap::Args)]
pub(crate) struct SuiteArgs {
    /// Which tier
    tier: Tier,
    /// When the caller began, in seconds since 1970: the time until now counts as preparation
    #[arg(long, value_name = "SECONDS")]
    since: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Also the tests that need root, and those in guests, with a program that is quick to build
    #[arg(long)]
    root: bool,
    /// Leave out the tests that anybody can run
    #[arg(long, requires = "root")]
    no_unit: bool,
    /// Run so many threads that compute without pause beside the tests, as a busy machine does
    #[arg(long, value_name = "THREADS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    busy: u8,
    /// Only tests whose name contains one of these, as `thp::` or `lab::guest`
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StepArgs {
    /// The step; without it all are listed
    name: Option<String>,
    /// Run it whatever is remembered, and check which files it opens
    #[arg(long)]
    traced: bool,
}

/// Runs a tier.
pub(crate) fn main(args: &SuiteArgs) -> Result<()> {
    let budgets = Budgets::read(args.tier.name())?;
    budgets.cover(&args.tier.phases())?;
    let setting = Arc::new(setting(args.tier, false, Vec::new())?);
    let jobs = tiers::jobs(&setting)?;
    run_jobs(jobs, &setting, &budgets, args.since)
}

/// Runs tests alone: all of a kind, or some by name.
pub(crate) fn test(args: &TestArgs) -> Result<()> {
    let setting = Arc::new(setting(Tier::Test, true, args.names.clone())?);
    let mut jobs = Vec::new();
    let mut before: Vec<&'static str> = Vec::new();
    if !args.no_unit {
        jobs.push(tiers::tests_anywhere(&setting, &[]));
        before.push("build unit tests");
    }
    if args.root {
        jobs.push(tiers::quick_program(&before));
        before.push("quick program");
        jobs.push(tiers::tests_with_root(&setting, &before));
    }
    let _busy = BusyThreads::start(args.busy);
    run_jobs(jobs, &setting, &Budgets::default(), None)
}

/// Lists the heavy steps, or runs one.
pub(crate) fn step(args: &StepArgs) -> Result<()> {
    let tier = if args.traced { Tier::Long } else { Tier::Test };
    let setting = Arc::new(setting(tier, false, Vec::new())?);
    let Some(name) = &args.name else { return list_steps(&setting) };
    if args.traced {
        trace::check_itself()?;
    }
    let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    let step = STEPS.iter().find(|step| step.name == name);
    let step = step.with_context(|| format!("no step {name}: there are {}", known.join(", ")))?;
    run_jobs(tiers::one_step(&setting, step), &setting, &Budgets::default(), None)
}

fn list_steps(setting: &Setting) -> Result<()> {
    let passed = Passed::at(&setting.passed);
    for step in STEPS {
        let inputs = step.files(run::project())?;
        let hash = remembered::hash(step, &inputs, &setting.toolchain);
        let state = match passed.on(step.name, &hash)? {
            Some(pass) => format!("passed on {}", pass.passed),
            None => "to run".to_owned(),
        };
        println!("{:15} {:20} {:4} files  {}", step.name, state, inputs.0.len(), step.about);
    }
    Ok(())
}

/// Rewrites what tests compare with.
pub(crate) fn bless() -> Result<()> {
    let mut command = run::cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    run::succeed(command.env("BLESS", "1"))?;
    println!("read the difference before you commit it: git diff");
    Ok(())
}

/// The script that builds the static program, which guests run.
pub(crate) fn static_builder() -> PathBuf {
    run::project().join("xtask/scripts/build-static.sh")
}

/// What tests with guests are given; the program is not built here.
pub(crate) fn for_guests(quick: bool) -> Result<ForGuests> {
    let quick: &[&str] = if quick { &["--where", "--quick"] } else { &["--where"] };
    let program = run::output(run::program(static_builder()).args(quick))?;
    let cache = match std::env::var_os("PAGEWISE_CACHE") {
        Some(named) => PathBuf::from(named),
        None => shared_cache(&["guests"])?,
    };
    Ok(ForGuests { static_program: run::project().join(program.trim()), cache })
}

fn setting(tier: Tier, quick: bool, names: Vec<String>) -> Result<Setting> {
    Ok(Setting {
        tier,
        toolchain: remembered::toolchain()?,
        passed: run::project().join("xtask/passed.toml"),
        given: for_guests(quick)?,
        names,
    })
}

/// Where what is fetched or built once is kept, for all clones of this user.
fn shared_cache(name: &[&str]) -> Result<PathBuf> {
    let script = run::project().join("xtask/scripts/cache.sh");
    let told = run::output(run::program(script).arg("where").args(name))?;
    Ok(PathBuf::from(told.trim()))
}

/// Runs jobs, says where the time went, and ends this process with what became of them.
fn run_jobs(
    jobs: Vec<Job>,
    setting: &Setting,
    budgets: &Budgets,
    since: Option<u64>,
) -> Result<()> {
    child::listen_to_signals()?;
    let prepared = since.map(seconds_since).transpose()?;
    let remembered_before = std::fs::read(&setting.passed).ok();
    let shared = shared_cache(&[])?;
    let mut times = Times::kept(&shared);
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let finished = jobs::run_all(jobs, processors, &times);
    let tests = remember_times(&finished, &mut times);
    times.keep(&shared)?;
    print!("{}", table::shown(&finished, budgets, &tests));
    if let Some(seconds) = prepared {
        let all = finished.iter().map(|one| one.ended_at).fold(0.0, f64::max) + seconds;
        println!("\nall of it took {}, {} of it before the first job", span(all), span(seconds));
    }
    if std::fs::read(&setting.passed).ok() != remembered_before {
        println!("xtask/passed.toml has new passes: commit it with your change");
    }
    end(&finished)
}

fn seconds_since(since: u64) -> Result<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(now.as_secs_f64() - since as f64)
}

/// Keeps how long each job and each test took; answers those of the tests.
fn remember_times(finished: &[Finished], times: &mut Times) -> Vec<(String, f64)> {
    let mut tests = Vec::new();
    for one in finished.iter().filter(|one| one.outcome.state == State::Passed) {
        times.set(&one.name, one.seconds);
        let program = one.name.trim_start_matches("unit tests of ");
        let named = |(test, seconds): &(String, f64)| {
            if one.name.ends_with(test.as_str()) {
                (one.name.clone(), *seconds)
            } else {
                (format!("{program}: {test}"), *seconds)
            }
        };
        tests.extend(one.outcome.tests.seconds.iter().map(named));
    }
    tests
}

/// The totals are the last line, and are kept in `target/test-totals` for callers whose own tools
/// (make) print below it.
fn end(finished: &[Finished]) -> Result<()> {
    let mut totals = Results::default();
    for one in finished {
        totals.add(&one.outcome.tests);
    }
    let bad: Vec<&str> = finished
        .iter()
        .filter(|one| !one.outcome.state.is_good())
        .map(|one| one.name.as_str())
        .collect();
    if !bad.is_empty() {
        println!("\nnot passed: {}", bad.join(", "));
    }
    let line = format!("{} passed, {} failed", totals.passed, totals.failed);
    std::fs::write(run::project().join("target/test-totals"), format!("{line}\n"))?;
    println!("{line}");
    if child::is_stopped() {
        std::process::exit(130);
    }
    let nothing = totals.passed == 0 && finished.iter().any(|one| one.phase == "unit tests");
    // Nothing is said after the totals.
    if nothing || !bad.is_empty() || totals.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}
