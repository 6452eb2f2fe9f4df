// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns samples of the kernel's reclaim thread into a table of functions, with one column for each
//! arm.
//!
//! A share is one of the samples in the thread, not of the machine's time: a thread that hardly
//! runs can have the same shares as a busy one.

use std::collections::BTreeMap;

use pagewise_model::{Trial, TrialRun, group_digits};

use crate::phrases::total;

/// Number of functions shown in a profile.
const TOP: usize = 10;

/// The samples of an arm's profile, from all of its measured runs.
#[derive(Debug, Clone, Default)]
pub struct Samples<'a> {
    /// The arm's name.
    pub arm: &'a str,
    functions: BTreeMap<&'a str, u64>,
}

impl Samples<'_> {
    fn sum(&self) -> u64 {
        total(self.functions.values().copied())
    }

    /// The share of the arm's samples that are in a function; `None` if there are no samples.
    fn share(&self, function: &str) -> Option<f64> {
        self.share_of(self.functions.get(function).copied().unwrap_or(0))
    }

    /// The total share of samples in the arm's own most frequent functions.
    fn top_share(&self) -> Option<f64> {
        let mut counts: Vec<u64> = self.functions.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        self.share_of(total(counts.into_iter().take(TOP)))
    }

    fn share_of(&self, count: u64) -> Option<f64> {
        let sum = self.sum();
        (sum > 0).then(|| count as f64 / sum as f64)
    }
}

/// The profile's samples of each arm that has any.
pub fn samples<'a>(trial: &'a Trial, runs: &'a [TrialRun]) -> Vec<Samples<'a>> {
    let of_arm = |arm: &'a str| {
        let mut all = Samples { arm, ..Samples::default() };
        let measured = runs.iter().filter(|run| run.arm == arm && run.pair.is_some());
        for (function, count) in measured.flat_map(|run| &run.profile) {
            let sum: &mut u64 = all.functions.entry(function).or_default();
            *sum = total([*sum, *count]);
        }
        all
    };
    let all = trial.arms.iter().map(|arm| of_arm(&arm.name));
    all.filter(|samples| samples.sum() > 0).collect()
}

/// The names of the functions with the highest mean share over all arms, highest first.
fn functions<'a>(all: &[Samples<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&'a str> =
        all.iter().flat_map(|one| one.functions.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let share = |name: &str| all.iter().filter_map(|one| one.share(name)).sum::<f64>();
    names.sort_by(|a, b| share(b).total_cmp(&share(a)));
    names.truncate(TOP);
    names
}

/// The rows of the table: one for each of the most frequent functions, one for the total share of
/// an arm's own ten most frequent functions, and one for the number of samples. A row has a label
/// and a cell for each arm; a cell without a value is `none`.
pub fn rows(all: &[Samples<'_>], none: &str) -> Vec<(String, Vec<String>)> {
    let shown = |share: Option<f64>| share.map_or_else(|| none.to_owned(), format_share);
    let row = |function: &str| {
        (function.to_owned(), all.iter().map(|of| shown(of.share(function))).collect())
    };
    let mut rows: Vec<_> = functions(all).into_iter().map(row).collect();
    rows.push(("its own top ten".to_owned(), all.iter().map(|of| shown(of.top_share())).collect()));
    rows.push(("samples".to_owned(), all.iter().map(|of| group_digits(of.sum())).collect()));
    rows
}

/// A sentence that explains the table.
pub const MEANING: &str = "A share is of the thread's samples, not of the machine's time.";

/// Formats a share as `12.3 %`; a share above zero is never printed as 0.
fn format_share(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        little if little < 0.05 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples<'a>(arm: &'a str, counts: &[(&'a str, u64)]) -> Samples<'a> {
        Samples { arm, functions: counts.iter().copied().collect() }
    }

    #[test]
    fn shares_are_of_the_thread_and_the_top_is_each_arms_own() {
        let names: Vec<String> = (0..12).map(|at| format!("f{at}")).collect();
        let counts: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 10)).collect();
        let (flat, steep) = (samples("a", &counts), samples("b", &[("f3", 30), ("g", 10)]));
        assert_eq!(flat.top_share(), Some(100.0 / 120.0));
        assert_eq!(
            (steep.share("f3"), steep.share("f1"), steep.top_share()),
            (Some(0.75), Some(0.0), Some(1.0))
        );
        let all = [flat, steep, samples("c", &[])];
        assert_eq!(functions(&all)[..2], ["f3", "g"]);
        assert_eq!((functions(&all).len(), all[2].top_share()), (TOP, None));
    }
}
