// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab list`, `show` and `run`, as far as they work without root and without a guest.

use std::path::Path;
use std::process::Command;

use crate::program::{ProgramRun, finish};
use serde_json::Value;

/// Runs `lab` with its own folder for the user's files.
fn lab(home: &Path, arguments: &[&str]) -> ProgramRun {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.arg("lab").args(arguments).env("XDG_CONFIG_HOME", home);
    finish(&mut command)
}

fn document(ran: &ProgramRun) -> Value {
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON on standard output")
}

const OWN: &str = "about = \"mine\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n\
    [measure]\nprimary = \"cpu\"\n[[arm]]\nname = \"a\"\n\
    [[arm]]\nname = \"b\"\nset = { \"vm.swappiness\" = 1 }\n";

fn home(name: &str, text: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("pagewise/experiments");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    home
}

#[test]
fn the_users_own_experiments_stand_beside_those_built_in() {
    let home = home("mine.toml", OWN);
    let listed = document(&lab(home.path(), &["list", "--json"]));
    let names: Vec<&str> = listed["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["experiment"].as_str())
        .collect();
    assert_eq!(names[0], "mine");
    for name in ["swap", "coldpages", "redis-mglru", "zram-contents"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let text = lab(home.path(), &["list"]);
    assert!(text.out.contains("mine") && text.out.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn one_of_the_users_that_is_broken_is_told_and_the_others_listed() {
    let home = home("bad.toml", "about = \"x\"\nwrokload = 1\n");
    let ran = lab(home.path(), &["list"]);
    assert_eq!(ran.status, 0);
    assert!(ran.err.contains("bad.toml:2: unknown field `wrokload`"), "{}", ran.err);
    assert!(ran.out.contains("coldpages"), "{}", ran.out);
}

#[test]
fn show_says_what_would_be_done() {
    let home = home("mine.toml", OWN);
    let ran = lab(home.path(), &["show", "swap"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for part in
        ["steady-iteration", "file-200", "zram 512M lz4", "vm.swappiness = 60", "none", "256.0 MiB"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
    let shown = document(&lab(home.path(), &["show", "coldpages", "--json", "--kernel", "trixie"]));
    assert_eq!(
        (&shown["cells"], &shown["runs"]),
        (&serde_json::json!(["trixie-256M"]), &17.into())
    );
    assert_eq!(document(&lab(home.path(), &["show", "mine", "--json"]))["experiment"], "mine");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_done() {
    let home = home("mine.toml", OWN);
    for (arguments, says) in [
        (&["run", "swop"][..], "one of swap,"),
        (&["run", "./absent.toml"], "No such file"),
        (&["run", "swap", "--arm", "zrm", "--arm", "off"], "no arm \"zrm\"; its arms are off,"),
        (&["run", "swap", "--arm", "off"], "expected two arms"),
        (&["run", "swap", "--kernel", "trixie"], "those of guests"),
        (&["run", "swap", "--set", "workload.dta=1"], "unknown field `dta`"),
        (&["run", "swap", "--set", "workload.window=1G"], "window"),
        (&["run", "mine", "--root", "/nowhere"], "omit --root"),
    ] {
        let ran = lab(home.path(), arguments);
        assert_eq!(ran.status, 1, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
        assert!(ran.out.is_empty(), "{arguments:?}: {}", ran.out);
    }
}

/// No guest would be started that could wait.
#[test]
fn now_is_refused_for_an_experiment_on_this_host() {
    let home = home("mine.toml", OWN);
    let ran = lab(home.path(), &["run", "mine", "--now"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("--now starts guests at once"), "{}", ran.err);
    assert!(ran.err.contains("omit --now, or add --runner guest"), "{}", ran.err);
}
