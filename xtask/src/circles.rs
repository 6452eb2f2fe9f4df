// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sources of a crate → circles of files that import each other.
//!
//! Files in a circle cannot be read one after the other. Two may belong together; more are a module whose
//! parts have no order. An import leads to the file that defines the name: what a `mod.rs` re-exports is
//! followed to where it comes from. Tests are left out. Only `use` and paths that begin with `crate::` or
//! `super::` are understood, which is what our code has; what macros make is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::run;

/// Crates that have no circle of more than two files, and are to stay so.
const CLEAN: &[&str] = &[
    "apply",
    "bench",
    "capture",
    "choose",
    "collapse",
    "compare",
    "confine",
    "decide",
    "experiments",
    "explain",
    "facts",
    "files",
    "guest",
    "html",
    "hugepool",
    "journald",
    "lab",
    "model",
    "observe",
    "pagewise",
    "pin",
    "procmem",
    "region",
    "report",
    "sample",
    "stats",
    "terminal",
    "workload",
];

/// A module's path below its crate: `["block", "slice"]`.
type Module = Vec<String>;

/// The modules of a crate, each with what it imports.
#[derive(Debug, Default)]
struct Crate {
    modules: BTreeMap<Module, Source>,
}

/// What a file says of others.
#[derive(Debug, Default)]
struct Source {
    /// Whole paths below the crate: `["block", "slice", "quantile"]`.
    imports: BTreeSet<Vec<String>>,
    /// Names that it re-exports, and the paths that they come from.
    exports: BTreeMap<String, Vec<String>>,
}

pub(crate) fn main() -> Result<()> {
    let mut broken = Vec::new();
    for folder in crates()? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = Crate::read(&folder.join("src"))?.circles();
        for circle in &found {
            let names: Vec<String> = circle.iter().map(|module| shown(module)).collect();
            println!("{name}: {} files: {}", circle.len(), names.join(", "));
        }
        if !found.is_empty() && CLEAN.contains(&name.as_str()) {
            broken.push(name);
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    bail!("expected no circle of more than two files in {}", broken.join(", "))
}

fn crates() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = fs::read_dir(run::project().join("crates"))
        .context("crates")?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("src").is_dir())
        .collect();
    folders.sort();
    Ok(folders)
}

fn shown(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

impl Crate {
    fn read(src: &Path) -> Result<Self> {
        let mut found = Self::default();
        let mut folders = vec![src.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let module = module_of(path.strip_prefix(src)?);
                    let text = fs::read_to_string(&path)?;
                    found.modules.insert(module.clone(), Source::parse(&module, &text));
                }
            }
        }
        Ok(found)
    }

    /// Groups of more than two files of which each reaches each, the largest first.
    fn circles(&self) -> Vec<Vec<Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.modules.keys().map(|module| (module, self.reached_from(module))).collect();
        let mut circles: BTreeSet<Vec<Module>> = BTreeSet::new();
        for (module, others) in &reached {
            let back = |other: &&Module| reached[*other].contains(*module);
            let circle: Vec<Module> = others.iter().copied().filter(back).cloned().collect();
            if circle.len() > 2 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached_from(&self, module: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut waiting = self.arrows_of(module);
        while let Some(next) = waiting.pop() {
            if reached.insert(next) {
                waiting.extend(self.arrows_of(next));
            }
        }
        reached
    }

    fn arrows_of(&self, module: &Module) -> Vec<&Module> {
        let Some(source) = self.modules.get(module) else { return Vec::new() };
        let found = source.imports.iter().filter_map(|path| self.defined_in(path, 0));
        found.filter(|other| *other != module).collect()
    }

    /// The file that defines what a path names.
    fn defined_in(&self, path: &[String], hops: u32) -> Option<&Module> {
        let whole = (0..=path.len()).rev().find(|end| self.modules.contains_key(&path[..*end]))?;
        let (module, source) = self.modules.get_key_value(&path[..whole])?;
        let exported = path.get(whole).and_then(|name| source.exports.get(name));
        match exported {
            Some(origin) if hops < 8 && origin.as_slice() != path => {
                let rest = path[whole + 1..].iter().cloned();
                let next: Vec<String> = origin.iter().cloned().chain(rest).collect();
                self.defined_in(&next, hops + 1)
            }
            _ => Some(module),
        }
    }
}

fn module_of(path: &Path) -> Module {
    let whole = path.with_extension("");
    let mut parts: Module = whole.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

impl Source {
    fn parse(module: &Module, text: &str) -> Self {
        let mut source = Self::default();
        if text.lines().any(|line| line.trim() == "#![cfg(test)]") {
            return source;
        }
        let code = without_comments(text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(""));
        let mut rest = String::new();
        for statement in code.split(';') {
            let lines: Vec<&str> = statement.lines().collect();
            let start = lines.iter().rposition(|line| is_use(line.trim_start()));
            let Some(start) = start else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&lines[..start].join("\n"));
            let statement = lines[start..].join(" ");
            let Some((visible, tree)) = statement.split_once("use ") else { continue };
            for path in expanded(tree) {
                let Some((full, name)) = absolute(module, &path) else { continue };
                if !visible.trim().is_empty() {
                    source.exports.insert(name, full.clone());
                }
                source.imports.insert(full);
            }
        }
        source.imports.extend(inline(module, &rest));
        source
    }
}

fn is_use(line: &str) -> bool {
    ["use ", "pub use ", "pub(crate) use ", "pub(super) use "].iter().any(|it| line.starts_with(it))
}

fn without_comments(text: &str) -> String {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(code).map(|line| line.to_owned() + "\n").collect()
}

/// `a::{b, c::{d, self}}` → `a::b`, `a::c::d`, `a::c`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else { return vec![tree.to_owned()] };
    let (prefix, inside) = (&tree[..open], tree[open + 1..].trim_end().trim_end_matches('}'));
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let balanced = |part: &str| {
        let missing = part.matches('{').count().saturating_sub(part.matches('}').count());
        part.trim().to_owned() + &"}".repeat(missing)
    };
    let parts = parts.into_iter().map(balanced).filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{prefix}{part}"))).collect()
}

/// A path below the crate, and the name under which it is known here; `None` for other crates.
fn absolute(module: &Module, path: &str) -> Option<(Vec<String>, String)> {
    let (path, renamed) = match path.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim().to_owned())),
        None => (path, None),
    };
    let mut words: Vec<String> = path.split("::").map(|word| word.trim().to_owned()).collect();
    if words.last().is_some_and(|last| last == "self" || last == "*") {
        words.pop();
    }
    let mut base: Module = match words.first()?.as_str() {
        "crate" => Vec::new(),
        "super" | "self" => module.clone(),
        // a child of this module, in a re-export
        _ => {
            let name = words.last()?.clone();
            let full = module.iter().cloned().chain(words).collect();
            return Some((full, renamed.unwrap_or(name)));
        }
    };
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next_if(|word| matches!(word.as_str(), "crate" | "self" | "super"))
    {
        if word == "super" {
            base.pop();
        }
    }
    let full: Vec<String> = base.into_iter().chain(words).collect();
    let name = renamed.or_else(|| full.last().cloned())?;
    Some((full, name))
}

/// Paths as `crate::user::User` and `super::scratch::disk` outside of imports.
fn inline(module: &Module, code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == ':' || it == '$')
            {
                continue;
            }
            let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
            let path: String = code[at..].chars().take_while(|it| is_path(*it)).collect();
            found.extend(absolute(module, path.trim_end_matches(':')).map(|(full, _)| full));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Crate {
        let modules = files.iter().map(|(path, text)| {
            let module = module_of(Path::new(path));
            (module.clone(), Source::parse(&module, text))
        });
        Crate { modules: modules.collect() }
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let all = of(files).circles();
        all.iter()
            .map(|circle| circle.iter().map(|it| shown(it)).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn three_files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use super::c::{C, D};\n"),
            ("c.rs", "fn f(a: crate::a::A) {}\n"),
        ];
        assert_eq!(circles(&files), ["a b c"]);
        let broken = [files[0], files[1], files[2], ("c.rs", "use std::fmt;\n")];
        assert!(circles(&broken).is_empty());
    }

    #[test]
    fn a_re_export_leads_to_where_the_name_comes_from() {
        let files = [
            ("x/mod.rs", "mod one;\nmod two;\nmod three;\npub use one::One;\npub use three::f;\n"),
            ("x/one.rs", "pub struct One;\n"),
            ("x/two.rs", "use super::One;\n"),
            ("x/three.rs", "use super::two::Two;\nuse super::One;\n"),
        ];
        assert!(circles(&files).is_empty());
        let defines = [
            ("x/mod.rs", "mod one;\npub use one::One;\npub use two::Two;\npub struct Here;\n"),
            ("x/one.rs", "use super::two::T;\n"),
            ("x/two.rs", "use super::Here;\n"),
        ];
        assert_eq!(circles(&defines), ["x x/one x/two"]);
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::c::C;\n"),
            ("c.rs", "// use crate::a::A;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn nested_imports_are_expanded() {
        let mut all = expanded("crate::a::{self, b::{C, D}, E}");
        all.sort();
        assert_eq!(all, ["crate::a::E", "crate::a::b::C", "crate::a::b::D", "crate::a::self"]);
    }
}
