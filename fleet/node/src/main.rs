// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise-fleet-node`: publishes what the memory of this node does, and carries out changes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use fleet_node::pagewise::{IN_ROOT, Pagewise, enter};
use fleet_node::run::{Options, log_line, run};
use tokio::signal::unix::{SignalKind, signal};

/// Publishes what the memory of this node does, and carries out the changes that the controller asks for
#[derive(Debug, Parser)]
#[command(name = "pagewise-fleet-node", version, subcommand_negates_reqs = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<InRoot>,
    /// Name of the node
    #[arg(long, env = "NODE_NAME", required = true)]
    node: Option<String>,
    /// The program that reads and changes the node
    #[arg(long, default_value = "/usr/bin/pagewise")]
    pagewise: PathBuf,
    /// Where the file system of the host is, if this runs in a container; --pagewise is below it
    #[arg(long)]
    root: Option<PathBuf>,
    /// Carry out the changes of profiles; without this, the node refuses each change
    #[arg(long)]
    changes: bool,
    /// Folder for the record of a change; it must survive restarts
    #[arg(long, default_value = "/var/lib/pagewise-fleet")]
    folder: PathBuf,
    /// Folder in which node-feature-discovery reads files with labels
    #[arg(long)]
    features: Option<PathBuf>,
    /// Seconds between two readings
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Most seconds between two writes to the API
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(10..=86400))]
    heartbeat: u64,
    /// Seconds between two looks at what the containers of this node need; 0 for none
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(0..=86400))]
    advise_every: u64,
    /// Seconds between two samples of how well memory compresses
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(60..=86400))]
    sample_every: u64,
}

#[derive(Debug, Subcommand)]
enum InRoot {
    /// Run a program of another root; the node program starts itself so
    #[command(hide = true, name = IN_ROOT)]
    InRoot {
        root: PathBuf,
        #[arg(last = true, required = true)]
        program: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(InRoot::InRoot { root, program }) = &arguments.command {
        let error = enter(root, program);
        log_line(&format!("{} in {}: {error}", program.join(" "), root.display()));
        return ExitCode::FAILURE;
    }
    run_program(arguments)
}

#[tokio::main(flavor = "current_thread")]
async fn run_program(arguments: Arguments) -> ExitCode {
    let options = Options {
        node: arguments.node.unwrap_or_default(),
        pagewise: Pagewise {
            program: arguments.pagewise,
            root: arguments.root,
            may_change: arguments.changes,
        },
        folder: arguments.folder,
        features: arguments.features,
        every: Duration::from_secs(arguments.every),
        heartbeat: Duration::from_secs(arguments.heartbeat),
        advise_every: Some(arguments.advise_every).filter(|it| *it > 0).map(Duration::from_secs),
        sample_every: Duration::from_secs(arguments.sample_every),
    };
    match start(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log_line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn start(options: Options) -> anyhow::Result<()> {
    let client = kube::Client::try_default().await?;
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    run(client, options, stop).await
}
