// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a person reads in a terminal: the verdict first, every number with its unit and meaning.
//!
//! One file per section, all built from `kit` and `table`. A section whose facts are absent
//! shrinks to one line or goes away; what is denied says "needs root"; nothing unknown prints as 0.
//! Sums and shares are worked out for display; whether they are good or bad is not decided here.

mod applied;
mod bars;
mod bench;
mod block;
mod capabilities;
mod cgroups;
mod compare;
mod comparison;
mod doctor;
mod duplicates;
mod elide;
mod explanation;
mod feature_labels;
mod findings;
mod gain;
mod header;
mod huge;
mod kit;
mod knobs;
mod ledger;
mod limits;
mod live;
mod memory;
mod merge;
mod movement;
mod oom;
mod owners;
mod pin;
mod plan;
mod plan_diff;
mod planned;
mod pressure;
mod process_table;
mod processes;
mod recovered;
mod report;
mod role;
mod rules;
mod savers;
mod scan;
mod selftest;
mod settings;
mod status;
mod style;
mod table;
mod thp;
mod tiers;
mod trial;
mod tune;
mod verdict;
mod words;
mod working_sets;
mod zones;
mod zram;

pub use applied::{applied, step, verified};
pub use block::{Block, MemoryPart, TextCell, TextTable};

use crate::view::{Section, View};
use crate::{
    Answer, Benched, Collapsed, HugeSeen, LedgerReport, Merged, PlannedChanges, PlannedExperiment,
    Restrained, ScanReport, TrialReport, TunedPlan,
};
pub use feature_labels::feature_labels;
pub use header::machine;
use kit::Page;
pub use kit::escape_all_but_colours;
pub use live::{live, live_with_rows};
use pagewise_model::knob::KnobReading;
use pagewise_model::plan::{GainMeasured, Plan};
use pagewise_model::{
    Comparison, Explanation, Finding, LimitSurvey, OomExplanation, PinnedCode, Replicated,
    RuleExplanation, SelfTest, SettableKnob, Severity, Snapshot, ThpProfile, Trial,
};
pub use process_table::shown_processes;
pub use recovered::{recovered, returned, unsettled};
pub use role::Role;
pub use style::TextStyle;
pub use words::share;

/// Everything, on one page.
pub fn report(answer: &Answer<'_>, look: TextStyle) -> String {
    report_in_view(answer, &View::default(), look)
}

/// What of everything was asked for.
pub fn report_in_view(answer: &Answer<'_>, view: &View, look: TextStyle) -> String {
    printed(look, |page| report::print(page, answer, view))
}

/// One section of the report in pieces, whatever the view says of sections.
pub fn section(answer: &Answer<'_>, view: &View, section: Section) -> Vec<Block> {
    in_blocks(|page| report::print_section(page, answer, view, section))
}

/// Reports of the OOM killer in pieces, one row each.
pub fn oom_kills(snapshot: &Snapshot) -> Vec<Block> {
    in_blocks(|page| oom::list(page, snapshot))
}

/// How a severity is written, and its role.
pub fn severity(severity: Severity) -> (&'static str, Role) {
    (findings::label(severity), findings::role(severity))
}

/// The verdict in pieces: the line that was decided, then how many findings there are.
pub fn verdict(answer: &Answer<'_>) -> Vec<Block> {
    in_blocks(|page| verdict::print(page, answer))
}

/// What `doctor` says before its findings, in pieces; `ignored` is how many were left out because of their rules.
pub fn doctor_verdict(answer: &Answer<'_>, ignored: usize) -> Vec<Block> {
    in_blocks(|page| doctor::summary(page, answer, ignored))
}

/// The answer of `scan` in pieces.
pub fn scan_blocks(scanned: &ScanReport<'_>) -> Vec<Block> {
    in_blocks(|page| scan::print(page, scanned))
}

/// The answer of `bench` in pieces.
pub fn bench_blocks(benched: &Benched<'_>) -> Vec<Block> {
    in_blocks(|page| bench::print(page, benched))
}

/// The answer of `thp` in pieces.
pub fn thp_blocks(seen: &HugeSeen<'_>) -> Vec<Block> {
    in_blocks(|page| huge::print(page, seen))
}

/// The machine, the time and what looking cost, in pieces.
pub fn circumstances(verb: &str, answer: &Answer<'_>) -> Vec<Block> {
    in_blocks(|page| {
        header::print(page, verb, answer);
        header::cost(page, answer);
    })
}

/// Facts at a glance.
pub fn status(answer: &Answer<'_>, look: TextStyle) -> String {
    printed(look, |page| status::print(page, answer))
}

/// What each algorithm costs, and which is best for what.
pub fn bench(benched: &Benched<'_>, look: TextStyle) -> String {
    printed(look, |page| bench::print(page, benched))
}

/// Findings in full.
pub fn doctor(answer: &Answer<'_>, look: TextStyle) -> String {
    doctor_but(answer, 0, look)
}

/// Findings in full, and how many were left out because their rules are ignored.
pub fn doctor_but(answer: &Answer<'_>, ignored: usize, look: TextStyle) -> String {
    printed(look, |page| doctor::print(page, answer, ignored))
}

/// A line per finding.
pub fn doctor_in_lines(findings: &[Finding]) -> String {
    findings.iter().map(findings::in_a_line).collect()
}

/// Rules in a list.
pub fn rules(rules: &[RuleExplanation], look: TextStyle) -> String {
    printed(look, |page| rules::list(page, rules))
}

/// One rule in full, and the subject of `pagewise explain` that belongs to it.
pub fn rule(rule: &RuleExplanation, subject: Option<&str>, look: TextStyle) -> String {
    printed(look, |page| rules::explain(page, rule, subject))
}

/// What the kernel can do, and what would bring the rest.
pub fn capabilities(snapshot: &Snapshot, look: TextStyle) -> String {
    printed(look, |page| capabilities::all(page, snapshot))
}

/// Code that is locked.
pub fn pin(pinned: &PinnedCode, look: TextStyle) -> String {
    printed(look, |page| pin::print(page, pinned))
}

/// A subject, explained.
pub fn explanation(explanation: &Explanation, look: TextStyle) -> String {
    printed(look, |page| explanation::print(page, explanation))
}

/// Two hosts, or one at two times.
pub fn comparison(comparison: &Comparison, look: TextStyle) -> String {
    printed(look, |page| comparison::print(page, comparison))
}

/// Which limit each cgroup needs; with `is_selected` the only one in full.
pub fn limits(survey: &LimitSurvey, is_selected: bool, look: TextStyle) -> String {
    let print = if is_selected { working_sets::print } else { working_sets::list };
    printed(look, |page| print(page, survey))
}

/// The subjects that can be explained: name and title.
pub fn subjects(subjects: &[(&str, &str)], look: TextStyle) -> String {
    printed(look, |page| explanation::list(page, subjects))
}

/// Processes that were killed for lack of memory, and commands that may show more of them.
pub fn oom(
    answer: &Answer<'_>,
    explained: &[OomExplanation],
    elsewhere: &[String],
    look: TextStyle,
) -> String {
    printed(look, |page| oom::print(page, answer, explained, elsewhere))
}

/// What memory would become.
pub fn scan(scanned: &ScanReport<'_>, look: TextStyle) -> String {
    printed(look, |page| scan::print(page, scanned))
}

/// One arm against another.
pub fn trial(tried: &TrialReport<'_>, look: TextStyle) -> String {
    printed(look, |page| trial::print(page, tried))
}

/// Changes to a machine before they are carried out.
pub fn plan(planned: &PlannedChanges<'_>, look: TextStyle) -> String {
    printed(look, |page| plan::print(page, planned))
}

/// The same as differences: of files as `diff -u` prints them, of settings old and new value.
pub fn plan_diff(plan: &Plan) -> String {
    plan_diff::print(plan)
}

/// What became of predicted gains; nothing if there is none.
pub fn gains(gains: &[GainMeasured], look: TextStyle) -> String {
    if gains.is_empty() { String::new() } else { printed(look, |page| gain::print(page, gains)) }
}

/// How often predictions came true, and every measurement.
pub fn ledger(report: &LedgerReport<'_>, look: TextStyle) -> String {
    printed(look, |page| ledger::print(page, report))
}

/// Whether a plan on trial was kept, and what was measured of its gains.
pub fn tune(tuned: &TunedPlan<'_>, look: TextStyle) -> String {
    printed(look, |page| tune::print(page, tuned))
}

/// An experiment before it is run.
pub fn planned(planned: &PlannedExperiment, look: TextStyle) -> String {
    printed(look, |page| planned::print(page, planned))
}

/// Names of experiments and what each asks.
pub fn experiments(listed: &[(String, String)], look: TextStyle) -> String {
    printed(look, |page| planned::list(page, listed))
}

/// The settings that an arm of a trial may set.
pub fn settable_knobs(all: &[SettableKnob<'_>], look: TextStyle) -> String {
    printed(look, |page| knobs::list(page, all))
}

/// Where huge pages are.
pub fn thp(seen: &HugeSeen<'_>, look: TextStyle) -> String {
    printed(look, |page| huge::print(page, seen))
}

/// What a collapse did.
pub fn collapse(done: &Collapsed<'_>, look: TextStyle) -> String {
    printed(look, |page| huge::collapse::print(page, done))
}

/// What a pass over zmerge devices gave back.
pub fn merge(merged: &Merged<'_>, look: TextStyle) -> String {
    printed(look, |page| merge::print(page, merged))
}

/// Huge pages that are mostly empty.
pub fn restrain(done: &Restrained<'_>, look: TextStyle) -> String {
    printed(look, |page| huge::restrain::print(page, done))
}

/// Settings that belong together, beside what this host has.
pub fn thp_profiles(profiles: &[ThpProfile], knobs: &[KnobReading], look: TextStyle) -> String {
    printed(look, |page| huge::profiles::print(page, profiles, knobs))
}

/// Two trials side by side.
pub fn compare(trials: (&Trial, &Trial), metrics: &[Replicated], look: TextStyle) -> String {
    printed(look, |page| compare::print(page, trials, metrics))
}

/// What experiments in which nothing differs say about a machine.
pub fn selftest(found: &SelfTest, look: TextStyle) -> String {
    printed(look, |page| selftest::print(page, found))
}

/// Columns that a line without colours takes in a terminal.
pub fn width(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

fn in_blocks(print: impl FnOnce(&mut Page)) -> Vec<Block> {
    let mut page = Page::in_blocks();
    print(&mut page);
    page.into_blocks()
}

fn printed(look: TextStyle, print: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::new(look);
    print(&mut page);
    page.finish()
}
