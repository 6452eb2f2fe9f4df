// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules and dashboards in `packaging/prometheus` are those of the tables, and name only metrics
//! and labels that exist.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::allow_attributes,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::path::Path;

use pagewise_metrics::{DASHBOARDS, Does, METRICS, MOST_RULES, RULES, format_rules_file};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");

/// Compares a file with what the tables say; with `BLESS=1`, writes it.
fn compare(name: &str, text: &str) {
    let path = Path::new(FOLDER).join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(FOLDER).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "packaging/prometheus/{name}: `cargo xtask prometheus` rewrites it");
}

#[test]
fn the_files_are_those_of_the_tables() {
    compare("pagewise.rules.yml", &format_rules_file());
    for dashboard in DASHBOARDS {
        compare(&format!("{}.json", dashboard.file), &dashboard.document());
    }
    let queries: Vec<String> =
        DASHBOARDS.iter().flat_map(pagewise_metrics::Dashboard::all_queries).collect();
    compare("queries.txt", &(queries.join("\n") + "\n"));
}

/// Every word of an expression that begins with `pagewise_`, with the labels in its braces.
fn metrics_of(expression: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("pagewise_") {
        let rest = &expression[at..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let braces = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels = braces.map_or("", |(labels, _)| labels).split(',').filter(|it| !it.is_empty());
        let name_of = |label: &str| label.trim().split(['=', '!']).next().unwrap().to_owned();
        found.push((name.to_owned(), labels.map(name_of).collect()));
    }
    found
}

#[test]
fn rules_and_panels_name_metrics_and_labels_that_exist() {
    let rules = RULES.iter().map(pagewise_metrics::Rule::expression);
    let panels = DASHBOARDS.iter().flat_map(pagewise_metrics::Dashboard::all_queries);
    let mut named = BTreeSet::new();
    for expression in rules.chain(panels) {
        assert!(!expression.contains(['$', '@']), "{expression}");
        for (name, labels) in metrics_of(&expression) {
            let metric = METRICS.iter().find(|metric| metric.full_name() == name);
            let metric = metric.unwrap_or_else(|| panic!("no metric {name}: {expression}"));
            let known = |label: &String| label == "instance" || metric.labels.contains(&&**label);
            assert!(labels.iter().all(known), "{name} has no such label: {expression}");
            named.insert(name);
        }
    }
    // no metric is left out of the dashboards
    let all: BTreeSet<String> = METRICS.iter().map(pagewise_metrics::Metric::full_name).collect();
    assert_eq!(named, all);
}

#[test]
fn rules_are_few_and_each_has_a_name_of_its_own() {
    assert!(RULES.len() <= MOST_RULES, "{}", RULES.len());
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(RULES.iter().any(|rule| matches!(rule.does, Does::Alerts { minutes: 0, .. })));
}
