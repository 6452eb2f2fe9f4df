// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes from the command line the experiment, and the session that changes settings of the host
//! for it.

use anyhow::bail;
use pagewise_lab::experiment::build_arm;
use pagewise_model::arm::are_equivalent;
use pagewise_model::{Bytes, Clock, Refusal};
use pagewise_stats::{Experiment, Metric, prefer_more};
use pagewise_terminal::Global;
use pagewise_workload::recognise;

use crate::cli::Trial;
use crate::host_loans::HostLoans;

pub(super) fn experiment(global: &Global, args: &Trial) -> anyhow::Result<Experiment> {
    if global.root.is_some() {
        let what = "trial runs a command on this machine; a recording runs nothing".to_owned();
        bail!(Refusal::with_advice(what, "omit --root"));
    }
    let arm = |name: &str, given: &[_]| build_arm(name, given);
    let arms = vec![arm("a", &args.a)?, arm("b", &args.b)?];
    if are_equivalent(&arms[0], &arms[1]) && !args.aa {
        let what = "A and B are the same: there is nothing to compare".to_owned();
        bail!(Refusal::with_advice(what, "set something in --a or --b; --aa if you mean it"));
    }
    let experiment = Experiment {
        program: recognise(args.command.clone()),
        arms,
        metrics: metrics(args)?,
        pairs: args.pairs,
        min_effect: args.min_effect,
        warm_up: args.warm_up,
        seed: args.seed.unwrap_or_else(draw_seed),
        memory_limit_bytes: args.memory.map(Bytes::get),
        deadline: args.timeout,
        clock: Clock::Real,
        profile: false,
        counted_from: None,
        neighbour: None,
    };
    experiment.check()?;
    Ok(experiment)
}

/// The metrics to measure in the trial. With --higher-is-better, larger values of regular
/// expressions are better; the option does not apply to metrics that pagewise measures itself.
fn metrics(args: &Trial) -> anyhow::Result<Vec<Metric>> {
    let mut metrics = args.metric.clone();
    if metrics.is_empty() {
        metrics.push(Metric::new_time());
    }
    if args.higher_is_better && !prefer_more(&mut metrics) {
        let what = "--higher-is-better: no --metric is a regular expression".to_owned();
        bail!(Refusal::with_advice(what, "of times, faults and memory less is better"));
    }
    Ok(metrics)
}

/// A random seed with few digits, so that it is easy to type again.
fn draw_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| u64::from(since.subsec_micros()) + 1)
}

/// The session that changes settings of the host for a trial; `None` without root. Settings, swap
/// and memory limits need root; with root, each run also gets a cgroup.
pub(super) fn host_loans(
    experiment: &Experiment,
    args: &Trial,
) -> anyhow::Result<Option<HostLoans>> {
    if rustix::process::geteuid().is_root() {
        return HostLoans::for_arms(experiment, args.allow_shared_swap).map(Some);
    }
    if experiment.needs_lender() {
        let what = "trial: settings, swap and memory limits are borrowed by root only".to_owned();
        bail!(Refusal::with_advice(what, "run it as root; the command runs as root then, too"));
    }
    Ok(None)
}
