// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The alert and recording rules for Prometheus.
//!
//! In the expression of a rule, `$NAME` is replaced by the full name of a metric in the table, so
//! that renaming a metric changes its rules as well. Where the verdict and the findings of Pagewise
//! judge something, a rule uses their result: a threshold of its own would be a second judgement,
//! which could contradict `pagewise doctor`.

use std::fmt::Write as _;

use crate::table::METRICS;

/// Maximum number of rules, including recording rules.
pub const MOST_RULES: usize = 12;

/// What a rule does with the result of its expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// The rule stores the result under its name.
    Records,
    /// The rule raises an alert while the expression has a result.
    Alerts {
        /// Minutes for which the expression must have a result before the alert is raised.
        minutes: u32,
        /// How urgent the alert is: the value of its label `severity`.
        severity: &'static str,
        /// What is wrong, as a text with Prometheus templates.
        summary: &'static str,
        /// What the user should look at.
        description: &'static str,
        /// The subject of `pagewise explain` that explains the background.
        subject: &'static str,
    },
}

/// A rule for Prometheus.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name of the alert, or of the recorded series.
    pub name: &'static str,
    /// The expression in PromQL; `$NAME` stands for a metric of the table.
    expression: &'static str,
    /// What the rule does with the result of its expression.
    pub does: Does,
}

const LOOK: &str = "On the machine: pagewise doctor. What led to it: pagewise why --since 1h.";

/// All rules, in the order in which they are written.
pub const RULES: &[Rule] = &[
    Rule {
        name: "pagewise:pressure_memory_waiting:ratio_rate5m",
        expression: "rate($pressure_memory_waiting[5m])",
        does: Does::Records,
    },
    Rule {
        name: "pagewise:swap_tier_used:ratio",
        expression: "$swap_tier_used / ($swap_tier_size > 0)",
        does: Does::Records,
    },
    Rule {
        name: "PagewiseMemoryCritical",
        expression: "$verdict_level == 4",
        does: Does::Alerts {
            minutes: 1,
            severity: "critical",
            summary: "{{ $labels.instance }}: memory is nearly exhausted, or the kernel killed a process for it",
            description: LOOK,
            subject: "available",
        },
    },
    Rule {
        name: "PagewiseMemoryShort",
        expression: "$verdict_level >= 3",
        does: Does::Alerts {
            minutes: 5,
            severity: "warning",
            summary: "{{ $labels.instance }}: memory has been short for 5 minutes, here or in a cgroup, or a kill was in that time",
            description: LOOK,
            subject: "available",
        },
    },
    Rule {
        name: "PagewiseMemoryPressure",
        expression: "pagewise:pressure_memory_waiting:ratio_rate5m{kind=\"some\"} > 0.1",
        does: Does::Alerts {
            minutes: 5,
            severity: "warning",
            summary: "{{ $labels.instance }}: tasks waited for memory {{ $value | humanizePercentage }} of the time",
            description: LOOK,
            subject: "psi",
        },
    },
    Rule {
        name: "PagewiseOomKill",
        expression: "increase($oom_kills[10m]) > 0",
        does: Does::Alerts {
            minutes: 0,
            severity: "critical",
            summary: "{{ $labels.instance }}: the kernel killed a process for lack of memory in the last 10 minutes",
            description: "On the machine: pagewise why --last-oom, or pagewise oom.",
            subject: "oom",
        },
    },
    Rule {
        name: "PagewiseProgramKill",
        // the metric is a gauge, because kills leave the log; only an increase means a new kill
        expression: "$kills_in_log{by=\"program\"} - $kills_in_log{by=\"program\"} offset 10m > 0",
        does: Does::Alerts {
            minutes: 0,
            severity: "critical",
            summary: "{{ $labels.instance }}: a program such as systemd-oomd killed processes in the last 10 minutes",
            description: "On the machine: pagewise oom names the program, and what it killed.",
            subject: "oom",
        },
    },
    Rule {
        name: "PagewiseSwapFull",
        expression: "$finding{id=\"swap-full\", severity!=\"info\"} == 1",
        does: Does::Alerts {
            minutes: 5,
            severity: "warning",
            summary: "{{ $labels.instance }}: swap is full",
            description: LOOK,
            subject: "available",
        },
    },
    Rule {
        name: "PagewiseZramFull",
        expression: "$finding{id=\"zram-full\", severity!=\"info\"} == 1",
        does: Does::Alerts {
            minutes: 5,
            severity: "warning",
            summary: "{{ $labels.instance }}: a zram device is at its limit",
            description: LOOK,
            subject: "mm_stat",
        },
    },
    Rule {
        name: "PagewiseMemoryGrows",
        expression: "$finding{id=\"memory-grows\", severity!=\"info\"} == 1",
        does: Does::Alerts {
            minutes: 10,
            severity: "warning",
            summary: "{{ $labels.instance }}: a process or the machine uses more and more memory",
            description: LOOK,
            subject: "available",
        },
    },
    Rule {
        name: "PagewiseKernelMemory",
        expression: "$finding{id=\"kernel-memory\", severity!=\"info\"} == 1",
        does: Does::Alerts {
            minutes: 10,
            severity: "warning",
            summary: "{{ $labels.instance }}: the kernel itself uses much memory",
            description: LOOK,
            subject: "available",
        },
    },
    Rule {
        name: "PagewiseGroupNearLimit",
        expression: "$group_memory_headroom / ($group_memory_headroom + $group_memory_used) < 0.1",
        does: Does::Alerts {
            minutes: 10,
            severity: "warning",
            summary: "{{ $labels.instance }}: cgroup {{ $labels.group }} uses 90 % of its memory limit or more",
            description: "On the machine: pagewise limits says which limit it needs.",
            subject: "cgroups",
        },
    },
];

impl Rule {
    /// Returns the expression with the full names of its metrics.
    pub fn expression(&self) -> String {
        expand_names(self.expression)
    }
}

/// Replaces each `$NAME` by the full name of the metric. A name that is not in the table is kept
/// with its `$`; tests check that no expression contains such a name.
pub(crate) fn expand_names(expression: &str) -> String {
    let mut parts = expression.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        match METRICS.iter().find(|metric| metric.name == name) {
            Some(metric) => text.push_str(&metric.full_name()),
            None => _ = write!(text, "${name}"),
        }
        text.push_str(rest);
    }
    text
}

/// Returns the rules as a file for Prometheus, to be listed in `rule_files`.
pub fn format_rules_file() -> String {
    let mut text = String::from(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
         #\n\
         # Alert and recording rules for the metrics of `pagewise monitor`. Generated by `cargo xtask prometheus` from\n\
         # crates/metrics/src/rule.rs: do not edit. docs/monitor.md says how to use them.\n\
         groups:\n  - name: pagewise\n    rules:\n",
    );
    for rule in RULES {
        let expression = quote_yaml(&rule.expression());
        // writing to a String cannot fail
        let _ = match rule.does {
            Does::Records => {
                writeln!(text, "      - record: {}\n        expr: {expression}", rule.name)
            }
            Does::Alerts { minutes, severity, summary, description, subject } => writeln!(
                text,
                "      - alert: {}\n        expr: {expression}\n        for: {minutes}m\n        labels:\n          \
                 severity: {severity}\n        annotations:\n          summary: {}\n          description: {}\n          \
                 runbook: {}",
                rule.name,
                quote_yaml(summary),
                quote_yaml(description),
                quote_yaml(&format!("pagewise explain {subject}")),
            ),
        };
    }
    text
}

/// Formats a text as a YAML scalar in single quotes.
fn quote_yaml(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
