// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise apply`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

pub(super) const APPLY: &str = "Carry out a plan that `pagewise plan --json` printed. Needs root.\n\n\
    Before the first change, apply checks that every step of the plan still fits this machine. If a step \
    does not fit, apply prints the reasons and carries out no step. Otherwise, apply shows the steps and \
    asks whether to carry them out. It records each change in a journal (a file in /var/lib/pagewise) before \
    it makes the change, and checks each change afterwards. If a step fails, or if you press Ctrl-C, apply \
    undoes the steps that it has carried out. It also undoes them if the kernel kills a process for lack of \
    memory, or if, in the 5 s after the last step, all tasks wait for memory for more than 10 % of the time. \
    There is one exception: if a swap area was disabled, that step and the steps before it stay in force, \
    because the pages of this swap area have already moved. The error message then names these steps. \
    Applying the same plan a second time changes nothing.\n\n\
    Apply writes files only to listed places below /etc, and follows no symbolic links there. It disables a \
    swap area only if the pages in it fit into other swap, or into memory within the limit of each \
    cgroup.\n\n  \
    pagewise plan --json >plan.json          make a plan\n  \
    sudo pagewise apply plan.json            show the steps, ask, carry them out\n  \
    sudo pagewise apply --trial-for 10m plan.json    the same, but undo the plan after 10 minutes\n  \
    sudo pagewise apply --confirm 3          keep the plan on trial whose journal has number 3\n  \
    sudo pagewise verify                     compare the machine with all applied plans\n  \
    sudo pagewise undo                       list applied plans and how to undo them";

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file of the plan: the JSON document that `pagewise plan --json` printed
    #[arg(value_name = "PLAN", required_unless_present = "confirm")]
    pub(crate) plan: Option<PathBuf>,
    /// Carry out the plan without asking first
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also carry out steps that cannot be undone; without this option, apply refuses a plan with such steps
    #[arg(long)]
    pub(crate) yes_irreversible: bool,
    /// How long to watch programs after the last step; apply undoes the plan if the kernel kills a process
    /// for lack of memory until then, or if all tasks wait for memory for more than 10 % of this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) settle: Duration,
    /// Undo the plan after this time, or at the next boot if that comes first, unless you confirm the plan
    /// with --confirm before; use this for changes that may cut your connection to the machine; needs systemd
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) trial_for: Option<Duration>,
    /// Keep a plan that was applied with --trial-for; ID is the number of its journal, or the ID of the plan
    #[arg(long, value_name = "ID", conflicts_with_all = ["plan", "trial_for"])]
    pub(crate) confirm: Option<String>,
}
