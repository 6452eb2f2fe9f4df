// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds circles of files that import each other in the sources of a crate.
//!
//! Files in a circle cannot be read one after the other. Two files may belong together; more than
//! two are a module whose parts have no order. The file that defines a name counts as imported, not
//! one that re-exports it: re-exports of a `mod.rs` are followed to their source. Tests are left
//! out. Only `use` and paths that begin with `crate::` or `super::` are understood, because our
//! code has no others; the output of macros is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{TokenStream, TokenTree};

use crate::literals::{self, is_punct};
use crate::run;

/// A module's path below its crate, such as `["block", "slice"]`.
type Module = Vec<String>;

/// The modules of a crate, each with its imports and re-exports.
#[derive(Debug, Default)]
struct Crate {
    modules: BTreeMap<Module, Source>,
}

/// The imports and exports of a source file.
#[derive(Debug, Default)]
struct Source {
    /// Full paths below the crate of what the file imports; each is a list of names.
    imports: BTreeSet<Vec<String>>,
    /// Names that the file re-exports, and the path from which each comes.
    exports: BTreeMap<String, Vec<String>>,
}

/// Circles that are accepted for now. In each, a `mod.rs` or `lib.rs` re-exports its parts and also
/// defines items that the parts use.
const KNOWN: &[&str] =
    &["capture: lib, pack, timeline", "observe: kernel_log, kernel_log/follow, kernel_log/journal"];

pub(crate) fn main() -> Result<()> {
    let mut found = BTreeSet::new();
    for (name, files) in read_crates()? {
        for circle in Crate::parse(&files)?.find_circles() {
            let names: Vec<String> = circle.iter().map(|module| join_path(module)).collect();
            found.insert(format!("{name}: {}", names.join(", ")));
        }
    }
    let known: BTreeSet<String> = KNOWN.iter().map(|&circle| circle.to_owned()).collect();
    let new: Vec<&String> = found.difference(&known).collect();
    ensure!(new.is_empty(), "circles of more than two files: {new:#?}");
    let gone: Vec<&String> = known.difference(&found).collect();
    ensure!(gone.is_empty(), "not there any more: remove from `KNOWN`: {gone:#?}");
    println!("no circle of more than two files but {} known ones", known.len());
    Ok(())
}

/// The files of a crate: for each, the path below its `src`, and the text.
type Files = Vec<(String, String)>;

fn read_crates() -> Result<BTreeMap<String, Files>> {
    let mut crates: BTreeMap<String, Files> = BTreeMap::new();
    for (path, text) in run::texts(&["crates/*/src/*.rs"])? {
        let parts = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let (name, below) = parts.with_context(|| path.clone())?;
        crates.entry(name.to_owned()).or_default().push((below.to_owned(), text));
    }
    Ok(crates)
}

fn join_path(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

impl Crate {
    fn parse(files: &[(String, String)]) -> Result<Self> {
        let modules = files.iter().map(|(path, text)| {
            let module = module_of(Path::new(path));
            let source = Source::parse(&module, text).with_context(|| path.clone())?;
            Ok((module, source))
        });
        Ok(Self { modules: modules.collect::<Result<_>>()? })
    }

    /// Groups of more than two files in which every file reaches every other by imports, the
    /// largest first.
    fn find_circles(&self) -> Vec<Vec<Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.modules.keys().map(|module| (module, self.reachable_from(module))).collect();
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

    fn reachable_from(&self, module: &Module) -> BTreeSet<&Module> {
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
        let found = source.imports.iter().filter_map(|path| self.find_definition(path, 0));
        found.filter(|other| *other != module).collect()
    }

    /// The module whose file defines the item at a path. Re-exports are followed; `hops` is the
    /// number of those that were followed so far.
    fn find_definition(&self, path: &[String], hops: u32) -> Option<&Module> {
        let whole = (0..=path.len()).rev().find(|end| self.modules.contains_key(&path[..*end]))?;
        let (module, source) = self.modules.get_key_value(&path[..whole])?;
        let exported = path.get(whole).and_then(|name| source.exports.get(name));
        match exported {
            Some(origin) if hops < 8 && origin.as_slice() != path => {
                let rest = path[whole + 1..].iter().cloned();
                let next: Vec<String> = origin.iter().cloned().chain(rest).collect();
                self.find_definition(&next, hops + 1)
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
    fn parse(module: &Module, text: &str) -> Result<Self> {
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("not Rust: {error}"))?;
        let mut source = Self::default();
        source.collect(module, literals::without_tests(tokens));
        Ok(source)
    }

    fn collect(&mut self, module: &Module, tokens: TokenStream) {
        let mut tokens = tokens.into_iter();
        let (mut is_public, mut is_in_macro) = (false, false);
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Group(group) => self.collect(module, group.stream()),
                TokenTree::Ident(word) if word == "use" => {
                    self.collect_use(module, &mut tokens, &[], is_public);
                }
                TokenTree::Ident(word) if word == "crate" || word == "super" => {
                    let path = read_path(word.to_string(), &mut tokens);
                    if path.len() > 1 && !is_in_macro {
                        self.imports.insert(to_absolute_path(module, path));
                    }
                }
                _ => {}
            }
            is_in_macro = is_punct(&token, '$');
            // In `pub(crate) use`, the group is between the two words.
            is_public = match &token {
                TokenTree::Ident(word) => word == "pub",
                TokenTree::Group(_) => is_public,
                _ => false,
            };
        }
    }

    /// Parses an import such as `a::{b, c as d, e::{self}};` up to its semicolon, or a part of it
    /// up to the end of its group.
    fn collect_use(
        &mut self,
        module: &Module,
        tokens: &mut IntoIter,
        prefix: &[String],
        is_public: bool,
    ) {
        let (mut path, mut alias) = (prefix.to_vec(), None);
        for token in tokens.by_ref() {
            match token {
                TokenTree::Ident(word) if word == "as" => alias = Some(String::new()),
                TokenTree::Ident(word) if alias.is_some() => alias = Some(word.to_string()),
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    self.collect_use(module, &mut group.stream().into_iter(), &path, is_public);
                    path = prefix.to_vec();
                }
                TokenTree::Punct(punct) if punct.as_char() == ',' => {
                    let whole = std::mem::replace(&mut path, prefix.to_vec());
                    self.add_import(module, prefix, whole, alias.take(), is_public);
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                _ => {}
            }
        }
        self.add_import(module, prefix, path, alias, is_public);
    }

    /// Records an imported path. If nothing follows the prefix, as after a group or a trailing
    /// comma, there is no path to record.
    fn add_import(
        &mut self,
        module: &Module,
        prefix: &[String],
        path: Vec<String>,
        alias: Option<String>,
        is_public: bool,
    ) {
        if path.len() == prefix.len() {
            return;
        }
        let full = to_absolute_path(module, path);
        if let Some(name) = alias.or_else(|| full.last().cloned()).filter(|_| is_public) {
            self.exports.insert(name, full.clone());
        }
        self.imports.insert(full);
    }
}

/// Reads a path that begins with this word: the words that are separated by `::`.
fn read_path(first: String, tokens: &mut IntoIter) -> Vec<String> {
    let mut path = vec![first];
    let mut ahead = tokens.clone();
    while let (Some(one), Some(two)) = (ahead.next(), ahead.next()) {
        let Some(TokenTree::Ident(word)) = ahead.next() else { break };
        if !(is_punct(&one, ':') && is_punct(&two, ':')) {
            break;
        }
        path.push(word.to_string());
        *tokens = ahead.clone();
    }
    path
}

/// Makes a path into one from the crate's root. A path that begins with another word belongs to a
/// child of this module, or to another crate, which has no file here.
fn to_absolute_path(module: &Module, path: Vec<String>) -> Vec<String> {
    let is_whole = path.first().is_some_and(|first| first == "crate");
    let mut base = if is_whole { Vec::new() } else { module.clone() };
    for word in path {
        match word.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()),
            _ => base.push(word),
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_circles(files: &[(&str, &str)]) -> Vec<String> {
        let files: Files = files.iter().map(|&(path, text)| (path.into(), text.into())).collect();
        let all = Crate::parse(&files).unwrap().find_circles();
        let shown =
            |circle: &Vec<Module>| circle.iter().map(|it| join_path(it)).collect::<Vec<_>>();
        all.iter().map(|circle| shown(circle).join(" ")).collect()
    }

    #[test]
    fn three_files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use super::c::{C, D};\n"),
            ("c.rs", "fn f(a: crate::a::A) {}\n"),
        ];
        assert_eq!(find_circles(&files), ["a b c"]);
        let broken = [files[0], files[1], files[2], ("c.rs", "use std::fmt;\n")];
        assert!(find_circles(&broken).is_empty());
    }

    #[test]
    fn a_re_export_leads_to_where_the_name_comes_from() {
        let files = [
            ("x/mod.rs", "mod one;\nmod two;\nmod three;\npub use one::One;\npub use three::f;\n"),
            ("x/one.rs", "pub struct One;\n"),
            ("x/two.rs", "use super::One;\n"),
            ("x/three.rs", "use super::two::Two;\nuse super::One;\n"),
        ];
        assert!(find_circles(&files).is_empty());
        let defines = [
            ("x/mod.rs", "mod one;\npub use one::One;\npub use two::Two;\npub struct Here;\n"),
            ("x/one.rs", "use super::two::T;\n"),
            ("x/two.rs", "use super::Here;\n"),
        ];
        assert_eq!(find_circles(&defines), ["x x/one x/two"]);
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::c::C;\n"),
            ("c.rs", "// use crate::a::A;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert!(find_circles(&files).is_empty());
    }

    #[test]
    fn nested_imports_are_expanded() {
        let text = "pub use crate::a::{self, b::{C, D as E}, F};\nuse super::g::*;\n";
        let source = Source::parse(&vec!["x".to_owned(), "y".to_owned()], text).unwrap();
        let imports: Vec<String> = source.imports.iter().map(|path| path.join("::")).collect();
        assert_eq!(imports, ["a", "a::F", "a::b::C", "a::b::D", "x::g"]);
        let exports: Vec<&String> = source.exports.keys().collect();
        assert_eq!(exports, ["C", "E", "F", "a"]);
    }
}
