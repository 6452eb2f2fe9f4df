// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks and tests the programs for clusters in `fleet`, a workspace of its own with its own
//! packages and lock file: style, clippy, unit tests, and tests against a real control plane, which
//! `fleet/control-plane.sh` builds once for all clones.

use std::process::Command;

use anyhow::Result;
use clap::Args as Arguments;

use crate::{deny, run};

const MANIFEST: [&str; 2] = ["--manifest-path", "fleet/Cargo.toml"];

#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// Rewrite the files in fleet/deploy that are generated from types, and run nothing else
    #[arg(long)]
    bless: bool,
    /// Run only what needs no control plane
    #[arg(long, conflicts_with = "bless")]
    quick: bool,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    if args.bless {
        return run::run_to_success(
            cargo("test", &["--package", "fleet-crd", "--test", "generated"]).env("BLESS", "1"),
        );
    }
    // cargo fmt finds the packages of a workspace only from within its folder.
    let folder = run::project().join("fleet");
    run::run_to_success(run::cargo().args(["fmt", "--check"]).current_dir(folder))?;
    deny::check("fleet/deny.toml", &["fleet/Cargo.toml"])?;
    let lints = ["--workspace", "--all-targets", "--", "--deny", "warnings"];
    run::run_to_success(&mut cargo("clippy", &lints))?;
    run::run_to_success(&mut cargo("test", &["--workspace", "--lib", "--bins"]))?;
    if !args.quick {
        // Built here, so that its messages are not in the output of a test, and a failure has its own name.
        run::run_to_success(&mut run::program("fleet/control-plane.sh"))?;
        let mut tests = cargo("test", &["--workspace", "--test", "*"]);
        // Some tests run the program of this tree.
        run::run_to_success(tests.env("FLEET_PAGEWISE", run::built_program()?))?;
    }
    Ok(())
}

fn cargo(command: &str, arguments: &[&str]) -> Command {
    let mut cargo = run::cargo();
    cargo.arg(command).args(MANIFEST).arg("--locked").args(arguments);
    cargo
}
