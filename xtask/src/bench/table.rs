// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements beside promises → a Markdown table.

use super::spread::Spread;

/// How a value is shown; values themselves are seconds, bytes or plain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    Percent,
    Kibibytes,
    Mebibytes,
    Times,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => format!("{value:.2} s"),
            Self::Percent => format!("{:.1} %", value * 100.0),
            Self::Milliseconds => format!("{:.2} ms", value * 1e3),
            Self::Kibibytes => format!("{:.0} KiB", value / 1024.0),
            Self::Mebibytes => format!("{:.2} MiB", value / f64::from(1 << 20)),
            Self::Times => format!("{value:.2} x"),
        }
    }
}

/// One measured thing.
#[derive(Debug)]
pub(crate) struct Row {
    what: &'static str,
    unit: Unit,
    /// The value that a promise is held against.
    value: f64,
    spread: Option<Spread>,
    promised: Option<Promise>,
}

/// What a value may be.
#[derive(Debug, Clone, Copy)]
enum Promise {
    AtMost(f64),
    AtLeast(f64),
}

impl Row {
    /// Promised of the median. `None` without measurements.
    pub(crate) fn median(
        what: &'static str,
        unit: Unit,
        spread: Option<Spread>,
        at_most: Option<f64>,
    ) -> Option<Self> {
        let promised = at_most.map(Promise::AtMost);
        Some(Self { what, unit, value: spread?.median, spread, promised })
    }

    /// Promised of every run.
    pub(crate) fn largest(
        what: &'static str,
        unit: Unit,
        spread: Option<Spread>,
        at_most: Option<f64>,
    ) -> Option<Self> {
        let promised = at_most.map(Promise::AtMost);
        Some(Self { what, unit, value: spread?.largest, spread, promised })
    }

    /// Promised of the median, which is to be no less. `None` without measurements.
    pub(crate) fn at_least(
        what: &'static str,
        unit: Unit,
        spread: Option<Spread>,
        least: f64,
    ) -> Option<Self> {
        let promised = Some(Promise::AtLeast(least));
        Some(Self { what, unit, value: spread?.median, spread, promised })
    }

    /// A size that does not change from run to run.
    pub(crate) fn once(what: &'static str, bytes: u64, at_most: u64) -> Option<Self> {
        let promised = Some(Promise::AtMost(at_most as f64));
        Some(Self { what, unit: Unit::Mebibytes, value: bytes as f64, spread: None, promised })
    }

    /// Whether what was promised was reached; so it is where nothing was promised.
    pub(crate) fn kept(&self) -> bool {
        self.promised.is_none_or(|promised| match promised {
            Promise::AtMost(most) => self.value <= most,
            Promise::AtLeast(least) => self.value >= least,
        })
    }

    fn cells(&self) -> [String; 6] {
        let show = |value| self.unit.show(value);
        let range = |pick: fn(&Spread) -> (f64, f64)| {
            self.spread.as_ref().map_or("–".to_owned(), |spread| {
                let (low, high) = pick(spread);
                format!("{} to {}", show(low), show(high))
            })
        };
        let median = self.spread.map_or(self.value, |spread| spread.median);
        let promised = match self.promised {
            None => "–".to_owned(),
            Some(Promise::AtMost(most)) => format!("at most {}", show(most)),
            Some(Promise::AtLeast(least)) => format!("at least {}", show(least)),
        };
        let verdict = match (self.promised, self.kept()) {
            (None, _) => "–",
            (Some(_), true) => "yes",
            (Some(_), false) => "no",
        };
        [
            self.what.to_owned(),
            show(median),
            range(|spread| (spread.lower_quarter, spread.upper_quarter)),
            range(|spread| (spread.smallest, spread.largest)),
            promised,
            verdict.to_owned(),
        ]
    }
}

/// The whole table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let head = ["what", "median", "middle half", "all runs", "promised", "kept"];
    let lines = rows.iter().map(Row::cells);
    let lines = [head.map(str::to_owned), head.map(|_| "---".to_owned())].into_iter().chain(lines);
    lines.map(|cells| format!("| {} |", cells.join(" | "))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_held_against_the_median_or_the_largest() {
        let spread = Spread::of(&[0.010, 0.020, 0.040]);
        assert!(Row::median("cpu", Unit::Milliseconds, spread, Some(0.020)).unwrap().kept());
        assert!(!Row::largest("cpu", Unit::Milliseconds, spread, Some(0.020)).unwrap().kept());
        assert!(Row::median("cpu", Unit::Milliseconds, spread, None).unwrap().kept());
        assert!(Row::median("cpu", Unit::Milliseconds, None, None).is_none());
        assert!(Row::at_least("cpu", Unit::Milliseconds, spread, 0.020).unwrap().kept());
        assert!(!Row::at_least("cpu", Unit::Milliseconds, spread, 0.021).unwrap().kept());
    }

    #[test]
    fn every_row_shows_its_spread_and_promise() {
        let cpu = Row::median("cpu", Unit::Milliseconds, Spread::of(&[0.01, 0.02]), Some(0.001));
        let size = Row::once("size", 3 << 20, 8 << 20);
        let table = markdown(&[cpu.unwrap(), size.unwrap()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| cpu | 15.00 ms | 12.50 ms to 17.50 ms | 10.00 ms to 20.00 ms | at most 1.00 ms | no |"
        );
        assert_eq!(lines[3], "| size | 3.00 MiB | – | – | at most 8.00 MiB | yes |");
    }
}
