// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab workload`: runs one of the workloads of experiments in this process.
//!
//! The last line of output is the result, for the conductor; on a terminal a table is printed
//! before it. This process must have a single thread, because `coldpages` forks, so the progress
//! bar is drawn only when the workload reports progress. Ctrl-C ends the process in the default
//! way, because nothing has to be undone.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use pagewise_model::Name;
use pagewise_stats::SAID;
use pagewise_terminal::progress::WorkloadBar;
use pagewise_terminal::{Global, Outcome, exit, output, trouble};
use pagewise_workload::{self as workload, Workload, WorkloadSummary};

use crate::cli::lab as args;

pub(super) fn run<P: Parser>(global: &Global, args: &args::Workload) -> anyhow::Result<Outcome> {
    let workload = match requested_workload(args) {
        Ok(workload) => workload,
        Err(why) => {
            let why = Name::from(why.to_string().as_str());
            trouble::print_usage_error::<P>(&P::command().error(ErrorKind::ValueValidation, why));
            return Ok(Outcome::Status(exit::USAGE));
        }
    };
    let mut shown = WorkloadBar::start(global);
    let watched = std::io::stdout().is_terminal() && !global.json;
    let mut progress = |what: &str, share| shown.show_step(what, share);
    let summary = workload::run(&workload, &mut progress, &mut |line| print_mark(watched, line));
    drop(shown);
    let message = summary?;
    let table = if watched { table(&message) } else { String::new() };
    let answer = serde_json::to_string(&message)?;
    output::print_text(&format!("{table}{answer}\n"), false)?;
    Ok(Outcome::Done)
}

/// Prints a mark of the workload's progress for the conductor, and then sleeps for [`MARKED`],
/// unless a progress bar is shown.
fn print_mark(watched: bool, line: &str) {
    if !watched {
        // if the reader is gone, printing the result fails too, and that error is reported
        let _ = output::print_text(&format!("{line}\n"), false);
        std::thread::sleep(MARKED);
    }
}

fn requested_workload(args: &args::Workload) -> Result<Workload, workload::Error> {
    match (&args.described, &args.kind) {
        (Some(text), _) => Workload::from_description(text),
        (None, kind) => Workload::from_words(kind.as_deref().unwrap_or_default(), &args.settings),
    }
}

/// The result of a workload as text: a line for each value, and the values over time.
fn table(summary: &WorkloadSummary) -> String {
    let known = SAID.iter().filter_map(|known| Some((known, summary.values.get(known.name)?)));
    let lines = known.map(|(known, value)| {
        let shown = format_number(*value, known.unit);
        format!("  {:<22} {shown:>12}  {}\n", known.name, known.doc)
    });
    let points = summary.course.iteration_seconds.len();
    let course = match summary.course.settled_at {
        _ if points == 0 => String::new(),
        Some(at) => format!("  steady from point {} of {points} on\n", at + 1),
        None => "  it never settled: the values are those of the second half\n".to_owned(),
    };
    format!("workload {}\n{}{course}\n", summary.workload, lines.collect::<String>())
}

fn format_number(value: f64, unit: &str) -> String {
    match unit {
        "seconds" if value < 1e-3 => format!("{:.2} us", value * 1e6),
        "seconds" if value < 1.0 => format!("{:.2} ms", value * 1e3),
        "seconds" => format!("{value:.2} s"),
        "share" => format!("{value:.3}"),
        _ => format!("{value:.0}"),
    }
}

/// How long the workload sleeps after a mark: enough for a conductor on the same CPU to wake up and
/// to stop this process.
const MARKED: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_each_value_with_its_unit() {
        let values = [("precision", 0.5), ("p50", 0.000_002), ("settling", 3.0)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let message =
            WorkloadSummary { workload: "swap".to_owned(), values, ..WorkloadSummary::default() };
        let table = table(&message);
        for part in ["precision", "0.500", "2.00 us", "3.00 s"] {
            assert!(table.contains(part), "{table}");
        }
    }
}
