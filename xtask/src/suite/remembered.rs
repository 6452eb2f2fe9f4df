// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A heavy step is a pure function of the files it reads: it need not run again on the same ones.
//!
//! Each step declares its inputs as git pathspecs. Their contents and modes, the toolchain and the
//! step's own description are hashed; `xtask/passed.toml` holds, for each step, the hash that it
//! passed on, and is written by nothing but a pass. `make test` skips a step exactly if the hash is
//! that one. `make test-long` runs all of them, under strace, and a step that opens a file of the
//! project outside of its declared inputs fails (see `trace`).
//!
//! Not hashed, because no file of the project says it: what Debian's suites hold today (kernels,
//! compilers) and the machine. So `make test-long` runs every step, whatever is remembered.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::times::write_whole;
use crate::run;

/// A step, and what it is a function of.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What it shows, for people.
    pub(crate) about: &'static str,
    /// Git pathspecs of all files of the project that it reads.
    pub(crate) inputs: &'static [&'static [&'static str]],
    /// Minutes, roughly.
    pub(crate) minutes: f64,
    pub(crate) runs: Runs,
    /// Folders that it compiles into. They are emptied before its declaration is checked, so that every
    /// source is opened again.
    pub(crate) builds: &'static [&'static str],
}

/// How a step is run.
#[derive(Debug)]
pub(crate) enum Runs {
    /// A command, in the project's folder.
    Command(&'static [&'static str]),
    /// A chore of this program.
    Chore(&'static [&'static str]),
    /// The tests in guests of these modules.
    Guests(&'static str),
    /// The tests of a module in a test program that anybody can run.
    Tests {
        /// Package, or package and target.
        program: &'static str,
        /// As tests' names begin.
        module: &'static str,
    },
}

/// The contents of files, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files(pub(crate) BTreeMap<String, String>);

impl Files {
    /// Every file below `project` that git tracks or does not ignore and that one of the pathspecs
    /// matches, as it is in the working tree.
    pub(crate) fn matching(project: &Path, pathspecs: &[&str]) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in list(project, pathspecs)? {
            if let Some(hash) = hash_file(&project.join(&path))? {
                files.insert(path, hash);
            }
        }
        Ok(Self(files))
    }
}

/// Names of the files that git tracks or does not ignore.
pub(crate) fn list(project: &Path, pathspecs: &[&str]) -> Result<Vec<String>> {
    // CI may check out as another user than it runs as.
    let mut git = run::program("git");
    git.current_dir(project).args(["-c", "safe.directory=*", "-c", "core.quotePath=false"]);
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    let listed = run::output(git.args(pathspecs))?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Contents, kind and whether it is executable; nothing where it was removed.
fn hash_file(path: &Path) -> Result<Option<String>> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(None) };
    let shown = || path.display().to_string();
    let contents = if metadata.is_symlink() {
        fs::read_link(path).with_context(shown)?.into_os_string().into_encoded_bytes()
    } else {
        fs::read(path).with_context(shown)?
    };
    let executable = metadata.permissions().mode() & 0o100 != 0;
    let kind = [u8::from(metadata.is_symlink()), u8::from(executable)];
    Ok(Some(hex(Sha256::new().chain_update(kind).chain_update(contents))))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of all that a step depends on.
pub(crate) fn hash(step: &Step, files: &Files, toolchain: &str) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(toolchain);
    add(&format!("{} {:?} {:?}", step.name, step.inputs, step.runs));
    for (path, contents) in &files.0 {
        add(path);
        add(contents);
    }
    hex(hash)
}

impl Step {
    fn pathspecs(&self) -> Vec<&'static str> {
        self.inputs.iter().flat_map(|group| group.iter().copied()).collect()
    }

    /// The files that it declares.
    pub(crate) fn files(&self, project: &Path) -> Result<Files> {
        let files = Files::matching(project, &self.pathspecs())?;
        ensure!(!files.0.is_empty(), "{}: no file of the project is declared", self.name);
        Ok(files)
    }
}

/// What compiles and runs the steps.
pub(crate) fn toolchain() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run::output(run::program(rustc).arg("-vV"))
}

/// One step's entry in `passed.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pass {
    pub(crate) inputs: String,
    /// The day, for people.
    pub(crate) passed: String,
    pub(crate) minutes: f64,
}

/// `xtask/passed.toml`.
#[derive(Debug)]
pub(crate) struct Passed<'a> {
    path: &'a Path,
    alone: Mutex<()>,
}

const HEAD: &str = "\
# The inputs on which heavy steps of `make test` have passed. Written by `cargo xtask` alone, after a
# pass: never by hand. Commit it with the change that made the steps run.

";

impl<'a> Passed<'a> {
    pub(crate) fn at(path: &'a Path) -> Self {
        Self { path, alone: Mutex::new(()) }
    }

    fn all(&self) -> Result<BTreeMap<String, Pass>> {
        let shown = || self.path.display().to_string();
        match fs::read_to_string(self.path) {
            Ok(text) => toml::from_str(&text).with_context(shown),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error).with_context(shown),
        }
    }

    /// The pass of a step on exactly these inputs.
    pub(crate) fn on(&self, step: &str, inputs: &str) -> Result<Option<Pass>> {
        Ok(self.all()?.remove(step).filter(|pass| pass.inputs == inputs))
    }

    /// Remembers a pass; the only way in which the file is written.
    pub(crate) fn record(&self, step: &str, pass: Pass) -> Result<()> {
        let _alone = self.alone.lock();
        let mut all = self.all()?;
        all.insert(step.to_owned(), pass);
        write_whole(self.path, &(HEAD.to_owned() + &toml::to_string(&all)?))
    }
}

/// Runs a step unless it is remembered: the one place that decides it. With `again` it always runs.
///
/// `run` answers whether it passed. Where the inputs changed while it ran, nothing is remembered.
pub(crate) fn run_unless_passed<T>(
    step: &Step,
    project: &Path,
    passed: &Passed,
    toolchain: &str,
    again: bool,
    run: impl FnOnce() -> Result<(bool, T)>,
) -> Result<Done<T>> {
    let before = hash(step, &step.files(project)?, toolchain);
    let remembered = if again { None } else { passed.on(step.name, &before)? };
    if let Some(pass) = remembered {
        return Ok(Done::Remembered(pass));
    }
    let started = std::time::Instant::now();
    let (well, answer) = run()?;
    let unchanged = hash(step, &step.files(project)?, toolchain) == before;
    if well && unchanged {
        let minutes = (started.elapsed().as_secs_f64() / 6.0).round() / 10.0;
        passed.record(step.name, Pass { inputs: before, passed: today()?, minutes })?;
    }
    Ok(Done::Ran { well, answer })
}

/// What became of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Done<T> {
    Remembered(Pass),
    Ran { well: bool, answer: T },
}

fn today() -> Result<String> {
    Ok(run::output(run::program("date").arg("+%F"))?.trim().to_owned())
}

#[cfg(test)]
mod check {
    use super::*;
    use crate::suite::steps::STEPS;

    const STEP: Step = Step {
        name: "example",
        about: "",
        inputs: &[&["src", ":(glob)*.toml"], &["tool.sh"]],
        minutes: 1.0,
        runs: Runs::Command(&["true"]),
        builds: &[],
    };

    /// A project of its own, with a clock-free git.
    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let new = Self(folder);
            let git =
                run::program("git").current_dir(new.path()).args(["init", "--quiet"]).status();
            assert!(git.unwrap().success());
            for (name, text) in [
                ("src/a.rs", "a"),
                ("src/deep/b.rs", "b"),
                ("own.toml", "c"),
                ("tool.sh", "d"),
                ("outside.rs", "e"),
                ("sub/own.toml", "f"),
            ] {
                new.write(name, text);
            }
            new.write(".gitignore", "/src/ignored\n/passed.toml\n");
            new
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Whether the step runs now; it passes or fails as is asked for.
        fn runs(&self, toolchain: &str, passes: bool) -> bool {
            let file = self.path().join("passed.toml");
            let passed = Passed::at(&file);
            let done = run_unless_passed(&STEP, self.path(), &passed, toolchain, false, || {
                Ok((passes, ()))
            });
            matches!(done.unwrap(), Done::Ran { .. })
        }
    }

    #[test]
    fn a_step_is_skipped_exactly_if_it_passed_on_the_same_inputs() {
        let project = Project::new();
        assert!(project.runs("1.85", true), "nothing is remembered");
        assert!(!project.runs("1.85", true), "the same inputs");
        assert!(project.runs("1.86", true), "another toolchain");
        assert!(!project.runs("1.86", true));
        type Change = fn(&Project);
        let changes: [(&str, Change); 7] = [
            ("contents", |it| it.write("src/deep/b.rs", "b2")),
            ("a file by a pattern", |it| it.write("own.toml", "c2")),
            ("a new file", |it| it.write("src/new.rs", "")),
            ("a file less", |it| fs::remove_file(it.path().join("src/new.rs")).unwrap()),
            ("a name", |it| {
                fs::rename(it.path().join("src/a.rs"), it.path().join("src/z.rs")).unwrap();
            }),
            ("a mode", |it| {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(it.path().join("tool.sh"), mode).unwrap();
            }),
            ("a link in place of a file", |it| {
                fs::remove_file(it.path().join("tool.sh")).unwrap();
                std::os::unix::fs::symlink("d", it.path().join("tool.sh")).unwrap();
            }),
        ];
        for (what, change) in changes {
            change(&project);
            assert!(project.runs("1.86", true), "{what} makes it run again");
            assert!(!project.runs("1.86", true), "{what}, once");
        }
        for (name, text) in [("outside.rs", "e2"), ("sub/own.toml", "f2"), ("src/ignored", "x")] {
            project.write(name, text);
            assert!(!project.runs("1.86", true), "{name} is not an input");
        }
    }

    #[test]
    fn a_step_that_fails_is_not_remembered_and_an_old_pass_comes_back() {
        let project = Project::new();
        assert!(project.runs("1.85", true));
        project.write("src/a.rs", "broken");
        assert!(project.runs("1.85", false) && project.runs("1.85", false));
        project.write("src/a.rs", "a");
        assert!(!project.runs("1.85", true), "as it was when it passed");
    }

    #[test]
    fn inputs_that_change_while_it_runs_are_not_remembered() {
        let project = Project::new();
        let file = project.path().join("passed.toml");
        let passed = Passed::at(&file);
        let run = || {
            project.write("src/a.rs", "changed meanwhile");
            Ok((true, ()))
        };
        run_unless_passed(&STEP, project.path(), &passed, "1.85", false, run).unwrap();
        assert!(project.runs("1.85", true));
    }

    #[test]
    fn a_damaged_record_is_an_error_and_not_a_pass() {
        let project = Project::new();
        let file = project.path().join("passed.toml");
        for text in ["[example]\ninputs = ", "[example]\ninputs = \"x\"\nunknown = 1\n"] {
            project.write("passed.toml", text);
            assert!(Passed::at(&file).on("example", "x").is_err(), "{text}");
        }
    }

    /// The promise about the real steps: whichever of its files changes, a step runs again.
    #[test]
    fn every_declared_file_of_every_step_counts() {
        for step in STEPS {
            for pathspec in step.pathspecs() {
                // one that matches nothing is a spelling mistake
                assert!(!list(run::project(), &[pathspec]).unwrap().is_empty(), "{pathspec}");
            }
            let mut files = step.files(run::project()).unwrap();
            let before = hash(step, &files, "");
            // A hash takes all files: of the thousands of recordings only some are tried.
            let apart = (files.0.len() / 100).max(1);
            let paths: Vec<String> = files.0.keys().step_by(apart).cloned().collect();
            for path in paths {
                let old = files.0.insert(path.clone(), "touched".to_owned()).unwrap();
                assert_ne!(hash(step, &files, ""), before, "{}: {path}", step.name);
                files.0.insert(path, old);
            }
            assert_eq!(hash(step, &files, ""), before);
        }
    }
}
