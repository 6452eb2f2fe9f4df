// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: findings in full; the exit status says whether there are any of the chosen
//! severity.
//!
//! If not even the size of memory is known, `doctor` ends with an error instead of calling the
//! machine healthy.

use pagewise_model::{Finding, HostVerdict, Interval, OomExplanation, Refusal, Severity, Snapshot};
use pagewise_observe::Recording;
use pagewise_report::json::{self, Noun};
use pagewise_report::{Answer, OomFound, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::output::{self, Printed};
use pagewise_terminal::{Global, Outcome, screen};

use super::new_page::NewPage;
use super::oom::prove::SizesPipe;
use super::{Page, oom, scan};
use crate::accepted::{self, Accepted};
use crate::{cli, input, room};

pub(super) mod journal;
mod nagios;

const PAGE: Page = Page { noun: Noun::Doctor, json: json::doctor };

pub(super) fn run(
    global: &Global,
    args: &cli::Doctor,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if args.list || args.explain.is_some() {
        return explain(global, args.explain.as_deref());
    }
    if let Some(file) = &args.log {
        let args = oom::WhatIfArgs { what_if: args.what_if, to: None };
        return oom::explain_text(global, file, args, started);
    }
    if args.journal {
        return journal::run(global, args);
    }
    if args.nagios {
        return nagios::run(global, args);
    }
    read_and_print(global, args, None, started)
}

/// Runs `doctor --oom`, and also writes the sizes of the newest kill to a file.
pub(super) fn run_oom(
    global: &Global,
    what_if: bool,
    to: Option<SizesPipe>,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    read_and_print(global, &cli::Doctor::only_oom(what_if), to, started)
}

fn read_and_print(
    global: &Global,
    args: &cli::Doctor,
    to: Option<SizesPipe>,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let accepted = read_accepted(global, args)?;
    let page = NewPage::start(args.html.as_deref())?;
    let host = input::open(global)?;
    let interval = input::read_interval(&host, global)?;
    if let Some(to) = to {
        to.write(&interval.end.kernel_log)?;
    }
    let Diagnosis { mut all, verdict, unknown } = Diagnosis::make(&host, &interval, !args.oom);
    if args.oom {
        all.retain(|finding| finding.id == pagewise_decide::oom::RULE);
    }
    let chosen = ShownFindings::select(all, &accepted);
    let answer = Answer {
        interval: &interval,
        verdict: &verdict,
        findings: &chosen.findings,
        hidden: chosen.hidden,
        owners: &[],
        estimates: &[],
        cost: cost::measure_since(started, &interval),
    };
    let is_page = page.is_some();
    if let Some(page) = page {
        page.write(global, &pagewise_html::doctor_page(&answer, chosen.ignored))?;
    }
    let shown = match (global.json, global.quiet, args.oom) {
        (true, _, true) | (false, false, true) => print_oom(global, args, &answer),
        (true, _, false) => json::doctor_but(&answer, chosen.ignored),
        (false, true, _) => text::doctor_in_lines(&chosen.findings),
        (false, false, false) => {
            text::doctor_but(&answer, chosen.ignored, screen::text_style(global))
        }
    };
    let is_printed = global.json || !is_page;
    let printed = if is_printed { output::print_answer(global, &shown)? } else { Printed::Whole };
    PAGE.remark(global, &answer);
    if let Some(unknown) = unknown.filter(|_| !global.quiet && !global.json) {
        output::print_message(format_args!("not known: {unknown}"));
    }
    if chosen.findings.is_empty() && printed == Printed::Whole {
        check_readings(&interval.end)?;
    }
    let is_present = |finding: &Finding| is_present(args, &interval, finding);
    let log = &interval.end.kernel_log;
    let by_programs = args.oom && !(log.user_kills.is_empty() && log.unit_kills.is_empty());
    Ok(outcome(printed, !by_programs && !chosen.findings.iter().any(is_present)))
}

/// What the rules say about a host.
struct Diagnosis {
    /// All findings, most severe first.
    all: Vec<Finding>,
    verdict: HostVerdict,
    /// What could not be judged because page contents were not read.
    unknown: Option<String>,
}

impl Diagnosis {
    /// Applies all rules. With `looks_inside`, the contents of some pages are read if a rule needs
    /// them; this process then gives up most of its rights first.
    fn make(host: &Recording, interval: &Interval, looks_inside: bool) -> Self {
        let looks_inside = looks_inside && pagewise_decide::is_sampling_useful(interval);
        let read = (host.end.is_live() && looks_inside && room::has_memory_for_contents())
            .then(|| scan::scan_for_report(&host.end, &interval.end));
        let estimates = match &read {
            Some(Ok(estimates)) => estimates.as_slice(),
            Some(Err(_)) | None => &[],
        };
        let unknown = match &read {
            Some(Err(why)) => Some(pagewise_decide::describe_unknown_contents(&format!("{why:#}"))),
            _ => pagewise_decide::explain_unknown_contents(interval, estimates),
        };
        let mut verdict = pagewise_decide::judge(interval);
        verdict.unknown.extend(unknown.clone());
        Self { all: super::findings(interval, estimates), verdict, unknown }
    }
}

/// Whether the finding is about the present, or about something that ended within `--since`.
fn is_present(args: &cli::Doctor, interval: &Interval, finding: &Finding) -> bool {
    let since = args.since.map_or(0.0, |since| since.as_secs_f64());
    pagewise_decide::ended_seconds_ago(interval, finding).is_none_or(|ended| ended <= since)
}

/// Lists the rules of `doctor`, or explains one in full.
fn explain(global: &Global, id: Option<&str>) -> anyhow::Result<Outcome> {
    let mut rules = pagewise_decide::explanations();
    rules.retain(|rule| id.is_none_or(|id| rule.id == id));
    let shown = match (global.json, id, rules.as_slice()) {
        (true, _, rules) => json::rules(rules),
        (false, Some(id), [rule]) => {
            text::rule(rule, pagewise_explain::subject_of_rule(id), screen::text_style(global))
        }
        (false, _, rules) => text::rules(rules, screen::text_style(global)),
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

/// What `doctor --oom` and `oom` print of this machine or a recording.
fn print_oom(global: &Global, args: &cli::Doctor, answer: &Answer<'_>) -> String {
    use pagewise_decide::oom;
    let interval = answer.interval;
    let log = &interval.end.kernel_log;
    let found = OomFound {
        explained: &explain_kills(args, interval),
        failures: &oom::explain_failures(log),
        hung: &oom::explain_hung(log),
        programs: &oom::explain_programs(interval),
        time_line: &oom::time_line(log),
    };
    let elsewhere = oom::suggest_other_sources(&interval.end);
    if global.json {
        json::oom(answer, &found, &elsewhere)
    } else {
        text::oom(answer, &found, &elsewhere, screen::text_style(global))
    }
}

fn explain_kills(args: &cli::Doctor, interval: &Interval) -> Vec<OomExplanation> {
    let mut explained = pagewise_decide::oom::explain(interval);
    if args.what_if {
        pagewise_decide::oom::add_what_if(&interval.end.kernel_log, &mut explained);
    }
    explained
}

/// Combines the command line and the file: the severity of the command line wins, and both lists of
/// ignored rules apply. /etc/pagewise/doctor.toml is about this machine, so it does not apply to a
/// recording.
fn read_accepted(global: &Global, args: &cli::Doctor) -> anyhow::Result<Accepted> {
    let file = match (&args.config, &global.root) {
        (None, Some(_)) => Accepted::default(),
        (named, _) => accepted::read(named.as_deref())?,
    };
    Ok(Accepted {
        ignore: [file.ignore, args.ignore.clone()].concat(),
        min_severity: args.min_severity.or(file.min_severity),
    })
}

/// The findings to show, and how many are hidden or ignored.
struct ShownFindings {
    findings: Vec<Finding>,
    hidden: usize,
    ignored: usize,
}

impl ShownFindings {
    fn select(all: Vec<Finding>, accepted: &Accepted) -> Self {
        let least = match accepted.min_severity.unwrap_or(cli::Severity::Warning) {
            cli::Severity::Info => Severity::Info,
            cli::Severity::Warning => Severity::Warning,
            cli::Severity::Critical => Severity::Critical,
        };
        let is_ignored = |finding: &Finding| accepted.ignore.iter().any(|id| id == finding.id);
        let (ignored, heard): (Vec<Finding>, Vec<Finding>) = all.into_iter().partition(is_ignored);
        let (findings, hidden): (Vec<Finding>, Vec<Finding>) =
            heard.into_iter().partition(|finding| finding.severity >= least);
        Self { findings, hidden: hidden.len(), ignored: ignored.len() }
    }
}

/// Returns an error if the snapshot does not even have the size of memory.
fn check_readings(host: &Snapshot) -> anyhow::Result<()> {
    if host.memory.total.value().is_some() {
        return Ok(());
    }
    let what = "nothing could be examined: the size of memory is not known".to_owned();
    anyhow::bail!(Refusal::with_advice(what, "see what is missing: pagewise report"))
}

/// The exit status of `doctor`; `none` if no finding is about the present. If not all output was
/// printed (a closed pipe), the status does not report findings either.
fn outcome(printed: Printed, none: bool) -> Outcome {
    match printed {
        Printed::Whole if !none => Outcome::Findings,
        Printed::Whole | Printed::Cut => Outcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_show_in_the_exit_status() {
        assert_eq!(outcome(Printed::Whole, false), Outcome::Findings);
        assert_eq!(outcome(Printed::Whole, true), Outcome::Done);
        assert_eq!(outcome(Printed::Cut, false), Outcome::Done);
    }

    fn finding(severity: Severity) -> Finding {
        pagewise_testkit::finding("x", severity)
    }

    #[test]
    fn what_matters_less_is_left_out() {
        let all = [Severity::Critical, Severity::Warning, Severity::Warning, Severity::Info];
        let shown = |min_severity| {
            let accepted = Accepted { min_severity, ..Accepted::default() };
            let chosen = ShownFindings::select(all.map(finding).to_vec(), &accepted);
            (chosen.findings.len(), chosen.hidden, chosen.ignored)
        };
        assert_eq!(shown(Some(cli::Severity::Info)), (4, 0, 0));
        assert_eq!(shown(Some(cli::Severity::Warning)), (3, 1, 0));
        assert_eq!(shown(Some(cli::Severity::Critical)), (1, 3, 0));
        assert_eq!(shown(None), (3, 1, 0));
    }

    #[test]
    fn what_is_ignored_is_counted_apart_from_what_matters_less() {
        let named = |id, severity| Finding { id, ..finding(severity) };
        let all = vec![
            named("zram-full", Severity::Critical),
            named("tier-order", Severity::Warning),
            named("mglru-off", Severity::Info),
            named("cgroup-v1-limits", Severity::Info),
        ];
        let ignore = ["zram-full", "mglru-off", "fragmentation"].map(str::to_owned).to_vec();
        let chosen = ShownFindings::select(all, &Accepted { ignore, min_severity: None });
        assert_eq!(chosen.findings.iter().map(|one| one.id).collect::<Vec<_>>(), ["tier-order"]);
        assert_eq!((chosen.hidden, chosen.ignored), (1, 2));
    }

    #[test]
    fn what_could_not_be_examined_is_not_healthy() {
        let mut host = Snapshot::default();
        assert!(check_readings(&host).is_err());
        let at = pagewise_model::Source::line("/proc/meminfo", 1);
        host.memory.total = pagewise_model::Reading::found(pagewise_model::Bytes::new(1), at);
        assert!(check_readings(&host).is_ok());
    }
}
