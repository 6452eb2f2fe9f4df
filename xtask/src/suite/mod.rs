// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs all tests of the project. `make lint`, `make check` and `make test` run the same jobs for
//! every commit ([`fixed`]); longer tests are in groups, each of which runs only if it has not
//! passed with its current inputs on this machine ([`mod@groups`]).

mod busy;
mod child;
mod fixed;
mod group_run;
mod groups;
mod jobs;
mod keys;
mod leftovers;
mod libtest;
mod outcome;
mod passes;
mod programs;
mod table;
#[path = "../../../crates/testkit/src/thing.rs"]
#[expect(dead_code, unreachable_pub, reason = "tests need more of it")]
mod thing;
mod times;
mod trace;
mod tree;
#[path = "../../../crates/testkit/src/turn.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "tests need more of it"))]
#[expect(unreachable_pub, reason = "other crates use it")]
mod turn;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use self::busy::BusyThreads;
use self::fixed::{Part, Setting};
use self::jobs::{Finished, Job};
use self::libtest::Results;
use self::outcome::{State, format_seconds};
use self::passes::Passes;
use self::programs::{AGAIN, ForGuests};
use self::table::Budgets;
use self::times::Times;
use crate::run;

#[derive(Debug, clap::Args)]
pub(crate) struct SuiteArgs {
    /// Which part
    part: Part,
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
    /// Only tests whose name contains one of these, as `thp::` or `lab::guest`; also tests that groups run
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupsArgs {
    /// Run those that have no pass on their inputs, instead of listing all
    #[arg(long)]
    run: bool,
    /// Run also those that have a pass, and fail one that opens a file of the project that is none of its inputs
    #[arg(long, requires = "run")]
    regardless: bool,
    /// Do not start groups that would not end within so many minutes; they run next time
    #[arg(long, value_name = "MINUTES", requires = "run", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    within: Option<u32>,
    /// Compute which groups the last N commits would have run, and their minutes
    #[arg(long, value_name = "N", conflicts_with = "run", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replay: Option<u32>,
    /// Only these groups
    names: Vec<String>,
}

/// Runs a fixed part of the checks.
pub(crate) fn main(args: &SuiteArgs) -> Result<()> {
    let budgets = Budgets::read(args.part.name())?;
    budgets.check_phases(&args.part.phases())?;
    let setting = Arc::new(setting(Vec::new())?);
    let jobs = fixed::jobs(args.part, &setting)?;
    run_jobs(jobs, &budgets, args.part.name(), args.since, None)
}

/// Runs tests without the other checks: all tests of a kind, or some by name.
pub(crate) fn test(args: &TestArgs) -> Result<()> {
    let setting = Arc::new(setting(args.names.clone())?);
    let mut jobs = Vec::new();
    let mut before: Vec<&'static str> = Vec::new();
    if !args.no_unit {
        jobs.push(fixed::tests_anywhere_job(&setting, &[]));
        before.push("build unit tests");
    }
    if args.root {
        jobs.push(fixed::quick_program_job(&before));
        before.push("quick program");
        jobs.push(fixed::tests_with_root_job(&setting, &before));
    }
    let _busy = BusyThreads::start(args.busy);
    run_jobs(jobs, &Budgets::default(), "test", None, None)
}

/// Lists the groups of tests, or runs the groups that have not passed with their current inputs.
pub(crate) fn groups(args: &GroupsArgs) -> Result<()> {
    let passes = Passes::at(&shared_cache(&["passes"])?);
    if let Some(count) = args.replay {
        return group_run::replay(count as usize, &passes);
    }
    let lean = group_run::lean_program()?;
    let all = group_run::compute_keys(&passes, &lean)?;
    if !args.run {
        let listed = group_run::choose(all, &args.names, true)?;
        print!("{}", group_run::table(&listed));
        return Ok(());
    }
    print!("{}", group_run::table(&all));
    let chosen = group_run::choose(all, &args.names, args.regardless)?;
    let names: Vec<&str> = chosen.iter().map(|one| one.group.name).collect();
    let minutes: f64 = chosen.iter().map(|one| one.minutes).sum();
    println!("\n{} groups to run, {minutes:.0} minutes of jobs: {}", names.len(), names.join(", "));
    if args.regardless {
        trace::check_itself()?;
    }
    let setting = Arc::new(Setting { lean, ..setting(Vec::new())? });
    let jobs = group_run::jobs(&setting, &chosen, &passes, args.regardless);
    let within = args.within.map(|minutes| f64::from(minutes) * 60.0);
    run_jobs(jobs, &Budgets::default(), "groups", None, within)
}

/// Rewrites the golden files that tests compare with.
pub(crate) fn bless() -> Result<()> {
    let mut command = run::cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    run::run_to_success(command.env("BLESS", "1"))?;
    println!("read the difference before you commit it: git diff");
    Ok(())
}

/// Path of the script that builds the static program, which guests run.
pub(crate) fn static_builder() -> PathBuf {
    run::project().join("xtask/scripts/build-static.sh")
}

fn static_program(which: &[&str]) -> Result<PathBuf> {
    let told = run::output(run::program(static_builder()).args(which).arg("--where"))?;
    Ok(run::project().join(told.trim()))
}

/// The paths that tests with guests need; the program is not built here.
pub(crate) fn for_guests(program: &[&str]) -> Result<ForGuests> {
    let cache = match std::env::var_os("PAGEWISE_CACHE") {
        Some(named) => PathBuf::from(named),
        None => shared_cache(&["guests"])?,
    };
    Ok(ForGuests { static_program: static_program(program)?, cache })
}

fn setting(names: Vec<String>) -> Result<Setting> {
    Ok(Setting {
        shipped: static_program(&[])?,
        lean: static_program(&["--lean"])?,
        given: for_guests(&["--quick"])?,
        names,
    })
}

/// The folder in the cache for things that are fetched or built once; all clones of this user share
/// it.
fn shared_cache(name: &[&str]) -> Result<PathBuf> {
    let script = run::project().join("xtask/scripts/cache.sh");
    let told = run::output(run::program(script).arg("where").args(name))?;
    Ok(PathBuf::from(told.trim()))
}

/// Runs jobs, prints the table of times, and exits with a status that depends on the outcomes.
fn run_jobs(
    jobs: Vec<Job>,
    budgets: &Budgets,
    part: &str,
    since: Option<u64>,
    within: Option<f64>,
) -> Result<()> {
    child::listen_to_signals()?;
    let prepared = since.map(seconds_since).transpose()?;
    let shared = shared_cache(&[])?;
    let mut times = Times::read_kept(&shared);
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let finished = jobs::run_all(jobs, processors, &times, part == "groups", within);
    let tests = remember_times(&finished, &mut times);
    if let Err(error) = times.store(&shared) {
        println!("run times are not kept: {error:#}");
    }
    print!("{}", table::print_table(&finished, budgets, &tests));
    if let Some(seconds) = prepared {
        let all = finished.iter().map(|one| one.ended_at).fold(0.0, f64::max) + seconds;
        println!(
            "\nall of it took {}, {} of it before the first job",
            format_seconds(all),
            format_seconds(seconds)
        );
    }
    print_totals(&finished, part)
}

fn seconds_since(since: u64) -> Result<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(now.as_secs_f64() - since as f64)
}

/// Stores the durations of all jobs and tests; returns those of the tests.
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

/// Lists tests that failed first and passed when they ran again alone, each with both logs. The run
/// passes, but these tests must be fixed.
fn list_flaky(finished: &[Finished], bold: bool) -> String {
    let mut text = String::new();
    for one in finished.iter().filter(|one| one.outcome.state == State::Passed) {
        let Some(first) = one.name.strip_suffix(AGAIN) else { continue };
        let [start, end] = if bold { ["\x1b[1m", "\x1b[0m"] } else { ["**", "**"] };
        let [first, second] = [first, &one.name].map(child::log_of);
        text += &format!(
            "{start}{}{end}\n  {}\n  {}\n",
            one.outcome.text,
            first.display(),
            second.display()
        );
    }
    text
}

/// Lists the groups that were not run because there was not enough time, so that their result is
/// unknown.
fn list_left_out(finished: &[Finished], bold: bool) -> String {
    let names: Vec<&str> = finished
        .iter()
        .filter(|one| one.outcome.state == State::NoTime)
        .map(|one| one.name.as_str())
        .collect();
    if names.is_empty() {
        return String::new();
    }
    let [start, end] = if bold { ["\x1b[1m", "\x1b[0m"] } else { ["**", "**"] };
    format!(
        "{start}{} groups were not run, because the time did not suffice{end}; they have no pass, and the next \
         run begins with the shortest of them: {}\n",
        names.len(),
        names.join(", ")
    )
}

/// Prints the totals as the last line, and stores them in `target/totals` for callers that run
/// several parts.
fn print_totals(finished: &[Finished], part: &str) -> Result<()> {
    let mut totals = Results::default();
    for one in finished {
        totals.add(&one.outcome.tests);
        // a failed program that named no failed test counts as one failed test; so does a failed
        // command
        let is_unnamed = one.outcome.state == State::Failed && one.outcome.tests.failed == 0;
        totals.failed += u64::from(is_unnamed);
    }
    let bad: Vec<&str> = finished
        .iter()
        .filter(|one| !one.outcome.state.is_good() && one.outcome.state != State::NoTime)
        .map(|one| one.name.as_str())
        .collect();
    let is_terminal = std::io::stdout().is_terminal();
    let flaky = list_flaky(finished, is_terminal) + &list_left_out(finished, is_terminal);
    if !flaky.is_empty() {
        print!("\n{flaky}");
    }
    if !bad.is_empty() {
        println!("\nnot passed: {}", bad.join(", "));
    }
    let line = format!("{} passed, {} failed", totals.passed, totals.failed);
    store_totals(&run::project().join("target/totals"), part, &format!("{line}\n{flaky}"))?;
    println!("{line}");
    if child::is_stopped() {
        std::process::exit(130);
    }
    let nothing = totals.passed == 0 && finished.iter().any(|one| one.phase == "unit tests");
    // The totals must be the last line that is printed.
    if nothing || !bad.is_empty() || totals.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn store_totals(folder: &Path, part: &str, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(part), text)?;
    Ok(())
}
