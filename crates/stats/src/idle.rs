// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects a trial in which no memory was reclaimed, although its settings have an effect only
//! during reclaim.
//!
//! More pairs of such runs do not help. A lower memory limit does.

use pagewise_model::{Bytes, Trial, TrialRun};

use crate::name::{
    PEAK_MEMORY, REFAULTS, SCANNED, STOLEN, SWAP_USED, SWAPPED_OUT, ZERO_OUT, ZSWAP_OUT,
};

/// Names of settings, or prefixes of names, whose settings have an effect only during reclaim.
const OF_RECLAIM: [&str; 12] = [
    "vm.swappiness",
    "vm.page-cluster",
    "vm.page_cluster",
    "vm.vfs_cache_pressure",
    "vm.watermark_",
    "vm.min_free_kbytes",
    "mglru.",
    "zswap.",
    "zram.",
    "zmerge.",
    "cgroup.memory.swap.",
    "cgroup.memory.zswap.",
];
/// Metrics that show reclaim, each with the value below which reclaim is negligible. A run contains
/// those of them that its machine provides.
const TRACES: [(&str, f64); 7] = [
    (SCANNED, FEW_PAGES),
    (STOLEN, FEW_PAGES),
    (SWAPPED_OUT, FEW_PAGES),
    (ZSWAP_OUT, FEW_PAGES),
    (ZERO_OUT, FEW_PAGES),
    (REFAULTS, FEW_PAGES),
    (SWAP_USED, FEW_BYTES),
];
/// Number of pages per run below which reclaim is negligible, because a machine always reclaims
/// some pages.
const FEW_PAGES: f64 = 64.0;
/// Size in bytes below which reclaim is negligible.
const FEW_BYTES: f64 = 64.0 * 4096.0;
/// The suggested memory limit, as a fraction of the command's peak memory. It is small enough to
/// cause reclaim, but not so small that the command is killed.
const PART: f64 = 0.75;

/// Returns a note which says that the arms could not differ, with advice; `None` if they could
/// differ, or if this is unknown.
pub(crate) fn compose_note(trial: &Trial, runs: &[TrialRun]) -> Option<String> {
    let acting = reclaim_settings(trial)?;
    let compared = || runs.iter().filter(|run| run.pair.is_some() && run.end.is_good());
    if compared().count() == 0 || !compared().all(|run| has_reclaimed_nothing(run, trial)) {
        return None;
    }
    let peaks = compared().map(|run| run.values.get(PEAK_MEMORY).copied());
    let peak = peaks.collect::<Option<Vec<f64>>>()?.into_iter().fold(f64::INFINITY, f64::min);
    let what = format!("hardly a page was reclaimed in any run, so {acting} could not act");
    Some(format!(
        "{what}: lower --memory to about {} (the command used {})",
        round_to_mib(peak * PART),
        round_to_mib(peak)
    ))
}

/// Returns the settings of the arms if all of them have an effect only during reclaim; `None` if
/// there are other settings.
fn reclaim_settings(trial: &Trial) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for arm in &trial.arms {
        names.extend(arm.swap.iter().map(|_| "swap"));
        names.extend(arm.settings.iter().map(|set| set.knob.as_str()));
    }
    names.sort_unstable();
    names.dedup();
    let of_reclaim =
        |name: &&str| *name == "swap" || OF_RECLAIM.iter().any(|known| name.starts_with(known));
    (!names.is_empty() && names.iter().all(of_reclaim)).then(|| names.join(" and "))
}

fn has_reclaimed_nothing(run: &TrialRun, trial: &Trial) -> bool {
    let known = TRACES.iter().filter_map(|(name, few)| Some((*run.values.get(*name)?, *few)));
    let lines: Vec<(f64, f64)> = known.collect();
    let below_limit = trial.memory_limit_bytes.is_none_or(|limit| {
        run.values.get(PEAK_MEMORY).is_some_and(|peak| *peak < limit as f64 * 0.99)
    });
    !lines.is_empty() && lines.iter().all(|(count, few)| count < few) && below_limit
}

/// Rounds a size in bytes to whole MiB, so that the user can type it.
fn round_to_mib(bytes: f64) -> Bytes {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size that was measured, and is above zero"
    )]
    let mib = (bytes / f64::from(1 << 20)).ceil() as u64;
    Bytes::new(mib.max(1) << 20)
}

#[cfg(test)]
mod tests {
    use pagewise_model::{RunEnd, TrialSetting, Verdict};

    use super::*;
    use crate::experiment::Experiment;
    use crate::judge::judge;
    use crate::testing::{experiment, run};

    const MIB: f64 = 1_048_576.0;

    fn experiment_with(knob: &str) -> Experiment {
        let mut experiment = experiment(&["a", "b"]);
        experiment.arms[1].settings =
            vec![TrialSetting { knob: knob.to_owned(), value: "1".to_owned() }];
        experiment.memory_limit_bytes = Some(512 << 20);
        experiment
    }

    /// Makes pairs of runs with equal times, with this number of pages written to swap and this
    /// peak memory.
    fn runs(swapped: f64, peak_mib: f64) -> Vec<TrialRun> {
        let one = |number: u32, arm: &str, pair| {
            let mut run = run(number, arm, Some(pair), RunEnd::Exited { status: 0 });
            let values = [(REFAULTS, 0.0), (SWAPPED_OUT, swapped), (PEAK_MEMORY, peak_mib * MIB)];
            run.values.extend(values.map(|(name, value)| (name.to_owned(), value)));
            run.values.insert("time".to_owned(), 1.0 + f64::from(number % 3) / 10.0);
            run
        };
        (1..=7).flat_map(|pair| [one(2 * pair, "a", pair), one(2 * pair + 1, "b", pair)]).collect()
    }

    #[test]
    fn where_nothing_was_reclaimed_less_memory_is_advised_and_not_more_pairs() {
        let trial = judge(&experiment_with("vm.swappiness"), &runs(23.0, 200.0));
        assert_eq!(trial.verdict, Verdict::Undecided);
        assert_eq!(
            trial.notes[0],
            "hardly a page was reclaimed in any run, so vm.swappiness could not act: lower --memory to \
             about 150.0 MiB (the command used 200.0 MiB)"
        );
        assert!(trial.metrics.iter().all(|metric| metric.more_pairs.is_none()));
    }

    #[test]
    fn where_it_was_or_something_else_acts_nothing_is_said() {
        let first = |knob: &str, runs: &[TrialRun]| {
            judge(&experiment_with(knob), runs).notes.first().cloned().unwrap_or_default()
        };
        assert!(!first("vm.swappiness", &runs(300.0, 200.0)).contains("reclaimed"));
        assert!(!first("vm.swappiness", &runs(0.0, 511.0)).contains("reclaimed"));
        assert!(!first("thp.enabled", &runs(0.0, 200.0)).contains("reclaimed"));
        let mut unknown = runs(0.0, 200.0);
        unknown.iter_mut().for_each(|run| run.values.retain(|name, _| name == "time"));
        assert!(!first("vm.swappiness", &unknown).contains("reclaimed"));
    }
}
