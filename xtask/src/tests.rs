// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs all tests and adds up what every test program says of itself.
//!
//! Tests named `root_` borrow devices and cgroups of the machine, one after the other. Those named
//! `guest_` start QEMU, two at a time, with kernels that are kept under `.cache`; guests run the
//! static program, as they have no libraries of their own. Both run only when asked for. The totals are the last
//! line, and are kept in `target/test-totals` for callers whose own tools (make) print below it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};

use crate::run;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also run the tests that need root, and those in guests
    #[arg(long)]
    root: bool,
}

/// Tests that borrow nothing and fetch nothing.
const ANYWHERE: &[&str] = &["--", "--skip", "root_", "--skip", "guest_"];

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
}

impl Totals {
    /// Adds a line such as `test result: ok. 12 passed; 0 failed; …`; others count nothing.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        let before = |name: &str| {
            let at = words.iter().position(|word| *word == name)?.checked_sub(1)?;
            words.get(at)?.parse::<u64>().ok()
        };
        self.passed += before("passed").unwrap_or(0);
        self.failed += before("failed").unwrap_or(0);
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let mut totals = Totals::default();
    let mut succeeded = tested(&mut test(ANYWHERE), &mut totals)?;
    if args.root {
        run::succeed(&mut run::program(run::project().join("xtask/scripts/build-static.sh")))?;
        succeeded &= tested(&mut with_program(&["root_", "--", "--test-threads=1"])?, &mut totals)?;
        succeeded &= guests(&mut totals)?;
    }
    let line = format!("{} passed, {} failed", totals.passed, totals.failed);
    fs::write(run::project().join("target/test-totals"), format!("{line}\n"))?;
    if !succeeded && totals.failed == 0 {
        println!("not every test program was built or came to its end");
    }
    println!("{line}");
    std::process::exit(i32::from(!succeeded || totals.failed > 0))
}

/// Rewrites what tests compare with.
pub(crate) fn bless() -> Result<()> {
    let mut command = test(ANYWHERE);
    run::succeed(command.env("BLESS", "1"))?;
    println!("read the difference before you commit it: git diff");
    Ok(())
}

fn test(rest: &[&str]) -> Command {
    let mut command = run::cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]).args(rest);
    command
}

/// Two test programs at a time, each with one guest at a time. By itself cargo would start a program
/// when all tests of the one before have ended, and most have one that takes long.
fn guests(totals: &mut Totals) -> Result<bool> {
    let todo = Mutex::new(guest_programs()?.into_iter());
    let next = || todo.lock().ok().and_then(|mut names| names.next());
    let lane = || -> Result<(Totals, bool)> {
        let (mut totals, mut succeeded) = (Totals::default(), true);
        while let Some(name) = next() {
            let one = ["--test", &name, "guest_", "--", "--test-threads=1"];
            succeeded &= tested(&mut with_program(&one)?, &mut totals)?;
        }
        Ok((totals, succeeded))
    };
    let lanes = std::thread::scope(|scope| {
        [scope.spawn(lane), scope.spawn(lane)].map(std::thread::ScopedJoinHandle::join)
    });
    let mut all = true;
    for ended in lanes {
        let (of_lane, succeeded) = ended.map_err(|_| anyhow!("a lane panicked"))??;
        totals.passed += of_lane.passed;
        totals.failed += of_lane.failed;
        all &= succeeded;
    }
    Ok(all)
}

/// Those that start guests, the one with most of them first.
fn guest_programs() -> Result<Vec<String>> {
    let folder = run::project().join("crates/pagewise/tests");
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("guest_") {
            programs.push((fs::metadata(&path)?.len(), name.to_owned()));
        }
    }
    programs.sort_unstable_by(|a, b| b.cmp(a));
    Ok(programs.into_iter().map(|(_, name)| name).collect())
}

/// Tests that are given the static program.
fn with_program(rest: &[&str]) -> Result<Command> {
    let script = run::project().join("xtask/scripts/build-static.sh");
    let program = run::output(run::program(&script).arg("--where"))?;
    let mut command = test(rest);
    command.env("PAGEWISE_STATIC", run::project().join(program.trim()));
    if std::env::var_os("PAGEWISE_CACHE").is_none() {
        command.env("PAGEWISE_CACHE", run::project().join(".cache/guests"));
    }
    Ok(command)
}

/// Runs tests, passing their output on; says whether all went well.
fn tested(command: &mut Command, totals: &mut Totals) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test")?;
    let lines = BufReader::new(child.stdout.take().context("cargo test has no output")?);
    for line in lines.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add(&line);
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn totals_add_up_over_test_programs() {
        let mut totals = Totals::default();
        totals.add("running 3 tests");
        totals.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out");
        totals
            .add("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(totals, Totals { passed: 16, failed: 2 });
    }
}
