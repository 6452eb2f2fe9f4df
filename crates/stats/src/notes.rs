// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remarks on a result that a reader should know before relying on it.

use pagewise_model::{Clock, MetricKind, RunEnd, Trial, TrialArm, TrialRun, Verdict};

use crate::experiment::Experiment;
use crate::name::{KSWAPD_CPU, POOL};
use crate::paired::median;

const MEBIBYTE: f64 = 1_048_576.0;

/// Other processes may use this many CPUs on average without a note about it.
const OTHERS: f64 = 0.2;
/// The hypervisor may take this many CPUs on average (steal) without a note about it.
const STOLEN: f64 = 0.01;

/// Composes the notes about a trial. `first` is the arm that all others should have been compared
/// with.
pub(crate) fn compose(
    trial: &Trial,
    runs: &[TrialRun],
    first: Option<&str>,
    experiment: &Experiment,
) -> Vec<String> {
    let all = [
        dropped_note(trial),
        baseline_note(trial, first),
        failures_note(trial, runs),
        clock_note(trial),
        contradiction_note(trial),
        pool_note(trial, runs),
        stolen_note(trial),
        others_note(trial),
        suspended_note(trial),
        host_wide_note(trial),
        experiment.counted_from.as_deref().map(counted_from_note),
        left_note(runs),
        experiment.profile.then(|| profile_note(runs)).flatten(),
        guards_note(trial),
    ];
    all.into_iter().flatten().collect()
}

fn dropped_note(trial: &Trial) -> Option<String> {
    let all: Vec<String> =
        trial.dropped.iter().map(|gone| format!("{}: {}", gone.arm, gone.why)).collect();
    (!all.is_empty()).then(|| format!("given up: {}", all.join("; ")))
}

fn baseline_note(trial: &Trial, first: Option<&str>) -> Option<String> {
    let now = &trial.arms.first()?.name;
    let first = first.filter(|first| first != now)?;
    Some(format!("{first} was given up, so the others are compared with {now}"))
}

fn clock_note(trial: &Trial) -> Option<String> {
    let what = match trial.clock {
        Clock::Real => return None,
        Clock::Emulated => "neither time nor processor time is judged, only counts",
        Clock::Counted => {
            "seconds of processor time are a count of instructions, and time is not judged"
        }
    };
    let message = trial.metrics.iter().any(|metric| metric.kind == MetricKind::Said);
    let own = if message { "; what the command says is judged and must not be a time" } else { "" };
    Some(format!("the machine was emulated: {what}{own}"))
}

/// Returns a note if CPU samples were requested but no run has any.
fn profile_note(runs: &[TrialRun]) -> Option<String> {
    if runs.iter().any(|run| !run.profile.is_empty()) {
        return None;
    }
    let ran = runs.iter().filter_map(|run| run.values.get(KSWAPD_CPU)).copied().reduce(f64::max);
    let why = match ran {
        None => "there is no kswapd to be seen here",
        Some(seconds) if seconds < 0.02 => {
            "it hardly ran: the memory limit of a cgroup does not wake it"
        }
        Some(_) => "this kernel does not let us take samples (perf_event_open)",
    };
    Some(format!("no profile of kswapd: {why}"))
}

/// A note such as `a 0 and b 2 of 7 runs failed (b: killed for lack of memory)`.
fn failures_note(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let of_arm = |name: &str| {
        let failed = runs.iter().filter(|run| run.arm == name && !run.end.is_good());
        let failed: Vec<&TrialRun> = failed.collect();
        let how = failed.first().map(|run| (describe_end(run.end), run.number))?;
        Some(format!("{} of {name} failed (run {}: {})", runs_word(failed.len()), how.1, how.0))
    };
    let is_gone = |arm: &&TrialArm| trial.dropped.iter().any(|gone| gone.arm == arm.name);
    let kept = trial.arms.iter().filter(|arm| !is_gone(arm));
    let lines: Vec<String> = kept.filter_map(|arm| of_arm(&arm.name)).collect();
    (!lines.is_empty())
        .then(|| format!("{}; pairs with such a run are not compared", lines.join("; ")))
}

fn runs_word(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

/// Describes how a run ended.
#[must_use]
pub fn describe_end(end: RunEnd) -> String {
    match end {
        RunEnd::Exited { status } => format!("exit status {status}"),
        RunEnd::Killed { signal } => format!("killed by signal {signal}"),
        RunEnd::OutOfMemory { .. } => "killed for lack of memory".to_owned(),
        RunEnd::TimedOut => "it took too long and was ended".to_owned(),
        RunEnd::NotRun => "it was not run".to_owned(),
    }
}

/// Returns a note if another metric contradicts the primary metric.
fn contradiction_note(trial: &Trial) -> Option<String> {
    let opposite = match trial.verdict {
        Verdict::Better => Verdict::Worse,
        Verdict::Worse => Verdict::Better,
        Verdict::Equivalent | Verdict::Undecided => return hidden_note(trial),
    };
    let against = trial.metrics.iter().skip(1).filter(|guard| guard.verdict == opposite);
    let names: Vec<&str> = against.map(|guard| guard.name.as_str()).collect();
    let says = if names.len() == 1 { "says" } else { "say" };
    (!names.is_empty()).then(|| format!("{} {says} the opposite", names.join(", ")))
}

/// Returns a note if counts or CPU time differ but elapsed time does not.
fn hidden_note(trial: &Trial) -> Option<String> {
    let primary = trial.metrics.first().filter(|primary| primary.kind == MetricKind::Time)?;
    let differs = trial.metrics.iter().skip(1).filter(|guard| {
        guard.kind < MetricKind::Time && matches!(guard.verdict, Verdict::Better | Verdict::Worse)
    });
    let names: Vec<&str> = differs.map(|guard| guard.name.as_str()).collect();
    let what = format!(
        "{} does not show it, but {} differs, which is to be trusted more",
        primary.name,
        names.join(", ")
    );
    (!names.is_empty()).then_some(what)
}

/// Returns a note with the RAM that compressed pages took in each arm, if one arm is better and
/// they differ in this: the gain may merely be due to more memory.
fn pool_note(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    if !matches!(trial.verdict, Verdict::Better | Verdict::Worse) {
        return None;
    }
    let of_arm = |arm: &TrialArm| {
        let own = runs.iter().filter(|run| run.arm == arm.name && run.pair.is_some());
        let values: Vec<f64> = own.filter_map(|run| run.values.get(POOL)).copied().collect();
        median(&values).unwrap_or(0.0)
    };
    let taken: Vec<(&str, f64)> =
        trial.arms.iter().map(|arm| (arm.name.as_str(), of_arm(arm))).collect();
    let most = taken.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    let least = taken.iter().map(|(_, bytes)| *bytes).fold(f64::INFINITY, f64::min);
    if most < MEBIBYTE || least > most * 0.9 {
        return None;
    }
    let lines: Vec<String> =
        taken.iter().map(|(arm, bytes)| format!("{arm} {:.1} MiB", bytes / MEBIBYTE)).collect();
    Some(format!("compressed pages took RAM besides what the command used: {}", lines.join(", ")))
}

fn stolen_note(trial: &Trial) -> Option<String> {
    let kept = trial.noise.stolen_processors.filter(|kept| *kept >= STOLEN)?;
    Some(format!(
        "the host of this virtual machine kept {kept:.2} processors meanwhile: times say less than counts"
    ))
}

fn others_note(trial: &Trial) -> Option<String> {
    let busy = trial.noise.others_processors.filter(|busy| *busy >= OTHERS)?;
    Some(format!(
        "others kept {busy:.1} processors busy meanwhile: times vary more than they need to"
    ))
}

fn suspended_note(trial: &Trial) -> Option<String> {
    let slept = trial.noise.slept_seconds;
    (slept >= 0.1).then(|| format!("the machine slept for {slept:.1} s meanwhile"))
}

fn host_wide_note(trial: &Trial) -> Option<String> {
    let wide = trial.metrics.iter().filter(|metric| metric.host_wide);
    let names: Vec<&str> = wide.map(|metric| metric.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("counted for the whole host: {}", names.join(", ")))
}

fn counted_from_note(line: &str) -> String {
    format!(
        "events, CPU time and memory-stall are counted from the command's line {line:?} on; time, \
         and the peaks swap-used, pool and peak-memory, are those of the whole run"
    )
}

fn left_note(runs: &[TrialRun]) -> Option<String> {
    let with = runs.iter().filter(|run| run.left > 0).count();
    let what = || {
        format!(
            "{} left processes running; they were ended, and their processor time counts",
            runs_word(with)
        )
    };
    (with > 0).then(what)
}

fn guards_note(trial: &Trial) -> Option<String> {
    let guards = trial.metrics.iter().skip(1).filter(|metric| metric.interval.is_some()).count();
    (guards > 0).then(|| {
        "the first metric decides; each of the others is judged alone, so that of 20 that do not \
         differ one seems to"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::testing::{experiment, run};

    /// Makes runs in which b takes half the time of a, with compressed pools of these sizes in MiB.
    fn runs(a_pool: Option<f64>, b_pool: Option<f64>) -> Vec<TrialRun> {
        let one = |number: u32, arm: &str, pair, seconds: f64, pool: Option<f64>| {
            let mut run = run(number, arm, Some(pair), RunEnd::Exited { status: 0 });
            run.values.insert("time".to_owned(), seconds + f64::from(number) / 1000.0);
            run.values.extend(pool.map(|mib| (POOL.to_owned(), mib * MEBIBYTE)));
            run
        };
        (1..=7)
            .flat_map(|pair| {
                [one(2 * pair, "a", pair, 2.0, a_pool), one(2 * pair + 1, "b", pair, 1.0, b_pool)]
            })
            .collect()
    }

    #[test]
    fn what_a_pool_took_stands_beside_the_gain() {
        let notes = |a, b| judge(&experiment(&["a", "b"]), &runs(a, b)).notes.join("\n");
        let listed =
            "compressed pages took RAM besides what the command used: a 0.0 MiB, b 45.0 MiB";
        assert!(notes(None, Some(45.0)).contains(listed), "{}", notes(None, Some(45.0)));
        assert!(!notes(Some(44.0), Some(45.0)).contains("compressed pages"));
        assert!(!notes(None, None).contains("compressed pages"));
    }
}
