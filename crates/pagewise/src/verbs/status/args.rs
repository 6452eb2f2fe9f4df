// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise status` and `pagewise top`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration_from;

pub(super) const STATUS: &str = "Print an overview of memory usage from a single reading of the kernel's counters, \
    without rates. If memory is short, cgroups and processes are read too, and the overview names the worst problem \
    and the process or cgroup that it is about. Of a recording (--root), all is read.\n\n\
    With --watch, the overview stays on the terminal and is updated every second, with rates, with the pressure of the \
    last minutes, and with the processes or cgroups that use most memory. Keys: q quits, space freezes the view, s \
    changes the order, g switches between processes and cgroups, the arrow keys select a row and Enter opens it, / \
    filters by name, ? shows all keys. With --root, the view shows a recording made by `pagewise capture --every`, or \
    the record of `pagewise monitor` (its folder), step by step: space plays it at its own pace, + and - change the pace, the left and right arrow keys go one step, \
    Home and End go to the first and last step, j jumps to a step or a time.\n\n  \
    pagewise status                     an overview\n  \
    pagewise status --watch             an overview that is updated every second\n  \
    pagewise status --watch --every 5s  the same, updated every 5 seconds\n  \
    pagewise status --watch --root FILE a recording, step by step\n  \
    sudo pagewise status --watch --root /var/lib/pagewise/record --at 03:12\n  \
    \x20                                   the record of the monitor, beginning at that time";

pub(super) const TOP: &str = "Show the overview of `pagewise status` on the whole terminal, and update it every \
    second, until q is pressed: the same as `pagewise status --watch`, whose help explains the view and its keys.\n\n  \
    pagewise top                        this machine, live\n  \
    pagewise top --every 5s             updated every 5 seconds\n  \
    pagewise top --root FILE            a recording of `pagewise capture --every`, step by step";

/// The shortest time between two updates.
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show the overview on the whole terminal, and update it until q is pressed
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time between two updates of --watch, at least 100ms; not with --root
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    #[arg(requires = "watch", conflicts_with = "root")]
    pub(crate) every: Duration,
    /// Begin with the first reading at or after this time in UTC, such as 03:12 or '2026-11-27 03:12'; only with --watch
    /// and --root
    #[arg(long, value_name = "TIME", requires = "watch", requires = "root")]
    pub(crate) at: Option<String>,
}

/// The arguments of `pagewise top`: those of `status --watch`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Time between two updates, at least 100ms; not with --root
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    #[arg(conflicts_with = "root")]
    pub(crate) every: Duration,
    /// Begin with the first reading at or after this time in UTC, such as 03:12 or '2026-11-27 03:12'; only with --root
    #[arg(long, value_name = "TIME", requires = "root")]
    pub(crate) at: Option<String>,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, SHORTEST).map_err(|error| error.to_string())
}
