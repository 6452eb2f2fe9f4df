// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses sentences of documents, help and findings at random, so that somebody new can read and
//! judge them.
//!
//! The same seed chooses the same sentences of the same text: those whose hash with the seed is
//! smallest. So a change of one sentence does not affect the choice of others. Help and findings
//! are read from the program's output; the printed place is the place of the words in the source.
//! Each sentence is printed with the text that its reader sees directly before it: the heading and
//! the previous sentence, the command and the option, or the finding's title.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::literals;
use crate::prose::{self, Joined, Kind, Piece};
use crate::run;

/// Patterns of the files that belong to the manual; measurements and other documents are left out.
const DOCUMENTS: &[&str] = &[":(glob)docs/*.md", "README.md"];
const HELP: &[&str] = &["crates/pagewise/src/*.rs", "crates/terminal/src/*.rs"];
const RULES: &[&str] =
    &["crates/facts/src/swap_choice/*.rs", "crates/decide/src/*.rs", "crates/plan/src/*.rs"];
const FIXTURES: &str = "fixtures/hosts/*.tar";

/// Minimum number of words of a sentence; shorter texts are labels.
const FEWEST_WORDS: usize = 4;
/// Maximum number of nested subcommands whose help is read.
const DEEPEST_COMMAND: usize = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The same number draws the same sentences
    #[arg(long, value_name = "N")]
    seed: u64,
    /// How many: 16 of 30 are from documents, 7 from help, 7 from findings
    #[arg(long, value_name = "N", default_value_t = 30)]
    count: usize,
    /// The program whose help and findings are read [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A sentence, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sentence {
    place: String,
    /// The text that its reader sees directly before the sentence; may be empty.
    before: String,
    text: String,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let program = args.program.clone().map_or_else(run::built_program, Ok)?;
    let shares = split_count(args.count);
    let pools = [
        ("docs", sentences_of_documents()?),
        ("help", sentences_of_help(&program)?),
        ("findings", sentences_of_findings(&program)?),
    ];
    for ((name, pool), share) in pools.into_iter().zip(shares) {
        ensure!(pool.len() >= share, "{name}: {} sentences, {share} wanted", pool.len());
        println!("{name}: {share} of {} sentences, seed {}", pool.len(), args.seed);
        for sentence in draw(pool, args.seed, share) {
            println!("  {}", sentence.place);
            if !sentence.before.is_empty() {
                println!("      after: {}", sentence.before);
            }
            println!("      {}", sentence.text);
        }
    }
    Ok(())
}

/// How many sentences to choose of documents, help and findings: 16, 7 and 7 of 30. Sentences that
/// are left over by rounding are chosen from findings.
fn split_count(count: usize) -> [usize; 3] {
    let documents = (count * 16 + 15) / 30;
    let help = ((count * 7 + 15) / 30).min(count - documents);
    [documents, help, count - documents - help]
}

fn draw(mut pool: Vec<Sentence>, seed: u64, count: usize) -> Vec<Sentence> {
    pool.sort_by_cached_key(|sentence| {
        let hash = Sha256::new().chain_update(seed.to_le_bytes());
        (hash.chain_update(&sentence.text).finalize(), sentence.place.clone())
    });
    pool.truncate(count);
    pool
}

fn sentences_of_documents() -> Result<Vec<Sentence>> {
    let mut sentences = Vec::new();
    for (path, text) in run::texts(DOCUMENTS)? {
        sentences.extend(sentences_of_document(&path, &text));
    }
    Ok(sentences)
}

/// The sentences of one document, each with its heading and the previous sentence before it.
fn sentences_of_document(path: &str, text: &str) -> Vec<Sentence> {
    let (mut heading, mut last) = (String::new(), String::new());
    let mut sentences = Vec::new();
    for passage in prose::passages(text) {
        if passage.kind == Kind::Heading {
            heading = Joined::new(&passage.pieces, |piece| piece.text.clone()).text;
            last.clear();
        }
        if passage.kind != Kind::Prose {
            continue;
        }
        for (line, text) in sentences_of(&passage.pieces) {
            let before = format!("[{}] {last}", heading.trim()).trim_end().to_owned();
            last.clone_from(&text);
            if is_ended(&text) {
                sentences.push(Sentence { place: format!("{path}:{line}"), before, text });
            }
        }
    }
    sentences
}

/// Sentences of help: the doc comments and strings in the program's source that its help shows.
fn sentences_of_help(program: &Path) -> Result<Vec<Sentence>> {
    let mut shown = String::new();
    collect_help(program, &mut Vec::new(), &mut shown)?;
    let mut sentences: Vec<Sentence> = Vec::new();
    for (path, said) in literals::read_all(&run::texts(HELP)?)? {
        for pieces in said.help().iter().chain(&said.literals) {
            // An empty line of a comment ends a paragraph.
            for paragraph in pieces.split(|piece| piece.text.is_empty()) {
                for (line, text) in sentences_of(paragraph) {
                    // clap removes the full stop at the end of a short comment
                    let at = shown.find(text.trim_end_matches('.'));
                    let at = at.filter(|&at| is_sentence_start(&shown, at));
                    if let Some(at) = at.filter(|_| sentences.iter().all(|it| it.text != text)) {
                        let place = format!("{path}:{line}");
                        sentences.push(Sentence { place, before: text_before(&shown, at), text });
                    }
                }
            }
        }
    }
    Ok(sentences)
}

/// The help of a command and all its subcommands, with single spaces.
fn collect_help(program: &Path, command: &mut Vec<String>, shown: &mut String) -> Result<()> {
    let text = run::output(run::program(program).args(&*command).arg("--help"))?;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    *shown +=
        &format!("{command:?} {words}\n", command = format!("pagewise{}", join_words(command)));
    ensure!(command.len() <= DEEPEST_COMMAND, "commands nested deeper than {DEEPEST_COMMAND}");
    for name in commands_in(&text) {
        command.push(name);
        collect_help(program, command, shown)?;
        command.pop();
    }
    Ok(())
}

fn join_words(command: &[String]) -> String {
    command.iter().map(|name| format!(" {name}")).collect()
}

/// The text that a reader of help sees directly before a position: the command, and either the
/// option or argument with its text up to the position, or the previous sentence.
fn text_before(shown: &str, at: usize) -> String {
    let page = shown[..at].rfind('\n').map_or(0, |end| end + 1);
    let read = &shown[page..at];
    let command = read.split('"').nth(1).unwrap_or_default();
    let options = read.find(" Options: ").or_else(|| read.find(" Arguments: "));
    let near = options.map_or(read, |start| &read[start..]);
    let is_value =
        |start: usize| near[..start].rsplit(' ').next().is_some_and(|it| it.starts_with("--"));
    let starts = [" --", " <", " [<"].into_iter().filter_map(|mark| near.rfind(mark));
    let start = starts.filter(|&start| !is_value(start)).max();
    let option = options.and(start).map(|start| near[start..].trim());
    let sentences = split(read.trim_end());
    let last = sentences.last().map(|&(start, end)| read[start..end].trim());
    let near = option.or(last.map(end_of)).unwrap_or_default();
    format!("[{command}] {near}").trim_end().to_owned()
}

/// The last words of a text, at most [`MOST_BEFORE`] bytes.
fn end_of(text: &str) -> &str {
    let too_many = text.len().saturating_sub(MOST_BEFORE);
    let start = text.match_indices(' ').map(|(at, _)| at + 1).find(|&at| at > too_many);
    if too_many == 0 { text } else { &text[start.unwrap_or(text.len())..] }
}

/// Whether a sentence begins at this position of the help. A string of the source may also be a
/// part of a sentence.
fn is_sentence_start(shown: &str, at: usize) -> bool {
    let is_lower = shown[at..].starts_with(char::is_lowercase);
    !is_lower || shown[..at].trim_end().ends_with(['.', ':', ';'])
}

/// Maximum number of bytes of help that are shown before a sentence.
const MOST_BEFORE: usize = 300;

/// The names of the subcommands that a help text lists after its usage, under `Commands:` or the groups of
/// verbs.
fn commands_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("Options"));
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        let is_name = name.starts_with(|letter: char| letter.is_ascii_lowercase());
        (is_name && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

/// The part of the output of `doctor --json` that is used here: the findings.
#[derive(Debug, Deserialize)]
struct Document {
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    id: String,
    title: String,
    what: String,
    why: String,
}

impl Finding {
    /// For each text of a finding: its name, the text that its reader sees before it, and the text
    /// itself.
    fn texts(&self) -> [(&str, &str, &str); 3] {
        let Self { title, what, why, .. } = self;
        [("title", "", title), ("what", title, what), ("why", title, why)]
    }
}

/// The findings of `doctor` on every recording. Sentences that differ only in their numbers count
/// once.
fn sentences_of_findings(program: &Path) -> Result<Vec<Sentence>> {
    let rules = literals::read_all(&run::texts(RULES)?)?;
    let roots = run::files(&[FIXTURES])?;
    ensure!(!roots.is_empty(), "{FIXTURES}: no recording");
    let mut known = BTreeSet::new();
    let mut sentences = Vec::new();
    for root in roots {
        let found = run_doctor(program, &root)?.findings;
        for (finding, (key, title, text)) in
            found.iter().flat_map(|it| it.texts().map(|text| (it, text)))
        {
            let mut last = title.to_owned();
            for (_, text) in sentences_of(&[Piece::text(1, text)]) {
                let before = std::mem::replace(&mut last, text.clone());
                if known.insert(without_numbers(&text)) {
                    let place = find_source(&rules, &text);
                    let place = place.unwrap_or_else(|| format!("{root}: {}, {key}", finding.id));
                    sentences.push(Sentence { place, before, text });
                }
            }
        }
    }
    Ok(sentences)
}

fn run_doctor(program: &Path, root: &str) -> Result<Document> {
    let mut command = run::program(program);
    command.args(["doctor", "--json", "--min-severity", "info", "--root", root]);
    let output = command.output().with_context(|| format!("{}", program.display()))?;
    // exit status 3: there are findings
    let is_good = matches!(output.status.code(), Some(0 | 3));
    ensure!(is_good, "doctor of {root}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).with_context(|| format!("doctor of {root}"))
}

fn without_numbers(text: &str) -> String {
    let mut plain = text.replace(|c: char| c.is_ascii_digit(), "#");
    while plain.contains("##") {
        plain = plain.replace("##", "#");
    }
    plain
}

/// The place of the literal that contains most of a sentence; `None` if there is no such literal.
fn find_source(rules: &[(String, literals::Said)], sentence: &str) -> Option<String> {
    let mut best = (sentence.len() / 2, None);
    for (path, said) in rules {
        for pieces in &said.literals {
            let (length, line) = measure_overlap(pieces, sentence);
            if length > best.0 {
                best = (length, Some(format!("{path}:{line}")));
            }
        }
    }
    best.1
}

/// How much of a sentence a format string contains, and the line where that part begins.
fn measure_overlap(pieces: &[Piece], sentence: &str) -> (usize, usize) {
    let joined = Joined::new(pieces, |piece| piece.text.clone());
    let (mut length, mut first) = (0, None);
    for (start, end) in split(&joined.text) {
        let mut at = start;
        for part in joined.text[start..end].split(['{', '}']) {
            let fixed = part.trim();
            if fixed.len() > 3 && sentence.contains(fixed) {
                length += fixed.len();
                first = first.or(Some(at + (part.len() - part.trim_start().len())));
            }
            at += part.len() + 1;
        }
    }
    (length, first.map_or(0, |at| joined.line_at(at)))
}

/// The sentences of a passage, with the numbers of the lines on which they begin.
fn sentences_of(pieces: &[Piece]) -> Vec<(usize, String)> {
    let joined = Joined::new(pieces, |piece| piece.text.clone());
    let mut sentences = Vec::new();
    for (start, end) in split(&joined.text) {
        let text = joined.text[start..end].trim();
        let words = text.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).count();
        if words >= FEWEST_WORDS {
            sentences.push((joined.line_at(start), text.to_owned()));
        }
    }
    sentences
}

/// Where sentences begin and end: after `.`, `?` or `!`, if the following text begins like a
/// sentence.
fn split(text: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut start = text.len() - text.trim_start().len();
    for (at, _) in text.match_indices(['.', '?', '!']) {
        let rest = &text[at + 1..];
        let after = rest.trim_start_matches(['"', ')', '*', '`']);
        let end = at + 1 + (rest.len() - after.len());
        let begins = |c: char| c.is_uppercase() || c.is_ascii_digit() || "`\"(*{".contains(c);
        let is_end = after.strip_prefix(' ').is_some_and(|next| next.starts_with(begins));
        let word = text[start..at].rsplit(' ').next().unwrap_or_default();
        let is_short =
            ["e.g", "i.e", "vs", "cf", "Nr", "No"].contains(&word.trim_start_matches('('));
        if is_end && !is_short && end > start {
            ranges.push((start, end));
            start = end + 1;
        }
    }
    if start < text.len() {
        ranges.push((start, text.len()));
    }
    ranges
}

/// Whether a text of a document is a complete sentence: fragments in lists have no full stop.
fn is_ended(text: &str) -> bool {
    text.trim_end_matches(['"', ')', '*', '`']).ends_with(['.', '?', '!', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let pieces: Vec<Piece> = text
            .lines()
            .enumerate()
            .map(|(at, line)| Piece::text(at + 1, format!("{line} ")))
            .collect();
        sentences_of(&pieces).into_iter().map(|(line, text)| format!("{line} {text}")).collect()
    }

    #[test]
    fn sentences_end_where_the_next_begins() {
        let text = "One two three four. `five` six seven\neight (e.g. Nine is one). Is 1.5 GiB of it\nenough? No.";
        let expected = [
            "1 One two three four.",
            "1 `five` six seven eight (e.g. Nine is one).",
            "2 Is 1.5 GiB of it enough?",
        ];
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn labels_are_no_sentences() {
        assert_eq!(texts("Only three words."), Vec::<String>::new());
        assert!(is_ended("It goes back (always).") && !is_ended("an item of a list"));
    }

    #[test]
    fn a_seed_draws_the_same_and_another_seed_others() {
        let pool = |count: usize| -> Vec<Sentence> {
            let sentence = |at| Sentence {
                place: format!("a:{at}"),
                before: String::new(),
                text: format!("sentence {at}"),
            };
            (0..count).map(sentence).collect()
        };
        let drawn = draw(pool(100), 1, 10);
        let mut reversed = pool(100);
        reversed.reverse();
        assert_eq!(draw(reversed, 1, 10), drawn);
        assert_ne!(draw(pool(100), 2, 10), drawn);
        // an additional sentence may replace one chosen sentence; the others stay the same
        let more = draw(pool(101), 1, 11);
        assert!(drawn.iter().all(|sentence| more.contains(sentence)));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(split_count(30), [16, 7, 7]);
        for count in 0..70 {
            assert_eq!(split_count(count).iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn commands_are_read_from_help() {
        let help = "About.\n\n  example\n\nUsage: x\n\nSee:\n  run   Run it,\n        at length\n\nChange:\n  list  List\n  help  Help\n\nOptions:\n  -h\n";
        assert_eq!(commands_in(help), ["run", "list"]);
        assert_eq!(commands_in("No commands.\n"), Vec::<String>::new());
    }

    #[test]
    fn findings_are_traced_to_the_literal_that_says_them() {
        let source = "fn f() {\n    format!(\"{} of it is in use. That \\\n        hurts whoever waits for {name}.\")\n}\n";
        let rules = vec![("r.rs".to_owned(), literals::read(source).unwrap())];
        let place = |sentence| find_source(&rules, sentence);
        assert_eq!(place("5 MiB of it is in use."), Some("r.rs:2".to_owned()));
        assert_eq!(place("That hurts whoever waits for redis."), Some("r.rs:2".to_owned()));
        assert_eq!(place("Something else is said here."), None);
    }

    #[test]
    fn a_sentence_is_shown_with_what_its_reader_sees_before_it() {
        let text = "# A page\n\nThe first one is here. The second one follows.\n\n## Below it\n\nThe third one is here.\n";
        let before: Vec<String> = sentences_of_document("a.md", text)
            .into_iter()
            .map(|sentence| sentence.before)
            .collect();
        assert_eq!(before, ["[A page]", "[A page] The first one is here.", "[Below it]"]);
        let help = "\"pagewise\" Shows it. Options: -h\n\"pagewise scan\" Reads pages. Then it prints. Options: \
                    --pid <PID> Only this process. It may end.\n";
        let seen = |text: &str| before_of(help, text);
        assert_eq!(seen("Then it prints"), "[pagewise scan] \"pagewise scan\" Reads pages.");
        assert_eq!(seen("It may end"), "[pagewise scan] --pid <PID> Only this process.");
        let long = format!("\"pagewise\" First {} last. Then it ends.\n", "words ".repeat(99));
        let seen = before_of(&long, "Then it ends");
        assert!(seen.starts_with("[pagewise] words words") && seen.ends_with("last."), "{seen}");
        assert!(seen.len() <= MOST_BEFORE + 20, "{seen}");
    }

    #[test]
    fn part_of_a_sentence_is_none() {
        let help = "It ends (also if memory ran out). Then: memory ran out. Memory ran out.";
        let begins = |text: &str| is_sentence_start(help, help.find(text).unwrap());
        assert!(begins("It ends") && begins("memory ran out. M") && begins("Memory ran out"));
        assert!(!begins("memory ran out)"));
    }

    fn before_of(help: &str, text: &str) -> String {
        text_before(help, help.find(text).unwrap())
    }

    #[test]
    fn numbers_do_not_make_a_sentence_another_one() {
        assert_eq!(without_numbers("12 of 3,456 pages"), without_numbers("9 of 1,234 pages"));
        assert_ne!(without_numbers("12 pages"), without_numbers("12 bytes"));
    }

    #[test]
    fn findings_are_read_from_doctors_document() {
        let document = r#"{"findings": [{"id": "a", "title": "T", "what": "W", "why": "Y"}]}"#;
        let Document { findings } = serde_json::from_str(document).unwrap();
        let expected = [("title", "", "T"), ("what", "T", "W"), ("why", "T", "Y")];
        assert_eq!((findings[0].id.as_str(), findings[0].texts()), ("a", expected));
        assert!(serde_json::from_str::<Document>("{}").is_err());
    }
}
