// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file or folder for each verb; this file has what `report`, `status` and `doctor` share.

mod age;
mod agent;
mod apply;
mod bench;
mod capabilities;
mod capture;
mod command_output;
mod compare;
mod doctor;
mod explain;
mod fleet;
mod generate;
pub(crate) mod lab;
mod ledger;
mod limits;
mod merge;
mod metrics;
mod monitor;
mod names;
mod new_page;
mod oom;
mod pin;
mod plan;
mod report;
mod scan;
mod status;
mod thp;
mod trial;
mod tune;
mod undo;
mod verify;
mod why;

use std::cmp::Reverse;

use pagewise_model::{Estimate, Finding, Interval, Refusal};
use pagewise_report::Answer;
use pagewise_report::json::Noun;
use pagewise_report::text::TextStyle;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::output::{self, Printed};
use pagewise_terminal::{Global, Outcome, screen};

use crate::cli::{Cli, Verb};
use crate::{keeper, pager};

pub(crate) use merge::PassLeft;

/// Runs the verb of the command line.
pub(crate) fn run(cli: &Cli, started: CostMeter) -> anyhow::Result<Outcome> {
    let global = &cli.global;
    match cli.verb.as_ref().unwrap_or(&Verb::Report(Default::default())) {
        Verb::Report(wanted) => report::run(global, wanted, started),
        Verb::Status(wanted) => status::run(global, wanted, started),
        Verb::Top(wanted) => status::run_top(global, wanted),
        Verb::Doctor(doctor) => doctor::run(global, doctor, started),
        Verb::Oom(wanted) => oom::run(global, wanted, started),
        Verb::Why(wanted) => why::run(global, wanted, started),
        Verb::Capabilities(wanted) => capabilities::run(global, wanted, started),
        Verb::Explain(wanted) => explain::run(global, wanted, started),
        Verb::Compare(wanted) => compare::run(global, wanted, started),
        Verb::Limits(wanted) => limits::run(global, wanted, started),
        Verb::Scan(wanted) => scan::run(global, wanted, started),
        Verb::Bench(wanted) => bench::run(global, wanted, started),
        Verb::Pin(wanted) => pin::run(global, wanted, started),
        Verb::Plan(wanted) => plan::run(global, wanted, started),
        Verb::Trial(wanted) => trial::run(global, wanted, started),
        Verb::Thp(wanted) => thp::run(global, wanted, started),
        Verb::Merge(wanted) => merge::run(global, wanted, started),
        Verb::Age(wanted) => age::run(global, wanted, started),
        Verb::Apply(wanted) => apply::run(global, wanted, started),
        Verb::Verify(wanted) if wanted.history => ledger::run(global, started),
        Verb::Verify(wanted) => verify::run(global, wanted, started),
        Verb::Ledger => ledger::run(global, started),
        Verb::Tune(wanted) => tune::run(global, wanted, started),
        Verb::Undo(wanted) => undo::run(global, wanted, started),
        Verb::Agent(wanted) => agent::run(global, wanted, started),
        Verb::Fleet(wanted) => fleet::run(global, wanted, started),
        Verb::Monitor(wanted) => monitor::run(global, wanted, started),
        Verb::Metrics(wanted) => metrics::run(global, wanted, started),
        Verb::Capture(capture) => capture::run(global, capture),
        Verb::Lab(lab) => lab::run::<Cli>(global, lab, started),
        Verb::Completions { shell } => generate::print_completions(*shell),
        Verb::Man { folder } => generate::write_man_pages(folder),
        Verb::Schema { noun } => generate::print_schema(*noun),
        Verb::Names { kind, typed } => names::run(*kind, typed.as_deref().unwrap_or_default()),
        Verb::ShowInPager => pager::show_in_pager().map(|()| Outcome::Done),
        Verb::SettleFile { unfinished, path } => {
            keeper::name_or_remove_file(unfinished, path).map(|()| Outcome::Done)
        }
    }
}

/// The findings from the snapshots and from the page contents that were sampled, the most severe
/// first. The last command of each finding is `pagewise explain SUBJECT`, if its rule has a
/// subject.
fn findings(interval: &Interval, estimates: &[Estimate]) -> Vec<Finding> {
    let mut all = pagewise_decide::diagnose(interval);
    all.extend(pagewise_decide::diagnose_contents(interval, estimates));
    all.sort_by_key(|finding| Reverse(finding.severity));
    for finding in &mut all {
        let subject = pagewise_explain::subject_of_rule(finding.id);
        finding.next.extend(subject.map(|subject| format!("pagewise explain {subject}")));
    }
    all
}

/// Refuses `--root` for verbs that read page contents.
fn refuse_recording(global: &Global, verb: &str) -> anyhow::Result<()> {
    if global.root.is_none() {
        return Ok(());
    }
    let what = format!("{verb}: a recording holds no page contents, by design");
    let next = "use the machine itself, or a dump, core or device: --file, --core, --device";
    Err(Refusal::with_advice(what, next).into())
}

/// How a verb prints its answer.
struct Page {
    noun: Noun,
    json: fn(&Answer<'_>) -> String,
}

impl Page {
    /// Prints the answer: JSON, or the text that `text` returns.
    fn print(
        &self,
        global: &Global,
        answer: &Answer<'_>,
        text: impl FnOnce(&Answer<'_>, TextStyle) -> String,
    ) -> anyhow::Result<Printed> {
        let shown = if global.json {
            (self.json)(answer)
        } else {
            text(answer, screen::text_style(global))
        };
        output::print_answer(global, &shown)
    }

    /// Prints remarks about the answer to standard error. `report` and JSON output already list the
    /// files and lines that could not be understood.
    fn remark(&self, global: &Global, answer: &Answer<'_>) {
        const SHOWN: usize = 3;
        let listed = global.json || self.noun == Noun::Report;
        let problems = &answer.interval.end.problems;
        let shown = match (global.verbose, global.quiet || listed) {
            (true, _) => problems.len(),
            (false, true) => 0,
            (false, false) => SHOWN.min(problems.len()),
        };
        for problem in &problems[..shown] {
            output::print_message(problem);
        }
        if (1..problems.len()).contains(&shown) {
            let more = problems.len() - shown;
            let places = if more == 1 { "place" } else { "places" };
            output::print_message(format_args!("and {more} more {places} (-v names them)"));
        }
        if global.verbose {
            output::print_message(cost::format_line(&answer.cost));
        }
    }
}
