// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The complete findings: what, why, the source of the numbers, and what to do next.

use pagewise_model::{Evidence, Finding};
use pagewise_report::text::severity;

use crate::blocks::{class, format_command};
use crate::page::{escape, wrap_wide_table};

pub(crate) fn findings(all: &[Finding]) -> String {
    (1..).zip(all).map(|(number, finding)| format_finding(number, finding)).collect()
}

fn format_finding(number: u32, finding: &Finding) -> String {
    let (label, role) = severity(finding.severity);
    let class = class(role);
    format!(
        "<article class=\"{class}\" id=\"finding-{number}\"><h3><span class=\"{class} tag\">{label}</span> {}</h3>\n\
         <p>{}</p>\n<p><strong>Why:</strong> {}</p>\n{}{}</article>\n",
        escape(&finding.title),
        escape(&finding.what),
        escape(&finding.why),
        next(&finding.next),
        evidence(finding.id, &finding.evidence)
    )
}

fn next(commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let commands: String = commands.iter().map(|command| format_command(command)).collect();
    format!("<p><strong>Next:</strong></p>\n{commands}")
}

/// Formats the source of each number; it is collapsed until the reader opens it.
fn evidence(id: &str, all: &[Evidence]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let id = escape(id);
    let mut text = format!(
        "<table><caption>Readings that prove {id}</caption>\n<thead><tr><th scope=\"col\">file and line</th>\
         <th scope=\"col\">value</th></tr></thead>\n<tbody>\n"
    );
    for evidence in all {
        let line = evidence.line.map(|line| format!(":{line}")).unwrap_or_default();
        text += &format!(
            "<tr><th scope=\"row\"><code>{}{line}</code></th><td>{}</td></tr>\n",
            escape(&evidence.path),
            escape(&evidence.value)
        );
    }
    let table = wrap_wide_table(&format!("Evidence of {id}"), &(text + "</tbody></table>"));
    format!("<details><summary>Evidence ({id})</summary>\n{table}</details>\n")
}
