// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise why`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

pub(super) const WHY: &str = "Say what happened to memory at some time, from the record that `pagewise monitor` keeps: \
    when memory became short and when that ended, who grew, which units started and which settings changed before, \
    which swap area was full, who was killed, and what would have prevented that.\n\n\
    Without a time, it explains the worst trouble of the last 24 hours. Times are in UTC; a time without a day is the \
    last one that has passed. The verdict of each reading is the one that `pagewise doctor` would have given then.\n\n  \
    pagewise why                      the worst trouble of the last 24 hours\n  \
    pagewise why 03:12                what happened then\n  \
    pagewise why '2026-11-27 03:12'   the same with a day\n  \
    pagewise why --last-oom           the last kill in the record\n  \
    pagewise why --since 2h           the worst trouble of the last 2 hours\n  \
    pagewise why 03:12 --html FILE    the same as a web page, with pictures\n  \
    pagewise why --root FILE          a recording made by `pagewise capture --every`, or an sosreport with data of sar";

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// A time in UTC, such as 03:12, '2026-11-27 03:12' or 2026-11-27T03:12:05Z
    #[arg(value_name = "TIME", conflicts_with_all = ["since", "worst", "last_oom"])]
    pub(crate) time: Option<String>,
    /// Explain the worst trouble of this time until now, such as 30m or 24h; at most 24h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["worst", "last_oom"])]
    pub(crate) since: Option<Duration>,
    /// Explain the worst trouble of the whole record
    #[arg(long, conflicts_with = "last_oom")]
    pub(crate) worst: bool,
    /// Explain the last kill in the record
    #[arg(long)]
    pub(crate) last_oom: bool,
    /// Write the explanation to this file as a web page with pictures of memory, pressure, swap and events, instead of
    /// printing it. The page needs no other file, no script and no network. pagewise never overwrites a file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Folder of the record [default: that of `pagewise monitor`]
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    pub(crate) record: Option<PathBuf>,
}
