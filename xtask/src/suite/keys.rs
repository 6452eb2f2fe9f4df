// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the key of a group of tests, which is a hash of its inputs. If the key has not changed,
//! the group need not run again.
//!
//! A key covers the sources of the crates that the group proves and of all our crates that these
//! use, the external packages that they need (from Cargo.lock), the tests themselves, the
//! toolchain, and the description of the group. Unit tests inside the crates are not included. For
//! a group about `apply`, the bytes of the lean program are used instead of sources.
//!
//! A key does not cover things that no file of the project contains: the current kernels and
//! compilers of Debian's suites, and the machine. `make test-all` runs every group regardless of
//! its key, and checks which files each group opened (`trace`).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::tree::{Closure, Manifests, Tree};
use crate::run;

/// One kind of input on which a group depends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input {
    /// Crates by name, and all of our crates that they depend on.
    Crates(&'static [&'static str]),
    /// Crates by name, and all of our crates that they or their tests depend on.
    Tested(&'static [&'static str]),
    /// Crates by name, without the crates that they depend on: the group proves only the named
    /// ones, and the others have tests of their own.
    Alone(&'static [&'static str]),
    /// Files and folders of the project; `*` matches one folder, as in `verbs/*/args.rs`.
    Paths(&'static [&'static str]),
    /// The bytes of the lean program (`crates/pagewise/src/lean.rs`).
    LeanProgram,
}

/// How the lean program is represented in a key: by its bytes, or for a past commit by its sources.
#[derive(Debug, Clone)]
pub(super) enum Lean {
    /// A hash of the lean program, which was built.
    Bytes(String),
    /// The lean program was not built for that commit. Its sources are used instead; they change
    /// more often than its bytes.
    Sources,
}

/// Crates of the lean program; if it contains only a part of a crate, the files of that part.
const LEAN_CRATES: &[&str] = &["apply", "guest"];
const LEAN_PATHS: &[&str] = &[
    "crates/terminal/src",
    "crates/pagewise/src/verbs/lab/guest.rs",
    "crates/pagewise/src/verbs/lab/cache.rs",
    "crates/pagewise/src/verbs/lab/out.rs",
    "crates/pagewise/src/lean.rs",
    "crates/pagewise/src/verbs/apply",
    "crates/pagewise/src/verbs/apply.rs",
    "crates/pagewise/src/verbs/ledger.rs",
    "crates/plan/src/commands.rs",
    "crates/plan/src/start_script.rs",
    "crates/plan/src/zram_files.rs",
    "crates/pagewise/src/verbs/undo",
    "crates/pagewise/src/verbs/undo.rs",
    "crates/pagewise/src/verbs/verify",
    "crates/pagewise/src/verbs/verify.rs",
    "crates/plan/src/gain.rs",
    "crates/report/src/json/plans.rs",
    "crates/report/src/text/applied.rs",
    "crates/report/src/text/gain.rs",
    "crates/report/src/text/plan.rs",
];

/// Computes the inputs of groups for one tree of the project.
#[derive(Debug)]
pub(super) struct Keys {
    tree: Tree,
    manifests: Manifests,
    toolchain: String,
    lean: Lean,
}

/// The inputs of a group: a value for each name. For a file, the value is its mode and the name of
/// its git object.
pub(super) type Parts = BTreeMap<String, String>;

impl Keys {
    pub(super) fn new(tree: Tree, toolchain: String, lean: Lean) -> Result<Self> {
        let manifests = Manifests::read(&tree)?;
        Ok(Self { tree, manifests, toolchain, lean })
    }

    /// Everything that a group with these inputs depends on.
    pub(super) fn parts(&self, inputs: &[Input]) -> Parts {
        let mut parts = Parts::from([("toolchain".to_owned(), self.toolchain.clone())]);
        // with other compiler flags, a pass would prove something else
        let flags = std::env::var("RUSTFLAGS").ok().filter(|flags| !flags.is_empty());
        parts.extend(flags.map(|flags| ("RUSTFLAGS".to_owned(), flags)));
        for input in inputs {
            match input {
                Input::Crates(names) => {
                    self.add_crates(&mut parts, self.manifests.closure(names, false));
                }
                Input::Tested(names) => {
                    self.add_crates(&mut parts, self.manifests.closure(names, true));
                }
                Input::Alone(names) => self.add_crates(&mut parts, self.manifests.alone(names)),
                Input::Paths(paths) => self.add_paths(&mut parts, paths),
                Input::LeanProgram => match &self.lean {
                    Lean::Bytes(hash) => {
                        parts.insert("lean program".to_owned(), hash.clone());
                    }
                    Lean::Sources => {
                        let crates = self.manifests.closure(LEAN_CRATES, false);
                        self.add_crates(&mut parts, crates);
                        self.add_paths(&mut parts, LEAN_PATHS);
                    }
                },
            }
        }
        parts
    }

    fn add_crates(&self, parts: &mut Parts, Closure { crates, others }: Closure) {
        for name in crates {
            for inside in ["src", "include", "build.rs"] {
                let folder = format!("crates/{name}/{inside}");
                let files = self.tree.files_below(&folder).filter(|(path, _)| !is_own_test(path));
                parts.extend(files.map(|(path, hash)| (path.to_owned(), hash.to_owned())));
            }
        }
        parts.extend(others.into_iter().map(|line| (format!("package {line}"), String::new())));
    }

    fn add_paths(&self, parts: &mut Parts, paths: &[&str]) {
        for path in paths {
            let files = self.files_of(path);
            parts.extend(files.map(|(path, hash)| (path.to_owned(), hash.to_owned())));
        }
    }

    fn files_of<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (folder, end) = path.split_once("/*").unwrap_or((path, ""));
        self.tree.files_below(folder).filter(move |(name, _)| {
            let rest = name.strip_prefix(folder).and_then(|rest| rest.strip_suffix(end));
            end.is_empty() || rest.is_some_and(|rest| !rest.is_empty() && !rest[1..].contains('/'))
        })
    }

    /// Whether no file matches a path, because the path is misspelled or the file was moved.
    #[cfg(test)]
    pub(super) fn is_missing(&self, path: &str) -> bool {
        self.files_of(path).next().is_none()
    }

    #[cfg(test)]
    pub(super) fn manifests(&self) -> &Manifests {
        &self.manifests
    }
}

/// The key of a group with this description and these inputs.
pub(super) fn key(about: &str, parts: &Parts) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(about);
    for (name, value) in parts {
        add(name);
        add(value);
    }
    hex(hash)[..16].to_owned()
}

/// Whether only a crate's own test program contains a file.
fn is_own_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["tests.rs", "property.rs"].contains(&name) || path.contains("/src/tests/")
}

/// A hash of the bytes of a program.
pub(super) fn hash_of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new().chain_update(bytes))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The version of the compiler that builds the groups' programs.
pub(super) fn toolchain() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run::output(run::program(rustc).arg("-vV")).context("which compiler is there")
}
