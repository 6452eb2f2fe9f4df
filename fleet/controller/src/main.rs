// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise-fleet-controller`: rolls out `MemoryProfile`s.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fleet_controller::run::{Options, log_line, run};
use tokio::signal::unix::{SignalKind, signal};

/// Rolls out changes of memory settings to the nodes of a cluster, and stops those that harm
#[derive(Debug, Parser)]
#[command(name = "pagewise-fleet-controller", version)]
struct Arguments {
    /// Namespace of the Lease by which several controllers agree on one
    #[arg(long, env = "POD_NAMESPACE", default_value = "pagewise")]
    namespace: String,
    /// Name of this controller among others
    #[arg(long, env = "POD_NAME")]
    identity: String,
    /// Seconds for which a controller that does not answer holds the Lease
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=300))]
    lease: u64,
    /// Milliseconds between two looks at all profiles
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60000))]
    tick: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        namespace: arguments.namespace,
        identity: arguments.identity,
        lease: Duration::from_secs(arguments.lease),
        tick: Duration::from_millis(arguments.tick),
        writes: None,
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
