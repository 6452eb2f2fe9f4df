// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise verify`.

use clap::Args;

pub(super) const VERIFY: &str = "Compare the machine with the plans that were applied. Exit status 3 if it \
    differs.\n\n\
    For each step, verify compares the running value, the file or the swap area with the plan. For settings it \
    also checks which line of sysctl's configuration or of the tuned profile sets the value at the next boot. \
    If such a line explains a difference, verify names its file and line. Journals of applied plans can be read \
    only by root; a plan in a file can be compared without root.\n\n\
    verify also measures the gains that applied plans predicted, says which came true, and adds the measurements \
    to the ledger (pagewise ledger). A prediction that did not come true does not change the exit status.\n\n  \
    sudo pagewise verify                     compare with every applied plan\n  \
    sudo pagewise verify 3                   compare with the plan of journal 3\n  \
    pagewise verify plan.json                compare with this plan, applied or not";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A plan in a file, or the number of a journal or the ID of an applied plan [default: all applied plans]
    #[arg(value_name = "PLAN|ID")]
    pub(crate) plan: Option<String>,
    /// Measure predicted gains, but do not add the measurements to the ledger
    #[arg(long)]
    pub(crate) no_ledger: bool,
}
