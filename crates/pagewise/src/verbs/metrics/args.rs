// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise metrics`.

use std::path::PathBuf;

use clap::Args;

pub(super) const METRICS: &str = "Print the verdict, the findings and the main numbers of this machine's memory once, \
    in the text format of OpenMetrics. `pagewise monitor` serves the same over HTTP.\n\n\
    All names begin with pagewise_, and none is a name of node_exporter. A value that this machine lacks, or that \
    needs root, has no line: it is never 0. Values per second are left to Prometheus: counters only rise.\n\n  \
    pagewise metrics                                         print them\n  \
    pagewise metrics --group nginx.service                   also four numbers of this cgroup or unit\n  \
    pagewise metrics --textfile /var/lib/prometheus/node-exporter/pagewise.prom\n                                                           \
    for node_exporter: replaces the file at once, as a whole";

#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// Also print use, working set, headroom and suggested limit of this cgroup: its path, or a unit; may be given
    /// several times
    #[arg(long = "group", value_name = "CGROUP")]
    pub(crate) groups: Vec<String>,
    /// Write them into this file instead, in the format that node_exporter's collector textfile reads
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
}
