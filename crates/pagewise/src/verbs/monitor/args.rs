// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise monitor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pagewise_model::typed::{NotAPercentage, parse_duration_from};
use pagewise_model::{Bytes, Percent};

pub(super) const MONITOR: &str = "Record this machine's memory all the time, and serve metrics. Changes no setting.\n\n\
    The record is a ring of files, bounded in bytes and in days: a reading every 10 s while memory is not short, and \
    one every second while it is, so that `pagewise why 03:12` can say in the morning what happened at night. It holds \
    what `pagewise capture` holds, but with the names of programs, units and files of this machine, so it stays on this \
    machine, in a folder that only its owner can read. It holds no contents of memory, command lines or environments.\n\n\
    The metrics are served over HTTP, on the loopback interface unless --listen names another address, or on the \
    sockets that systemd hands over. The path is /metrics. As an unprivileged user, monitor reads less: proportional \
    sizes of other users' processes, the kernel log and the ages of pages (multi-gen LRU) need root.\n\n  \
    pagewise monitor                                   record and serve on 127.0.0.1:9837\n  \
    pagewise monitor --group nginx.service             also the metrics of this unit\n  \
    pagewise monitor --group nginx.service --advise    also how much of its memory is idle\n  \
    pagewise monitor --no-listen --textfile FILE       no HTTP: a file for node_exporter\n  \
    pagewise monitor --listen unix:/run/pagewise.sock  a socket of the file system\n\n\
    It ends on Ctrl-C and SIGTERM. The unit pagewise-monitor.service, which is shipped disabled, runs it as a user of \
    its own.";

/// The shortest time between two readings: one takes a good part of a second if there are many
/// processes.
const SHORTEST: Duration = Duration::from_secs(1);
/// The smallest size of the ring: two complete readings of a large machine fit into it.
const SMALLEST: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Folder of the record [default: /var/lib/pagewise/record as root, else ~/.local/state/pagewise/record]
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    pub(crate) record: Option<PathBuf>,
    /// Keep no record
    #[arg(long)]
    pub(crate) no_record: bool,
    /// Size of the record on disk; the oldest readings are removed first
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub(crate) record_size: Bytes,
    /// Age of the oldest readings in the record, in days
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) record_days: u32,
    /// Time between two readings while memory is not short, at least 1s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_every)]
    pub(crate) every: Duration,
    /// Address to serve metrics on: HOST:PORT, or unix:PATH
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9837",
        conflicts_with = "no_listen"
    )]
    pub(crate) listen: String,
    /// Serve no metrics over HTTP
    #[arg(long)]
    pub(crate) no_listen: bool,
    /// Write the metrics into this file after each reading, for node_exporter's collector textfile
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Write an entry into the systemd journal for each finding that begins, worsens or ends, as the
    /// doctor timer does
    #[arg(long)]
    pub(crate) journal: bool,
    /// Also serve use, working set, headroom and suggested limit of this cgroup: its path, or a unit; may be given
    /// several times
    #[arg(long = "group", value_name = "CGROUP")]
    pub(crate) groups: Vec<String>,
    /// Learn which memory of the cgroups of --group is idle, at most once a minute for each, and serve how much
    /// could be taken; see docs/monitor.md. Needs root
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true, default_missing_value = "ages", requires = "groups")]
    pub(crate) advise: Option<AdviseBy>,
    /// CPU time for --advise, as a share of one CPU
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = parse_budget, requires = "advise")]
    pub(crate) advise_budget: Percent,
}

/// By what the idle memory of a cgroup is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdviseBy {
    /// The kernel ages the pages of the cgroup (multi-gen LRU)
    Ages,
    /// The accessed bits of its processes are cleared, and read a minute later; reclaim may choose worse meanwhile
    AccessedBits,
}

fn parse_budget(text: &str) -> Result<Percent, NotAPercentage> {
    Percent::parse_within(text, 0.001..=10.0)
}

fn parse_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, SHORTEST).map_err(|error| error.to_string())
}

fn parse_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size.get() < SMALLEST {
        return Err(format!("expected at least {}, found {size}", Bytes::new(SMALLEST)));
    }
    Ok(size)
}
