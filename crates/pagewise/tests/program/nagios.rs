// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor --nagios` and `doctor --journal` as a monitoring system and a timer start them.

use pagewise_testkit::scene::{recording, slugs};
use serde_json::Value;

use crate::program::run;

/// `NAME=VALUE[UNIT];WARN;CRIT;MIN;MAX`
#[track_caller]
fn check_data(data: &str) {
    for one in data.split(' ') {
        let (name, rest) = one.split_once('=').unwrap_or_else(|| panic!("{data}"));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{data}");
        let parts: Vec<&str> = rest.split(';').collect();
        assert_eq!(parts.len(), 5, "{data}");
        let value = parts[0].trim_end_matches(['B', '%']);
        assert!(value == "U" || value.parse::<f64>().is_ok(), "{data}");
        let bounds = parts[1..].iter().all(|it| it.is_empty() || it.parse::<f64>().is_ok());
        assert!(bounds, "{data}");
    }
}

/// The state is that of the findings which `doctor` prints, on every recording.
#[test]
fn the_state_agrees_with_the_findings_of_every_recording() {
    let mut states = [0; 3];
    for slug in slugs() {
        let root = recording(&slug).display().to_string();
        let plugin = run(&["doctor", "--nagios", "--root", &root]);
        assert_eq!(plugin.out.lines().count(), 1, "{}", plugin.out);
        let (text, data) = plugin.out.trim_end().split_once(" | ").unwrap();
        check_data(data);
        let doctor = run(&["doctor", "--json", "--root", &root]);
        let document: Value = serde_json::from_str(&doctor.out).unwrap();
        let findings = document["findings"].as_array().unwrap();
        let level = document["verdict"]["level"].as_str().unwrap();
        let has = |severity| findings.iter().any(|finding| finding["severity"] == severity);
        let state = match doctor.status {
            3 if has("critical") || level == "critical" => 2,
            3 => 1,
            _ => 0,
        };
        let name = ["OK", "WARNING", "CRITICAL"][state];
        assert!(text.starts_with(&format!("MEMORY {name} - ")), "{slug}: {text}");
        assert_eq!(plugin.status, i32::try_from(state).unwrap(), "{slug}: {text}");
        states[state] += 1;
        if let Some(first) = findings.first().filter(|_| state > 0) {
            assert!(text.contains(first["title"].as_str().unwrap()), "{slug}: {text}");
        }
    }
    assert!(states.iter().all(|&count| count > 0), "{states:?}");
}

#[test]
fn every_error_is_unknown() {
    let unknown = |arguments: &[&str], why: &str| {
        let ran = run(arguments);
        assert_eq!(ran.status, 3, "{arguments:?}: {}", ran.err);
        assert!(ran.out.starts_with("MEMORY UNKNOWN - ") && ran.out.contains(why), "{}", ran.out);
        assert_eq!(ran.out.lines().count(), 1);
    };
    unknown(&["doctor", "--nagios", "--root", "/no/such"], "/no/such");
    unknown(&["doctor", "--nagios", "--config", "/no/such"], "/no/such");
    unknown(&["doctor", "--nagios", "--json"], "--json");
    unknown(&["doctor", "--nagios", "--bogus"], "wrong usage");
    unknown(&["doctor", "--nagios", "--oom"], "wrong usage");
    assert_eq!(run(&["doctor", "--nagios", "--help"]).status, 0);
}

#[test]
fn the_journal_is_of_this_machine() {
    for more in [&["--root", "/no/such"][..], &["--json"]] {
        let ran = run(&[&["doctor", "--journal"], more].concat());
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
        assert!(ran.err.contains("  next   "), "{}", ran.err);
    }
    assert_eq!(run(&["doctor", "--journal", "--html", "x"]).status, 2);
}
