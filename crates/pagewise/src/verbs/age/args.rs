// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise age`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration_from;

pub(super) const AGE: &str = "Age the pages of a memory cgroup that reads the same pages again and again. Needs \
    root.\n\n\
    Multi-gen LRU sorts pages into generations. To age them means to add a new, youngest generation, into which the \
    kernel moves the pages that were accessed since the last one. On Linux 6.12 and 7.2, the kernel may never age the \
    pages of a cgroup at its memory limit: then files in use are dropped and read again, while anonymous memory that \
    nobody uses stays in memory although swap is free. `pagewise doctor` names such a cgroup.\n\n\
    The command counts the refaults of the cgroup, ages it and the cgroups below it, and counts them again. It ages \
    nothing if files have less than 50 refaults per second. It ends when the refaults have fallen to a quarter, when \
    four agings in a row left them as they were or one doubled them (exit status 3), or after --times agings. Aging evicts nothing and changes no setting and no contents, so there is nothing to undo; \
    each aging costs a walk over the page tables of the cgroup's processes, and is recorded beside the journals \
    (--history). Nothing ages a cgroup unless this command is run, or `pagewise agent` is and its configuration names the \
    cgroup. It writes to lru_gen of debugfs; if debugfs is not \
    mounted, it is mounted for this process alone.\n\n  \
    sudo pagewise age --unit db                  at most 6 times, 10 seconds apart\n  \
    sudo pagewise age --cgroup /system.slice/db.service --times 2 --every 30s\n  \
    sudo pagewise age --history                  what was aged, and how the refaults changed";

/// The shortest time between two agings: at most 30 agings a minute.
const SHORTEST: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct Age {
    /// Age this memory cgroup and those below it: its path, or its folder in /sys/fs/cgroup
    #[arg(long, value_name = "PATH", group = "group", required_unless_present_any = ["unit", "history"])]
    pub(crate) cgroup: Option<String>,
    /// Age the cgroup of this container or systemd unit: the ID that `docker ps` shows or how it begins, or a unit such
    /// as nginx or nginx.service
    #[arg(long, value_name = "UNIT", group = "group", visible_alias = "container")]
    pub(crate) unit: Option<String>,
    /// Age it at most this often
    #[arg(long, value_name = "NUMBER", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) times: u32,
    /// Time between two agings, over which refaults are counted; at least 2 seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time_between)]
    pub(crate) every: Duration,
    /// Age nothing; print which agings were recorded on this machine, with their effect
    #[arg(long, conflicts_with_all = ["group", "times", "every"])]
    pub(crate) history: bool,
}

fn parse_time_between(text: &str) -> Result<Duration, String> {
    let most = Duration::from_secs(600);
    let time = parse_duration_from(text, SHORTEST).map_err(|error| error.to_string())?;
    if time > most {
        return Err(format!("expected at most 10 minutes, found {text:?}"));
    }
    Ok(time)
}
