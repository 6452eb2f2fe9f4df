// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise apply`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

use super::plan::PlanChoice;

pub(super) const APPLY: &str = "Carry out a plan that `pagewise plan` wrote or printed as JSON, or make one. Needs root.\n\n\
    Before the first change, apply checks whether every step of the plan is possible on this machine, and \
    whether the settings, files and swap areas that the plan changes are still as they were when the plan \
    was made. If a step fails this check, apply prints the reasons and carries out no step. Otherwise, apply \
    shows the steps and asks whether to carry them out. It records each change in a journal (a file in \
    /var/lib/pagewise) before it makes the change, and checks each change afterwards. If a step fails, or if \
    you press Ctrl-C, apply undoes the steps that it has carried out.\n\n\
    After the last step, apply watches the machine for 5 s (or the time given with --settle). It undoes the \
    plan if the kernel has killed a process for lack of memory since the first step. It also undoes the plan \
    if PSI full for memory is above 10 % in these 5 s, and more than twice as high as before the plan, \
    or if a step has disabled a swap area and memory runs short; this area is then enabled again. \
    Otherwise, if a step has disabled a swap area, apply undoes only the steps after it, because the pages \
    of the area may now be in swap that the earlier steps added. The error message then names the steps that \
    were not undone. Applying the same plan a second time changes nothing.\n\n\
    Below /etc, apply writes only configuration files of sysctl, tmpfiles.d, kernel modules, udev, \
    zram-generator and systemd, and without systemd one start script with its link; it follows no symbolic \
    links. Some of these files can run programs as root. apply names the lines that do; if Pagewise itself would \
    not have written them, it refuses the plan without --trust-commands. Apply disables a swap area only if other swap areas have room for its pages, or if memory has room \
    for them and no cgroup would exceed its limit.\n\n  \
    pagewise plan -o plan.json               make a plan, and read it\n  \
    sudo pagewise apply plan.json            show its steps, ask, carry them out\n  \
    sudo pagewise apply --want zram          make a plan, show its steps, ask, carry them out\n  \
    sudo pagewise apply --trial-for 10m plan.json    the same, undone after 10 minutes unless confirmed\n  \
    sudo pagewise apply --confirm 3          confirm the plan whose journal has number 3\n  \
    sudo pagewise verify                     compare the machine with all applied plans\n  \
    sudo pagewise undo                       undo interrupted plans; list the applied plans";

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file of the plan: the document of `pagewise plan -o FILE` or `pagewise plan --json`. Without it, apply
    /// makes the plan itself, as `pagewise plan` with the same options does, shows it and asks
    #[arg(value_name = "PLAN", conflicts_with = "PlanChoice")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) choice: PlanChoice,
    /// Carry out the plan without asking first
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also carry out steps that cannot be undone; without this option, apply refuses a plan with such steps
    #[arg(long)]
    pub(crate) yes_irreversible: bool,
    /// Also carry out a plan of a FILE that would run programs as root which Pagewise itself would not have put
    /// there, such as RUN in a udev rule; without this option, apply names these lines and refuses the plan
    #[arg(long)]
    pub(crate) trust_commands: bool,
    /// How long to watch the machine after the last step. Apply undoes the plan if the kernel kills a process for
    /// lack of memory by then, or if PSI full for memory is above 10 % and more than twice as high as before the plan
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) settle: Duration,
    /// Undo the plan after this time, or at the next boot if that comes first, unless you have confirmed the plan
    /// with --confirm by then; use this for changes that may cut your connection to the machine; needs systemd
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) trial_for: Option<Duration>,
    /// Keep a plan that was applied with --trial-for; name the plan by its journal number or its plan ID
    /// (`pagewise undo` without an ID prints both)
    #[arg(long, value_name = "ID", conflicts_with_all = ["plan", "trial_for"])]
    pub(crate) confirm: Option<String>,
}
