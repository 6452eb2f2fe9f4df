// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans in files, which the reboot tests of `apply` use, and guests in which `pagewise plan` makes
//! the same plans. So a change of `plan` that changes none of these files needs no reboots.
//!
//! A file is the output of `pagewise plan --json` without its machine, which the guest fills in.
//! With BLESS=1 in the environment the files are rewritten.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::boot::{SAY, document, reboots};
use crate::reboots::long::plans::{GENERATOR, PLAN, STATE, WITH_GENERATOR, plans};
use crate::reboots::long::zswap;

fn path(name: &str) -> PathBuf {
    let folder = "tests/guest/documents";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name).with_extension("json")
}

/// The option that copies a plan into a guest, as /opt/planned.json.
pub(crate) fn sent(name: &str) -> String {
    format!("--file={}:/opt/planned.json", path(name).display())
}

/// The plan without its machine, and without explanations: these contain measured values, and have
/// their own tests.
fn general(plan: &Value) -> Value {
    let step = |step: &Value| {
        let mut step = step.clone();
        for (key, value) in [("reason", json!("a finding")), ("risk", json!("none"))] {
            step[key] = value;
        }
        for key in ["expected", "cost", "finding"] {
            step[key] = Value::Null;
        }
        if let Some(text) = step["to"].as_str().map(without_comments) {
            step["to"] = text.into();
        }
        step
    };
    let steps: Vec<Value> = plan["steps"].as_array().unwrap().iter().map(step).collect();
    json!({
        "schema": plan["schema"], "id": "00112233aabbccdd", "goal": plan["goal"],
        "machine": {"machine_id_hash": "HASH", "memory_total_bytes": 4711, "kernel": null},
        "steps": steps, "declined": [],
    })
}

fn without_comments(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect()
}

/// The steps without sizes: the memory of a guest differs by some pages from kernel to kernel.
fn without_numbers(plan: &Value) -> String {
    let text = format!("{plan:#}");
    let mut shape = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if shape.ends_with('N') => {}
            '0'..='9' => shape.push('N'),
            other => shape.push(other),
        }
    }
    shape
}

/// Checks that the plan equals the file of this name, except for sizes.
#[track_caller]
pub(crate) fn assert_is(name: &str, plan: &Value) {
    let made = general(plan);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(name), format!("{made:#}\n")).unwrap();
        return;
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap();
    let [made, kept] = [&made, &kept].map(without_numbers);
    assert_eq!(made, kept, "{name}: the plan has changed; BLESS=1 writes it anew");
}

fn planned(options: &[&str], script: &str, more: &[String]) -> Value {
    // run only the part before `say apply`: applying the plan would end the boot
    let script = script.split_once("say apply").map_or(script, |(before, _)| before);
    let script = format!("{SAY}{STATE}{script}exit 7\n");
    let common = ["--memory", "512M", "--deadline", "5m"];
    let options: Vec<&str> = common
        .into_iter()
        .chain(options.iter().copied())
        .chain(more.iter().map(String::as_str))
        .collect();
    let boots = reboots(&options, &[&script, "exit 1"]);
    document(&boots[0].output, "plan")
}

#[test]
fn guest_with_zram_generator_has_the_plan_that_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let more = plans(folder.path());
    assert_is("generator", &planned(&WITH_GENERATOR, &format!("{GENERATOR}{PLAN}"), &more));
}

#[test]
fn guest_with_zswap_has_the_plan_that_is_kept() {
    assert_is("zswap", &planned(&["--kernel", "trixie/generic"], zswap::PLAN, &[]));
}

#[test]
fn guest_of_sid_with_zswap_has_the_plan_that_is_kept() {
    let options = ["--userland=systemd/sid", "--kernel=sid"];
    assert_is("zswap-sid", &planned(&options, zswap::PLAN, &[]));
}
