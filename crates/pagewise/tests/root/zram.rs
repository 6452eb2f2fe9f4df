// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A zram device of the test, as reported in every state that a device can have.

use crate::machine::{Loans, pagewise_json};
use serde_json::Value;

fn doctor() -> Value {
    pagewise_json(&["doctor", "--json", "--interval", "0", "--min-severity", "info"], &[0, 3])
}

fn findings<'a>(document: &'a Value, id: &str) -> Vec<&'a Value> {
    let all = document["findings"].as_array().expect("findings").iter();
    all.filter(|finding| finding["id"] == id).collect()
}

fn device(id: u32) -> Value {
    let status = pagewise_json(&["status", "--json"], &[0]);
    let devices = status["zram"].as_array().expect("zram devices").clone();
    devices.into_iter().find(|device| device["id"] == id).expect("the device we made")
}

#[test]
fn zram_behind_a_swap_file_is_unused_because_of_its_priority() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut loans = Loans::new();
    let file = loans.swap_file(folder.path(), 64);
    let id = loans.zram("64M");
    crate::machine::run("mkswap", &[&format!("/dev/zram{id}")]);
    loans.swap_on(file.to_str().unwrap(), 20);
    loans.swap_on(&format!("/dev/zram{id}"), 10);

    let found = doctor();
    let unused = findings(&found, "zram-unused");
    let title = |finding: &Value| finding["title"].as_str().unwrap().to_owned();
    // devices of others may be unused for other reasons
    let ours = unused.iter().find(|it| title(it).contains("priority"));
    let unused = ours.unwrap_or_else(|| panic!("{:?}", unused.iter().map(|it| title(it))));
    let proof = unused["evidence"].as_array().unwrap();
    assert!(proof.iter().any(|one| one["path"] == "/proc/swaps"), "{proof:?}");
}

#[test]
fn zram_goes_through_every_use() {
    let mut loans = Loans::new();
    let id = loans.zram("32M");
    assert_eq!(device(id)["used_as"]["value"]["as"], "nothing");
    assert_eq!(device(id)["disksize"]["value"], 32 << 20);

    crate::machine::run("mkswap", &[&format!("/dev/zram{id}")]);
    assert_eq!(device(id)["used_as"]["value"]["as"], "swap-signature");

    loans.swap_on(&format!("/dev/zram{id}"), 7);
    assert_eq!(device(id)["used_as"]["value"]["as"], "swap");
    assert_eq!(device(id)["used_as"]["value"]["priority"], 7);
}

#[test]
fn zram_sizes_are_those_that_were_written() {
    let mut loans = Loans::new();
    let id = loans.zram("32M");
    crate::machine::write(&format!("/sys/block/zram{id}/mem_limit"), "16M");
    let path = format!("of=/dev/zram{id}");
    crate::machine::run("dd", &["if=/dev/urandom", &path, "bs=4k", "count=256", "oflag=direct"]);
    crate::machine::run(
        "dd",
        &["if=/dev/zero", &path, "bs=4k", "count=64", "seek=256", "oflag=direct"],
    );

    let stat = device(id)["mm_stat"].clone();
    assert_eq!(stat["original"]["value"], 320 * 4096);
    assert_eq!(stat["memory_limit"]["value"], 16 << 20);
    assert_eq!(stat["huge_pages"]["value"], 256);
    assert_eq!(stat["same_filled_pages"]["value"], 64);
}
