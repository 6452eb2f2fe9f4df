// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the program on many damaged inputs of each kind, and prints the largest costs (time,
//! memory) of a run.
//!
//! The inputs, the limits and the checks are those of the test `hostile::mutants_of_each_kind`,
//! which is run here with the requested number of inputs. An input depends only on its number, so
//! it is the same on every machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::run;

/// The kinds of inputs that the test knows.
const KINDS: [&str; 7] =
    ["recording", "evidence", "plan", "journal", "core", "log", "configuration"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kinds of inputs [default: all]
    #[arg(value_name = "KIND", value_parser = KINDS)]
    kinds: Vec<String>,
    /// Inputs of each kind
    #[arg(long, value_name = "N", default_value_t = 5000)]
    count: u64,
    /// Number of the first input, for example to repeat one that failed
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// The program, as `make build` builds it [default: the one built for tests, which is not optimized]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let kinds = if args.kinds.is_empty() { KINDS.join(" ") } else { args.kinds.join(" ") };
    let mut test = run::cargo();
    test.args(["test", "--locked", "--package", "pagewise", "--test", "program", "--"]);
    test.args(["--exact", "hostile::mutants_of_each_kind_cost_little", "--nocapture"]);
    test.env("PAGEWISE_MUTANTS_KINDS", kinds);
    test.env("PAGEWISE_MUTANTS_COUNT", args.count.to_string());
    test.env("PAGEWISE_MUTANTS_FIRST", args.first.to_string());
    test.env("PAGEWISE_MUTANTS_MEASURE", std::env::current_exe()?);
    if let Some(program) = &args.program {
        test.env("PAGEWISE_HOSTILE_PROGRAM", run::project().join(program));
    }
    run::run_to_success(&mut test)
}
