// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a group of tests under strace, and finds the files of the project that it opened but that
//! are not among its inputs.
//!
//! Sources of our crates are not reported: on which of them a group depends is computed from the
//! manifests, and a group may prove less than it compiles. The purpose is to find scripts,
//! recordings and other files that are missing from the list of inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::groups::Group;
use super::keys::{Input, Keys, Lean};
use super::outcome::{Outcome, State};
use super::tree::Tree;
use crate::run;

/// Path of the file for the traced system calls of a group.
pub(super) fn log_path(name: &str) -> Result<PathBuf> {
    let folder = run::project().join("target/jobs");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder.join(format!("{name}.strace")))
}

/// Makes a command that runs another one under strace, which follows child processes and stops only
/// at system calls that open files.
pub(super) fn trace(command: &Command, log: &Path) -> Command {
    let mut strace = run::program("strace");
    strace.args(["--follow-forks", "--seccomp-bpf", "--successful-only", "--decode-fds=path"]);
    strace.args(["--quiet=all", "--signal=none", "--trace=open,openat,openat2", "--output"]);
    strace.arg(log).arg("--").arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        strace.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace
}

/// The outcome of a group that passed under strace. It is a failure if the group opened files that
/// are not among its inputs.
pub(super) fn judge(group: &Group, outcome: Outcome) -> Result<Outcome> {
    let outside = find_undeclared(group.name, group.inputs)?;
    if outside.is_empty() {
        return Ok(outcome);
    }
    let names: Vec<String> = outside.iter().map(|name| format!("  {name}")).collect();
    let text = format!(
        "it opened files of the project that are none of its inputs in xtask/src/suite/groups.rs:\n{}",
        names.join("\n")
    );
    Ok(Outcome { state: State::Failed, text, ..outcome })
}

fn find_undeclared(name: &str, inputs: &[Input]) -> Result<BTreeSet<String>> {
    let path = log_path(name)?;
    let calls = fs::read(&path).with_context(|| path.display().to_string())?;
    let project = run::project().canonicalize()?;
    let opened = parse_opened(&String::from_utf8_lossy(&calls), &project);
    let ours: BTreeSet<String> = run::files(&[])?.into_iter().collect();
    let keys = Keys::new(Tree::of_work_tree(&project)?, String::new(), Lean::Sources)?;
    let inputs = keys.parts(inputs);
    let counts =
        |path: &String| ours.contains(path) && !is_compiled(path) && !inputs.contains_key(path);
    Ok(opened.into_iter().filter(counts).collect())
}

/// Whether a compiler or cargo reads the file: sources of our crates, and cargo's settings.
fn is_compiled(path: &str) -> bool {
    let in_crate = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    let is_source = |(_, rest): (&str, &str)| {
        ["src/", "tests/", "examples/"].iter().any(|folder| rest.starts_with(folder))
            && rest.ends_with(".rs")
    };
    let is_manifest = path.ends_with("Cargo.toml") || path.ends_with("Cargo.lock");
    // assets that are compiled into the program, and files that git itself reads, are not reported
    let is_asset = in_crate.is_some_and(|(_, rest)| rest.starts_with("src/"))
        || path.starts_with("lab/experiments/");
    is_manifest
        || is_asset
        || path.ends_with(".gitignore")
        || in_crate.is_some_and(is_source)
        || path.starts_with(".cargo/")
        || path.starts_with("xtask/src/")
}

/// Paths below the project, from lines such as `12 openat(AT_FDCWD</p>, "a", O_RDONLY) = 3</p/a>`.
///
/// In a chroot with its own mount namespace, the project is mounted at its usual path, which strace
/// prints after the chroot's folder.
fn parse_opened(calls: &str, project: &Path) -> BTreeSet<String> {
    let path = |line: &str| {
        let (_, path) = line.trim_end().strip_suffix('>')?.rsplit_once(" = ")?.1.split_once('<')?;
        let project = format!("{}/", project.display());
        let below = path.rfind(&project)? + project.len();
        Some(path.get(below..)?.to_owned())
    };
    calls.lines().filter_map(path).collect()
}

/// Tests this check itself with a group that reads two files and lists only one of them as input:
/// the other one must be reported.
pub(super) fn check_itself() -> Result<()> {
    let found = |inputs: &[Input]| -> Result<Vec<String>> {
        let mut reads = run::program("cat");
        reads.args(["README.md", "Makefile", "/proc/version"]);
        run::output(&mut trace(&reads, &log_path("trace")?))?;
        Ok(find_undeclared("trace", inputs)?.into_iter().collect())
    };
    let one = found(&[Input::Paths(&["README.md"])])?;
    let both = found(&[Input::Paths(&["README.md", "Makefile"])])?;
    ensure!((one.as_slice(), both.len()) == (&["Makefile".to_owned()][..], 0), "{one:?}, {both:?}");
    Ok(())
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn paths_are_those_below_the_project() {
        let calls = "12 openat(AT_FDCWD</p>, \"a b\", O_RDONLY|O_CLOEXEC) = 3</p/a b>\n\
            12 openat(AT_FDCWD</p>, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd>\n\
            13 openat(4</p/x>, \"y\", O_RDONLY) = 5</chroot/p/x/y>\n\
            13 +++ exited with 0 +++\n";
        let found: Vec<String> = parse_opened(calls, Path::new("/p")).into_iter().collect();
        assert_eq!(found, ["a b", "x/y"]);
    }

    #[test]
    fn sources_of_crates_are_compiled_and_recordings_are_read() {
        for path in [
            "crates/report/src/a/b.rs",
            "crates/pagewise/tests/guest/x.rs",
            "Cargo.lock",
            "fuzz/Cargo.toml",
        ] {
            assert!(is_compiled(path), "{path}");
        }
        for path in [
            "fixtures/hosts/a.tar",
            "crates/hugepool/test.sh",
            "kernel/zmerge/core/slot.c",
            "Makefile",
        ] {
            assert!(!is_compiled(path), "{path}");
        }
    }
}
