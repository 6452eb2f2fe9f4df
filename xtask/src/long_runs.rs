// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs tests in guests for longer than `make test` does: more boots, more faults.

use anyhow::Result;

use crate::{run, suite};

#[derive(Debug, clap::Args)]
pub(crate) struct Reboots {
    /// Boots at which the plans must be in force
    #[arg(long, value_name = "N", default_value_t = 20)]
    boots: usize,
    /// Only tests whose name contains one of these, such as of_sid_keep
    #[arg(default_value = "reboots::long::plans::")]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Faults {
    /// How many system calls fail, each in a run of its own
    #[arg(long, value_name = "N", default_value_t = 300)]
    faults: usize,
}

pub(crate) fn reboots(args: &Reboots) -> Result<()> {
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    run_longer(&names, "PAGEWISE_REBOOTS", args.boots)
}

pub(crate) fn faults(args: &Faults) -> Result<()> {
    run_longer(&["plan_faults::"], "PAGEWISE_PLAN_FAULTS", args.faults)
}

pub(crate) fn ledger() -> Result<()> {
    run_longer(&["ledger::guest_"], "PAGEWISE_LEDGER_KINDS", usize::MAX)
}

/// Two at a time: each guest has one processor.
fn run_longer(names: &[&str], variable: &str, number: usize) -> Result<()> {
    run::succeed(run::program(suite::static_builder()).arg("--quick"))?;
    let mut test = run::cargo();
    test.args(["test", "--locked", "--package", "pagewise", "--test", "guest", "--"]);
    test.args(["--include-ignored", "--test-threads", "2", "--nocapture"]).args(names);
    suite::for_guests(true)?.give(&mut test);
    test.env(variable, number.to_string());
    run::succeed(&mut test)
}
