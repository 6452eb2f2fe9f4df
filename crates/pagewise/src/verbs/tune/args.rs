// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise tune`.

use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

use super::Goal;

pub(super) const TUNE: &str = "Measure this machine's memory, plan changes, apply them on trial, measure again, \
    and keep or undo the changes. Needs root.\n\n\
    Tune runs other commands of pagewise one after the other: `scan` and `bench` measure how well the \
    memory in use compresses and which algorithm is best for it, and `plan` computes the changes. Tune \
    prints the changes and asks whether to carry them out. Then `apply --trial-for` carries them out on \
    trial: if tune is killed or the machine restarts, systemd undoes them. After the time given with \
    --watch, `verify` compares the machine with the plan and measures each predicted gain. Tune undoes all \
    changes if the memory verdict of `pagewise status` is worse than before, if the kernel killed a process \
    for lack of memory, if the machine differs from the plan, or if you press Ctrl-C. Otherwise, it keeps \
    the changes.\n\n  \
    sudo pagewise tune                       measure, show the changes, ask, and carry them out\n  \
    sudo pagewise tune --yes                 the same without a question, for scripts\n  \
    sudo pagewise tune --goal ratio          prefer changes that fit more data into RAM\n  \
    sudo pagewise tune --no-bench            do not measure algorithms on temporary devices";

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// What to optimize for, if a setting that improves one goal worsens another
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: Goal,
    /// Plan only the changes of these rules of `pagewise plan`, or the changes that fix these findings of `pagewise
    /// doctor`; separate several IDs with commas, such as zram-unused,swappiness
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = crate::chosen::plan_rule(),
        hide_possible_values = true)]
    pub(crate) only: Vec<String>,
    /// Do not ask before the first change
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Do not run `pagewise bench`, which creates temporary zram devices; the plan is then made without the measured
    /// speed of the algorithms
    #[arg(long)]
    pub(crate) no_bench: bool,
    /// Time to wait after the last change before checking whether to keep the changes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = watch)]
    pub(crate) watch: Duration,
}

/// Parses --watch; the upper limit is there because the trial must last longer.
fn watch(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time <= LONGEST { Ok(time) } else { Err("expected at most 24h".to_owned()) }
}
