// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be measured of a run, and a regular expression → a number out of a command's output.

use std::fmt;

use pagewise_model::MetricKind;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::workload;

/// A metric that every run has where the host tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name, as typed and printed.
    pub name: &'static str,
    /// What it is measured in.
    pub unit: &'static str,
    /// What it is of.
    pub kind: MetricKind,
    /// Whether more of it is wanted.
    pub higher_is_better: bool,
    /// One sentence: where it comes from.
    pub doc: &'static str,
}

/// In the order in which they are to be trusted: counts, then processor time, then time.
pub const KNOWN: &[Known] = &[
    count(MAJOR_FAULTS, "count", "faults that had to read something, of the command's processes"),
    count(REFAULTS, "pages", "pages read again soon after they were dropped or swapped out"),
    count(REFAULTS_ANON, "pages", "those of them that came back from swap"),
    count(REFAULTS_FILE, "pages", "those of them that came back from files"),
    count(SCANNED, "pages", "pages that reclaim looked at"),
    count(DIRECT_SCANS, "pages", "those of them that somebody had to wait for who wanted memory"),
    count(STOLEN, "pages", "pages that reclaim took"),
    share(SCAN_EFFICIENCY, "of the pages that reclaim looked at the share that it took"),
    share(KEPT_OUT, "of the pages that reclaim took the share that was not read again soon"),
    count(SWAPPED_IN, "pages", "pages read from swap devices"),
    count(SWAPPED_OUT, "pages", "pages written to swap devices"),
    count(ZSWAP_IN, "pages", "pages that came back from zswap's pool"),
    count(ZSWAP_OUT, "pages", "pages that went into zswap's pool"),
    count(
        ZERO_IN,
        "pages",
        "pages of zeros that came back, of which no device and no pool had to be asked",
    ),
    count(ZERO_OUT, "pages", "pages of zeros that were only noted, not written"),
    count(SWAP_USED, "bytes", "the most that it had in swap, looked at ten times a second"),
    count(
        POOL,
        "bytes",
        "the most memory that compressed pages took: its arm's zram devices, and zswap's pool",
    ),
    count(PEAK_MEMORY, "bytes", "the most that its cgroup used"),
    seconds(CPU, MetricKind::Cpu, "user and system time of the command and all that it started"),
    seconds(KSWAPD_CPU, MetricKind::Cpu, "processor time of kswapd, the kernel's reclaim thread"),
    seconds(TIME, MetricKind::Time, "from the command's start to its exit"),
    seconds(
        MEMORY_STALL,
        MetricKind::Time,
        "while nobody could go on for lack of memory (PSI, full)",
    ),
];

pub(super) const MAJOR_FAULTS: &str = "major-faults";
pub(super) const REFAULTS: &str = "refaults";
pub(super) const REFAULTS_ANON: &str = "refaults-anon";
pub(super) const REFAULTS_FILE: &str = "refaults-file";
pub(super) const SCANNED: &str = "scanned";
pub(super) const DIRECT_SCANS: &str = "direct-scans";
pub(super) const STOLEN: &str = "stolen";
pub(super) const SCAN_EFFICIENCY: &str = "scan-efficiency";
pub(super) const KEPT_OUT: &str = "kept-out";
pub(super) const SWAPPED_IN: &str = "swapped-in";
pub(super) const SWAPPED_OUT: &str = "swapped-out";
pub(super) const ZSWAP_IN: &str = "zswap-in";
pub(super) const ZSWAP_OUT: &str = "zswap-out";
pub(super) const ZERO_IN: &str = "zero-pages-in";
pub(super) const ZERO_OUT: &str = "zero-pages-out";
pub(super) const SWAP_USED: &str = "swap-used";
pub(super) const POOL: &str = "pool";
pub(super) const PEAK_MEMORY: &str = "peak-memory";
pub(super) const CPU: &str = "cpu";
pub(super) const KSWAPD_CPU: &str = "kswapd-cpu";
pub(super) const TIME: &str = "time";
pub(super) const MEMORY_STALL: &str = "memory-stall";

const fn count(name: &'static str, unit: &'static str, doc: &'static str) -> Known {
    Known { name, unit, kind: MetricKind::Count, higher_is_better: false, doc }
}

const fn share(name: &'static str, doc: &'static str) -> Known {
    Known { name, unit: SHARE, kind: MetricKind::Count, higher_is_better: true, doc }
}

const fn seconds(name: &'static str, kind: MetricKind, doc: &'static str) -> Known {
    Known { name, unit: "seconds", kind, higher_is_better: false, doc }
}

/// The unit of a part of a whole, from 0 to 1.
const SHARE: &str = "share";

/// The row of this name.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().chain(workload::SAID).find(|known| known.name == name)
}

/// A metric that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// A name of the table, or a regular expression with a group around a number.
    pub name: String,
    /// Whether more of it is wanted; only of what the command says itself.
    pub higher_is_better: bool,
}

impl Metric {
    /// A name of the table, or a regular expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if known(text).is_none() {
            Pattern::new(text)?;
        }
        let higher_is_better = known(text).is_some_and(|known| known.higher_is_better);
        Ok(Self { name: text.to_owned(), higher_is_better })
    }

    /// Time, which decides where nothing else was asked for.
    #[must_use]
    pub fn time() -> Self {
        Self { name: TIME.to_owned(), higher_is_better: false }
    }

    /// What it is of.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        self.known().map_or(MetricKind::Said, |known| known.kind)
    }

    /// Whether it counts events or bytes one by one.
    pub(super) fn is_whole(&self) -> bool {
        self.known().is_some_and(|known| known.kind == MetricKind::Count && known.unit != SHARE)
    }

    /// Its row in the table; none for a regular expression.
    #[must_use]
    pub fn known(&self) -> Option<&'static Known> {
        known(&self.name)
    }
}

/// More is better of all that the command says itself, which nobody else can know; false where there is
/// none of those.
pub fn prefer_more(metrics: &mut [Metric]) -> bool {
    let mut said = metrics.iter_mut().filter(|metric| metric.known().is_none()).peekable();
    let any = said.peek().is_some();
    said.for_each(|metric| metric.higher_is_better = true);
    any
}

/// Finds a number in what a command says.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let names = || KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        let wrong = |why: &dyn fmt::Display| {
            format!(
                "expected {}, or a regular expression with a group around a number: {why}",
                names()
            )
        };
        let regex = Regex::new(text).map_err(|error| wrong(&error))?;
        match regex.captures_len() {
            1 => Err(wrong(&format!("{text:?} has no group in parentheses"))),
            _ => Ok(Self(regex)),
        }
    }

    /// The number in the first group where it matches last: programs say what counts at their end.
    pub(super) fn number(&self, said: &str) -> Option<f64> {
        let last = self.0.captures_iter(said).last()?;
        let digits = last.get(1)?.as_str().trim().replace([',', '_', '\''], "");
        let number: f64 = digits.parse().ok()?;
        number.is_finite().then(|| storable(number))
    }
}

/// Rounded to 15 digits, so that its text in a file means exactly this number again.
fn storable(number: f64) -> f64 {
    format!("{number:.14e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_unique_and_in_order_of_trust() {
        assert!(KNOWN.is_sorted_by(|a, b| a.kind <= b.kind));
        for known in KNOWN {
            assert_eq!(KNOWN.iter().filter(|other| other.name == known.name).count(), 1);
            assert_eq!(Metric::parse(known.name).unwrap().known(), Some(known));
        }
    }

    #[test]
    fn the_last_match_counts_and_thousands_may_be_marked() {
        let pattern = Pattern::new(r"(?m)^throughput: ([0-9.,]+) ops").unwrap();
        let said = "throughput: 1 ops\nthroughput: 12,345.5 ops/s\nend";
        assert_eq!(pattern.number(said), Some(12345.5));
        assert_eq!(pattern.number("throughput: . ops"), None);
        assert_eq!(pattern.number(""), None);
    }

    #[test]
    fn what_cannot_name_a_number_is_refused() {
        for bad in ["tiem", "[", "a)", "no group"] {
            let why = Metric::parse(bad).unwrap_err();
            assert!(why.contains("major-faults") && why.contains("group"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn a_number_survives_its_text(number in -1e15f64..1e15) {
            let stored = storable(number);
            let text = serde_json::to_string(&stored).unwrap();
            prop_assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), stored);
            prop_assert!((stored - number).abs() <= number.abs() * 1e-14);
        }
    }
}
