// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The value of a counter in the text format of Prometheus or OpenMetrics, or a text that ends with a
//! number.

/// The sum of a counter over all of its labels; without a name, the number that is the last word of the
/// last line that is not empty. `None` if there is none, or if one of the values is no number.
pub fn parse_metric(text: &str, name: Option<&str>) -> Option<f64> {
    let Some(name) = name else {
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        return parse_value(line.split_whitespace().next_back()?);
    };
    let mut sum = None;
    for line in text.lines() {
        if let Some(rest) = line.trim_start().strip_prefix(name).and_then(skip_labels) {
            let value = parse_value(rest.split_whitespace().next()?)?;
            sum = Some(sum.unwrap_or(0.0) + value);
        }
    }
    sum
}

fn parse_value(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// What follows the name and its labels; `None` if this is another name.
fn skip_labels(rest: &str) -> Option<&str> {
    let trimmed = rest.trim_start_matches([' ', '\t']);
    let Some(labels) = trimmed.strip_prefix('{') else {
        return (trimmed.len() < rest.len()).then_some(trimmed);
    };
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in labels.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return labels.get(at + 1..),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_is_the_sum_over_its_labels() {
        let text = "# HELP requests_total Requests\n# TYPE requests_total counter\n\
                    requests_total{code=\"200\"} 7 1795700000\n\
                    requests_total {code=\"a } \\\" b\"}\t3 # {trace=\"7\"} 0.5\n\
                    requests_total_other 100\nrequests 1e3\n";
        assert_eq!(parse_metric(text, Some("requests_total")), Some(10.0));
        assert_eq!(parse_metric(text, Some("requests")), Some(1000.0));
        assert_eq!(parse_metric(text, Some("request")), None);
        assert_eq!(parse_metric("a{b=\"} 1", Some("a")), None);
        // half of the sum would be wrong
        assert_eq!(parse_metric("a{b=\"1\"} 1\na{b=\"2\"} NaN", Some("a")), None);
    }

    #[test]
    fn without_a_name_the_last_number_counts() {
        assert_eq!(parse_metric("served 12.5\n\n", None), Some(12.5));
        assert_eq!(parse_metric("7", None), Some(7.0));
        for text in ["", "NaN", "-3", "12 requests"] {
            assert_eq!(parse_metric(text, None), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[a{}\"\\\\= 0-9.é\\n]{0,60}") {
            parse_metric(&text, Some("a"));
            parse_metric(&text, None);
        }

        #[test]
        fn any_labels_are_skipped(value in 0u32..1000, label in "[^\\n]{0,20}") {
            let label = label.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assume!(!label.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}']));
            let line = format!("a{{b=\"{label}\",c=\"x\"}} {value}");
            prop_assert_eq!(parse_metric(&line, Some("a")), Some(f64::from(value)));
        }
    }
}
