// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise report`.

use std::path::PathBuf;

use clap::Args;
use pagewise_report::view::{Field, Section, Sort};

pub(super) const REPORT: &str = "Print a one-page report: how memory is used, which problems there are, and \
    what to do about them. The first screen has the verdict, who causes it, and what to do now; the sections \
    with all values follow. On a terminal, a pager shows the report (the program that the environment variable \
    PAGER names, otherwise less); without a pager, the first screen is printed alone.\n\n\
    With --sort, -n, -o or --args, the report contains only the tables of processes and cgroups, unless --only \
    names other sections. Examples:\n\n  \
    pagewise report --sort swap       processes with the most memory in swap\n  \
    pagewise report --sort growth     processes that grow fastest\n  \
    pagewise report --sort refaults   cgroups whose pages are read back soon after reclaim\n\n\
    The kernel counts refaults (pages read back soon after they were reclaimed) per cgroup and not per \
    process. Therefore --sort refaults sorts cgroups by refaults, but processes by major faults (page faults \
    that waited for a disk or for decompression). With --json, the report always contains all sections, \
    but never the command lines of processes.";

#[derive(Debug, Default, Args)]
pub(crate) struct Report {
    /// Do not read the contents of memory pages; the report then contains no estimate of the memory that
    /// compression would save
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Print the first screen and every section, without a pager
    #[arg(long, conflicts_with_all = ["only", "html"])]
    pub(crate) all: bool,
    /// On a terminal, print the first screen instead of showing the report in a pager; an environment variable PAGER
    /// that is empty or `cat` has the same effect
    #[arg(long)]
    pub(crate) no_pager: bool,
    /// Write the report to this file as a web page with charts, which needs no other file, no script and no
    /// network; the page has all sections, and the report is not printed. pagewise never overwrites a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "sort", "columns", "args"])]
    pub(crate) html: Option<PathBuf>,
    /// Print only these sections of the report, such as memory,processes
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = crate::chosen::section_parser())]
    pub(crate) only: Vec<Section>,
    /// Sort the tables of processes and cgroups by this value, the largest first
    #[arg(long, value_name = "ORDER", value_parser = crate::chosen::order_parser())]
    pub(crate) sort: Option<Sort>,
    /// Maximum number of rows in each table (processes, cgroups); 0 prints all rows [default: 10]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// Columns of the table of processes, such as pid,command,swap
    #[arg(short = 'o', long, value_name = "COLUMN", value_delimiter = ',',
        value_parser = crate::chosen::field_parser())]
    pub(crate) columns: Vec<Field>,
    /// Print the command line of each process instead of its name; a command line may contain secrets
    #[arg(long)]
    pub(crate) args: bool,
}
