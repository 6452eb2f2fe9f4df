// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench` without a device: measuring libraries, selecting pages, and refusals. Needs no
//! privileges.

use crate::program::{empty_folder, run};
use serde_json::Value;

/// Few pages and one algorithm, so that a round is short.
const SMALL: [&str; 6] = ["bench", "--codecs", "--quick", "--size", "1M", "--algorithm"];

fn answer(arguments: &[&str]) -> Value {
    let ran = run(arguments);
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn libraries_are_measured_and_said_to_be_libraries() {
    let message = answer(&[&SMALL[..], &["zstd:3", "--mix", "text:100", "--json"]].concat());
    assert_eq!(message["schema"], "pagewise/bench/1");
    assert_eq!(
        (&message["layer"], message["input"]["pages"].as_u64()),
        (&"codecs".into(), Some(256))
    );
    let rows = message["rows"].as_array().unwrap();
    let blocks = |row: &&Value| row["jobs"] == 1 && row["direction"] == "read";
    let blocks: Vec<&Value> = rows.iter().filter(blocks).map(|row| &row["block_bytes"]).collect();
    assert_eq!(blocks, [4096, 32_768], "--quick leaves out the sizes between");
    for row in rows {
        assert_eq!((&row["algorithm"], row["level"].as_i64()), (&"zstd".into(), Some(3)));
        assert!(row["original_per_compressed"].as_f64().unwrap() > 1.5, "{row}");
        assert!(
            row["p50_ns"].as_f64().unwrap() > 0.0 && row["kernel_ns_per_io"].is_null(),
            "{row}"
        );
    }
    assert_eq!(message["faults"], Value::Array(Vec::new()), "no swap without a device");
    assert!(message["notes"].to_string().contains("libraries, not zram"));
    assert_eq!(message["picks"]["latency"]["algorithm"], "zstd");
    assert_eq!(message["picks"]["latency"]["runner_up"], Value::Null);
}

#[test]
fn the_table_for_programs_has_the_guides_columns() {
    let ran = run(&[&SMALL[..], &["lz4", "--mix", "text:100", "--format", "csv"]].concat());
    let mut lines = ran.out.lines();
    let head = "algo,page-cluster,MiB/s,IOPS,Mean Latency (ns),99% Latency (ns),comp_ratio,";
    assert!(lines.next().unwrap().starts_with(head), "{}", ran.out);
    assert!(lines.all(|line| line.split(',').count() == 16), "{}", ran.out);
}

#[test]
fn an_algorithm_without_a_library_is_told_and_the_others_come() {
    let both = ["842", "--algorithm", "lzo-rle", "--algorithm", "lz4", "--mix", "random:100"];
    let message = answer(&[&SMALL[..], &both, &["--json"]].concat());
    let missing = message["not_measured"].as_array().unwrap();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0]["why"].as_str().unwrap().contains("found \"842\""), "{missing:?}");
    assert!(missing[1]["why"].as_str().unwrap().contains("no library"), "{missing:?}");
    assert!(message["rows"].as_array().unwrap().iter().all(|row| row["algorithm"] == "lz4"));
}

#[test]
fn a_dump_that_ends_within_a_page_is_told() {
    let folder = empty_folder();
    let path = folder.path().join("dump");
    std::fs::write(&path, "some text that is no whole number of pages\n".repeat(3000)).unwrap();
    let message =
        answer(&[&SMALL[..], &["lz4", "--json", "--file", path.to_str().unwrap()]].concat());
    assert!(
        message["notes"].to_string().contains("into a page: filled up with zeros"),
        "{message}"
    );
    assert_eq!(message["input"]["pages"], 32);
}

#[test]
fn evidence_holds_the_answer_every_round_and_a_picture() {
    let folder = empty_folder();
    let into = folder.path().join("evidence");
    let path = into.to_str().unwrap();
    answer(&[&SMALL[..], &["lz4", "--mix", "text:100", "--json", "--evidence", path]].concat());
    let file = |name: &str| std::fs::read_to_string(into.join(name)).unwrap();
    let answer: Value = serde_json::from_str(&file("answer.json")).unwrap();
    let rounds = file("rounds.jsonl").lines().count();
    let of_rows =
        answer["rows"].as_array().unwrap().iter().map(|row| row["rounds"].as_u64().unwrap());
    assert_eq!(rounds as u64, of_rows.sum::<u64>());
    assert!(file("pareto.svg").contains("lz4") && file("table.csv").starts_with("algo,"));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(!file("answer.json").contains(boot.trim()), "hashed, as in a recording");
    assert!(!file("command.txt").contains(path), "{}", file("command.txt"));
    let again = run(&[&SMALL[..], &["lz4", "--mix", "text:100", "--evidence", path]].concat());
    assert!(again.err.contains("expected an empty folder"), "{}", again.err);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let refused = |arguments: &[&str], status: i32, why: &str| {
        let ran = run(&[&["bench"], arguments].concat());
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
    };
    refused(&["--mix", "text:99"], 2, "expected parts of 100");
    refused(&["--mix", "text:100", "--pid", "1"], 2, "cannot be used with");
    refused(&["--algorithm", "../x"], 2, "expected a name as lz4 or zstd:7");
    refused(&["--quick", "--full"], 2, "cannot be used with");
    refused(&["--codecs", "--mix", "zero:100", "--size", "1M"], 1, "not same-filled, found 0");
    refused(&["--file", "/nonexistent"], 1, "/nonexistent");
}
