// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines from the raw runs which arms were dropped, and which arms are left to be compared.
//!
//! If this machine refuses the settings of an arm, or if the arm's command is repeatedly killed for
//! lack of memory or exceeds its deadline, this is the result for that arm, and the other arms
//! continue. At least two arms are always kept, because a single one cannot be compared; if one of
//! the last two fails, the program that runs the experiment reports an error. If a command fails by
//! itself, this is not a result of its arm.
//!
//! The result depends only on the runs and their order, so that judging them again gives the same
//! result.

use pagewise_model::{RunEnd, TrialArm, TrialDropped, TrialRun};

use crate::experiment::Experiment;

/// Number of consecutive failed runs after which an arm is dropped.
const IN_A_ROW: usize = 3;
/// Number of failed runs in pairs, whether consecutive or not, after which an arm is dropped.
const ALTOGETHER: usize = 4;

/// Whether a run ended in this way because of the settings of its arm.
pub fn is_caused_by_arm(end: RunEnd) -> bool {
    matches!(end, RunEnd::OutOfMemory { .. } | RunEnd::TimedOut)
}

/// Returns the dropped arms in the order in which they were dropped.
pub fn find_dropped_arms(experiment: &Experiment, runs: &[TrialRun]) -> Vec<TrialDropped> {
    let mut dropped: Vec<TrialDropped> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        if experiment.arms.len() <= dropped.len() + 2 {
            break;
        }
        let is_new = !dropped.iter().any(|gone| gone.arm == run.arm);
        let is_known = experiment.arms.iter().any(|arm| arm.name == run.arm);
        if let Some(why) = explain_drop(experiment, &runs[..=at]).filter(|_| is_new && is_known) {
            let bad = runs.iter().filter(|other| other.arm == run.arm && !other.end.is_good());
            let failed_runs = u32::try_from(bad.count()).unwrap_or(u32::MAX);
            dropped.push(TrialDropped { arm: run.arm.clone(), why, failed_runs });
        }
    }
    dropped
}

/// Returns the arms that were not dropped.
pub fn find_kept_arms<'a>(
    experiment: &'a Experiment,
    dropped: &[TrialDropped],
) -> Vec<&'a TrialArm> {
    let is_gone = |arm: &&TrialArm| dropped.iter().any(|gone| gone.arm == arm.name);
    experiment.arms.iter().filter(|arm| !is_gone(arm)).collect()
}

/// Returns why the arm of the last run must be dropped after that run; `None` if the arm continues.
fn explain_drop(experiment: &Experiment, runs: &[TrialRun]) -> Option<String> {
    let last = runs.last()?;
    if last.end == RunEnd::NotRun {
        return Some(last.refused.clone().unwrap_or_else(|| "it was refused".to_owned()));
    }
    if !is_caused_by_arm(last.end) {
        return None;
    }
    let of_arm: Vec<&TrialRun> = runs.iter().filter(|run| run.arm == last.arm).collect();
    let bad = of_arm.iter().filter(|run| is_caused_by_arm(run.end)).count();
    let in_pairs =
        of_arm.iter().filter(|run| run.pair.is_some() && is_caused_by_arm(run.end)).count();
    let in_a_row = of_arm.iter().rev().take_while(|run| is_caused_by_arm(run.end)).count();
    let is_first = experiment.arms.first().is_some_and(|arm| arm.name == last.arm);
    let warm_ups = experiment.warm_up as usize + usize::from(is_first);
    let never_warm = last.pair.is_none() && in_a_row >= warm_ups;
    let is_enough = in_a_row >= IN_A_ROW || in_pairs >= ALTOGETHER || never_warm;
    is_enough.then(|| format!("{} in {bad} of {} runs", describe_failure(last.end), of_arm.len()))
}

fn describe_failure(end: RunEnd) -> &'static str {
    match end {
        RunEnd::TimedOut => "it took too long",
        _ => "killed for lack of memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{experiment, run};

    const OUT: RunEnd = RunEnd::OutOfMemory { kills: 1 };
    const GOOD: RunEnd = RunEnd::Exited { status: 0 };

    fn runs(of: &[(&str, Option<u32>, RunEnd)]) -> Vec<TrialRun> {
        let numbered = (1..).zip(of);
        numbered.map(|(number, (arm, pair, end))| run(number, arm, *pair, *end)).collect()
    }

    fn dropped_names(arms: &[&str], of: &[(&str, Option<u32>, RunEnd)]) -> Vec<(String, String)> {
        let found = super::find_dropped_arms(&experiment(arms), &runs(of));
        found.into_iter().map(|gone| (gone.arm, gone.why)).collect()
    }

    #[test]
    fn an_arm_whose_warm_up_is_killed_is_given_up() {
        let warm = [("a", None, OUT), ("a", None, OUT), ("b", None, GOOD), ("c", None, GOOD)];
        let expected = ("a".to_owned(), "killed for lack of memory in 2 of 2 runs".to_owned());
        assert_eq!(dropped_names(&["a", "b", "c"], &warm), [expected]);
        assert!(dropped_names(&["a", "b", "c"], &warm[..1]).is_empty(), "its warm-up is not over");
        assert!(dropped_names(&["a", "b"], &warm).is_empty(), "two are always kept");
    }

    #[test]
    fn three_in_a_row_or_four_of_all_are_an_answer() {
        let of = |ends: &[RunEnd]| {
            let warm = ["a", "a", "b", "c"].map(|arm| (arm, None, GOOD));
            let pairs = (1..).zip(ends).map(|(pair, end)| ("c", Some(pair), *end));
            dropped_names(&["a", "b", "c"], &warm.into_iter().chain(pairs).collect::<Vec<_>>())
        };
        assert!(of(&[OUT, OUT, GOOD, OUT]).is_empty());
        let late = RunEnd::TimedOut;
        assert_eq!(of(&[GOOD, late, late, late])[0].1, "it took too long in 3 of 5 runs");
        assert_eq!(
            of(&[OUT, GOOD, OUT, GOOD, OUT, OUT])[0].1,
            "killed for lack of memory in 4 of 7 runs"
        );
        assert!(of(&[RunEnd::Exited { status: 1 }; 5]).is_empty(), "that is the command's");
    }

    #[test]
    fn what_was_refused_says_why() {
        let mut all = runs(&[("a", None, GOOD), ("b", None, RunEnd::NotRun), ("c", None, GOOD)]);
        all[1].refused = Some("zram: no such module".to_owned());
        let found = super::find_dropped_arms(&experiment(&["a", "b", "c"]), &all);
        let expected = TrialDropped {
            arm: "b".to_owned(),
            why: "zram: no such module".to_owned(),
            failed_runs: 1,
        };
        assert_eq!(found, [expected]);
    }
}
