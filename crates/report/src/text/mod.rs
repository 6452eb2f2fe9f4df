// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for a terminal: the verdict first, and every number with its unit and meaning.
//!
//! One file per section, all built from `kit` and `table`. A section without values shrinks to one
//! line or is left out; denied values are printed as "needs root", and unknown values never as 0.
//! Sums and shares are computed for display; whether they are good or bad is not decided here.

mod age;
mod agent;
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
mod first_screen;
mod fleet;
mod gain;
mod header;
mod huge;
mod incident;
mod journal_fields;
mod kit;
mod knobs;
mod ledger;
mod limits;
mod live;
mod memory;
mod merge;
mod movement;
mod nagios;
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

pub use applied::{describe_applied, describe_plan_step, describe_verified};
pub use block::{Block, MemoryPart, TextCell, TextTable};

use crate::view::{Section, View};
use crate::{
    Answer, Benched, Collapsed, HugeSeen, LedgerReport, Merged, OomFound, OomText, PlannedChanges,
    PlannedExperiment, Restrained, ScanReport, TrialReport, TunedPlan,
};
pub use feature_labels::feature_labels;
pub use header::{machine, taken};
pub use journal_fields::journal_fields;
use kit::Page;
pub use kit::{escape_all_but_colours, style};
pub use live::{live, live_with_rows};
pub use nagios::{ServiceReport, nagios, nagios_unknown};
use pagewise_model::knob::KnobReading;
use pagewise_model::plan::{GainMeasured, Plan};
use pagewise_model::{
    AgentReport, AgingReport, Comparison, Explanation, Finding, FleetReport, Incident, KernelLog,
    Level, LimitSurvey, OomProof, PinnedCode, Replicated, RuleExplanation, SelfTest, SettableKnob,
    Severity, Snapshot, ThpProfile, Trial,
};
pub use process_table::shown_processes;
pub use recovered::{describe_recovered, describe_returned, describe_unsettled};
pub use role::Role;
pub use style::TextStyle;
pub use words::share;

/// The complete report as text for a terminal.
pub fn report(answer: &Answer<'_>, look: TextStyle) -> String {
    report_in_view(answer, &View::default(), look)
}

/// The sections of the report that were selected.
pub fn report_in_view(answer: &Answer<'_>, view: &View, look: TextStyle) -> String {
    render(look, |page| report::print(page, answer, view))
}

/// One section of the report as blocks, even if the view excludes it.
pub fn section(answer: &Answer<'_>, view: &View, section: Section) -> Vec<Block> {
    in_blocks(|page| report::print_section(page, answer, view, section))
}

/// Reports of the OOM killer as blocks, one row each.
pub fn oom_kills(snapshot: &Snapshot) -> Vec<Block> {
    in_blocks(|page| oom::print_list(page, snapshot))
}

/// The label of a severity, and its role.
pub fn severity(severity: Severity) -> (&'static str, Role) {
    (findings::label(severity), findings::role(severity))
}

/// The sentences of the verdict, each with its role; empty if the state of memory could not be read.
pub fn verdict_sentences(answer: &Answer<'_>) -> Vec<(Role, String)> {
    let sentences = verdict::sentences(answer).into_iter();
    sentences.map(|(level, text)| (verdict::role(level), text)).collect()
}

/// The label of the verdict's level, and its role; the label is empty if the level is unknown.
pub fn level(answer: &Answer<'_>) -> (&'static str, Role) {
    (verdict::label(answer.verdict.level), verdict::role(answer.verdict.level))
}

/// The four numbers that decide what to do, each with its meaning.
pub fn deciding_numbers(answer: &Answer<'_>) -> [(String, String); 4] {
    first_screen::tiles(answer)
}

/// The verdict as blocks: its text, then the number of findings.
pub fn verdict(answer: &Answer<'_>) -> Vec<Block> {
    in_blocks(|page| verdict::print(page, answer))
}

/// The text of `doctor` before the findings, as blocks; `ignored` is the number of findings of
/// ignored rules.
pub fn doctor_verdict(answer: &Answer<'_>, ignored: usize) -> Vec<Block> {
    in_blocks(|page| doctor::print_summary(page, answer, ignored))
}

/// The output of `scan` as blocks.
pub fn scan_blocks(scanned: &ScanReport<'_>) -> Vec<Block> {
    in_blocks(|page| scan::print(page, scanned))
}

/// The output of `bench` as blocks.
pub fn bench_blocks(benched: &Benched<'_>) -> Vec<Block> {
    in_blocks(|page| bench::print(page, benched))
}

/// The output of `thp` as blocks.
pub fn thp_blocks(seen: &HugeSeen<'_>) -> Vec<Block> {
    in_blocks(|page| huge::print(page, seen))
}

/// The machine, the time and the cost of reading, as blocks.
pub fn circumstances(verb: &str, answer: &Answer<'_>) -> Vec<Block> {
    in_blocks(|page| {
        header::print(page, verb, answer);
        header::print_cost(page, answer);
    })
}

/// The output of `status`.
pub fn status(answer: &Answer<'_>, look: TextStyle) -> String {
    render(look, |page| status::print(page, answer))
}

/// The output of `bench`: the cost of each algorithm, and the best one for each goal.
pub fn bench(benched: &Benched<'_>, look: TextStyle) -> String {
    render(look, |page| bench::print(page, benched))
}

/// The output of `doctor`: findings in full.
pub fn doctor(answer: &Answer<'_>, look: TextStyle) -> String {
    doctor_but(answer, 0, look)
}

/// The output of `doctor` as [`doctor()`] prints it, with the number of findings of ignored rules.
pub fn doctor_but(answer: &Answer<'_>, ignored: usize, look: TextStyle) -> String {
    render(look, |page| doctor::print(page, answer, ignored))
}

/// The findings in one line each.
pub fn doctor_in_lines(findings: &[Finding]) -> String {
    findings.iter().map(findings::one_line_of).collect()
}

/// The list of `doctor`'s rules.
pub fn rules(rules: &[RuleExplanation], look: TextStyle) -> String {
    render(look, |page| rules::print_list(page, rules))
}

/// One rule of `doctor` in full, and the related subject of `pagewise explain`.
pub fn rule(rule: &RuleExplanation, subject: Option<&str>, look: TextStyle) -> String {
    render(look, |page| rules::explain(page, rule, subject))
}

/// The features of the kernel, and what would provide the missing ones.
pub fn capabilities(snapshot: &Snapshot, look: TextStyle) -> String {
    render(look, |page| capabilities::print_all(page, snapshot))
}

/// The output of `pin`: locked code.
pub fn pin(pinned: &PinnedCode, look: TextStyle) -> String {
    render(look, |page| pin::print(page, pinned))
}

/// The explanation of a subject.
pub fn explanation(explanation: &Explanation, look: TextStyle) -> String {
    render(look, |page| explanation::print(page, explanation))
}

/// The comparison of two hosts, or of one at two times.
pub fn comparison(comparison: &Comparison, look: TextStyle) -> String {
    render(look, |page| comparison::print(page, comparison))
}

/// The limit that each cgroup needs; with `is_selected` a single one in full.
pub fn limits(survey: &LimitSurvey, is_selected: bool, look: TextStyle) -> String {
    let print = if is_selected { working_sets::print } else { working_sets::print_list };
    render(look, |page| print(page, survey))
}

/// Many machines at once.
pub fn fleet(report: &FleetReport, look: TextStyle) -> String {
    render(look, |page| fleet::print(page, report))
}

/// The output of `fleet report` as blocks.
pub fn fleet_blocks(report: &FleetReport) -> Vec<Block> {
    in_blocks(|page| fleet::print(page, report))
}

/// What happened to memory in some time.
pub fn incident(incident: &Incident, look: TextStyle) -> String {
    render(look, |page| incident::print(page, incident))
}

/// The output of `why` as blocks; the events are a table.
pub fn incident_blocks(incident: &Incident) -> Vec<Block> {
    in_blocks(|page| incident::print(page, incident))
}

/// A time of day in UTC, as `why` prints it.
pub fn format_clock(unix_seconds: f64) -> String {
    incident::format_clock(unix_seconds)
}

/// The label of a level of memory shortage, which is empty if the level is unknown, and its role.
pub fn level_label(level: Level) -> (&'static str, Role) {
    (verdict::label(level), verdict::role(level))
}

/// The uses of RAM, in the order in which the report shows them; empty if the size of RAM is
/// unknown.
pub fn memory_parts(snapshot: &Snapshot) -> Vec<MemoryPart> {
    snapshot.memory.total.get().map_or_else(Vec::new, |total| memory::parts(snapshot, total))
}

/// The subjects of `explain`: name and title.
pub fn subjects(subjects: &[(&str, &str)], look: TextStyle) -> String {
    render(look, |page| explanation::print_list(page, subjects))
}

/// Processes killed for lack of memory, and commands that may show more kills.
pub fn oom(
    answer: &Answer<'_>,
    found: &OomFound<'_>,
    elsewhere: &[String],
    look: TextStyle,
) -> String {
    render(look, |page| oom::print(page, answer, found, elsewhere))
}

/// The output of `oom FILE`: the kills of a text from any machine.
pub fn oom_text(name: &str, log: &KernelLog, text: &OomText<'_>, look: TextStyle) -> String {
    render(look, |page| oom::print_text(page, name, log, text))
}

/// The output of `oom --prove`, after that of `oom`: the newest kill, done again in a guest.
pub fn oom_proof(proof: &OomProof, look: TextStyle) -> String {
    render(look, |page| oom::print_proof(page, proof))
}

/// The output of `scan`: estimates for memory.
pub fn scan(scanned: &ScanReport<'_>, look: TextStyle) -> String {
    render(look, |page| scan::print(page, scanned))
}

/// The output of `trial`: a comparison of arms.
pub fn trial(tried: &TrialReport<'_>, look: TextStyle) -> String {
    render(look, |page| trial::print(page, tried))
}

/// The output of `plan`, before anything is changed.
pub fn plan(planned: &PlannedChanges<'_>, look: TextStyle) -> String {
    render(look, |page| plan::print(page, planned))
}

/// A plan as differences: files as by `diff -u`, settings with old and new value.
pub fn plan_diff(plan: &Plan) -> String {
    plan_diff::print(plan)
}

/// The measurements of a plan's predicted gains; empty if there are none.
pub fn gains(gains: &[GainMeasured], look: TextStyle) -> String {
    if gains.is_empty() { String::new() } else { render(look, |page| gain::print(page, gains)) }
}

/// The output of `ledger`: the hit rate of predictions, and every measurement.
pub fn ledger(report: &LedgerReport<'_>, look: TextStyle) -> String {
    render(look, |page| ledger::print(page, report))
}

/// The output of `tune`: whether a plan on trial was kept, and the measurements of its gains.
pub fn tune(tuned: &TunedPlan<'_>, look: TextStyle) -> String {
    render(look, |page| tune::print(page, tuned))
}

/// The description of an experiment that has not run yet.
pub fn planned(planned: &PlannedExperiment, look: TextStyle) -> String {
    render(look, |page| planned::print(page, planned))
}

/// The names of experiments, and the question of each.
pub fn experiments(listed: &[(String, String)], look: TextStyle) -> String {
    render(look, |page| planned::print_list(page, listed))
}

/// The settings that an arm of a trial may change.
pub fn settable_knobs(all: &[SettableKnob<'_>], look: TextStyle) -> String {
    render(look, |page| knobs::print_list(page, all))
}

/// The output of `thp`: where huge pages are used.
pub fn thp(seen: &HugeSeen<'_>, look: TextStyle) -> String {
    render(look, |page| huge::print(page, seen))
}

/// The result of a collapse into huge pages.
pub fn collapse(done: &Collapsed<'_>, look: TextStyle) -> String {
    render(look, |page| huge::collapse::print(page, done))
}

/// The output of `age`: agings of a memory cgroup, now or as they were recorded.
pub fn age(report: &AgingReport, look: TextStyle) -> String {
    render(look, |page| age::print(page, report))
}

/// The output of `agent status`: what the agent does and did.
pub fn agent(report: &AgentReport, look: TextStyle) -> String {
    render(look, |page| agent::print(page, report))
}

/// The output of `agent proof`: whether the loops pay, and what was measured.
pub fn agent_proof(report: &AgentReport, look: TextStyle) -> String {
    render(look, |page| agent::print_proof(page, report))
}

/// The result of a merge pass over zmerge devices.
pub fn merge(merged: &Merged<'_>, look: TextStyle) -> String {
    render(look, |page| merge::print(page, merged))
}

/// The output of `thp restrain`: huge pages that are mostly empty.
pub fn restrain(done: &Restrained<'_>, look: TextStyle) -> String {
    render(look, |page| huge::restrain::print(page, done))
}

/// Sets of settings that belong together, next to the values of this host.
pub fn thp_profiles(profiles: &[ThpProfile], knobs: &[KnobReading], look: TextStyle) -> String {
    render(look, |page| huge::profiles::print(page, profiles, knobs))
}

/// The comparison of two trials of the same experiment, side by side.
pub fn compare(trials: (&Trial, &Trial), metrics: &[Replicated], look: TextStyle) -> String {
    render(look, |page| compare::print(page, trials, metrics))
}

/// The output of `lab selftest`: the result of trials with identical arms, with false positives and
/// detectable effects on this machine.
pub fn selftest(found: &SelfTest, look: TextStyle) -> String {
    render(look, |page| selftest::print(page, found))
}

/// The number of terminal columns of a line without colours.
pub fn width(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

fn in_blocks(print: impl FnOnce(&mut Page)) -> Vec<Block> {
    let mut page = Page::in_blocks();
    print(&mut page);
    page.into_blocks()
}

fn render(look: TextStyle, print: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::new(look);
    print(&mut page);
    page.finish()
}
