// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command that a document shows can be typed: it is parsed as the program parses it.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::Cli;

/// Words that stand for a value of the reader, with one that parses. Other words in capitals, such as
/// FILE, parse as they are.
const VALUES: [(&str, &str); 14] = [
    ("PID", "1"),
    ("N", "1"),
    ("N%", "1%"),
    ("NUMBER", "1"),
    ("VERB", "report"),
    ("COMMAND", "report"),
    ("SHELL", "bash"),
    ("SUBJECT", "psi"),
    ("ID", "1"),
    ("TIME", "1s"),
    ("FORMAT", "ansible"),
    ("RULE", "zram-full"),
    ("KNOB=VALUE", "vm.swappiness=60"),
    ("PERCENT", "1%"),
];

#[expect(clippy::disallowed_methods, reason = "the project's own documents")]
fn documents() -> Vec<(PathBuf, String)> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![project.join("docs")];
    let mut paths =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(|it| project.join(it)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                paths.push(path);
            }
        }
    }
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The commands of a document: lines of its code blocks, and code within its text.
fn commands(markdown: &str) -> Vec<String> {
    let (mut found, mut prose, mut is_code) = (Vec::new(), String::new(), false);
    let joined = join_continued(markdown);
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("# ");
            // a description stands in a column of its own, behind two spaces
            found.push(until(line, "  ").to_owned());
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    found.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    found.retain(|it| it.trim_start_matches("sudo ").starts_with("pagewise "));
    found
}

/// Joins lines that end with a backslash, without the spaces around the break.
fn join_continued(markdown: &str) -> String {
    let (mut joined, mut is_continued) = (String::with_capacity(markdown.len()), false);
    for line in markdown.lines() {
        match line.strip_suffix('\\') {
            Some(start) => joined.push_str(&format!(
                "{} ",
                if is_continued { start.trim() } else { start.trim_end() }
            )),
            None => joined
                .push_str(&format!("{}\n", if is_continued { line.trim_start() } else { line })),
        }
        is_continued = line.ends_with('\\');
    }
    joined
}

fn until<'a>(text: &'a str, end: &str) -> &'a str {
    text.split(end).next().unwrap_or_default()
}

/// The words of a command as a shell splits them, without what a shell does with its output.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('|' | '>' | ';' | '&' | '#', None) if word.is_empty() => break,
            (';', None) => break,
            (' ', None) if word.is_empty() => (),
            (' ', None) => words.push(std::mem::take(&mut word)),
            (letter, _) => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    let start = usize::from(words.first().is_some_and(|it| it == "sudo"));
    let value = |word: String| {
        VALUES.iter().find(|(it, _)| *it == word).map_or(word, |(_, value)| (*value).to_owned())
    };
    words.drain(start..).map(value).collect()
}

#[test]
fn every_command_of_a_document_can_be_typed() {
    let (mut commands_parsed, mut refused) = (0, Vec::new());
    for (path, text) in documents() {
        for command in commands(&text).iter().filter(|it| !it.contains('…')) {
            match Cli::try_parse_from(words(command)) {
                Err(error) if error.use_stderr() => {
                    let why = error.to_string();
                    refused.push(format!("{}: {command}\n  {}", path.display(), until(&why, "\n")));
                }
                _ => commands_parsed += 1,
            }
        }
    }
    assert!(refused.is_empty(), "{} commands:\n{}", refused.len(), refused.join("\n"));
    assert!(commands_parsed > 500, "{commands_parsed}");
}

#[test]
fn commands_are_found_and_split_as_a_shell_does() {
    let text = "See `pagewise undo\nID` and `ls`.\n\n```\n$ sudo pagewise trial --a x=1 \\\n    -- sh -c 'a b'\npagewise report  everything\n```\n";
    let found = commands(text);
    assert_eq!(found.len(), 3, "{found:?}");
    let split = |command: &str| words(command).join("|");
    let all: Vec<String> = found.iter().map(|it| split(it)).collect();
    assert!(all.contains(&"pagewise|undo|1".to_owned()), "{all:?}");
    assert!(all.contains(&"pagewise|report".to_owned()), "{all:?}");
    assert!(all.contains(&"pagewise|trial|--a|x=1|--|sh|-c|a b".to_owned()), "{all:?}");
    assert_eq!(split("pagewise scan --json >scan.json"), "pagewise|scan|--json");
}
