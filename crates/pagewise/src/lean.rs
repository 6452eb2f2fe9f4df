// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of pagewise that tests of `apply` in guests need, as a program of its own: PID 1 of a
//! guest, `lab guest`, `lab cache`, `apply`, `verify` and `undo`.
//!
//! Those tests take minutes. `cargo xtask groups` runs them again only if the bytes of their
//! program changed, and this program's bytes stay the same after a change elsewhere (in a sentence
//! of `report`, or a rule of `doctor`). Its verbs are the same source files as in the complete
//! program. `plan` is not among them, because it contains every rule: the tests apply plans from
//! files.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![allow(dead_code, reason = "the other verbs, which are left out, use more of these files")]

mod cli {
    use clap::{Parser, Subcommand};
    use pagewise_terminal::{Deferred, Global};

    #[path = "../verbs/apply/args.rs"]
    mod apply;
    #[path = "../verbs/lab/args.rs"]
    pub(crate) mod lab;
    /// This program makes no plans, so it has none of these options.
    mod plan {
        #[derive(Debug, clap::Args)]
        pub(crate) struct PlanChoice {}
    }
    #[path = "../verbs/trial/args.rs"]
    mod trial;
    #[path = "../verbs/undo/args.rs"]
    mod undo;
    #[path = "../verbs/verify/args.rs"]
    mod verify;

    pub(crate) use apply::Apply;
    use lab::GuestArgs;
    pub(crate) use plan::PlanChoice;
    pub(crate) use trial::Trial;
    pub(crate) use undo::Undo;
    pub(crate) use verify::Verify;

    #[derive(Debug, Parser)]
    #[command(name = "pagewise", version)]
    pub(crate) struct Cli {
        #[command(flatten)]
        pub(crate) global: Global,
        #[command(subcommand)]
        pub(crate) verb: Verb,
    }

    #[derive(Debug, Subcommand)]
    pub(crate) enum Verb {
        /// Carry out a plan
        Apply(Deferred<Apply>),
        /// Compare the machine with applied plans
        Verify(Deferred<Verify>),
        /// Undo plans, and the changes of runs that were killed
        Undo(Deferred<Undo>),
        /// Run commands in guests
        Lab(Deferred<GuestArgs>),
    }
}

mod host_loans;

mod verbs {
    mod plan {
        use pagewise_model::Refusal;
        use pagewise_model::plan::Plan;
        use pagewise_terminal::Global;

        pub(super) struct MadePlan {
            pub(super) plan: Plan,
        }

        /// Refuses: this program carries out plans from files only.
        pub(super) fn make(_: &Global, _: &crate::cli::PlanChoice) -> anyhow::Result<MadePlan> {
            let what = "this program, a part of pagewise for tests, makes no plans";
            Err(Refusal::with_advice(what, "give the file of a plan").into())
        }
    }

    mod apply;
    mod lab;
    mod ledger;
    mod trial;
    mod undo;
    mod verify;

    use pagewise_terminal::Outcome;
    use pagewise_terminal::cost::CostMeter;

    use crate::cli::{Cli, Verb};

    pub(crate) fn run(cli: &Cli, started: CostMeter) -> anyhow::Result<Outcome> {
        let global = &cli.global;
        match &cli.verb {
            Verb::Apply(wanted) => apply::run(global, wanted, started),
            Verb::Verify(wanted) => verify::run(global, wanted, started),
            Verb::Undo(wanted) => undo::run(global, wanted, started),
            Verb::Lab(wanted) => lab::run_guests(global, wanted),
        }
    }
}

use std::process::ExitCode;

use clap::Parser;
use pagewise_apply::plan::Failed;
use pagewise_model::Refusal;
use pagewise_observe::{OpenError, UserFileError};
use pagewise_terminal::cost::CostMeter;
use pagewise_terminal::exit;
use pagewise_terminal::interrupt::Interrupted;
use pagewise_terminal::trouble::{self, Adviser, adviser};

const ADVISERS: [Adviser; 7] = [
    adviser::<Interrupted>,
    adviser::<Refusal>,
    adviser::<OpenError>,
    adviser::<UserFileError>,
    adviser::<pagewise_guest::Error>,
    adviser::<Failed>,
    adviser::<pagewise_apply::Error>,
];

fn main() -> ExitCode {
    if pagewise_guest::init::is_guest_pid_1() {
        pagewise_guest::init::main();
    }
    if pagewise_guest::init::is_unit() {
        pagewise_guest::init::unit_main();
    }
    let started = CostMeter::now();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return trouble::print_usage_error::<cli::Cli>(&error),
    };
    match verbs::run(&cli, started) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            trouble::print_error(&error, &ADVISERS);
            let is_plan_stopped = error.downcast_ref::<Failed>().is_some_and(Failed::is_stopped);
            let stopped = error.is::<Interrupted>() || is_plan_stopped;
            ExitCode::from(if stopped { exit::STOPPED } else { exit::FAILED })
        }
    }
}
