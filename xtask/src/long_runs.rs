// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs tests in guests for longer than the groups of tests do: with more boots and more faults.

use std::process::Command;

use anyhow::Result;

use crate::{run, suite};

#[derive(Debug, clap::Args)]
pub(crate) struct Reboots {
    /// Boots at which the plans must be in force
    #[arg(long, value_name = "N", default_value_t = 20)]
    boots: usize,
    /// Only tests whose name contains one of these, such as of_sid_keep
    #[arg(default_values = ["reboots::long::plans::", "reboots::long::zswap::"])]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Faults {
    /// How many system calls fail, each in a run of its own
    #[arg(long, value_name = "N", default_value_t = 300)]
    faults: usize,
    /// How many losses of power there are under systemd, each after a kill at another place
    #[arg(long, value_name = "N", default_value_t = 20)]
    losses: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Incidents {
    /// How many variations are planted on each kernel, each with 8 to 13 incidents
    #[arg(long, value_name = "N", default_value_t = 2)]
    rounds: usize,
    /// How many calm hours are recorded on each kernel, every second one with a little work
    #[arg(long, value_name = "N", default_value_t = 7)]
    hours: usize,
}

pub(crate) fn reboots(args: &Reboots) -> Result<()> {
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    run_longer(&names, &[("PAGEWISE_REBOOTS", args.boots)])
}

pub(crate) fn faults(args: &Faults) -> Result<()> {
    let numbers = [("PAGEWISE_PLAN_FAULTS", args.faults), ("PAGEWISE_POWER_LOSSES", args.losses)];
    run_longer(&["plans::faults::", "plans::wanted_faults::", "reboots::long::faults::"], &numbers)
}

pub(crate) fn incidents(args: &Incidents) -> Result<()> {
    let fetch = run::project().join("xtask/scripts/debian-suite.sh");
    let package = ["bookworm", "earlyoom", "--alone", "earlyoom"];
    let entry = run::output(run::program(fetch).args(package))?;
    let mut test = prepare_longer(&["incidents::guest_incidents_"])?;
    test.env("PAGEWISE_EARLYOOM", format!("{}/root/usr/bin/earlyoom", entry.trim()));
    test.env("PAGEWISE_INCIDENTS", args.rounds.to_string());
    test.env("PAGEWISE_CALM_HOURS", args.hours.to_string());
    run::run_to_success(&mut test)
}

pub(crate) fn ledger() -> Result<()> {
    run_longer(&["ledger::guest_"], &[("PAGEWISE_LEDGER_KINDS", usize::MAX)])
}

pub(crate) fn tune() -> Result<()> {
    run_longer(&["tune::guest_"], &[("PAGEWISE_TUNE_WHOLE", 1)])
}

fn run_longer(names: &[&str], numbers: &[(&str, usize)]) -> Result<()> {
    let mut test = prepare_longer(names)?;
    test.envs(numbers.iter().map(|(variable, number)| (variable, number.to_string())));
    run::run_to_success(&mut test)
}

/// Builds the program, and returns the command that runs the tests with these names, two at a time, because each guest
/// has one CPU.
fn prepare_longer(names: &[&str]) -> Result<Command> {
    run::run_to_success(run::program(suite::static_builder()).arg("--quick"))?;
    let mut test = run::cargo();
    test.args(["test", "--locked", "--package", "pagewise", "--test", "guest", "--"]);
    test.args(["--include-ignored", "--test-threads", "2", "--nocapture"]).args(names);
    suite::for_guests(&["--quick"])?.set_variables(&mut test);
    Ok(test)
}
