// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: findings in full; its exit status says whether there are any.
//!
//! A machine of which not even the totals are known is not called healthy: that is an error.

use pagewise_model::{Finding, Severity, Snapshot};
use pagewise_report::json::{self, Noun};
use pagewise_report::text;

use super::{Outcome, Page, Said};
use crate::cli::{self, Global};
use crate::cost::Started;
use crate::input;
use crate::output::Printed;
use crate::trouble::Advised;

const PAGE: Page = Page { noun: Noun::Doctor, text: text::doctor, json: json::doctor };

pub(super) fn run(
    global: &Global,
    wanted: &cli::Doctor,
    started: Started,
) -> anyhow::Result<Outcome> {
    let interval = input::interval(&input::open(global)?, global)?;
    let mut all = pagewise_decide::diagnose(&interval);
    if wanted.oom {
        all.retain(|finding| finding.id == pagewise_decide::oom::RULE);
    }
    let killed = wanted.oom.then(|| pagewise_decide::oom::explain(&interval));
    let findings = at_least(wanted.min_severity, &all);
    let hidden = all.len() - findings.len();
    let printed = PAGE.show(
        global,
        started,
        &interval,
        Said { findings, hidden, killed: killed.as_deref(), ..Said::default() },
    )?;
    if findings.is_empty() && printed == Printed::Whole {
        examined(&interval.end)?;
    }
    Ok(outcome(printed, findings.is_empty()))
}

/// The findings that matter as much as that; the most severe come first.
fn at_least(least: cli::Severity, findings: &[Finding]) -> &[Finding] {
    let least = match least {
        cli::Severity::Info => Severity::Info,
        cli::Severity::Warning => Severity::Warning,
        cli::Severity::Critical => Severity::Critical,
    };
    let enough = findings.iter().take_while(|finding| finding.severity >= least).count();
    &findings[..enough]
}

/// An error where there was nothing to find anything in.
fn examined(host: &Snapshot) -> anyhow::Result<()> {
    if host.memory.total.value().is_some() {
        return Ok(());
    }
    let what = "nothing could be examined: the size of memory is not known".to_owned();
    anyhow::bail!(Advised { what, next: "see what is missing: pagewise report" })
}

/// Findings that nobody read are not reported by the exit status either.
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
        let text = String::new;
        let (evidence, next) = (Vec::new(), Vec::new());
        Finding { id: "x", severity, title: text(), what: text(), why: text(), evidence, next }
    }

    #[test]
    fn what_matters_less_is_left_out() {
        let all = [Severity::Critical, Severity::Warning, Severity::Warning, Severity::Info];
        let all = all.map(finding);
        assert_eq!(at_least(cli::Severity::Info, &all).len(), 4);
        assert_eq!(at_least(cli::Severity::Warning, &all).len(), 3);
        assert_eq!(at_least(cli::Severity::Critical, &all).len(), 1);
        assert_eq!(at_least(cli::Severity::Critical, &all[1..]).len(), 0);
    }

    #[test]
    fn what_could_not_be_examined_is_not_healthy() {
        let mut host = Snapshot::default();
        assert!(examined(&host).is_err());
        let at = pagewise_model::Source::line("/proc/meminfo", 1);
        host.memory.total = pagewise_model::Reading::found(pagewise_model::Bytes::new(1), at);
        assert!(examined(&host).is_ok());
    }
}
