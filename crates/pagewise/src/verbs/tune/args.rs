// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise tune`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

use super::Goal;

pub(super) const TUNE: &str = "Measure this machine's memory, plan changes, apply them on trial, measure again, \
    and keep the changes only if they are shown to help. Needs root.\n\n\
    Tune runs other commands of pagewise one after the other: `scan` and `bench` measure how well the \
    memory in use compresses and which algorithm is best for it, and `plan` computes the changes. Tune \
    prints the changes and asks whether to carry them out. It watches the machine for the time given with \
    --watch, and `apply --trial-for` carries the changes out on trial: if tune is killed or the machine \
    restarts, systemd undoes them. After the time given with --settle, in which programs adapt, tune watches \
    the machine for as long as before.\n\n\
    It compares how long programs waited for memory (PSI) and how many pages were read again after they were \
    reclaimed, or the measure that you name with --measure or --counter. It keeps the changes if the machine \
    is better by at least 10 % and by more than the noise. If it is worse, or no difference is shown, tune \
    takes the changes back; with --keep it takes them back only if the machine is worse. It also takes them \
    back, at once, if the kernel kills a process for lack of memory, or if all tasks wait for memory for most \
    of 20 s; and if the machine differs from the plan, or you press Ctrl-C.\n\n  \
    sudo pagewise tune                       measure, show the changes, ask, and carry them out\n  \
    sudo pagewise tune --yes                 the same without a question, for scripts\n  \
    sudo pagewise tune --goal ratio          prefer changes that fit more data into RAM\n  \
    sudo pagewise tune --watch 5m --settle 2m    watch for longer, for programs that change slowly\n  \
    sudo pagewise tune --measure ./requests.sh   judge by the number that a command prints, or by its time\n  \
    sudo pagewise tune --counter 'redis-cli info stats | grep total_commands'    judge by a counter's rate\n  \
    sudo pagewise tune --no-bench            do not measure algorithms on temporary devices";

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// What to optimize for, if a setting that improves one goal worsens another
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: Goal,
    /// Plan only the changes of these rules of `pagewise plan`, or the changes that fix these findings of `pagewise
    /// doctor`; separate several IDs with commas, such as zram-unused,swappiness
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = crate::chosen::plan_rule_parser(),
        hide_possible_values = true)]
    pub(crate) only: Vec<String>,
    /// Do not ask before the first change
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Do not run `pagewise bench`, which creates temporary zram devices; the plan is then made without the measured
    /// speed of the algorithms
    #[arg(long)]
    pub(crate) no_bench: bool,
    /// How long to watch the machine before the changes, and again after them; at least 8 s, or nothing can be shown
    #[arg(long, value_name = "TIME", default_value = "45s", value_parser = parse_watch_time)]
    pub(crate) watch: Duration,
    /// How long programs may adapt to the changes before they are judged
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_watch_time)]
    pub(crate) settle: Duration,
    /// Judge by this shell command, which runs again and again before and after the changes: by the number that ends
    /// its last line (higher is better), or, if there is none, by the time that it takes
    #[arg(long, value_name = "CMD", conflicts_with = "counter")]
    pub(crate) measure: Option<String>,
    /// Judge by the rate of this counter (higher is better): the last number that a shell command prints within a
    /// second, or the number after a key in a file, such as /proc/vmstat:pgfault
    #[arg(long, value_name = "CMD|FILE:KEY")]
    pub(crate) counter: Option<CounterSource>,
    /// A lower number of --measure, or a lower rate of --counter, is better
    #[arg(long)]
    pub(crate) lower_is_better: bool,
    /// Keep the changes also if no difference is shown
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Parses --watch and --settle. They have an upper limit because the timer of the trial must run
/// longer than both.
fn parse_watch_time(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time <= LONGEST { Ok(time) } else { Err("expected at most 24h".to_owned()) }
}

/// A counter that the user names: a command that prints it, or a key of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CounterSource {
    /// The last number that a command prints.
    Command(String),
    /// The number after this key in a file, such as `/proc/vmstat:pgfault`.
    File { path: String, key: String },
}

impl FromStr for CounterSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("expected a command, or FILE:KEY".to_owned());
        }
        let is_path = text.starts_with('/') && !text.contains(char::is_whitespace);
        Ok(match text.rsplit_once(':').filter(|(_, key)| is_path && !key.is_empty()) {
            Some((path, key)) => Self::File { path: path.to_owned(), key: key.to_owned() },
            None => Self::Command(text.to_owned()),
        })
    }
}
