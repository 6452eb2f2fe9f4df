// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that every command that a document shows is accepted by the program's own parser.

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;

/// Placeholders in documents that the parser would refuse, each with a value that it accepts. Other
/// placeholders, such as FILE, are accepted as they are.
const VALUES: [(&str, &str); 13] = [
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
    ("KNOB=VALUE", "vm.swappiness=60"),
    ("PERCENT", "1%"),
];

#[expect(clippy::disallowed_methods, reason = "the project's own documents")]
fn read_documents() -> Vec<(PathBuf, String)> {
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

/// A command of a document.
#[derive(Debug)]
struct Shown {
    command: String,
    /// Whether the command stands within a sentence, where required arguments may be left out.
    is_within_text: bool,
}

/// The commands of a document: the lines of its code blocks, and code within its sentences.
fn find_commands(markdown: &str) -> Vec<Shown> {
    let (mut found, mut prose, mut is_code) = (Vec::new(), String::new(), false);
    let joined = join_continued(markdown);
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("# ");
            // two spaces separate the command from a description in the same line
            let command = text_before(line, "  ").to_owned();
            found.push(Shown { command, is_within_text: false });
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let within = prose.split('`').skip(1).step_by(2);
    found.extend(within.map(|it| Shown { command: it.to_owned(), is_within_text: true }));
    // a command with `…` leaves something out, and a line with `·` is the heading of an output
    found.retain(|it| it.command.trim_start_matches("sudo ").starts_with("pagewise "));
    found.retain(|it| !it.command.contains(['…', '·']));
    found
}

/// Joins lines that end with a backslash, without the spaces around the break.
fn join_continued(markdown: &str) -> String {
    let (mut joined, mut is_continued) = (String::with_capacity(markdown.len()), false);
    for line in markdown.lines() {
        let text = if is_continued { line.trim_start() } else { line };
        is_continued = text.ends_with('\\');
        joined.push_str(text.strip_suffix('\\').map_or(text, str::trim_end));
        joined.push(if is_continued { ' ' } else { '\n' });
    }
    joined
}

fn text_before<'a>(text: &'a str, end: &str) -> &'a str {
    text.split(end).next().unwrap_or_default()
}

/// The words of a command as a shell splits them, without what a shell does with its output.
fn split_words(command: &str) -> Vec<String> {
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
    let mut words: Vec<String> = words.drain(start..).collect();
    for at in 0..words.len() {
        let is_rule = at > 0 && ["--explain", "--ignore", "--only"].contains(&&*words[at - 1]);
        let value = VALUES.iter().find(|(it, _)| *it == words[at]);
        match value {
            Some(_) if is_rule => words[at] = "zram-full".to_owned(),
            Some((_, value)) => words[at] = (*value).to_owned(),
            None => (),
        }
    }
    words
}

#[test]
fn every_command_of_a_document_can_be_typed() {
    let (mut commands_parsed, mut refused) = (0, Vec::new());
    for (path, text) in read_documents() {
        for Shown { command, is_within_text } in find_commands(&text) {
            let error = Cli::try_parse_from(split_words(&command)).err();
            let is_short = |error: &clap::Error| {
                let lacks = match error.kind() {
                    ErrorKind::MissingRequiredArgument
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
                    // an option without its value
                    ErrorKind::InvalidValue => error.to_string().contains("a value is required"),
                    _ => false,
                };
                is_within_text && lacks
            };
            match error.filter(|error| error.use_stderr() && !is_short(error)) {
                Some(error) => {
                    let why = error.to_string();
                    refused.push(format!(
                        "{}: {command}\n  {}",
                        path.display(),
                        text_before(&why, "\n")
                    ));
                }
                None => commands_parsed += 1,
            }
        }
    }
    assert!(refused.is_empty(), "{} commands:\n{}", refused.len(), refused.join("\n"));
    assert!(commands_parsed > 300, "{commands_parsed}");
}

#[test]
fn commands_are_found_and_split_as_a_shell_does() {
    let text = "See `pagewise undo\nID`, `pagewise doctor --ignore ID` and `ls`.\n\n```\n$ sudo pagewise trial --a x=1 \\\n    -- sh -c 'a b'\npagewise report  everything\n```\n";
    let found = find_commands(text);
    assert_eq!(found.len(), 4, "{found:?}");
    let split = |command: &str| split_words(command).join("|");
    let all: Vec<String> = found.iter().map(|it| split(&it.command)).collect();
    assert!(all.contains(&"pagewise|doctor|--ignore|zram-full".to_owned()), "{all:?}");
    assert!(all.contains(&"pagewise|undo|1".to_owned()), "{all:?}");
    assert!(all.contains(&"pagewise|report".to_owned()), "{all:?}");
    assert!(all.contains(&"pagewise|trial|--a|x=1|--|sh|-c|a b".to_owned()), "{all:?}");
    assert_eq!(split("pagewise scan --json >scan.json"), "pagewise|scan|--json");
}
