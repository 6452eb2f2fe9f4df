// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as a user runs it: exit status, streams, files. Needs no privileges.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{empty_folder, pagewise, run, run_in};

#[test]
fn help_and_version_are_no_errors() {
    for option in ["--help", "--version", "-h", "-V"] {
        let ran = run(&[option]);
        assert_eq!(ran.status, 0, "{option}");
        assert!(ran.out.contains("pagewise") || ran.out.contains("memory"), "{}", ran.out);
    }
}

/// The list of verbs fits 60 columns, with and without colours, and without a terminal.
#[test]
fn help_lists_the_verbs_in_groups_that_fit_60_columns() {
    let help = run(&["--help"]).out;
    assert!(!help.contains('\x1b'));
    let groups = ["See:", "Measure:", "Prove:", "Change:", "Share and integrate:", "Options:"];
    let places: Vec<_> = groups.iter().map(|group| help.find(&format!("\n{group}\n"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{help}");
    let verbs = &help[places[0].unwrap()..places[5].unwrap()];
    assert!(verbs.lines().all(|line| line.chars().count() <= 60), "{verbs}");
    for hidden in ["ledger", "capabilities", "names", "show-in-pager"] {
        assert!(!verbs.contains(&format!("\n  {hidden} ")), "{hidden}");
        assert_eq!(run(&[hidden, "--help"]).status, 0, "{hidden}: a hidden name works");
    }
}

/// A feature that the former verb lists is also in the section, which no complete report has.
#[test]
fn features_are_a_section_that_only_its_name_prints() {
    let root = "../../fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-limit.tar";
    let run = |line: &[&str]| run(&[&["--root", root], line].concat()).out;
    let section = run(&["report", "--only", "capabilities"]);
    let former = run(&["capabilities"]);
    let features = former.split_once("\n\n").unwrap().1;
    assert!(features.lines().count() > 20 && section.contains(features.trim_end()), "{section}");
    assert!(!run(&["report", "--all"]).contains("mempolicy.weighted_interleave  "));
}

#[test]
fn wrong_usage_exits_with_2_and_prints_no_answer() {
    for line in [
        &["--nonsense"][..],
        &["nonsense"],
        &["--interval", "soon"],
        &["--interval", "25h"],
        &["report", "-q", "-v"],
        &["capture", "-o", "a", "--folder", "b"],
        &["completions", "tcsh-of-bob"],
        &["schema", "everything"],
        &["man"],
    ] {
        let ran = run(line);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{line:?}");
        assert!(ran.err.starts_with("error:"), "{line:?}: {}", ran.err);
    }
}

#[test]
fn without_a_verb_it_reports() {
    for line in [&["--interval", "20ms"][..], &["report", "--interval", "20ms"]] {
        let ran = run(line);
        assert_eq!(ran.status, 0, "{}", ran.err);
        assert!(!ran.out.is_empty());
    }
}

#[test]
fn what_is_piped_has_no_colours() {
    for verb in ["report", "status", "doctor"] {
        let ran = run(&[verb, "--interval", "20ms"]);
        assert!(!ran.out.contains('\x1b'), "{verb}");
        assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{verb}");
    }
}

#[test]
fn json_is_one_document_with_its_schemas_name() {
    for verb in ["report", "status", "doctor"] {
        let ran = run(&[verb, "--json", "--interval", "20ms"]);
        assert!(ran.status == 0 || verb == "doctor" && ran.status == 3, "{}", ran.err);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(document["schema"], format!("pagewise/{verb}/1"));
        let cost = &document["cost"];
        assert!(cost["cpu_seconds"].as_f64().unwrap() > 0.0);
        assert!(cost["bytes_read"].as_u64().unwrap() > 1000);
    }
}

#[test]
fn features_are_labels_that_a_node_may_have() {
    let run = |args: &[&str]| run(&[&["capabilities"], args].concat());
    let shown = run(&["--json"]);
    let document: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(document["schema"], "pagewise/capabilities/1");
    let all = document["capabilities"].as_array().unwrap();
    let labels = run(&["--labels"]).out;
    let value = |feature: &str| {
        let line =
            labels.lines().find_map(|line| line.strip_prefix(&format!("pagewise.dev/{feature}=")));
        line.map(str::to_owned)
    };
    for it in all {
        let (feature, is) = (it["feature"].as_str().unwrap(), it["state"]["is"].as_str().unwrap());
        let expected = match is {
            "present" => Some("true"),
            "loadable" => Some("module"),
            "off" => Some("off"),
            "not-built" | "missing" => Some("false"),
            _ => None,
        };
        assert_eq!(value(feature).as_deref(), expected, "{feature}: {is}\n{labels}");
    }
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
    let word = enabled.split(['[', ']']).nth(1).unwrap();
    assert_eq!(value("thp.enabled").as_deref(), Some(word));
    // a name has at most 63 characters, only letters, digits and these, and ends with a letter or
    // digit
    for line in labels.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.strip_prefix("pagewise.dev/").unwrap().split_once('=').unwrap();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(name.len() <= 63 && name.chars().chain(value.chars()).all(plain), "{line}");
        assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{line}");
    }
    let both = run(&["--labels", "--json"]);
    assert_eq!((both.status, both.out.as_str()), (2, ""), "{}", both.err);
}

#[test]
fn a_subject_is_explained_with_values_and_the_list_names_it() {
    let list = run(&["explain", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(list["schema"], "pagewise/subjects/1");
    let subjects = list["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), run(&["explain"]).out.lines().count() - 3);
    for subject in subjects {
        let name = subject["subject"].as_str().unwrap();
        let page = run(&["explain", name, "--json"]);
        assert_eq!((page.status, page.err.as_str()), (0, ""), "{name}");
        let page: serde_json::Value = serde_json::from_str(&page.out).unwrap();
        assert_eq!(page["schema"], "pagewise/explain/1");
        assert_eq!((&page["subject"], &page["title"]), (&subject["subject"], &subject["title"]));
    }
    let available = run(&["explain", "available"]);
    assert_eq!(available.status, 0, "{}", available.err);
    assert!(available.out.contains("/proc/meminfo:3"), "{}", available.out);
    let unknown = run(&["explain", "swapiness"]);
    assert_eq!((unknown.status, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.contains("'swappiness'"), "{}", unknown.err);
}

#[test]
fn a_schema_is_json() {
    for noun in ["report", "status", "doctor"] {
        let ran = run(&["schema", noun]);
        assert_eq!(ran.status, 0);
        let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert!(schema.is_object());
    }
}

#[test]
fn what_looking_cost_is_told_on_request_and_not_otherwise() {
    let listed = run(&["status", "-v"]);
    assert!(listed.err.contains(" s CPU; read "), "{}", listed.err);
    assert_eq!(run(&["status"]).err, "");
}

/// The doctor's exit status says whether there are findings; what has ended, such as a kill of
/// another test, counts with `--since`.
#[test]
fn the_doctor_exits_with_3_when_there_are_findings() {
    let ran = run(&["doctor", "--json", "--interval", "20ms", "--since", "24h"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let none = document["findings"].as_array().unwrap().is_empty();
    assert_eq!(ran.status, if none { 0 } else { 3 });
}

/// Findings that were not requested are neither printed nor counted.
#[test]
fn the_doctor_leaves_out_what_matters_less() {
    let severities = |least: &str| {
        let options = ["--interval", "0", "--since", "24h", "--min-severity", least];
        let ran = run(&[&["doctor", "--json"], &options[..]].concat());
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let findings = document["findings"].as_array().unwrap();
        let found = findings.iter().map(|one| one["severity"].as_str().unwrap().to_owned());
        let found: Vec<String> = found.collect();
        assert_eq!(ran.status, if found.is_empty() { 0 } else { 3 }, "{least}: {}", ran.err);
        found
    };
    assert!(severities("warning").iter().all(|one| one != "info"));
    assert!(severities("critical").iter().all(|one| one == "critical"));
    assert!(severities("info").len() >= severities("critical").len());
    assert_eq!(run(&["doctor", "--min-severity", "grave"]).status, 2);
    assert!(run(&["doctor", "--help"]).out.contains("--min-severity"));
}

#[test]
fn a_mistyped_command_is_guessed() {
    assert!(run(&["reprot"]).err.contains("'report'"));
}

#[test]
fn places_that_cannot_be_written_to_are_named_with_the_way_on() {
    let folder = empty_folder();
    for line in [&["capture", "-o", "none/x", "--interval", "0"][..], &["man", "/dev/null"]] {
        let ran = run_in(folder.path(), line);
        assert_eq!(ran.status, 1, "{line:?}");
        assert!(
            ran.err.contains("expected a folder") && ran.err.contains("\n  next   "),
            "{}",
            ran.err
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for line in [&["status"][..], &["report", "--interval", "20ms"], &["completions", "bash"]] {
        let mut child =
            pagewise(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        assert_eq!((child.wait().unwrap().code(), output.as_str()), (Some(0), ""), "{line:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = pagewise(&["status"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let output = String::from_utf8(ended.stderr).unwrap();
    assert!(output.starts_with("pagewise: standard output: No space left"), "{output}");
}

#[test]
fn ctrl_c_ends_the_wait_and_says_so() {
    let child = pagewise(&["report", "--interval", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    assert!(
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            catches_ctrl_c(child.id())
        }),
        "it never asked for the signal"
    );
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let output = String::from_utf8(ended.stderr).unwrap();
    // if it had waited the whole minute, it would have printed a report
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(130), 0), "{output}");
    assert!(output.starts_with("pagewise: stopped by Ctrl-C after "), "{output}");
}

/// Whether the process has a handler for SIGINT (2), according to its mask of caught signals.
fn catches_ctrl_c(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn the_interval_is_waited_for() {
    let ran = run(&["report", "--json", "--interval", "400ms"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(report["interval"]["seconds"].as_f64().unwrap() >= 0.4, "{}", report["interval"]);
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.status, 0);
        for verb in ["report", "status", "doctor", "capture", "--smaps-budget"] {
            assert!(ran.out.contains(verb.trim_start_matches('-')), "{shell}: {verb}");
        }
        for item in ["bookworm", "trixie/generic", "systemd/sid"] {
            assert!(ran.out.contains(item), "{shell}: {item}");
        }
    }
}

#[test]
fn man_pages_are_written_for_every_verb() {
    let folder = empty_folder();
    let ran = run_in(folder.path(), &["man", "pages/man1"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let pages = folder.path().join("pages/man1");
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    for name in ["pagewise.1", "pagewise-report.1", "pagewise-capture.1", "pagewise-undo.8"] {
        assert!(page(name).contains(".SH NAME"), "{name}");
    }
    let list = page("pagewise.1");
    assert!(list.contains("pagewise\\-report(1)") && list.contains("pagewise\\-undo(8)"), "{list}");
}

/// The result depends on the machine; `make test-riscv64` checks that the counts are right.
#[test]
fn page_walks_are_counted_or_it_is_said_why_not() {
    let pid = std::process::id().to_string();
    let words = ["thp", "--interval", "0s", "--page-walks", "100ms"];
    let ran = run(&[&words[..], &["--pid", &pid, "--json"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let cycles = &document["page_walks"]["cycles"];
    let counted = cycles["value"].as_u64().is_some();
    let why = cycles["absent"].as_str().or(cycles["denied"].as_str());
    assert!(counted != why.is_some_and(|why| !why.is_empty()), "{cycles}");
    let text = run(&words).out;
    assert_eq!(text.contains("not counted"), text.contains("--canary"), "{text}");
    assert!(text.contains("  Page walks   "), "{text}");
}

#[test]
fn nothing_can_be_counted_in_a_recording() {
    let folder = empty_folder();
    let root = folder.path().to_str().unwrap();
    let ran = run(&["--root", root, "thp", "--page-walks", "100ms"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("thp --page-walks"), "{}", ran.err);
}
