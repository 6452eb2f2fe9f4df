// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pagewise_model::plan::Want;

pub(super) const PLAN: &str = "Print a plan: a list of changes to swap and memory settings of this \
    machine. For each change, the plan gives the reason, the risk, and how to undo the change. The plan \
    also lists changes that pagewise considered and left out, each with the reason. `pagewise plan` itself \
    changes nothing and needs no root; `pagewise apply` carries out a plan.\n\n\
    For each setting, the plan contains two changes: one to the running value, and one to a file that sets \
    the value again at each boot. This file is in sysctl.d or tmpfiles.d; for zram, it is a file of \
    zram-generator if zram-generator is installed, else a unit of systemd. The plan can use measurements: \
    pass the JSON output of `pagewise bench`, `pagewise scan` or `pagewise trial` with --from. The plan \
    predicts the gain of a change only if the gain follows from such a measurement or from a formula in the kernel.\n\n  \
    pagewise plan                            print what to change, and why\n  \
    pagewise plan --diff                     print how each file and setting would change\n  \
    pagewise plan --only zram-unused         plan only what fixes this finding of `pagewise doctor`\n  \
    pagewise plan --want zram                plan swap in compressed RAM before memory is short\n  \
    pagewise plan --want zram -o plan.json   also write the plan, for `sudo pagewise apply plan.json`\n  \
    pagewise plan --render ansible           print the plan as a playbook of Ansible\n  \
    pagewise plan --native-only DIR          write only the configuration files, below DIR";

/// What a plan is made for; shared with `pagewise apply`.
#[derive(Debug, Args)]
pub(crate) struct PlanChoice {
    /// What to optimize for, if a setting that improves one goal worsens another
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: Goal,
    /// Base the plan on the measurements in this file: the output of `pagewise bench --json`, `pagewise scan
    /// --json`, `pagewise trial --json` or `pagewise lab run --json`; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Vec<PathBuf>,
    /// Plan only the changes that fix this finding of `pagewise doctor`, such as zram-unused, or only the
    /// changes of this rule of `pagewise plan`, such as swappiness; separate several IDs with commas
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = crate::chosen::plan_rule_parser(),
        hide_possible_values = true)]
    pub(crate) only: Vec<String>,
    /// Plan what you ask for, whether or not memory is short: zram, zram=SIZE, zswap, swapfile, swapfile=SIZE,
    /// hugepages=POLICY (always, madvise, never, or a profile of `pagewise thp profiles` such as operator), or a
    /// setting such as swappiness=100; may be given several times. Without --only, the plan contains nothing else
    #[arg(long, value_name = "WHAT")]
    pub(crate) want: Vec<Want>,
    /// With --want, also plan what there is a reason against that is no harm by itself
    #[arg(long, requires = "want")]
    pub(crate) anyway: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) choice: PlanChoice,
    /// Also write the plan to this file, as the JSON document that `pagewise apply` reads; the file must not exist
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["native_only", "diff"])]
    pub(crate) output: Option<PathBuf>,
    /// Also print the changes that were considered although no finding is about them, and why they were left out
    #[arg(long, conflicts_with_all = ["diff", "json", "native_only"])]
    pub(crate) why_not: bool,
    /// Print how the plan would change the machine: for each file, the change of its contents in the format
    /// of `diff -u`; for each setting, its current value and its new value
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
    /// Print the plan as a file of another tool; with --output, also write that file instead of the JSON document.
    /// What the format cannot express is said in the file and on standard error. debian-files is a tar archive of
    /// a folder for `dpkg-deb --build`
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["native_only", "diff", "json"])]
    pub(crate) render: Option<RenderFormat>,
    /// Write the configuration files of the plan below this folder, and print no plan; the folder must be
    /// empty or new, and other users must not have write permission for it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["diff", "json"])]
    pub(crate) native_only: Option<PathBuf>,
}

/// As `pagewise_model::plan::Goal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// As much work per second as possible; single requests may take longer
    Throughput,
    /// As short a time as possible to read a page back from swap
    Latency,
    /// As much data as possible in the same amount of RAM
    Ratio,
    /// A compromise between throughput, latency and ratio
    Balanced,
}

/// As `pagewise_report::render::Format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RenderFormat {
    /// A playbook of Ansible
    Ansible,
    /// User data of cloud-init
    CloudInit,
    /// A module of NixOS
    Nix,
    /// A config of Ignition (Fedora CoreOS, Flatcar)
    Ignition,
    /// Patches of the machine configuration of Talos Linux
    Talos,
    /// User data of Bottlerocket
    Bottlerocket,
    /// A `DaemonSet` of Kubernetes with the script of `shell`
    Kubernetes,
    /// A tar archive of a folder for `dpkg-deb --build`
    DebianFiles,
    /// A script for any POSIX shell
    Shell,
}
