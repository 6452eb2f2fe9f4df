// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab`: experiments, guests and their cache, and earlier trials that are judged again.

mod cache;
mod compare;
mod conduct;
pub(super) mod evidence;
pub(super) mod guest;
mod hold;
mod list;
mod machines;
mod out;
mod picked;
mod rebuild;
mod replay;
mod run;
mod selftest;
mod show;
mod workload;

use clap::Parser;
use pagewise_guest::Error;
use pagewise_guest::cache::Cache;
use pagewise_lab::experiment::ExperimentError;
use pagewise_model::{Advice, Refusal};
use pagewise_terminal::cost::CostMeter;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, exit, output};

#[cfg(feature = "lean")]
use crate::cli::lab::{GuestArgs, GuestVerb};
use crate::cli::lab::{Lab, LabArgs};

/// Runs `pagewise lab`. `P` is the parser of the whole command line, which is used to print usage
/// errors.
pub(crate) fn run<P: Parser>(
    global: &Global,
    args: &LabArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    convert_stop_to_status(
        global,
        match &args.what {
            Lab::Guest(wanted) => {
                guest::run(global, wanted, &Cache::open()?, Stop::listen()?.flag())
            }
            Lab::Cache { what } => {
                cache::run(global, what, &Cache::open()?, Stop::listen()?.flag())
            }
            Lab::List => list::run(global),
            Lab::Show(picked) => show::run(global, picked),
            Lab::Run(wanted) => run::run(global, wanted, started),
            Lab::Conduct { file } => conduct::run(file),
            Lab::Selftest { trials } => selftest::run(global, *trials),
            Lab::Replay { folder, html } => replay::run(global, folder, html.as_deref()),
            Lab::Compare { first, second } => compare::run(global, first, second),
            Lab::Rebuild { file } => rebuild::run(file),
            Lab::Hold(wanted) => hold::run(wanted),
            Lab::Exercise => selftest::exercise(),
            Lab::Workload(wanted) => workload::run::<P>(global, wanted),
        },
    )
}

/// Runs the subcommands for guests and their cache only.
///
/// # Errors
/// The errors of `pagewise lab guest` and `pagewise lab cache`.
#[cfg(feature = "lean")]
pub(crate) fn run_guests(global: &Global, args: &GuestArgs) -> anyhow::Result<Outcome> {
    let cache = Cache::open()?;
    let stop = Stop::listen()?;
    convert_stop_to_status(
        global,
        match &args.what {
            GuestVerb::Guest(wanted) => guest::run(global, wanted, &cache, stop.flag()),
            GuestVerb::Cache { what } => cache::run(global, what, &cache, stop.flag()),
        },
    )
}

/// Converts the error of a guest that the user stopped to an exit status.
fn convert_stop_to_status(
    global: &Global,
    done: anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    match done {
        Err(error) if error.downcast_ref().is_some_and(|error| matches!(error, Error::Stopped)) => {
            print_message(global, &error.to_string());
            Ok(Outcome::Status(exit::STOPPED))
        }
        done => done,
    }
}

/// Name and description of every experiment that `lab run` finds; files that cannot be read are
/// left out.
pub(crate) fn list_experiments() -> Vec<(String, String)> {
    let files = pagewise_lab::library::all_files().into_iter().flatten();
    files.map(|file| (file.name.clone(), file.about().to_owned())).collect()
}

/// Why an experiment ended early, as one line.
fn to_refusal(trouble: ExperimentError) -> Refusal {
    let next = trouble.next();
    Refusal { next, ..Refusal::new(format!("{:#}", anyhow::anyhow!(trouble)), "") }
}

/// Prints a message for the user, unless --quiet.
fn print_message(global: &Global, line: &str) {
    if !global.quiet {
        output::print_message(line);
    }
}
