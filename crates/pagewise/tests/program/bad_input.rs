// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` of processes that change: ones that fork as fast as possible, and stopped ones.

use std::process::{Command, Stdio};

use crate::program::{finish, pagewise};
use pagewise_testkit::{Target, target_program as program};
use serde_json::Value;

fn scan(arguments: &[&str]) -> Value {
    let ran =
        finish(&mut pagewise(&[&["scan", "--json", "--algorithm", "lz4"], arguments].concat()));
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

fn sum(estimates: &[Value], key: &str) -> u64 {
    estimates.iter().map(|estimate| estimate[key].as_u64().unwrap()).sum()
}

/// While processes start and end, the total is the sum of its parts, contains no page that did not
/// exist, and is labelled partial if and only if a part is. Whether a process ends while it is read
/// is left to chance here; `an_exit_is_seen` in pagewise-sample lets one end.
#[test]
fn in_a_storm_of_forks_totals_are_of_what_was_there() {
    let mut storm = Target::from_command(Command::new(program()).args(["storm", "600"]));
    let name = format!("storm-{}", storm.pid());
    let mut seen = 0;
    for round in 0..30 {
        // selected by name, so that children are found in any state: there are up to 64
        let how = [&["--exact"][..], &["--duplicates"], &["--sample", "2000"]][round % 3];
        let document = scan(&[how, &["--name", &name]].concat());
        let estimates = document["estimates"].as_array().unwrap();
        let (whole, parts) = estimates.split_first().unwrap();
        let is_storm = |part: &&Value| part["source"]["pid"] == storm.pid();
        if parts.is_empty() {
            continue;
        }
        assert_eq!(
            whole["mapped_pages"].as_u64(),
            Some(sum(parts, "mapped_pages")),
            "{document:#}"
        );
        assert!(whole["pages"].as_u64() <= whole["mapped_pages"].as_u64(), "{document:#}");
        // with shares of pages, each sum is rounded; in a sample, each part is estimated separately
        let off = whole["pages"].as_u64().unwrap().abs_diff(sum(parts, "pages"));
        assert!(how[0] == "--sample" || off <= parts.len() as u64, "{document:#}");
        assert_eq!(whole["sampled_pages"].as_u64().unwrap(), sum(parts, "sampled_pages"));
        assert!(parts.iter().filter(is_storm).all(|part| part["partial"].is_null()));
        for part in parts {
            let pages = |key| part[key].as_u64().unwrap();
            assert!(pages("sampled_pages") <= pages("mapped_pages"), "{part:#}");
            assert!(pages("pages") <= pages("mapped_pages"), "{part:#}");
            assert!(pages("mapped_pages") < 1000, "1 MiB and the program itself: {part:#}");
        }
        let went = parts.iter().filter(|part| !part["partial"].is_null()).count();
        assert_eq!(went > 0, !whole["partial"].is_null(), "{document:#}");
        seen += parts.len();
    }
    storm.order("enough");
    assert!(seen > 0, "no scan met two processes");
}

#[test]
fn a_stopped_process_is_looked_at() {
    let target = Target::start("hold 4");
    let pid = target.pid().to_string();
    let stopped = Command::new("kill").args(["-STOP", &pid]).stdout(Stdio::null()).status();
    assert!(stopped.unwrap().success());
    target.wait_for_state("T");
    let whole = scan(&["--exact", "--pid", &pid])["estimates"][0].clone();
    assert!(whole["partial"].is_null(), "{whole:#}");
    assert!(whole["sampled_pages"].as_u64().unwrap() >= 1024, "{whole:#}");
    target.wait_for_state("T");
}
