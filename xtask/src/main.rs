// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The project's own tools: checks of dependencies, licences, commit messages and words; tables of
//! evidence; test runs; benchmarks; golden files. Compilers and packages are installed by the
//! scripts in `xtask/scripts`.

mod artefact;
mod bench;
mod circles;
mod comments;
mod commits;
mod dag;
mod deny;
mod fixture;
mod fleet;
mod fuzz;
mod heads;
mod licences;
mod links;
mod literals;
mod long_runs;
mod mutants;
mod power_loss;
mod prose;
mod rights;
mod run;
mod sbom;
mod sentences;
mod suite;
mod tables;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
enum Chore {
    /// Check which of our crates may use which, and that their clippy.toml are those of xtask/rights.toml
    Dag,
    /// Check the clippy.toml of each crate against xtask/rights.toml
    Rights {
        /// Make them
        #[arg(long)]
        write: bool,
    },
    /// List circles of files that import each other; some crates may have none
    Circles,
    /// Check licences, versions and sources of the packages of others against deny.toml
    Deny,
    /// Check that every source file begins with its licence
    Heads,
    /// Print the licences of the crates that are linked into a program of this workspace, or its bill of materials
    Licences(licences::Args),
    /// Check the messages of new commits: `scope: verb phrase`, and a body
    Commits(commits::Args),
    /// Check what users read for banned turns of phrase, and documents for long lines and broken links
    Words,
    /// Draw user-visible sentences at random, to be read by somebody new
    Sentences(sentences::Args),
    /// Compute the tables in documents from the runs in evidence/, and draw their pictures
    Tables(tables::Args),
    /// Check that a program is static and small
    Artefact(artefact::Args),
    /// Run a fixed part of the checks: what `make lint`, `make check` and `make test` do
    Suite(suite::SuiteArgs),
    /// Run tests alone: all, or some by name
    Test(suite::TestArgs),
    /// List the groups of long tests (what each proves, its key, its minutes), or run those without a pass
    Groups(suite::GroupsArgs),
    /// Rewrite the golden files that tests compare with
    Bless,
    /// Rewrite the rules and dashboards in packaging/prometheus, or test them with a program and a Prometheus
    Prometheus {
        /// The program whose metrics a Prometheus scrapes: tests, and rewrites nothing
        program: Option<std::path::PathBuf>,
    },
    /// Run what must pass before a push
    Prepush,
    /// Show, compare, change and pack the recordings in fixtures/hosts
    Fixture(fixture::Args),
    /// Check and test the programs for clusters in fleet, against a real control plane
    Fleet(fleet::Args),
    /// Feed every parser with whatever a fuzzer thinks of
    Fuzz(fuzz::Args),
    /// Run the program on thousands of damaged inputs of each kind, and print what the worst cost: a long run
    Mutants(mutants::Args),
    /// Replay power losses while plans are applied and undone: a long run; root
    PowerLoss(power_loss::Args),
    /// Apply plans in guests and reboot them many times: a long run
    Reboots(long_runs::Reboots),
    /// Make system calls fail while a plan is applied or undone in a guest: a long run
    Faults(long_runs::Faults),
    /// Apply many plans in guests and measure the gains that they predicted: a long run
    Ledger,
    /// Make guests short of memory in many ways, and print whether `why` names trouble and actor: a long run
    Incidents(long_runs::Incidents),
    /// Tune a guest under a real load, with the default times and measures: a long run
    Tune,
    /// Measure the promised numbers
    Bench(bench::Args),
    /// Run a program and print what it used
    #[command(hide = true)]
    Measure(bench::measure::Args),
}

fn main() -> ExitCode {
    match run(Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Dag => dag::main().and_then(|()| rights::main(false)),
        Chore::Rights { write } => rights::main(write),
        Chore::Circles => circles::main(),
        Chore::Deny => deny::main(),
        Chore::Heads => heads::main(),
        Chore::Licences(args) => licences::main(&args),
        Chore::Commits(args) => commits::main(&args),
        Chore::Words => words::main(),
        Chore::Sentences(args) => sentences::main(&args),
        Chore::Tables(args) => tables::main(&args),
        Chore::Artefact(args) => artefact::main(&args),
        Chore::Suite(args) => suite::main(&args),
        Chore::Test(args) => suite::test(&args),
        Chore::Groups(args) => suite::groups(&args),
        Chore::Bless => suite::bless(),
        Chore::Prometheus { program: Some(program) } => {
            run::run_to_success(run::program("xtask/scripts/prometheus.sh").arg(program))
        }
        Chore::Prometheus { program: None } => {
            let mut test = run::cargo();
            test.args([
                "test",
                "--locked",
                "--package",
                "pagewise-metrics",
                "--test",
                "prometheus",
            ]);
            run::run_to_success(test.env("BLESS", "1"))
        }
        Chore::Prepush => run::run_to_success(run::program("make").arg("check")),
        Chore::Fixture(args) => fixture::main(&args),
        Chore::Fleet(args) => fleet::main(&args),
        Chore::Fuzz(args) => fuzz::main(&args),
        Chore::Mutants(args) => mutants::main(&args),
        Chore::PowerLoss(args) => power_loss::main(&args),
        Chore::Reboots(args) => long_runs::reboots(&args),
        Chore::Incidents(args) => long_runs::incidents(&args),
        Chore::Ledger => long_runs::ledger(),
        Chore::Tune => long_runs::tune(),
        Chore::Faults(args) => long_runs::faults(&args),
        Chore::Bench(args) => bench::main(&args),
        Chore::Measure(args) => bench::measure::main(&args),
    }
}
