// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const AGENT: &str = "Watch named cgroups and zram devices, age the pages of the cgroups when that helps, reclaim \
    their unused memory, collapse memory into huge pages, take unused pages of the devices out of RAM, and switch KSM on \
    while it pays. Runs until it is stopped; needs root.\n\n\
    The agent does nothing unless a file switches it on: /etc/pagewise/agent.toml, then the files *.toml and *.conf in \
    /etc/pagewise/agent.toml.d in the order of their names. A later file changes single keys of an earlier one:\n\n  \
    [budget]\n  \
    cpu_seconds_per_minute = 0.3           # what the agent may use; 0.3 is 0.5 % of a processor\n\n  \
    [aging.\"/system.slice/web.service\"]    # a cgroup of version 2, as `pagewise limits` prints it\n  \
    enabled = true\n  \
    refaults_per_second = 50               # fewer refaults of files are no reason; at least 50\n  \
    agings_per_hour = 12                   # at most; from 1 to 60\n  \
    interval = \"10s\"                       # between two readings; from 2s to 10m\n\n  \
    [reclaim.\"/system.slice/web.service\"] # takes unused memory of this cgroup (memory.reclaim)\n  \
    enabled = true\n  \
    files_only = false                     # true: only page cache that no program has mapped\n  \
    idle_after = \"4m\"                      # memory unused for this long; from 20s to 24h\n  \
    refault_cpu_percent = 1                # of the cgroup's CPU time, for bringing pages back; from 0.1 to 10\n  \
    keep = \"64M\"                           # it keeps at least this; without this key, what it uses\n  \
    interval = \"6s\"                        # between two readings; from 2s to 10m\n\n  \
    [hugepages.\"/system.slice/web.service\"]  # collapses memory of this cgroup into huge pages\n  \
    enabled = true\n  \
    max_growth = \"8M\"                      # by which it may grow for them\n  \
    coverage_percent = 90                  # nothing is done if so much of its memory is in huge pages\n  \
    interval = \"1m\"                        # between two readings; from 2s to 10m\n\n  \
    [zram.zram0]                           # a zram device, as `pagewise status` prints it\n  \
    enabled = true\n  \
    idle_after = \"1h\"                      # pages unused for this long; from 2s to 24h\n  \
    recompress = true                      # if the device has an algorithm for it (recomp_algorithm)\n  \
    flash_per_day = \"1G\"                   # at most, to its backing device; without this key nothing is written\n  \
    interval = \"5m\"                        # between two rounds; from 2s to 1h\n\n  \
    [ksm]                                  # switches KSM on, and off again if merging does not pay\n  \
    enabled = true\n  \
    least_profit = \"16M\"                   # what it must save, its own records subtracted\n  \
    cpu_percent = 5                        # of a CPU, at most, for its thread; from 0.1 to 100\n  \
    interval = \"1m\"                        # between two readings; from 2s to 10m\n  \
    retry_after = \"24h\"                    # after it did not pay; from 1h to 720h; doubles, up to eightfold\n\n  \
    [guard]                                # all loops pause for an hour when memory is short on the host\n  \
    enabled = true\n  \
    undo = false                           # true: undoes the last plan, if it changed settings alone\n  \
    watch = \"24h\"                         # a plan is suspected for this long; from 1m to 720h\n  \
    stall_percent = 10                     # of the time in which all tasks waited for memory (PSI full)\n  \
    lasts = \"1m\"                          # for this long; a kill counts at once; from 2s to 1h\n  \
    interval = \"10s\"                       # between two readings; from 2s to 10m\n\n\
    [switchback.reclaim]                   # or aging, hugepages, zram: does the loop pay? It is switched on and off in random order\n  \
    enabled = true\n  \
    cgroup = \"/system.slice/web.service\"  # its work, memory and refaults are compared; required\n  \
    metric_file = \"/run/web/metrics\"      # a counter of its work; without one, its CPU time is compared\n  \
    metric_command = [\"/usr/bin/served\"]  # or a program that prints the counter, with its arguments; no shell\n  \
    metric = \"requests_total\"             # the name of the counter; without it, the last number is taken\n  \
    block = \"4h\"                          # a day has a whole number of blocks; from 2h to 24h\n  \
    wash_out = \"30m\"                      # the beginning of each block does not count; at most half of it\n  \
    relevant_percent = 1                   # the smallest change that counts; from 0.1 to 50\n\n\
    All keys but cgroup are optional. A cgroup is aged if, in two intervals in a row, it has many refaults of files and the kernel \
    adds no generation to it: as with `pagewise age`, at most 6 times in a run, until its refaults fall. If they do not \
    fall, the agent pauses for an hour, and for twice as long each further time, up to a day. Aging evicts nothing and \
    changes no setting and no contents, so there is nothing to undo, also if the agent is killed. A cgroup that kubelet, \
    koordinator, katalyst or senpai manages is left alone.\n\n\
    With [reclaim], a cgroup is aged every half of idle_after, and what was not accessed for idle_after is taken, 1 % of \
    its memory at a time, in requests of 256 KiB; less or nothing if it needs pages again. Nothing is taken while the cgroup \
    grows or does far less than usual, and no anonymous memory without free swap in zram or zswap. The kernel reads \
    pages again when they are used, and no setting changes.\n\n\
    With [hugepages], memory is collapsed as with `pagewise thp collapse` whenever too little of it is in huge pages, as \
    after a fork; not while memory is short. The service needs two more capabilities for it (docs/agent.md).\n\n\
    Pages of a zram device that were unused for long enough are compressed again, and written to its backing device, \
    incompressible ones first. The kernel holds each writeback to what is left of flash_per_day, whoever wrote the rest \
    of it; a day is one of UTC. A page that is used again comes back by itself.\n\n\
    With [switchback], a coin decides for each block of two days on which of them the loop is on. After each month of 30 \
    days the agent computes whether it pays, with intervals that keep wrong answers below 5 %. A loop that harms is \
    switched off, also after a restart.\n\n\
    SIGHUP makes the agent read its configuration again; if that has an error, the one before stays in force. Decisions \
    are printed on standard error and added to agent.log in the folder of the journals, /var/lib/pagewise.\n\n  \
    pagewise agent --check              read the configuration, and name file, line and key of an error\n  \
    sudo pagewise agent --dry-run       print what would be done\n  \
    sudo pagewise agent --once          decide once for each cgroup and device, then end\n  \
    sudo pagewise agent status          what the running agent does and has done\n  \
    sudo pagewise agent proof           whether its loops pay, and what was measured";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Agent {
    /// Only read the configuration, print what it switches on, and end
    #[arg(long, conflicts_with_all = ["dry_run", "once"])]
    pub(crate) check: bool,
    /// Print what would be done, and do nothing; writes no file
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// End after one decision for each cgroup and device; takes at least two intervals if it has many refaults.
    /// Of a cgroup whose memory is to be taken, it only ages the pages, because it takes minutes until it is known
    /// which of them are idle
    #[arg(long)]
    pub(crate) once: bool,
    /// Read this file, and the files in the folder FILE.d, instead of /etc/pagewise/agent.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The subcommand to run; without one, the agent runs
    #[command(subcommand)]
    pub(crate) act: Option<AgentAct>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentAct {
    /// Print what the running agent does, its last decisions, and its budget
    Status,
    /// Print whether the loops that are switched on and off in random order pay, and what was measured
    Proof,
}
