// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the string literals and doc comments of a Rust file outside tests, with their lines.
//!
//! Attributes that only the compiler reads (`expect`, `cfg`, `serde` …) are left out, and so are
//! items under `#[cfg(test)]` and the files of modules that such an item declares.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

use crate::prose::Piece;

/// The string literals and doc comments in a Rust file.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Each string literal as the text of its lines.
    pub(crate) literals: Vec<Vec<Piece>>,
    /// Adjacent outer doc comments, a piece for each line.
    pub(crate) docs: Vec<Vec<Piece>>,
    /// Names of modules in separate files that only tests use.
    test_modules: Vec<String>,
    /// Whether clap prints doc comments of this file as help.
    has_help: bool,
}

/// Attributes whose strings users do not see.
const SILENT: &[&str] =
    &["allow", "cfg", "cfg_attr", "deny", "deprecated", "expect", "link", "path", "serde", "warn"];

/// Derives with which clap prints doc comments as help.
const DERIVES: &[&str] =
    &["Args)]", "Args,", "Parser)]", "Subcommand)]", "ValueEnum)]", "ValueEnum,"];

/// Keywords that begin an item.
const ITEMS: &[&str] =
    &["const", "enum", "fn", "impl", "mod", "static", "struct", "trait", "type", "use"];

/// Parses the text of a Rust file.
pub(crate) fn read(text: &str) -> Result<Said> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("not Rust: {error}"))?;
    let has_help = DERIVES.iter().any(|derive| text.contains(derive)) && text.contains("clap");
    let mut said = Said { has_help, ..Said::default() };
    said.collect(tokens);
    Ok(said)
}

/// Parses Rust files and leaves out those that only tests use. Each result comes with the path of
/// the file.
pub(crate) fn read_all(files: &[(String, String)]) -> Result<Vec<(String, Said)>> {
    let mut all = Vec::new();
    let mut for_tests: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, text) in files {
        let said = read(text).map_err(|error| error.context(path.clone()))?;
        let folder = module_folder(Path::new(path));
        for module in &said.test_modules {
            for_tests.insert(folder.join(module).with_extension("rs"));
            for_tests.insert(folder.join(module));
        }
        all.push((path.clone(), said));
    }
    all.retain(|(path, _)| !Path::new(path).ancestors().any(|part| for_tests.contains(part)));
    Ok(all)
}

/// The folder that contains the submodules of a file.
fn module_folder(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") | None => folder.to_owned(),
        Some(stem) => folder.join(stem),
    }
}

impl Said {
    /// Doc comments that may be command line help: those of a file that derives a parser.
    pub(crate) fn help(&self) -> &[Vec<Piece>] {
        if self.has_help { &self.docs } else { &[] }
    }

    fn collect(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut doc: Vec<Piece> = Vec::new();
        while let Some(token) = tokens.next() {
            let is_hash = is_punct(&token, '#');
            if is_hash && tokens.next_if(|token| is_punct(token, '!')).is_some() {
                // An inner attribute: a lint, or the doc comment at the beginning of the file.
                tokens.next();
                continue;
            }
            if is_hash
                && matches!(tokens.peek(), Some(TokenTree::Group(group)) if is_attribute(group))
            {
                let Some(TokenTree::Group(group)) = tokens.next() else { continue };
                if is_for_tests(&group) {
                    doc.clear();
                    self.test_modules.extend(skip_item(&mut tokens));
                } else {
                    self.collect_attribute(&group, &mut doc);
                }
                continue;
            }
            if !doc.is_empty() {
                self.docs.push(std::mem::take(&mut doc));
            }
            match token {
                TokenTree::Group(group) => self.collect(group.stream()),
                TokenTree::Literal(literal) => self.literals.extend(pieces(&literal)),
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    fn collect_attribute(&mut self, group: &Group, doc: &mut Vec<Piece>) {
        let mut tokens = group.stream().into_iter();
        let Some(TokenTree::Ident(name)) = tokens.next() else { return };
        if name == "doc" {
            if let Some(TokenTree::Literal(literal)) = tokens.nth(1) {
                doc.extend(pieces(&literal).unwrap_or_default());
            }
        } else if !SILENT.iter().any(|silent| name == silent) {
            self.collect(tokens.collect());
        }
    }
}

/// Skips an item: to the end of its block, or to its semicolon if it has no block. If the item
/// declares a module in a separate file, returns the module's name.
fn skip_item(tokens: &mut Peekable<IntoIter>) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    for token in tokens {
        // A comma ends a field or a variant. In an item, a comma is a part of the generics.
        let is_item = words.iter().any(|word| ITEMS.contains(&word.as_str()));
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return None,
            TokenTree::Punct(punct) if punct.as_char() == ';' => break,
            TokenTree::Punct(punct) if punct.as_char() == ',' && !is_item => break,
            TokenTree::Ident(word) => words.push(word.to_string()),
            _ => {}
        }
    }
    words.into_iter().skip_while(|word| word != "mod").nth(1)
}

/// The tokens of a file without the items that only tests use.
pub(crate) fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_hash = is_punct(&token, '#');
        let is_inner = is_hash && tokens.next_if(|token| is_punct(token, '!')).is_some();
        match tokens.peek() {
            Some(TokenTree::Group(group)) if is_hash && is_for_tests(group) => {
                tokens.next();
                if is_inner {
                    return TokenStream::new();
                }
                skip_item(&mut tokens);
            }
            _ => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

pub(crate) fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_attribute(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
}

/// Whether an attribute compiles its item for tests only, such as `cfg(test)` and `cfg(any(test,
/// …))`.
fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not")
}

/// The text of a string literal; `None` for numbers, characters and bytes.
fn pieces(literal: &Literal) -> Option<Vec<Piece>> {
    let source = literal.to_string();
    let line = literal.span().start().line;
    if let Some(raw) = source.strip_prefix('r') {
        let text = raw.trim_start_matches('#').strip_prefix('"')?;
        let text = text.trim_end_matches('#').strip_suffix('"')?;
        let lines = text.lines().enumerate();
        return Some(lines.map(|(at, text)| Piece::text(line + at, text)).collect());
    }
    let text = source.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescape(text, line))
}

/// The lines of a literal as its reader sees them. Each line of the source is a separate piece.
fn unescape(text: &str, first_line: usize) -> Vec<Piece> {
    let mut pieces = vec![Piece::text(first_line, String::new())];
    let mut line = first_line;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let plain = match (c, (c == '\\').then(|| chars.next()).flatten()) {
            ('\\', Some('\n')) => {
                line += 1;
                while let Some(space) = chars.next_if(|c| c.is_whitespace()) {
                    line += usize::from(space == '\n');
                }
                pieces.push(Piece::text(line, String::new()));
                continue;
            }
            ('\\', Some('u')) => {
                let digits: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                code.and_then(char::from_u32).unwrap_or(' ')
            }
            ('\\', Some('x')) => {
                chars.by_ref().take(2).for_each(drop);
                ' '
            }
            ('\\', Some('n' | 't' | 'r')) => ' ',
            ('\\', Some(other)) => other,
            ('\n', _) => {
                line += 1;
                pieces.push(Piece::text(line, String::new()));
                ' '
            }
            (plain, _) => plain,
        };
        if let Some(piece) = pieces.last_mut() {
            piece.text.push(plain);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(lists: &[Vec<Piece>]) -> Vec<(usize, String)> {
        let join = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.text.as_str()).collect();
        lists.iter().map(|pieces| (pieces[0].line, join(pieces))).collect()
    }

    #[test]
    fn literals_keep_their_lines_and_lose_their_escapes() {
        let said = read("fn f() {\n    say(\"one \\\n         two\\n\\u{d7} \\\"three\\\"\");\n    g(r#\"raw \"x\"\"#, 'c', b\"bytes\", 5);\n}\n").unwrap();
        let expected = [(2, "one two × \"three\"".to_owned()), (4, "raw \"x\"".to_owned())];
        assert_eq!(join(&said.literals), expected);
        assert_eq!(said.literals[0].iter().map(|piece| piece.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn doc_comments_that_stand_together_are_one() {
        let said = read(
            "/// One\n/// two.\n#[arg(long, value_name = \"X\")]\nx: u8,\n/// Three.\ny: u8,\n",
        );
        let said = said.unwrap();
        assert_eq!(join(&said.docs), [(1, " One two.".to_owned()), (5, " Three.".to_owned())]);
        assert_eq!(join(&said.literals), [(3, "X".to_owned())]);
    }

    #[test]
    fn tests_and_silent_attributes_are_left_out() {
        let text = "//! Head.\n#![expect(x, reason = \"quiet\")]\n#[expect(clippy::x, reason = \"quiet\")]\nfn f() { say(\"loud\"); }\n\
                    #[error(\"shown\")]\nstruct E;\n#[cfg(test)]\nmod tests { const X: &str = \"hidden\"; }\n\
                    #[cfg(test)]\nfn g<A, B>() { say(\"hidden\"); }\n\
                    #[cfg(not(test))]\nconst Y: &str = \"kept\";\n";
        let said = read(text).unwrap();
        let texts: Vec<String> = join(&said.literals).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["loud", "shown", "kept"]);
    }

    #[test]
    fn files_of_test_modules_are_left_out() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file("a/src/lib.rs", "mod part;\n#[cfg(test)]\nmod testing;\n"),
            file("a/src/part.rs", "#[cfg(test)]\nmod tests;\n"),
            file("a/src/part/tests.rs", "const X: &str = \"x\";"),
            file("a/src/testing/mod.rs", "const X: &str = \"x\";"),
            file("a/src/tests.rs", "const X: &str = \"x\";"),
        ];
        let left: Vec<String> =
            read_all(&files).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(left, ["a/src/lib.rs", "a/src/part.rs", "a/src/tests.rs"]);
    }
}
