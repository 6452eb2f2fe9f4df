// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise verify`.

use clap::Args;

pub(super) const VERIFY: &str = "Compare the current state of the machine with the plans that were \
    applied. Exit status 3 if the machine differs from a plan.\n\n\
    For each step of a plan, verify compares the current state (of a running setting, of a file or of a swap \
    area) with the state that the plan describes. For a setting, verify also reads the boot configuration: \
    modprobe.d, kernel command line, udev rules, sysctl files, tmpfiles.d and TuneD profile. If several \
    lines of the boot configuration set this setting, the line that is applied last determines the value \
    after the next boot. If this value is not the planned value, verify reports a difference. If a running \
    value is not the planned value, verify looks for a line of the boot configuration that sets the running \
    value. If there is such a line, verify names it and its file as the probable cause. To compare with \
    applied plans, verify needs root, because only root can read their journals. To compare with a plan in a \
    file, verify needs no root.\n\n\
    verify also measures the gains that applied plans predicted, prints which predictions came true, and adds \
    the measurements to the ledger, which `pagewise verify --history` prints. A prediction that did not come true does not change \
    the exit status.\n\n  \
    sudo pagewise verify                     compare the machine with every applied plan\n  \
    sudo pagewise verify --history           print how often predicted gains came true\n  \
    sudo pagewise verify 3                   compare the machine with the plan whose journal has number 3\n  \
    pagewise verify plan.json                compare the machine with the plan in this file";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The plan to compare with the machine: the file of a plan, or an applied plan, named by its journal
    /// number or its plan ID [default: all applied plans]
    #[arg(value_name = "PLAN|ID")]
    pub(crate) plan: Option<String>,
    /// Measure predicted gains, but do not add the measurements to the ledger
    #[arg(long)]
    pub(crate) no_ledger: bool,
    /// Compare nothing: print in how many cases the gain that a plan predicted came true, and every measured
    /// gain (the ledger)
    #[arg(long, conflicts_with_all = ["plan", "no_ledger"])]
    pub(crate) history: bool,
}
