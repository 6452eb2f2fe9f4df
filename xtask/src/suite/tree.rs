// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the project's files at a commit or in the working tree: the names of their git objects;
//! and, from the manifests, which of our crates uses which, and which external packages each crate
//! needs.
//!
//! Nothing is built or fetched, so this works for any past commit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::run;

/// Files by path, each with its mode and the name of the git object with its contents.
#[derive(Debug)]
pub(super) struct Tree {
    files: BTreeMap<String, String>,
    /// Hash of the commit; `None` for the working tree.
    commit: Option<String>,
    texts: Rc<Texts>,
}

/// Contents of git objects that were already read; they are kept because most files are the same in
/// many commits.
pub(super) type Texts = RefCell<BTreeMap<String, Rc<str>>>;

impl Tree {
    /// Reads the list of all files that git tracks or does not ignore, with their contents in the
    /// working tree of `project`.
    pub(super) fn of_work_tree(project: &Path) -> Result<Self> {
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-per-directory=.gitignore",
            "--deduplicate",
        ];
        let listed = run::output(git(project).args(list))?;
        let paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        let mut files = BTreeMap::new();
        let mut to_hash = Vec::new();
        for path in paths {
            let full = project.join(path);
            // git still lists a file that was removed without a commit
            let Ok(metadata) = full.symlink_metadata() else { continue };
            // a nested repository is another project
            if metadata.is_dir() {
                continue;
            }
            if metadata.is_symlink() {
                let target = full.read_link().with_context(|| path.to_owned())?;
                files.insert(path.to_owned(), format!("120000 {}", target.display()));
            } else {
                let mode =
                    if metadata.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
                to_hash.push((path.to_owned(), mode));
            }
        }
        let input = to_hash.iter().map(|(path, _)| format!("{path}\n")).collect::<String>();
        let hash = ["hash-object", "--no-filters", "--stdin-paths"];
        let hashes = run::output_of(git(project).args(hash), &input)?;
        ensure!(hashes.lines().count() == to_hash.len(), "git hashed another number of files");
        let hashed = to_hash.into_iter().zip(hashes.lines());
        files.extend(hashed.map(|((path, mode), hash)| (path, format!("{mode} {hash}"))));
        Ok(Self { files, commit: None, texts: Rc::default() })
    }

    /// Reads the list of files of a commit. `texts` is shared by the trees of many commits.
    pub(super) fn of_commit(commit: &str, texts: &Rc<Texts>) -> Result<Self> {
        let list = ["ls-tree", "-r", "-z", "--full-tree", commit];
        let listed = run::output(git(run::project()).args(list))?;
        let entry = |entry: &str| {
            let (about, path) = entry.split_once('\t')?;
            let mut words = about.split(' ');
            let (mode, hash) = (words.next()?, words.nth(1)?);
            Some((path.to_owned(), format!("{mode} {hash}")))
        };
        let entries = listed.split('\0').filter(|entry| !entry.is_empty());
        let files =
            entries.map(|it| entry(it).with_context(|| it.to_owned())).collect::<Result<_>>()?;
        Ok(Self { files, commit: Some(commit.to_owned()), texts: Rc::clone(texts) })
    }

    /// The files below a folder, or the file of that name: the path of each, and its mode with the
    /// object name.
    pub(super) fn files_below<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_below = move |name: &str| {
            name.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path.ends_with('/'))
        };
        self.files
            .range(path.to_owned()..)
            .take_while(move |(name, _)| name.starts_with(path))
            .filter(move |(name, _)| is_below(name))
            .map(|(name, hash)| (name.as_str(), hash.as_str()))
    }

    /// The contents of a file of the tree; `None` if the file does not exist.
    fn read_text(&self, path: &str) -> Result<Option<Rc<str>>> {
        let Some(named) = self.files.get(path) else { return Ok(None) };
        if self.commit.is_none() {
            let text = std::fs::read_to_string(run::project().join(path));
            return Ok(Some(text.with_context(|| path.to_owned())?.into()));
        }
        if let Some(text) = self.texts.borrow().get(named) {
            return Ok(Some(Rc::clone(text)));
        }
        let hash = named.rsplit(' ').next().unwrap_or_default();
        let text: Rc<str> =
            run::output(git(run::project()).args(["cat-file", "blob", hash]))?.into();
        self.texts.borrow_mut().insert(named.clone(), Rc::clone(&text));
        Ok(Some(text))
    }

    fn read_toml<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let Some(text) = self.read_text(path)? else { return Ok(None) };
        toml::from_str(&text).map(Some).with_context(|| path.to_owned())
    }
}

fn git(project: &Path) -> std::process::Command {
    let mut git = run::program("git");
    // In CI, the checkout may belong to another user.
    git.current_dir(project).args(["-c", "safe.directory=*", "-c", "core.quotePath=false"]);
    git
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Manifest {
    package: Option<toml::Table>,
    dependencies: toml::Table,
    build_dependencies: toml::Table,
    dev_dependencies: toml::Table,
    workspace: toml::Table,
    profile: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    #[serde(default)]
    checksum: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The manifests and the lock file of a tree.
#[derive(Debug)]
pub(super) struct Manifests {
    /// Manifests of our crates, by the folder's name.
    crates: BTreeMap<String, Manifest>,
    root: Manifest,
    lock: Lock,
}

/// Everything from which some of our crates are built.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Closure {
    /// Names of the folders below `crates` of the requested crates and of the crates that they
    /// depend on.
    pub(super) crates: BTreeSet<String>,
    /// A line for each external package (name, version and checksum), and for other things that
    /// affect the compilation (profiles, enabled features).
    pub(super) others: BTreeSet<String>,
}

const OURS: &str = "pagewise-";

impl Manifests {
    pub(super) fn read(tree: &Tree) -> Result<Self> {
        let mut crates = BTreeMap::new();
        for (path, _) in tree.files_below("crates") {
            let name =
                path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
            if let Some(name) = name.filter(|name| !name.contains('/')) {
                crates.insert(name.to_owned(), tree.read_toml(path)?.unwrap_or_default());
            }
        }
        let root = tree.read_toml("Cargo.toml")?.context("no Cargo.toml")?;
        let lock = tree.read_toml("Cargo.lock")?.context("no Cargo.lock")?;
        Ok(Self { crates, root, lock })
    }

    /// Everything from which these crates are built; with `with_tests`, also everything that only
    /// their tests need. A crate that does not exist is left out, because it has another name at
    /// this commit.
    pub(super) fn closure(&self, names: &[&str], with_tests: bool) -> Closure {
        let mut crates = BTreeSet::new();
        let mut open: Vec<(String, bool)> =
            names.iter().map(|name| ((*name).to_owned(), with_tests)).collect();
        // crates with tests come first, so that a crate that other crates use, too, is included
        // with its tests
        while let Some((name, tests)) = open.pop() {
            if !self.crates.contains_key(&name) || !crates.insert((name.clone(), tests)) {
                continue;
            }
            let ours = self.users_of(&name, tests).filter_map(|(used, _)| used.strip_prefix(OURS));
            open.extend(ours.map(|used| (used.to_owned(), false)));
        }
        self.with_others(&crates)
    }

    /// The named crates alone, without our other crates that they depend on.
    pub(super) fn alone(&self, names: &[&str]) -> Closure {
        let there = names.iter().filter(|name| self.crates.contains_key(**name));
        self.with_others(&there.map(|name| ((*name).to_owned(), false)).collect())
    }

    /// The dependencies of a crate on our other crates, by name.
    fn users_of(
        &self,
        name: &str,
        with_tests: bool,
    ) -> impl Iterator<Item = (&String, &toml::Value)> {
        let manifest = self.crates.get(name).into_iter();
        manifest.flat_map(move |manifest| {
            let dev = with_tests.then_some(&manifest.dev_dependencies).into_iter().flatten();
            manifest.dependencies.iter().chain(&manifest.build_dependencies).chain(dev)
        })
    }

    /// Everything from which these crates are built, each with or without its tests, and the
    /// external packages that they need.
    fn with_others(&self, crates: &BTreeSet<(String, bool)>) -> Closure {
        let mut found = Closure::default();
        let mut direct = BTreeSet::new();
        for (name, tests) in crates {
            for (used, how) in self.users_of(name, *tests) {
                let is_ours = used.starts_with(OURS);
                let has_features = how.get("features").or(how.get("default-features")).is_some();
                if !is_ours || has_features {
                    found.others.insert(format!("{name}: {used} = {how}"));
                }
                if !is_ours {
                    direct.insert(used.clone());
                }
            }
            found.crates.insert(name.clone());
        }
        let shared = self.root.workspace.get("dependencies").and_then(toml::Value::as_table);
        let how = |name: &String| Some(format!("{name} = {}", shared?.get(name)?));
        found.others.extend(direct.iter().filter_map(how));
        // groups compile with the profile `dev`; the library that is published separately has a
        // profile of its own
        let is_used = |name: &&String| ["dev", "library"].contains(&name.as_str());
        let profiles = self.root.profile.keys().filter(is_used);
        found.others.extend(profiles.map(|name| format!("{name} = {}", self.root.profile[name])));
        found.others.extend(self.locked_packages(direct));
        found
    }

    /// External packages and everything that they depend on, from the lock file. If the lock file
    /// has several versions of a package, all of them are included, because the lock file does not
    /// show which one a manifest means.
    fn locked_packages(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<String> = names.into_iter().collect();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for package in self.lock.package.iter().filter(|package| package.name == name) {
                let Locked { name, version, checksum, dependencies } = package;
                found.insert(format!("{name} {version} {checksum}"));
                let first_word = |used: &String| used.split(' ').next().unwrap_or(used).to_owned();
                open.extend(dependencies.iter().map(first_word));
            }
        }
        found
    }

    /// Names of the project's crates without their prefix, such as `decide`.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.crates.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a project that a test makes.
    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        assert!(git(folder.path()).args(["init", "--quiet"]).status().unwrap().success());
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn manifests(crates: &[(&str, &str)]) -> Manifests {
        let crates =
            crates.iter().map(|(name, text)| ((*name).to_owned(), toml::from_str(text).unwrap()));
        let root =
            "[workspace.dependencies]\nserde = { version = \"1\" }\n[profile.dev]\ndebug = 1\n";
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.1\"\nchecksum = \"aa\"\n\
            dependencies = [\"serde_core\"]\n[[package]]\nname = \"serde_core\"\nversion = \"1.0.2\"\n\
            [[package]]\nname = \"proptest\"\nversion = \"1.1.0\"\n";
        Manifests {
            crates: crates.collect(),
            root: toml::from_str(root).unwrap(),
            lock: toml::from_str(lock).unwrap(),
        }
    }

    #[test]
    fn a_crate_is_built_from_what_its_crates_use_and_from_what_only_its_own_tests_do() {
        let all = manifests(&[
            (
                "lab",
                "[dependencies]\npagewise-observe.workspace = true\n[dev-dependencies]\npagewise-kit.workspace = true\nproptest.workspace = true\n",
            ),
            (
                "observe",
                "[dependencies]\npagewise-model.workspace = true\nserde.workspace = true\n[dev-dependencies]\npagewise-other-kit.workspace = true\n",
            ),
            ("model", ""),
            ("kit", ""),
            ("other-kit", ""),
        ]);
        let found = all.closure(&["lab"], false);
        assert_eq!(found.crates, ["lab", "model", "observe"].map(str::to_owned).into());
        assert!(
            found.others.contains("serde 1.0.1 aa") && found.others.contains("serde_core 1.0.2 "),
            "{found:?}"
        );
        assert!(!found.others.iter().any(|line| line.starts_with("proptest ")), "{found:?}");
        let tested = all.closure(&["lab"], true);
        assert_eq!(tested.crates, ["kit", "lab", "model", "observe"].map(str::to_owned).into());
        assert!(tested.others.contains("proptest 1.1.0 "), "{tested:?}");
        let alone = all.alone(&["lab", "nonesuch"]);
        assert_eq!(alone.crates, ["lab"].map(str::to_owned).into());
        assert!(!alone.others.iter().any(|line| line.starts_with("serde 1.0.1")), "{alone:?}");
    }

    #[test]
    fn every_change_of_a_file_below_a_folder_counts_and_none_beside_it() {
        let folder = project(&[
            ("a/x.rs", "1"),
            ("a/deep/y.rs", "2"),
            ("ab/z.rs", "3"),
            (".gitignore", "/a/no\n"),
        ]);
        let below = || -> Vec<String> {
            let tree = Tree::of_work_tree(folder.path()).unwrap();
            tree.files_below("a").map(|(path, hash)| format!("{path} {hash}")).collect()
        };
        let first = below();
        assert_eq!(first.len(), 2, "{first:?}");
        type Change = fn(&Path);
        let changes: [(&str, Change); 6] = [
            ("contents", |it| std::fs::write(it.join("a/deep/y.rs"), "2b").unwrap()),
            ("a new file", |it| std::fs::write(it.join("a/new"), "").unwrap()),
            ("a file less", |it| std::fs::remove_file(it.join("a/new")).unwrap()),
            ("a name", |it| std::fs::rename(it.join("a/x.rs"), it.join("a/w.rs")).unwrap()),
            ("a mode", |it| {
                std::fs::set_permissions(it.join("a/w.rs"), std::fs::Permissions::from_mode(0o755))
                    .unwrap();
            }),
            ("a link in place of a file", |it| {
                std::fs::remove_file(it.join("a/w.rs")).unwrap();
                std::os::unix::fs::symlink("1", it.join("a/w.rs")).unwrap();
            }),
        ];
        let mut last = first;
        for (what, change) in changes {
            change(folder.path());
            let now = below();
            assert_ne!(now, last, "{what}");
            last = now;
        }
        std::fs::write(folder.path().join("ab/z.rs"), "4").unwrap();
        std::fs::write(folder.path().join("a/no"), "ignored").unwrap();
        assert_eq!(below(), last);
    }

    /// Both kinds of tree give equal contents the same names, so a pass of a commit is also a pass
    /// of its working tree.
    #[test]
    fn a_commit_and_its_working_tree_have_the_same_names() {
        let tree = Tree::of_work_tree(run::project()).unwrap();
        let commit = Tree::of_commit("HEAD", &Rc::default()).unwrap();
        let same =
            commit.files.iter().filter(|(path, hash)| tree.files.get(*path) == Some(hash)).count();
        // files with uncommitted changes differ from the commit
        assert!(same * 10 > commit.files.len() * 8, "{same} of {}", commit.files.len());
    }
}
