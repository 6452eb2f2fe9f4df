// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor --nagios`: the one line that monitoring plugins print, with performance data.
//!
//! The form is that of the Monitoring Plugins guidelines: `SERVICE STATE - text | data`. A value that
//! is not known is `U`.

use pagewise_model::{
    Bytes, Finding, HostVerdict, Percent, Reading, ServiceState, Severity, Snapshot,
};

/// Maximum length of the text, in characters: some transports cut a line at 1 KiB, and the
/// performance data has to fit as well.
const LONGEST: usize = 600;
/// Maximum number of further findings that are named by their id.
const NAMED: usize = 5;

/// The values from which the line is made.
#[derive(Debug, Clone, Copy)]
pub struct ServiceReport<'a> {
    /// The state of the service.
    pub state: ServiceState,
    /// What was read of the host.
    pub host: &'a Snapshot,
    /// How short of memory the host is.
    pub verdict: &'a HostVerdict,
    /// The findings that count, most severe first.
    pub present: &'a [&'a Finding],
    /// Number of findings of rules that the user ignores.
    pub ignored: usize,
}

/// The line, with a trailing newline.
pub fn nagios(report: &ServiceReport<'_>) -> String {
    let data = performance_data(report);
    format!("MEMORY {} - {} | {data}\n", report.state.name(), one_line(&describe(report)))
}

/// The line if the state is not known because of an error.
pub fn nagios_unknown(why: &str) -> String {
    format!("MEMORY {} - {}\n", ServiceState::Unknown.name(), one_line(why))
}

fn describe(report: &ServiceReport<'_>) -> String {
    let is_trouble = |finding: &&&Finding| finding.severity > Severity::Info;
    let troubles: Vec<&Finding> = report.present.iter().filter(is_trouble).copied().collect();
    let ignored = match report.ignored {
        0 => String::new(),
        1 => "; 1 finding is ignored".to_owned(),
        more => format!("; {more} findings are ignored"),
    };
    let unknown = match report.verdict.unknown.first() {
        Some(unknown) => format!("; not known: {}", unknown.trim_end_matches('.')),
        None => String::new(),
    };
    let text = match troubles.split_first() {
        Some((worst, others)) => {
            format!("{}: {}{}", worst.id, worst.title, describe_others(others))
        }
        None => report.verdict.line.trim_end_matches('.').to_owned(),
    };
    format!("{text}{ignored}{unknown}")
}

fn describe_others(others: &[&Finding]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> = others.iter().take(NAMED).map(|finding| finding.id).collect();
    let dots = if others.len() > NAMED { ", …" } else { "" };
    format!(" (and {} more: {}{dots})", others.len(), ids.join(", "))
}

/// The text in one line of at most [`LONGEST`] characters, with an escape in place of `|`, which separates it from
/// the performance data.
fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        match c {
            _ if at == LONGEST => {
                shown.push('…');
                break;
            }
            '|' => shown.push_str("\\u{7c}"),
            '\n' | '\t' => shown.push(' '),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The performance data: `label=value[unit];warn;crit;min;max` for each value. The thresholds are empty, because
/// the rules of `doctor` decide.
fn performance_data(report: &ServiceReport<'_>) -> String {
    let memory = &report.host.memory;
    let used = memory.swap_total.get().zip(memory.swap_free.get());
    let used = used.map(|(total, free)| total.saturating_sub(free));
    let stall = &report.host.psi.memory.some.avg60;
    let of = |severity| report.present.iter().filter(|it| it.severity == severity).count();
    [
        format_bytes("available", memory.available.get(), &memory.total),
        format_bytes("swap_used", used, &memory.swap_total),
        match stall.get().map(Percent::get) {
            Some(percent) => format!("stalled_60s={percent:.2}%;;;0;100"),
            None => "stalled_60s=U;;;0;100".to_owned(),
        },
        format!("critical={};;;0;", of(Severity::Critical)),
        format!("warning={};;;0;", of(Severity::Warning)),
    ]
    .join(" ")
}

fn format_bytes(label: &str, value: Option<Bytes>, most: &Reading<Bytes>) -> String {
    let most = most.get().map_or_else(String::new, |most| most.get().to_string());
    match value {
        Some(value) => format!("{label}={}B;;;0;{most}", value.get()),
        None => format!("{label}=U;;;0;{most}"),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Level, Source};
    use proptest::prelude::*;

    use super::*;

    fn finding(severity: Severity, title: &str) -> Finding {
        Finding {
            id: "group-limit",
            about: None,
            severity,
            title: title.to_owned(),
            what: String::new(),
            why: String::new(),
            evidence: Vec::new(),
            next: Vec::new(),
        }
    }

    fn verdict(line: &str) -> HostVerdict {
        HostVerdict { level: Level::Calm, line: line.to_owned(), ..HostVerdict::default() }
    }

    fn line(state: ServiceState, host: &Snapshot, findings: &[Finding], ignored: usize) -> String {
        let verdict = verdict("Memory is not short: 2.0 of 4.0 GiB are available.");
        let present: Vec<&Finding> = findings.iter().collect();
        nagios(&ServiceReport { state, host, verdict: &verdict, present: &present, ignored })
    }

    #[test]
    fn the_line_has_state_text_and_data() {
        let mut host = Snapshot::default();
        let found = |bytes| Reading::found(Bytes::new(bytes), Source::line("/proc/meminfo", 1));
        host.memory.total = found(4 << 30);
        host.memory.available = found(2 << 30);
        host.memory.swap_total = found(0);
        host.memory.swap_free = found(0);
        assert_eq!(
            line(ServiceState::Ok, &host, &[finding(Severity::Info, "x")], 2),
            "MEMORY OK - Memory is not short: 2.0 of 4.0 GiB are available; 2 findings are ignored | \
             available=2147483648B;;;0;4294967296 swap_used=0B;;;0;0 stalled_60s=U;;;0;100 critical=0;;;0; \
             warning=0;;;0;\n"
        );
        let two =
            [finding(Severity::Critical, "/a.service waits"), finding(Severity::Warning, "/b")];
        let shown = line(ServiceState::Critical, &Snapshot::default(), &two, 0);
        assert!(
            shown.starts_with("MEMORY CRITICAL - group-limit: /a.service waits (and 1 more: group-limit) | available=U;;;0; "),
            "{shown}"
        );
    }

    proptest! {
        /// Whatever a name contains, there is one line with one separator, short enough.
        #[test]
        fn hostile_names_stay_in_the_text(title in "(?s).{0,900}", why in "(?s).{0,900}") {
            let findings = [finding(Severity::Warning, &title)];
            let shown = line(ServiceState::Warning, &Snapshot::default(), &findings, 0);
            prop_assert_eq!(shown.matches('|').count(), 1);
            prop_assert_eq!(shown.matches('\n').count(), 1);
            prop_assert!(!shown.trim_end().chars().any(char::is_control), "{:?}", shown);
            let (_, data) = shown.split_once(" | ").unwrap();
            prop_assert!(data.starts_with("available=U"));
            let shown = nagios_unknown(&why);
            prop_assert!(shown.starts_with("MEMORY UNKNOWN - ") && !shown.contains('|'));
            prop_assert_eq!(shown.matches('\n').count(), 1);
        }
    }
}
