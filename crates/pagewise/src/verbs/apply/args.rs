// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise apply`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

pub(super) const APPLY: &str = "Carry out a plan that `pagewise plan --json` printed. Needs root.\n\n\
    Before the first change, apply compares every step with the machine and lists everything that does not \
    fit: then it changes nothing. It shows the steps and asks. It records each change in a journal in \
    /var/lib/pagewise before it makes the change, and reads each value back. If a step fails, if you stop it \
    with Ctrl-C, or if the kernel kills a process or all tasks wait for memory afterwards, apply undoes what it \
    did. The exception is a swap area that was switched off: its pages are then in the swap that the plan made, \
    so the steps up to there stay, and apply says so. Applying a plan twice changes nothing the second time.\n\n\
    Files are written only to known places below /etc, and symbolic links there are not followed. Swap is \
    switched off only if its contents certainly fit into other swap, or into memory and every cgroup.\n\n  \
    pagewise plan --json >plan.json\n  \
    sudo pagewise apply plan.json            show the steps, ask, carry them out\n  \
    sudo pagewise apply --trial-for 10m plan.json    the same, and undo it in 10 minutes\n  \
    sudo pagewise apply --confirm 3          keep the plan of journal 3\n  \
    sudo pagewise verify                     compare the machine with all applied plans\n  \
    sudo pagewise undo                       list applied plans and how to undo them";

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The plan: the JSON document of `pagewise plan --json`
    #[arg(value_name = "PLAN", required_unless_present = "confirm")]
    pub(crate) plan: Option<PathBuf>,
    /// Do not ask before the first change
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also carry out steps that cannot be undone
    #[arg(long)]
    pub(crate) yes_irreversible: bool,
    /// Time after the last step in which processes that are killed, and waiting for memory, still undo the plan
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) settle: Duration,
    /// Undo the plan after this time, or at the next boot, unless it was confirmed: for changes that may cost you
    /// the connection to the machine; needs systemd
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) trial_for: Option<Duration>,
    /// Keep the plan on trial with this ID: the number of its journal, or the ID of the plan
    #[arg(long, value_name = "ID", conflicts_with_all = ["plan", "trial_for"])]
    pub(crate) confirm: Option<String>,
}
