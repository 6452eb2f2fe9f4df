// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A step under strace → which files of the project it opened outside of its declared inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

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
pub(super) fn undeclared(step: &Step) -> Result<(BTreeSet<String>, usize)> {
    let path = log(step);
    let calls = fs::read(&path).with_context(|| path.display().to_string())?;
    let project = run::project().canonicalize()?;
    let opened = opened(&String::from_utf8_lossy(&calls), &project);
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
/// Inside a chroot the kernel may call a path unreachable; it is the same path all the same.
fn opened(calls: &str, project: &Path) -> BTreeSet<String> {
    let path = |line: &str| {
        let (_, path) = line.trim_end().strip_suffix('>')?.rsplit_once(" = ")?.1.split_once('<')?;
        let path = path.strip_prefix("(unreachable)").unwrap_or(path);
        let path = Path::new(path).strip_prefix(project).ok()?;
        Some(path.to_str()?.to_owned())
    };
    calls.lines().filter_map(path).collect()
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
        Ok(undeclared(step)?.0.into_iter().collect())
    };
    let found = [found(&step(&[&["README.md"]]))?, found(&step(&[&["README.md", "Makefile"]]))?];
    ensure!(found == [vec!["Makefile".to_owned()], vec![]], "undeclared: {found:?}");
    Ok(())
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn paths_are_those_below_the_project() {
        let calls = "12 openat(AT_FDCWD</p>, \"a b\", O_RDONLY|O_CLOEXEC) = 3</p/a b>\n\
            12 openat(AT_FDCWD</p>, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd>\n\
            13 openat(4</p/x>, \"y\", O_RDONLY) = 5<(unreachable)/p/x/y>\n\
            13 +++ exited with 0 +++\n";
        let found: Vec<String> = opened(calls, Path::new("/p")).into_iter().collect();
        assert_eq!(found, ["a b", "x/y"]);
    }
}
