// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program accepts each file in `examples/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagewise_testkit::scene::recording;
use serde_json::Value;

use crate::program::run;

const RECORDING: &str = "debian12-6.18-x86_64-24g-plain";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn path(name: &str) -> String {
    examples().join(name).display().to_string()
}

#[test]
fn each_file_has_a_test_and_is_listed() {
    let names = std::fs::read_dir(examples()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.collect();
    let tested = ["README.md", "doctor.toml", "experiment.toml", "nagios.cfg", "plan-zram.json"];
    assert_eq!(names, tested.map(str::to_owned).into());
    let listed = std::fs::read_to_string(examples().join("README.md")).unwrap();
    for name in &tested[1..] {
        assert!(listed.contains(&format!("[{name}]({name})")), "{name}");
    }
}

#[test]
fn doctor_accepts_its_settings() {
    let root = recording(RECORDING).display().to_string();
    let ran = run(&["doctor", "--config", &path("doctor.toml"), "--root", &root]);
    assert!(matches!(ran.status, 0 | 3), "{}", ran.err);
}

#[test]
fn lab_accepts_the_experiment() {
    let ran = run(&["lab", "show", &path("experiment.toml")]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("vm.page-cluster"), "{}", ran.out);
}

#[test]
fn the_commands_for_nagios_end_as_a_plugin_does() {
    let text = std::fs::read_to_string(path("nagios.cfg")).unwrap();
    let root = recording(RECORDING).display().to_string();
    let commands: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("command_line"))
        .map(|line| line.trim().strip_prefix("/usr/bin/pagewise ").unwrap())
        .collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').chain(["--root", &root]).collect();
        let ran = run(&arguments);
        assert!(ran.status <= 2 && ran.out.starts_with("MEMORY "), "{command}: {}", ran.err);
    }
}

/// The plan is the one that the program makes today for the same machine. A unit test of `apply` reads
/// it.
#[test]
fn the_plan_is_what_the_program_makes() {
    let text = std::fs::read_to_string(path("plan-zram.json")).unwrap();
    let example: Value = serde_json::from_str(&text).unwrap();
    let root = recording(RECORDING).display().to_string();
    let made = run(&["plan", "--root", &root, "--want", "zram=2G", "--json"]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    for key in ["schema", "goal", "machine", "steps", "declined"] {
        assert_eq!(example[key], made[key], "{key}");
    }
}
