// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const FLEET: &str = "See many machines at once.\n\n  \
    pagewise fleet report FOLDER                 findings, groups, differences and possible gains\n  \
    pagewise fleet report FOLDER --html FILE     the same as a web page";

const REPORT: &str = "Report on many machines, from a folder with a file for each.\n\n\
    The files are recordings of `pagewise capture`, or documents of `pagewise report --json` whose names end with .json, \
    in any mixture, also in folders below. The report names a machine as its file is named. It prints which findings are on \
    how many machines; groups of machines that are alike; which machines and settings of a group differ from the others; \
    and what compression and right limits would give in all. Of several readings of a machine since one boot, the \
    newest counts.\n\n\
    Nothing is sent anywhere, and this machine is not read.\n\n  \
    for host in web1 web2; do ssh $host sudo pagewise report --json > machines/$host.json; done\n  \
    pagewise fleet report machines";

#[derive(Debug, Args)]
pub(crate) struct Fleet {
    /// What to do
    #[command(subcommand)]
    pub(crate) act: FleetAct,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetAct {
    /// Print findings, groups, differences and possible gains of many machines
    #[command(long_about = REPORT)]
    Report(FleetReportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FleetReportArgs {
    /// The folder with a file for each machine
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Write the report into this new file as a web page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
