// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of the entries that `doctor --journal` writes. docs/doctor.md lists them for users.

use pagewise_model::{ChangedFinding, EndReason, Finding, FindingChange, Severity};

/// Ids of the three kinds of entries: the values of the field `MESSAGE_ID`.
const BEGINS: &str = "2786d5abc3684be08857dad440196815";
const WORSENS: &str = "11691d98f95b4cac879993a2b103139c";
const ENDS: &str = "ee85fca456ad413ea7001306dfdc269d";

/// The fields of the entry for a finding that changed: names and values. The same name may occur
/// several times.
pub fn journal_fields(changed: &ChangedFinding) -> Vec<(&'static str, String)> {
    let known = &changed.known;
    let (id, state) = match changed.change {
        FindingChange::Begins => (BEGINS, "begins"),
        FindingChange::Worsens => (WORSENS, "worsens"),
        FindingChange::Ends(_) => (ENDS, "ends"),
    };
    let severity = changed.finding.as_ref().map_or(known.severity, |finding| finding.severity);
    let mut fields = vec![
        ("MESSAGE", message(changed, severity, state)),
        ("MESSAGE_ID", id.to_owned()),
        ("PRIORITY", priority(changed.change, severity).to_string()),
        ("SYSLOG_IDENTIFIER", "pagewise".to_owned()),
        ("PAGEWISE_FINDING", known.id.clone()),
        ("PAGEWISE_STATE", state.to_owned()),
        ("PAGEWISE_SEVERITY", severity.word().to_owned()),
    ];
    fields.extend(known.about.iter().map(|about| ("PAGEWISE_ABOUT", about.clone())));
    if let Some(unit) = &known.unit {
        fields.push(("PAGEWISE_UNIT", unit.clone()));
        // `journalctl --unit` shows an entry of root with this field together with the unit's own
        let system = known.about.as_deref().and_then(system_unit);
        fields.extend(system.map(|unit| ("OBJECT_SYSTEMD_UNIT", unit.to_owned())));
    }
    fields.extend(changed.finding.iter().flat_map(details));
    fields
}

/// The unit of the system's systemd that contains this cgroup, in systemd's own spelling.
fn system_unit(cgroup: &str) -> Option<&str> {
    let path = cgroup.strip_suffix(" (deleted)").unwrap_or(cgroup);
    path.split('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

fn details(finding: &Finding) -> Vec<(&'static str, String)> {
    const SHOWN: usize = 8;
    let mut fields =
        vec![("PAGEWISE_WHAT", finding.what.clone()), ("PAGEWISE_WHY", finding.why.clone())];
    let evidence = finding.evidence.iter().take(SHOWN).map(|it| {
        let line = it.line.map(|line| format!(":{line}")).unwrap_or_default();
        ("PAGEWISE_EVIDENCE", format!("{}{line} {}", it.path, it.value))
    });
    fields.extend(evidence);
    let next = finding.next.iter().take(SHOWN);
    fields.extend(next.map(|command| ("PAGEWISE_NEXT", command.clone())));
    fields
}

fn message(changed: &ChangedFinding, severity: Severity, state: &str) -> String {
    let (id, about) = (&changed.known.id, &changed.known.about);
    let Some(finding) = &changed.finding else {
        let about = about.as_ref().map_or_else(String::new, |about| format!(" ({about})"));
        let why = match changed.change {
            FindingChange::Ends(EndReason::Ignored) => "its rule is ignored now".to_owned(),
            FindingChange::Ends(EndReason::Below(now)) => {
                format!("its severity is {} now", now.word())
            }
            _ => format!("before: {}", changed.known.title),
        };
        return format!("{id}{about} {state}; {why}");
    };
    format!("{} {id} {state}: {}", severity.word().to_uppercase(), finding.title)
}

/// The priority of syslog: 2 is critical, 4 warning, 6 informational.
fn priority(change: FindingChange, severity: Severity) -> u8 {
    match (change, severity) {
        (FindingChange::Ends(_), _) | (_, Severity::Info) => 6,
        (_, Severity::Warning) => 4,
        (_, Severity::Critical) => 2,
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Evidence, KnownFinding};

    use super::*;

    fn changed(change: FindingChange, unit: Option<&str>) -> ChangedFinding {
        let finding = Finding {
            id: "group-limit",
            about: None,
            severity: Severity::Critical,
            title: "/a.service waits".to_owned(),
            what: "What.".to_owned(),
            why: "Why.".to_owned(),
            evidence: vec![Evidence {
                path: "/p".to_owned(),
                line: Some(3),
                value: "v".to_owned(),
            }],
            next: vec!["one".to_owned(), "two".to_owned()],
        };
        ChangedFinding {
            change,
            known: KnownFinding {
                id: "group-limit".to_owned(),
                about: Some("/a.service".to_owned()),
                unit: unit.map(str::to_owned),
                severity: Severity::Critical,
                title: finding.title.clone(),
                evidence: Vec::new(),
                newest_event: None,
            },
            finding: (!matches!(change, FindingChange::Ends(_))).then_some(finding),
        }
    }

    #[test]
    fn a_finding_that_begins_has_all_fields() {
        let fields = journal_fields(&changed(FindingChange::Begins, Some("a.service")));
        let shown: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "MESSAGE=CRITICAL group-limit begins: /a.service waits",
            "MESSAGE_ID=2786d5abc3684be08857dad440196815",
            "PRIORITY=2",
            "SYSLOG_IDENTIFIER=pagewise",
            "PAGEWISE_FINDING=group-limit",
            "PAGEWISE_STATE=begins",
            "PAGEWISE_SEVERITY=critical",
            "PAGEWISE_ABOUT=/a.service",
            "PAGEWISE_UNIT=a.service",
            "OBJECT_SYSTEMD_UNIT=a.service",
            "PAGEWISE_WHAT=What.",
            "PAGEWISE_WHY=Why.",
            "PAGEWISE_EVIDENCE=/p:3 v",
            "PAGEWISE_NEXT=one",
            "PAGEWISE_NEXT=two",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_unit_is_spelled_as_systemd_does() {
        assert_eq!(system_unit(r"/system.slice/a\x2db.service/x"), Some(r"a\x2db.service"));
        let inner = "/user.slice/user-7.slice/user@7.service/app.slice/b.scope";
        assert_eq!(system_unit(inner), Some("user@7.service"));
        assert_eq!(system_unit("/batch/job"), None);
    }

    #[test]
    fn an_end_says_why_and_is_no_alarm() {
        let message = |reason| {
            let fields = journal_fields(&changed(FindingChange::Ends(reason), Some("docker 5f")));
            assert!(fields.contains(&("PRIORITY", "6".to_owned())));
            fields[0].1.clone()
        };
        assert_eq!(
            message(EndReason::Gone),
            "group-limit (/a.service) ends; before: /a.service waits"
        );
        assert!(message(EndReason::Ignored).ends_with("ends; its rule is ignored now"));
        assert!(message(EndReason::Below(Severity::Info)).ends_with("its severity is info now"));
    }
}
