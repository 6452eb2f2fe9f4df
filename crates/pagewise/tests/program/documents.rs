// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examples of the documents: a command with its output prints that output, and a file that a document
//! shows is accepted.
//!
//! An example is a line `$ pagewise …` in a code block, and the lines that follow it. A line `…` stands
//! for lines that the document leaves out.

use std::path::{Path, PathBuf};

use crate::program::{ProgramRun, empty_folder, run_in};

/// Documents all of whose examples are run.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/tutorial.md", "docs/questions"];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents with their texts; of a folder, all in it.
fn texts(path: &str) -> Vec<(String, String)> {
    let full = project().join(path);
    if full.is_file() {
        return vec![(path.to_owned(), std::fs::read_to_string(full).unwrap())];
    }
    let entries = std::fs::read_dir(full).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| format!("{path}/{}", name.to_str().unwrap()));
    names.flat_map(|name| texts(&name)).collect()
}

/// The code blocks of a document that begin with three backticks and this word.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let fence = format!("```{language}");
    let (mut blocks, mut open, mut is_wanted) = (Vec::new(), None, false);
    for line in text.lines() {
        match &mut open {
            None if line.starts_with("```") => {
                open = Some(Vec::new());
                is_wanted = line == fence;
            }
            None => (),
            Some(_) if line == "```" => blocks.extend(open.take().filter(|_| is_wanted)),
            Some(block) => block.push(line),
        }
    }
    assert!(open.is_none(), "a code block has no end");
    blocks
}

/// The commands of a block with the output that it shows of each.
fn examples<'a>(block: &[&'a str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command, Vec::new())),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => (),
        }
    }
    found
}

fn run(command: &str) -> ProgramRun {
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[0], "pagewise", "{command}: only pagewise is run");
    run_in(&project(), &words[1..])
}

/// The first line of the example that the output lacks: lines follow each other, except at `…`.
fn find_missing<'a>(shown: &[&'a str], printed: &str) -> Option<&'a str> {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let (mut at, mut is_anywhere) = (0, false);
    for &line in shown {
        if line.trim() == "…" {
            is_anywhere = true;
            continue;
        }
        let rest = printed.get(at..).unwrap_or_default();
        let searched = if is_anywhere { rest } else { &rest[..rest.len().min(1)] };
        match searched.iter().position(|it| *it == line.trim_end()) {
            Some(found) => at += found + 1,
            None => return Some(line),
        }
        is_anywhere = false;
    }
    let is_whole = is_anywhere || printed[at..].iter().all(|line| line.is_empty());
    (!is_whole).then_some("the end of the output, or …")
}

#[test]
fn an_example_that_differs_is_found() {
    let printed = "a\nb\n\nc\nd\n";
    for right in [&["a", "b", "", "c", "d"][..], &["…", "c", "…"], &["a", "…", "d"], &["…"]]
    {
        assert_eq!(find_missing(right, printed), None, "{right:?}");
    }
    for wrong in [&["a", "c"][..], &["b", "…"], &["…", "d", "c"], &["a", "b"], &["…", "x", "…"]]
    {
        assert!(find_missing(wrong, printed).is_some(), "{wrong:?}");
    }
}

#[test]
fn examples_print_what_their_document_shows() {
    let mut count = 0;
    for (path, text) in DOCUMENTS.iter().flat_map(|path| texts(path)) {
        let shown: Vec<_> = blocks(&text, "");
        for (command, output) in shown.iter().flat_map(|block| examples(block)) {
            let ran = run(command);
            assert!([0, 3].contains(&ran.status), "{path}: {command}: {}", ran.err);
            count += 1;
            // without output, an example is of the reader's own machine
            if !output.is_empty() {
                let missing = find_missing(&output, &ran.out);
                assert_eq!(missing, None, "{path}: {command} prints:\n{}", ran.out);
            }
        }
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn files_of_the_documents_are_accepted() {
    let folder = empty_folder();
    let root = project().join("fixtures/hosts/debian12-6.18-x86_64-24g-plain.tar");
    let mut count = 0;
    for path in ["docs/doctor.md", "docs/lab.md"] {
        let (_, text) = texts(path).remove(0);
        for block in blocks(&text, "toml") {
            let file = folder.path().join("file.toml");
            std::fs::write(&file, block.join("\n")).unwrap();
            let file = file.to_str().unwrap();
            let ran = if path == "docs/doctor.md" {
                run_in(
                    folder.path(),
                    &["doctor", "--config", file, "--root", root.to_str().unwrap()],
                )
            } else {
                run_in(folder.path(), &["lab", "show", file])
            };
            assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{path}:\n{}", block.join("\n"));
            count += 1;
        }
    }
    assert!(count >= 3, "{count}");
}

/// The README is short, and its first screen says what to do.
#[test]
fn the_readme_is_short_and_begins_with_what_to_do() {
    let (_, text) = texts("README.md").remove(0);
    let words = text.split_whitespace().count();
    assert!(words <= 900, "{words} words");
    let first: Vec<&str> = text.lines().take(30).collect();
    let first = first.join("\n");
    for expected in ["# pagewise", "<img ", "**Install**", "make run", "`pagewise report`"] {
        assert!(first.contains(expected), "the first 30 lines lack {expected}");
    }
}
