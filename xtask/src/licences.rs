// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the licences of everything that is linked into a program of this workspace, for its
//! packages: each text once, below the names of the crates that have it.
//!
//! cargo names the crates that are linked. The texts of their licences are files in the folders of
//! the crates, including those of C libraries that a crate contains. If a crate may be used under
//! several licences, the text of MIT is chosen. For a crate without such a file, its authors are
//! printed, and this project's copy of the same licence. The C library, which the program also
//! contains, is not a crate: the packages name it themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{run, sbom};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The package whose program or library is shipped
    #[arg(long, default_value = "pagewise")]
    package: String,
    /// The target that it is built for
    #[arg(long, default_value = "x86_64-unknown-linux-gnu")]
    target: String,
    /// Name Debian's file instead of printing the Apache License 2.0, as its packages have to
    #[arg(long)]
    debian: bool,
    /// Print a software bill of materials (CycloneDX, JSON) instead: the same crates, and their checksums
    #[arg(long)]
    sbom: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    authors: Vec<String>,
    /// The registry; `None` for packages of this workspace.
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// The kind of the dependency: `None` for one that is linked; otherwise "dev" or "build".
    kind: Option<String>,
}

impl Dependency {
    fn is_linked(&self) -> bool {
        self.dep_kinds.iter().any(|it| it.kind.is_none())
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let metadata = Metadata::read(&args.target)?;
    if args.sbom {
        print!("{}", sbom::document(&metadata, &args.package)?);
        return Ok(());
    }
    let linked = metadata.linked_packages(&args.package)?;
    let mut crates_of_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in linked {
        let name = format!("{} {} ({})", package.name, package.version, package.expression());
        for text in package.texts()? {
            let text = if args.debian { replace_common_text(text) } else { text };
            crates_of_text.entry(text).or_default().insert(name.clone());
        }
    }
    print!("{}", render(&crates_of_text));
    Ok(())
}

impl Metadata {
    /// Reads what `cargo metadata` prints about this workspace for a target.
    pub(crate) fn read(target: &str) -> Result<Self> {
        let mut cargo = run::cargo();
        cargo.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
        cargo.args(["--filter-platform", target]);
        Ok(serde_json::from_str(&run::output(&mut cargo)?)?)
    }

    /// A package of this workspace.
    pub(crate) fn find_own(&self, name: &str) -> Result<&Package> {
        let is_own = |it: &&Package| it.name == name && it.source.is_none();
        let found = self.packages.iter().find(is_own);
        found.with_context(|| format!("no package {name} in this workspace"))
    }

    /// The packages that a package needs to be linked.
    pub(crate) fn dependencies(&self, package: &Package) -> Vec<&str> {
        let node = self.resolve.nodes.iter().find(|it| it.id == package.id);
        let needed = node.map_or(&[][..], |it| &it.deps).iter().filter(|it| it.is_linked());
        needed.map(|it| it.pkg.as_str()).collect()
    }

    /// The external packages that are linked into the program of this package, by name.
    pub(crate) fn linked_packages(&self, root: &str) -> Result<Vec<&Package>> {
        let packages: BTreeMap<&str, &Package> =
            self.packages.iter().map(|it| (it.id.as_str(), it)).collect();
        let nodes: BTreeMap<&str, &Node> =
            self.resolve.nodes.iter().map(|it| (it.id.as_str(), it)).collect();
        let first = self.find_own(root)?;
        let (mut seen, mut open) = (BTreeSet::new(), vec![first.id.as_str()]);
        while let Some(id) = open.pop() {
            let package = packages.get(id).with_context(|| format!("no package {id}"))?;
            if package.is_procedural_macro() || !seen.insert(id) {
                continue;
            }
            let node = nodes.get(id).with_context(|| format!("no dependencies of {id}"))?;
            open.extend(node.deps.iter().filter(|it| it.is_linked()).map(|it| it.pkg.as_str()));
        }
        let mut linked: Vec<&Package> =
            seen.iter().filter_map(|id| packages.get(id)).copied().collect();
        linked.retain(|it| it.source.is_some());
        linked.sort_by_key(|it| (&it.name, &it.version));
        Ok(linked)
    }
}

impl Package {
    /// Whether the package runs in the compiler, so that no part of it is in the program.
    fn is_procedural_macro(&self) -> bool {
        self.targets.iter().any(|it| it.kind.iter().any(|kind| kind == "proc-macro"))
    }

    fn expression(&self) -> &str {
        self.license.as_deref().unwrap_or("licence in its file")
    }

    fn texts(&self) -> Result<Vec<String>> {
        let folder = self.manifest_path.parent().unwrap_or(Path::new("/"));
        let files = choose_texts(&licence_files(folder, 2)?, self.expression());
        if files.is_empty() {
            return Ok(vec![self.common_text()?]);
        }
        let read = |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
        let texts = files.iter().map(|path| Ok(normalize(&String::from_utf8_lossy(&read(path)?))));
        texts.collect()
    }

    /// The text for a crate without a licence file: its authors, and the text of its licence.
    fn common_text(&self) -> Result<String> {
        let has = |name: &str| self.expression().contains(name);
        let file = if has("MIT") { "LICENSE-MIT" } else { "LICENSE-APACHE" };
        ensure!(has("MIT") || has("Apache-2.0"), "{}: no text of {}", self.name, self.expression());
        let text = fs::read_to_string(run::project().join(file)).context(file)?;
        let authors = self.authors.join(", ");
        let own = |line: &str| !line.starts_with("Copyright (c)");
        let rest: Vec<&str> = text.lines().filter(|line| own(line)).collect();
        Ok(normalize(&format!("Copyright (c) {authors}\n\n{}", rest.join("\n"))))
    }
}

/// Names of folders whose files are not linked: C libraries bring programs under other licences.
const NOT_LINKED: &[&str] = &["examples", "programs", "tests"];

/// The files with licences in a folder and those below it, to this depth.
fn licence_files(folder: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_dir() {
            folders.push((name, path));
        } else if ["license", "licence", "copying", "unlicense", "notice", "copyright"]
            .iter()
            .any(|begin| name.starts_with(begin))
        {
            found.push(path);
        }
    }
    // the GPL is offered as an alternative to the licences beside it
    let is_named = |path: &PathBuf, begin: &str| file_name(path).starts_with(begin);
    if found.iter().any(|path| is_named(path, "license")) {
        found.retain(|path| !is_named(path, "copying"));
    }
    if depth > 0 {
        folders.retain(|(name, _)| !NOT_LINKED.contains(&name.as_str()));
        for (_, folder) in folders {
            found.extend(licence_files(&folder, depth - 1)?);
        }
    }
    found.sort();
    Ok(found)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// In each folder, only the text of MIT if the crate may be used under MIT and has a file with that
/// text. NOTICE and COPYRIGHT are always included.
fn choose_texts(files: &[PathBuf], expression: &str) -> Vec<PathBuf> {
    let is_mit = |path: &Path| file_name(path).contains("mit");
    let always =
        |path: &Path| ["notice", "copyright"].iter().any(|it| file_name(path).starts_with(it));
    let has_mit =
        |folder: Option<&Path>| files.iter().any(|it| it.parent() == folder && is_mit(it));
    let is_chosen = |path: &&PathBuf| {
        !expression.contains("MIT") || is_mit(path) || always(path) || !has_mit(path.parent())
    };
    files.iter().filter(is_chosen).cloned().collect()
}

/// Removes differences of line ends and trailing spaces, so that equal texts compare as equal.
fn normalize(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned() + "\n"
}

/// Replaces a text that every Debian system contains by a reference to it.
fn replace_common_text(text: String) -> String {
    let begin: Vec<&str> = text.split_whitespace().take(4).collect();
    if begin == ["Apache", "License", "Version", "2.0,"] {
        return "The Apache License 2.0: /usr/share/common-licenses/Apache-2.0 on Debian systems\n"
            .to_owned();
    }
    text
}

fn render(crates_of_text: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut sorted: Vec<_> = crates_of_text.iter().map(|(text, names)| (names, text)).collect();
    sorted.sort();
    let rule = "-".repeat(78);
    let entry = |(names, text): &(&BTreeSet<String>, &String)| {
        let names: String = names.iter().map(|name| format!("{name}\n")).collect();
        format!("{rule}\n{names}{rule}\n\n{text}\n")
    };
    sorted.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str], expression: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let found = licence_files(folder.path(), 2).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
        choose_texts(&found, expression).iter().map(name).collect()
    }

    #[test]
    fn mit_is_chosen_and_notices_and_c_libraries_stay() {
        let both = ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE", "src/lib.rs"];
        assert_eq!(names(&both, "MIT OR Apache-2.0"), ["LICENSE-MIT", "NOTICE"]);
        assert_eq!(names(&both[..1], "MIT OR Apache-2.0"), ["LICENSE-APACHE"]);
        assert_eq!(names(&both, "Apache-2.0"), ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE"]);
        let c = ["LICENSE", "c/COPYING", "c/LICENSE", "c/programs/COPYING", "c/tests/LICENSE"];
        assert_eq!(names(&c, "MIT"), ["LICENSE", "c/LICENSE"]);
    }

    #[test]
    fn crates_with_the_same_text_share_it() {
        let text = |text: &str| normalize(text);
        assert_eq!(text("\na  \r\nb\n\n"), "a\nb\n");
        assert_eq!(replace_common_text(text("a")), "a\n");
        let apache = fs::read_to_string(run::project().join("LICENSE-APACHE")).unwrap();
        assert!(replace_common_text(normalize(&apache)).contains("common-licenses/Apache-2.0"));
        let names = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect();
        let crates = BTreeMap::from([(text("T"), names(&["b", "c"])), (text("S"), names(&["a"]))]);
        let rule = "-".repeat(78);
        assert_eq!(
            render(&crates),
            format!("{rule}\na\n{rule}\n\nS\n\n{rule}\nb\nc\n{rule}\n\nT\n\n")
        );
    }
}
