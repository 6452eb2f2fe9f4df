// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise verify`.

use clap::Args;

pub(super) const VERIFY: &str = "Compare the current state of the machine with the plans that were applied. \
    Exit status 3 if the machine differs from a plan.\n\n\
    For each step of a plan, verify compares the running value, the file or the swap area with the value, \
    file or swap area that the plan describes. For a setting, verify also finds the line of the boot \
    configuration (sysctl files, tmpfiles.d, udev rules, kernel command line, TuneD profile) that is applied \
    last, and reports a difference if this line sets a value other than the planned value. If a running \
    value differs from the planned value, and a line sets this running value, verify names the file and line \
    as the probable cause. To compare with applied plans, verify needs root, because only root can read \
    their journals. To compare with a plan in a file, verify needs no root.\n\n  \
    sudo pagewise verify                     compare the machine with every applied plan\n  \
    sudo pagewise verify 3                   compare the machine with the plan whose journal has number 3\n  \
    pagewise verify plan.json                compare the machine with the plan in this file";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The plan to compare with: the file of a plan, the number of the journal of an applied plan, or the ID
    /// of an applied plan [default: all applied plans]
    #[arg(value_name = "PLAN|ID")]
    pub(crate) plan: Option<String>,
}
