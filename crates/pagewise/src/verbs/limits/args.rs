// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise limits`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::{parse_duration, parse_duration_from};

/// The long help of the verb.
pub(super) const LIMITS: &str = "Print which memory limit each cgroup needs: how much memory it uses and used at \
    most, its limit, how often it reads pages again and waits for memory, how much of its memory is idle, and \
    either a limit that it could have, or that its limit is too low. Each suggested limit has a confidence (low, \
    medium or high); docs/limits.md explains the computation. Where nothing follows from what can be read, \
    the output says so.\n\n\
    For one cgroup (--cgroup, --unit or --pid), the output also has the reasons, the processes, and the commands \
    that set the limit until the next boot or permanently. pagewise does not run these commands.\n\n\
    How long pages were not used is known if multi-gen LRU is on and pagewise runs as root, or with --for. \
    Otherwise, inactive file cache counts as idle, and the confidence is low.\n\n  \
    pagewise limits                              every cgroup\n  \
    pagewise limits --unit nginx                 one service, with reasons and commands\n  \
    sudo pagewise limits --unit nginx --for 10m  the same; watch for 10 minutes what it uses";

/// The shortest time for `--for`: during a shorter time, too few pages are accessed for a result.
const SHORTEST: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Args)]
pub(crate) struct Limits {
    /// Only this memory cgroup: its path, or its folder in /sys/fs/cgroup
    #[arg(long, value_name = "PATH", group = "group")]
    pub(crate) cgroup: Option<String>,
    /// Only the cgroup of this container or systemd unit: the ID that `docker ps` shows or how it begins, or a unit such
    /// as nginx or nginx.service
    #[arg(long, value_name = "UNIT", group = "group", visible_alias = "container")]
    pub(crate) unit: Option<String>,
    /// Only the cgroup of the process with this ID
    #[arg(long, value_name = "PID", group = "group")]
    pub(crate) pid: Option<u32>,
    /// Clear the accessed bits of all processes of the cgroup, wait for this time, such as 30s or 10m, and read which
    /// memory was used meanwhile. Until the bits are set again, reclaim takes memory in use for idle, so it may
    /// reclaim worse. Needs root for processes of other users
    #[arg(long = "for", value_name = "TIME", value_parser = parse_watched_time, requires = "group")]
    pub(crate) watch: Option<Duration>,
    /// With multi-gen LRU: pages that were not used for this time, such as 2m or 1h, are idle
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub(crate) age: Duration,
}

fn parse_watched_time(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, SHORTEST).map_err(|error| error.to_string())
}
