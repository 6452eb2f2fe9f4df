// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the coverage of mappings in Prometheus's text format, one series for each name of a
//! mapping.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Coverage, Mapping};

type Value = fn(&Coverage) -> Option<u64>;

/// Name, help text and value of each metric.
const METRICS: &[(&str, &str, Value)] = &[
    ("mapped", "Address space of private anonymous mappings.", |c| Some(c.mapped)),
    ("eligible", "Address space in whole huge pages.", |c| Some(c.eligible)),
    ("resident", "Resident memory.", |c| Some(c.resident)),
    ("huge", "Memory in huge pages.", |c| Some(c.huge)),
    ("growth", "Estimate of memory that huge pages added.", Coverage::growth),
];

pub(super) fn format_metrics(mappings: &[Mapping]) -> String {
    let mut sums: BTreeMap<&str, Coverage> = BTreeMap::new();
    for mapping in mappings {
        sums.entry(&mapping.name).or_default().add(&mapping.coverage);
    }
    let mut text = String::new();
    for (name, help, value) in METRICS {
        let metric = format!("hugepool_process_{name}_bytes");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge");
        for (mapping, coverage) in &sums {
            if let Some(value) = value(coverage) {
                let _ = writeln!(text, "{metric}{{mapping=\"{}\"}} {value}", escape(mapping));
            }
        }
    }
    text
}

/// A program chooses the names of its mappings, so characters that would end the label are escaped.
fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_a_name_are_one_series() {
        let mapping = |name: &str, huge, sampled| Mapping {
            name: name.to_owned(),
            start: 0,
            end: 8192,
            coverage: Coverage {
                mapped: 8192,
                huge,
                sampled,
                zero: sampled / 2,
                ..Coverage::default()
            },
        };
        let text = format_metrics(&[
            mapping("anonymous", 4096, 2),
            mapping("a\"b", 0, 0),
            mapping("anonymous", 4096, 0),
        ]);
        assert!(
            text.contains("hugepool_process_huge_bytes{mapping=\"anonymous\"} 8192\n"),
            "{text}"
        );
        assert!(
            text.contains("hugepool_process_mapped_bytes{mapping=\"a\\\"b\"} 8192\n"),
            "{text}"
        );
        assert!(
            text.contains("hugepool_process_growth_bytes{mapping=\"anonymous\"} 4096\n"),
            "{text}"
        );
        assert!(!text.contains("growth_bytes{mapping=\"a\\"), "{text}");
        let odd =
            text.lines().filter(|line| !line.starts_with('#') && line.split(' ').count() != 2);
        assert_eq!(odd.count(), 0, "{text}");
    }
}
