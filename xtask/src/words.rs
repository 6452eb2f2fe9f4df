// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds phrases that `xtask/words.toml` bans, in all texts that people read, and long lines in
//! documents.
//!
//! The texts are the string literals of the crates outside tests, all comments (including those of
//! tests, scripts and the kernel module), the descriptions in the JSON schemas, and the documents.
//! Code blocks and code in backticks are not read, because they quote something.

use std::fs;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::comments;
use crate::links;
use crate::literals;
use crate::prose::{self, Joined, Piece};
use crate::run;

/// Maximum width of a line in a document, in characters.
const COLUMNS: usize = 120;

/// The documents that are checked, as patterns of git.
pub(crate) const DOCUMENTS: &[&str] = &[
    "docs/*.md",
    "evidence/README.md",
    "examples/README.md",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "SPECIFICATION.md",
    "kernel/zmerge/README.md",
];
const SOURCES: &[&str] = &["crates/*/src/*.rs"];
/// Files whose comments are checked, as patterns of git.
const COMMENTED: &[&str] =
    &["*.rs", "*.sh", "kernel/*.c", "kernel/*.h", "docs/schema/*.json", "Makefile", "lab/*.toml"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    not: Vec<String>,
    but: String,
    /// If one of these words follows the phrase, the phrase is allowed, such as "apart" after
    /// "told".
    #[serde(default)]
    unless_before: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Turns {
    turn: Vec<Turn>,
}

impl Turns {
    fn read() -> Result<Self> {
        let path = run::project().join("xtask/words.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let turns: Self = toml::from_str(text)?;
        for phrase in turns.turn.iter().flat_map(|turn| &turn.not) {
            let words = phrase.split(' ').count();
            ensure!(words > 1 || phrase.len() > 5, "{phrase:?}: too common a word to ban");
            ensure!(*phrase == phrase.to_lowercase(), "{phrase:?}: phrases are in lower case");
        }
        Ok(turns)
    }

    /// The line number, and the phrase with advice, for each banned phrase in a passage.
    fn find(&self, pieces: &[Piece]) -> Vec<(usize, String)> {
        let show =
            |piece: &Piece| if piece.is_code { "`".to_owned() } else { piece.text.to_lowercase() };
        let joined = Joined::new(pieces, show);
        let mut phrases: Vec<(&String, &Turn)> =
            self.turn.iter().flat_map(|turn| turn.not.iter().map(move |not| (not, turn))).collect();
        // The longest phrases come first, so that a shorter phrase inside a longer one is not
        // reported again.
        phrases.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.len()));
        let mut places: Vec<(Range<usize>, String)> = Vec::new();
        for (phrase, turn) in phrases {
            for (at, _) in joined.text.match_indices(phrase.as_str()) {
                let place = at..at + phrase.len();
                let is_covered = places.iter().any(|(known, _)| known.contains(&place.start));
                let rest = joined.text[place.end..].trim_start();
                let is_plain =
                    turn.unless_before.iter().any(|word| rest.starts_with(word.as_str()));
                if !is_covered && !is_plain && is_phrase(&joined.text, at, phrase) {
                    places.push((place, format!("{phrase:?}: write {}", turn.but)));
                }
            }
        }
        places.sort_by_key(|(place, _)| place.start);
        places.into_iter().map(|(place, what)| (joined.line_at(place.start), what)).collect()
    }
}

/// Whether the phrase at this position begins and ends at word boundaries.
fn is_phrase(text: &str, at: usize, phrase: &str) -> bool {
    let before = text[..at].chars().next_back();
    let after = text[at + phrase.len()..].chars().next();
    [before, after].iter().flatten().all(|c| !c.is_alphanumeric())
}

/// A fault in a text, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// Returns an error that lists the faults, if there are any.
pub(crate) fn ensure_none(faults: &[Fault]) -> Result<()> {
    let shown = |Fault { path, line, what }: &Fault| format!("  {path}:{line}: {what}");
    let lines: Vec<String> = faults.iter().map(shown).collect();
    ensure!(lines.is_empty(), "{} faults:\n{}", lines.len(), lines.join("\n"));
    Ok(())
}

pub(crate) fn main() -> Result<()> {
    let mut faults = find_faults(&Turns::read()?)?;
    faults.extend(find_long_lines()?);
    faults.extend(links::find_faults()?);
    ensure_none(&faults)?;
    println!("no banned turn of phrase, no long line, and no link that leads nowhere");
    Ok(())
}

fn find_faults(turns: &Turns) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for (path, text) in run::texts(DOCUMENTS)? {
        for passage in prose::passages(&text) {
            faults.extend(find_faults_in(turns, &path, &passage.pieces));
        }
    }
    for (path, said) in literals::read_all(&run::texts(SOURCES)?)? {
        for pieces in &said.literals {
            faults.extend(find_faults_in(turns, &path, pieces));
        }
    }
    for (path, text) in run::texts(COMMENTED)? {
        for pieces in comments::passages(&path, &text) {
            faults.extend(find_faults_in(turns, &path, &pieces));
        }
    }
    Ok(faults)
}

fn find_faults_in(turns: &Turns, path: &str, pieces: &[Piece]) -> Vec<Fault> {
    let found = turns.find(pieces).into_iter();
    found.map(|(line, what)| Fault { path: path.to_owned(), line, what }).collect()
}

fn find_long_lines() -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for (path, text) in run::texts(DOCUMENTS)? {
        for (line, width) in prose::long_lines(&text, COLUMNS) {
            let what =
                format!("{width} columns (at most {COLUMNS} outside tables, code and links)");
            faults.push(Fault { path: path.clone(), line, what });
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_listed_with_their_places() {
        let fault = |path: &str| Fault { path: path.to_owned(), line: 1, what: "x".to_owned() };
        let error = ensure_none(&[fault("a.md"), fault("b.md")]).unwrap_err().to_string();
        assert_eq!(error, "2 faults:\n  a.md:1: x\n  b.md:1: x");
        assert!(ensure_none(&[]).is_ok());
    }

    const LIST: &str = "[[turn]]\nnot = [\"is told\", \"be told\"]\nbut = '\"is reported\"'\nunless_before = [\"apart\"]\n";

    fn found(text: &str) -> Vec<(usize, String)> {
        let turns = Turns::parse(LIST).unwrap();
        prose::passages(text).iter().flat_map(|passage| turns.find(&passage.pieces)).collect()
    }

    #[test]
    fn a_banned_turn_is_found_across_lines_with_its_advice() {
        let expected = vec![(2, "\"is told\": write \"is reported\"".to_owned())];
        assert_eq!(found("One line.\nThat Is\ntold here.\n"), expected);
        assert_eq!(found("| a |\n|---|\n| this is told |\n").len(), 1);
    }

    #[test]
    fn a_phrase_within_another_counts_once() {
        let list = "[[turn]]\nnot = [\"goes back\", \"goes back with\"]\nbut = 'x'\n";
        let turns = Turns::parse(list).unwrap();
        let count = |text: &str| turns.find(&[Piece::text(1, text)]).len();
        assert_eq!(count("It goes back with the next."), 1);
        assert_eq!(count("It goes back with it, and goes back."), 2);
    }

    #[test]
    fn words_that_only_look_like_it_pass() {
        for fine in
            ["This told us.", "`is told`", "Zeros can be told apart.", "this toldo", "is, told"]
        {
            assert_eq!(found(fine), [], "{fine}");
        }
    }

    #[test]
    fn strings_of_programs_are_read_with_their_lines() {
        let turns = Turns::parse(LIST).unwrap();
        let said =
            literals::read("fn f() {\n    say(\"a size is \\\n        told\");\n}\n").unwrap();
        let lines: Vec<usize> =
            turns.find(&said.literals[0]).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn single_common_words_are_refused() {
        let list = |phrase: &str| format!("[[turn]]\nnot = [\"{phrase}\"]\nbut = \"x\"\n");
        assert!(Turns::parse(&list("look")).is_err());
        assert!(Turns::parse(&list("Is told")).is_err());
        assert!(Turns::parse(&list("what looking")).is_ok());
    }

    #[test]
    fn the_projects_own_list_is_valid_and_has_no_phrase_twice() {
        let turns = Turns::read().unwrap();
        let mut phrases: Vec<&String> = turns.turn.iter().flat_map(|turn| &turn.not).collect();
        let all = phrases.len();
        phrases.sort();
        phrases.dedup();
        assert_eq!(phrases.len(), all);
    }
}
