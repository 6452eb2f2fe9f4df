// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise explain`.

use clap::Args;

pub(super) const EXPLAIN: &str = "Explain a subject of memory management with the values of this machine.\n\n\
    Each page says how the kernel works, shows the settings and counters of this machine that belong to the \
    subject, corrects what guides often get wrong, and names the commands that show or prove more. Nothing is \
    judged here: `pagewise doctor` says what is wrong.\n\n  \
    pagewise explain                         list the subjects\n  \
    pagewise explain swappiness              which memory the kernel reclaims first\n  \
    pagewise explain mm_stat --root FILE     with the values of a recording";

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// What to explain; without it, the subjects are listed
    #[arg(value_name = "SUBJECT", value_parser = crate::chosen::subject_parser(), hide_possible_values = true)]
    pub(crate) subject: Option<String>,
}
