// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the JSON document of `trial` or `lab replay` into [`Tried`].

use pagewise_facts::swap_choice::{Compression, SwapTrial};
use pagewise_model::{Clock, Ends, TrialArm, Verdict};
use serde::Deserialize;

/// The parts of a trial that a plan uses.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tried {
    primary: String,
    verdict: Verdict,
    pairs: u32,
    arms: Vec<TrialArm>,
    metrics: Vec<Metric>,
    #[serde(default)]
    others: Vec<Comparison>,
    #[serde(default)]
    clock: Clock,
    #[serde(default)]
    command: Vec<String>,
}

/// The comparison of an arm (variant) of a trial with the first arm.
#[derive(Debug, Clone, Deserialize)]
struct Comparison {
    arm: String,
    verdict: Verdict,
    pairs: u32,
    metrics: Vec<Metric>,
}

#[derive(Debug, Clone, Deserialize)]
struct Metric {
    name: String,
    higher_is_better: bool,
    b_per_a: Option<f64>,
    interval: Option<Ends<f64>>,
}

/// The arm of a trial that was found to be better.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Winner<'a> {
    pub(crate) arm: &'a TrialArm,
    loser: &'a TrialArm,
    /// The winner's value of the primary metric divided by the loser's value.
    ratio: f64,
    interval: Ends<f64>,
    pairs: u32,
}

/// An arm of a trial compared with the first arm.
#[derive(Debug, Clone, Copy)]
struct ComparedArm<'a> {
    verdict: Verdict,
    higher_is_better: bool,
    /// The arm as if it had won against the first arm, whatever the verdict is.
    as_winner: Winner<'a>,
}

impl ComparedArm<'_> {
    /// Returns a number by which arms are compared: smaller is better.
    fn score(&self) -> f64 {
        if self.higher_is_better { -self.as_winner.ratio } else { self.as_winner.ratio }
    }
}

impl Tried {
    /// Returns the arm that was found to be better than the first arm; the first arm, if it is
    /// better than the only other arm.
    ///
    /// # Errors
    /// If no arm is better; the error is the reason, as a sentence without a full stop.
    pub(crate) fn find_winner(&self) -> Result<Winner<'_>, String> {
        let Some((first, later)) = self.arms.split_first() else {
            return Err("the trial has no arms".to_owned());
        };
        let arm = |name: &str| later.iter().find(|arm| arm.name == name);
        let second = later
            .first()
            .and_then(|arm| self.compare_arm(first, arm, self.verdict, self.pairs, &self.metrics));
        let others = self.others.iter().filter_map(|it| {
            self.compare_arm(first, arm(&it.arm)?, it.verdict, it.pairs, &it.metrics)
        });
        let compared: Vec<ComparedArm<'_>> = second.into_iter().chain(others).collect();
        let better = compared.iter().filter(|it| it.verdict == Verdict::Better);
        if let Some(best) = better.min_by(|one, other| one.score().total_cmp(&other.score())) {
            return Ok(best.as_winner);
        }
        match compared.as_slice() {
            [ComparedArm { verdict: Verdict::Worse, as_winner: it, .. }]
                if it.ratio > 0.0 && it.interval[0] > 0.0 =>
            {
                Ok(Winner {
                    arm: it.loser,
                    loser: it.arm,
                    ratio: 1.0 / it.ratio,
                    interval: [1.0 / it.interval[1], 1.0 / it.interval[0]],
                    pairs: it.pairs,
                })
            }
            _ => Err(format!(
                "the trial with {} shows no arm to be better in {} than the first one",
                self.program(),
                self.primary
            )),
        }
    }

    /// Compares an arm with the first arm in the primary metric; `None` if there is no confidence
    /// interval.
    fn compare_arm<'a>(
        &self,
        first: &'a TrialArm,
        arm: &'a TrialArm,
        verdict: Verdict,
        pairs: u32,
        metrics: &[Metric],
    ) -> Option<ComparedArm<'a>> {
        let metric = metrics.iter().find(|metric| metric.name == self.primary)?;
        let (ratio, interval) = (metric.b_per_a?, metric.interval?);
        let as_winner = Winner { arm, loser: first, ratio, interval, pairs };
        Some(ComparedArm { verdict, higher_is_better: metric.higher_is_better, as_winner })
    }

    /// Returns whether zram or zswap was better, if one arm used zram and the other zswap on a real
    /// machine.
    pub(crate) fn find_better_swap(&self) -> Option<SwapTrial> {
        let winner = self.find_winner().ok().filter(|_| self.is_of_real_machine())?;
        let better = compression_of_arm(winner.arm)?;
        let differs = compression_of_arm(winner.loser)? != better;
        differs.then(|| SwapTrial { better, told: self.describe_winner(&winner) })
    }

    /// Whether the times were measured on a real machine and not in a guest.
    pub(crate) fn is_of_real_machine(&self) -> bool {
        self.clock == Clock::Real
    }

    /// Returns the program that ran in the trial: the first word of its command, without folders.
    fn program(&self) -> String {
        let first = self.command.first().map_or("a command", String::as_str);
        format!("`{}`", first.rsplit('/').next().unwrap_or(first))
    }

    /// Returns the result of the trial as a sentence on one line, whatever the document contains.
    pub(crate) fn describe_winner(&self, winner: &Winner<'_>) -> String {
        let Winner { arm, loser, ratio, interval, pairs } = *winner;
        let change = |ratio: f64| (ratio - 1.0).abs() * 100.0;
        let (word, [one, other]) =
            if ratio < 1.0 { ("lower", [interval[1], interval[0]]) } else { ("higher", interval) };
        format!(
            "In a trial with {} ({pairs} pairs of runs), {} was {:.1} % {word} with {} than with {} (95 % \
             interval {:.1} to {:.1} %)",
            self.program(),
            self.primary,
            change(ratio),
            describe(arm),
            describe(loser),
            change(one),
            change(other),
        )
        .replace(char::is_control, " ")
    }
}

/// Returns what compresses the swapped pages of an arm that has its own swap.
fn compression_of_arm(arm: &TrialArm) -> Option<Compression> {
    let areas = serde_json::to_value(arm.swap.as_ref()?).ok()?;
    compression_of_areas(&areas)
}

/// Returns what compresses the pages of these swap areas, which are in the document's own format.
/// zswap compresses the pages of all areas after it.
fn compression_of_areas(areas: &serde_json::Value) -> Option<Compression> {
    let has =
        |kind: &str| areas.as_array().is_some_and(|all| all.iter().any(|it| it["kind"] == kind));
    match (has("zswap"), has("zram")) {
        (true, _) => Some(Compression::Zswap),
        (false, true) => Some(Compression::Zram),
        (false, false) => None,
    }
}

/// Describes the settings of an arm.
fn describe(arm: &TrialArm) -> String {
    let set: Vec<String> =
        arm.settings.iter().map(|set| format!("{} = {}", set.knob, set.value)).collect();
    match set.as_slice() {
        [] => "the settings that the machine had".to_owned(),
        set => set.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zswap_stands_in_front_of_other_swap_of_its_arm() {
        let file = json!({"kind": "file", "size_bytes": 1 << 30});
        let zram = json!({"kind": "zram", "size_bytes": 1 << 29});
        let zswap = json!({"kind": "zswap", "algorithm": "lz4"});
        assert_eq!(compression_of_areas(&json!([zswap, file])), Some(Compression::Zswap));
        assert_eq!(compression_of_areas(&json!([zram, file])), Some(Compression::Zram));
        assert_eq!(compression_of_areas(&json!([file])), None);
        assert_eq!(compression_of_areas(&json!([])), None);
    }
}
