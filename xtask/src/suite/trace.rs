// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A step under strace → which files of the project it opened outside of its declared inputs.
//!
//! A step that runs test programs opens no sources, as cargo has built them before. There the sources are
//! those that the compiler noted (`*.d` beside what it made) of the package and of all our crates that it uses.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::remembered::{Runs, Step, list};
use crate::run;

/// Where the system calls of a step are written.
pub(super) fn log(step: &Step) -> PathBuf {
    run::project().join("target/jobs").join(format!("{}.strace", step.name))
}

/// The command under strace, which follows what it starts and stops only where files are opened.
pub(super) fn traced(command: &Command, log: &Path) -> Command {
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

/// Empties what the step compiles into, so that it opens its sources.
pub(super) fn forget_builds(step: &Step) -> Result<()> {
    for folder in step.builds {
        let folder = run::project().join(folder);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
    }
    fs::create_dir_all(run::project().join("target/jobs"))?;
    Ok(())
}

/// The project's files that were opened and are not declared; and how many declared ones were.
///
/// `sources` counts as opened, too.
pub(super) fn undeclared(
    step: &Step,
    sources: BTreeSet<String>,
) -> Result<(BTreeSet<String>, usize)> {
    let path = log(step);
    let calls = fs::read(&path).with_context(|| path.display().to_string())?;
    let project = run::project().canonicalize()?;
    let mut opened = opened(&String::from_utf8_lossy(&calls), &project);
    opened.extend(sources);
    let ours: BTreeSet<String> = list(&project, &["."])?.into_iter().collect();
    let declared = step.files(&project)?.0;
    let (inside, outside): (BTreeSet<String>, BTreeSet<String>) = opened
        .into_iter()
        .filter(|path| ours.contains(path))
        .partition(|path| declared.contains_key(path) || path == PASSED);
    Ok((outside, inside.len()))
}

/// The record itself, which every chore may read.
const PASSED: &str = "xtask/passed.toml";

/// Paths below the project, from lines such as `12 openat(AT_FDCWD</p>, "a", O_RDONLY) = 3</p/a>`.
///
/// Inside a chroot with a mount namespace of its own the project is mounted at its usual path, and strace sees
/// that path behind the chroot's folder.
fn opened(calls: &str, project: &Path) -> BTreeSet<String> {
    let path = |line: &str| {
        let (_, path) = line.trim_end().strip_suffix('>')?.rsplit_once(" = ")?.1.split_once('<')?;
        let project = format!("{}/", project.display());
        let below = path.rfind(&project)? + project.len();
        Some(path.get(below..)?.to_owned())
    };
    calls.lines().filter_map(path).collect()
}

/// The sources that a package's test program was built from.
pub(super) fn sources(package: &str, target: &str) -> Result<BTreeSet<String>> {
    let metadata = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let metadata = serde_json::from_str(&run::output(run::cargo().args(metadata))?)?;
    let mut names: Vec<String> = used_by(&metadata, package);
    names.iter_mut().for_each(|name| *name = name.replace('-', "_"));
    names.push(target.to_owned());
    let folder = run::project().join("target/debug/deps");
    let mut sources = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let crate_name = path.file_stem().and_then(|name| name.to_str()?.rsplit_once('-'));
        let is_dep_info = path.extension().is_some_and(|ending| ending == "d");
        if is_dep_info && crate_name.is_some_and(|(name, _)| names.iter().any(|one| one == name)) {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            sources.extend(noted(&text));
        }
    }
    ensure!(!sources.is_empty(), "{}: no sources of {names:?}", folder.display());
    Ok(sources)
}

/// Our packages that this one uses for its tests, itself among them.
fn used_by(metadata: &Value, package: &str) -> Vec<String> {
    let packages: &[Value] = metadata["packages"].as_array().map_or(&[], Vec::as_slice);
    let mut names = vec![package.to_owned()];
    let mut at = 0;
    while let Some(name) = names.get(at) {
        let found = packages.iter().find(|package| package["name"] == name.as_str());
        let uses = found.and_then(|package| package["dependencies"].as_array());
        let wanted = |one: &&Value| one["path"].is_string() && (at == 0 || one["kind"] != "dev");
        let uses = uses.into_iter().flatten().filter(wanted);
        let new: Vec<String> =
            uses.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect();
        names.extend(new.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        at += 1;
    }
    names
}

/// The files of a compiler's note: lines such as `src/a.rs:`, relative to the project. Clippy's notes lie
/// among them and name its settings, which no program is built from.
fn noted(text: &str) -> impl Iterator<Item = String> + '_ {
    let files = text.lines().filter_map(|line| line.strip_suffix(':'));
    let files = files.filter(|file| !file.ends_with("clippy.toml"));
    files.filter_map(|file| {
        let path = run::project().join(file.replace("\\ ", " ")).canonicalize().ok()?;
        let path = path.strip_prefix(run::project()).ok()?;
        Some(path.to_str()?.to_owned())
    })
}

/// Checks this check: of a step that reads two files and declares one the other is named.
pub(super) fn check_itself() -> Result<()> {
    const READS: &[&str] = &["cat", "README.md", "Makefile", "/proc/version"];
    let step = |inputs| Step {
        name: "declared",
        about: "",
        inputs,
        minutes: 0.0,
        runs: Runs::Command(READS),
        builds: &[],
    };
    let found = |step: &Step| -> Result<Vec<String>> {
        forget_builds(step)?;
        let mut command = run::program(READS[0]);
        command.args(&READS[1..]);
        run::output(&mut traced(&command, &log(step)))?;
        Ok(undeclared(step, BTreeSet::new())?.0.into_iter().collect())
    };
    let found = [found(&step(&[&["README.md"]]))?, found(&step(&[&["README.md", "Makefile"]]))?];
    ensure!(found == [vec!["Makefile".to_owned()], vec![]], "undeclared: {found:?}");
    Ok(())
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn a_package_uses_what_its_crates_use_and_what_only_its_own_tests_do() {
        let package = |name: &str, uses: &[(&str, Option<&str>, bool)]| {
            let one = |(name, kind, is_ours): &(&str, Option<&str>, bool)| {
                let path = is_ours.then_some("/p");
                serde_json::json!({"name": name, "kind": kind, "path": path})
            };
            let uses: Vec<Value> = uses.iter().map(one).collect();
            serde_json::json!({"name": name, "dependencies": uses})
        };
        let metadata = serde_json::json!({"packages": [
            package("lab", &[("observe", None, true), ("kit", Some("dev"), true), ("serde", None, false)]),
            package("observe", &[("model", None, true), ("other-kit", Some("dev"), true)]),
            package("model", &[]),
        ]});
        assert_eq!(used_by(&metadata, "lab"), ["lab", "observe", "kit", "model"]);
    }

    #[test]
    fn sources_are_noted_relative_to_the_project() {
        let text =
            "/x/lab.d: xtask/src/run.rs\n\nxtask/src/../src/run.rs:\n/etc/passwd:\nnonesuch.rs:\n";
        assert_eq!(noted(text).collect::<Vec<_>>(), ["xtask/src/run.rs"]);
    }

    #[test]
    fn paths_are_those_below_the_project() {
        let calls = "12 openat(AT_FDCWD</p>, \"a b\", O_RDONLY|O_CLOEXEC) = 3</p/a b>\n\
            12 openat(AT_FDCWD</p>, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd>\n\
            13 openat(4</p/x>, \"y\", O_RDONLY) = 5</chroot/p/x/y>\n\
            13 +++ exited with 0 +++\n";
        let found: Vec<String> = opened(calls, Path::new("/p")).into_iter().collect();
        assert_eq!(found, ["a b", "x/y"]);
    }
}
