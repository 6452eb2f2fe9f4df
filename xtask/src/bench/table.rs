// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints measurements, and the promises for them, as a Markdown table.

use anyhow::{Context, Result, ensure};

use super::spread::Spread;

/// The unit in which a value is printed. The value itself is in seconds, in bytes, or without a
/// unit.
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
    fn format_value(self, value: f64) -> String {
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

/// The promised limit for the quantity in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Promise {
    Nothing,
    /// The promise is an upper limit of the median of the runs.
    AtMost(f64),
    /// The promise is a lower limit of the median of the runs.
    AtLeast(f64),
    /// The promise is an upper limit of every run.
    EachAtMost(f64),
}

/// One measured quantity, with its promise.
#[derive(Debug)]
pub(crate) struct Row {
    what: String,
    unit: Unit,
    spread: Spread,
    promise: Promise,
}

impl Row {
    /// A row for these measurements; `None` if there are none.
    pub(crate) fn new(
        what: impl Into<String>,
        unit: Unit,
        values: &[f64],
        promise: Promise,
    ) -> Option<Self> {
        Some(Self { what: what.into(), unit, spread: Spread::of(values)?, promise })
    }

    /// Whether the measurements meet the promise; true if there is no promise.
    fn is_kept(&self) -> bool {
        match self.promise {
            Promise::Nothing => true,
            Promise::AtMost(most) => self.spread.median <= most,
            Promise::AtLeast(least) => self.spread.median >= least,
            Promise::EachAtMost(most) => self.spread.largest <= most,
        }
    }

    pub(super) fn cells(&self) -> [String; 6] {
        let show = |value| self.unit.format_value(value);
        let range = |low, high| match self.spread.runs {
            1 => "–".to_owned(),
            _ => format!("{} to {}", show(low), show(high)),
        };
        let promised = match self.promise {
            Promise::Nothing => "–".to_owned(),
            Promise::AtMost(most) | Promise::EachAtMost(most) => format!("at most {}", show(most)),
            Promise::AtLeast(least) => format!("at least {}", show(least)),
        };
        let verdict = match self.promise {
            Promise::Nothing => "–",
            _ if self.is_kept() => "yes",
            _ => "no",
        };
        [
            self.what.clone(),
            show(self.spread.median),
            range(self.spread.lower_quarter, self.spread.upper_quarter),
            range(self.spread.smallest, self.spread.largest),
            promised,
            verdict.to_owned(),
        ]
    }
}

/// Prints the table; returns an error if a row has no measurement or a promise was not met.
pub(crate) fn print(machine: &str, rows: impl IntoIterator<Item = Option<Row>>) -> Result<()> {
    let rows: Vec<Row> =
        rows.into_iter().collect::<Option<_>>().context("no round was measured")?;
    println!("{machine}\n\n{}", markdown(&rows));
    ensure!(rows.iter().all(Row::is_kept), "a promise is not kept");
    Ok(())
}

fn markdown(rows: &[Row]) -> String {
    let head = ["what", "median", "middle half", "all runs", "promised", "kept"];
    lines(head, rows.iter().map(Row::cells))
}

/// The lines of a Markdown table with these columns.
pub(crate) fn lines<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let lines = [head.map(str::to_owned), head.map(|_| "---".to_owned())].into_iter().chain(rows);
    lines.map(|cells| format!("| {} |", cells.join(" | "))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_held_against_the_median_or_the_largest() {
        for (promise, kept) in [
            (Promise::AtMost(0.020), true),
            (Promise::EachAtMost(0.020), false),
            (Promise::Nothing, true),
            (Promise::AtLeast(0.020), true),
            (Promise::AtLeast(0.021), false),
        ] {
            let row = Row::new("cpu", Unit::Milliseconds, &[0.010, 0.020, 0.040], promise).unwrap();
            assert_eq!(row.is_kept(), kept, "{promise:?}");
        }
        assert!(Row::new("cpu", Unit::Milliseconds, &[], Promise::Nothing).is_none());
        assert!(print("", [None]).is_err());
    }

    #[test]
    fn every_row_shows_its_spread_and_promise() {
        let row = |what, unit, values: &[f64], most| {
            Row::new(what, unit, values, Promise::AtMost(most)).unwrap()
        };
        let mib = f64::from(1 << 20);
        let cpu = row("cpu", Unit::Milliseconds, &[0.01, 0.02], 0.001);
        let table = markdown(&[cpu, row("size", Unit::Mebibytes, &[3.0 * mib], 8.0 * mib)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| cpu | 15.00 ms | 12.50 ms to 17.50 ms | 10.00 ms to 20.00 ms | at most 1.00 ms | no |"
        );
        assert_eq!(lines[3], "| size | 3.00 MiB | – | – | at most 8.00 MiB | yes |");
    }
}
