// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files generated from the parser's table and from the types of the JSON documents: completions,
//! man pages, schemas.

mod scripts;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use pagewise_report::json;
use pagewise_terminal::{Outcome, output};

use crate::cli::{Cli, Noun, groups};

/// Prints the completion script for a shell.
pub(super) fn print_completions(shell: Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    let mut command = remove_hidden(&Cli::command());
    clap_complete::generate(shell, &mut command, "pagewise", &mut script);
    let script = String::from_utf8(script).context("the completion script")?;
    output::write_out(scripts::add_names(shell, script, &command).as_bytes())?;
    Ok(Outcome::Done)
}

/// The parser's table without the hidden verbs, which completion scripts would otherwise offer.
fn remove_hidden(command: &Command) -> Command {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("pagewise")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(verbs)
}

/// Verbs that change the machine and need root: their man pages are in section 8, the others in 1.
const ADMINISTRATION: &[&str] = &["age", "apply", "merge", "pin", "tune", "undo", "verify"];

/// Writes the man pages, `pagewise.1` and one page for each verb, over those of an earlier call.
pub(super) fn write_man_pages(folder: &Path) -> anyhow::Result<Outcome> {
    output::create_folder(folder)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)?;
    Ok(Outcome::Done)
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let section = man_section(name);
    let page = clap_mangen::Man::new(command.clone()).section(section);
    let mut text = Vec::new();
    page.render(&mut text).with_context(|| name.to_owned())?;
    let mut text = String::from_utf8(text).with_context(|| name.to_owned())?;
    if name == "pagewise" {
        text = groups::group_man_page(&text);
    }
    // a page lists its subcommands with its own section
    for verb in ADMINISTRATION {
        text = text.replace(&format!("pagewise\\-{verb}(1)"), &format!("pagewise\\-{verb}(8)"));
    }
    output::write_man_page(&folder.join(format!("{name}.{section}")), &text)
}

fn man_section(page: &str) -> &'static str {
    let verb = page.strip_prefix("pagewise-").and_then(|rest| rest.split('-').next());
    if verb.is_some_and(|verb| ADMINISTRATION.contains(&verb)) { "8" } else { "1" }
}

/// Prints the JSON Schema of a document: its keys and their meaning.
pub(super) fn print_schema(noun: Noun) -> anyhow::Result<Outcome> {
    let noun = match noun {
        Noun::Report => json::Noun::Report,
        Noun::Status => json::Noun::Status,
        Noun::Doctor => json::Noun::Doctor,
        Noun::Capabilities => json::Noun::Capabilities,
        Noun::Explain => json::Noun::Explain,
        Noun::Compare => json::Noun::Compare,
        Noun::Limits => json::Noun::Limits,
        Noun::Why => json::Noun::Why,
        Noun::Scan => json::Noun::Scan,
        Noun::Bench => json::Noun::Bench,
        Noun::Trial => json::Noun::Trial,
        Noun::Knobs => json::Noun::Knobs,
        Noun::Lab => json::Noun::Lab,
        Noun::Thp => json::Noun::Thp,
        Noun::Collapse => json::Noun::Collapse,
        Noun::Restrain => json::Noun::Restrain,
        Noun::Agent => json::Noun::Agent,
        Noun::Age => json::Noun::Age,
        Noun::Merge => json::Noun::Merge,
        Noun::Oom => json::Noun::Oom,
        Noun::Pin => json::Noun::Pin,
        Noun::Plan => json::Noun::Plan,
        Noun::Apply => json::Noun::Apply,
        Noun::Verify => json::Noun::Verify,
        Noun::Ledger => json::Noun::Ledger,
        Noun::Tune => json::Noun::Tune,
        Noun::Undo => json::Noun::Undo,
    };
    let all = zstd::decode_all(json::COMPRESSED_SCHEMAS).context("the schemas in the program")?;
    let all: BTreeMap<String, String> = serde_json::from_slice(&all)?;
    let schema = all.get(noun.name()).with_context(|| format!("no schema of {}", noun.name()))?;
    output::print_document(schema)?;
    Ok(Outcome::Done)
}
