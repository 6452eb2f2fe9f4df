// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups in which help and the man page list the verbs.
//!
//! clap supports only one heading for all subcommands, so this module replaces that part of the
//! help. The descriptions of the verbs are clap's; only the order and the headings are defined
//! here.

use clap::Command;
use clap::builder::Styles;

/// Each group with its verbs, in the order of the help.
pub(crate) const GROUPS: [(&str, &[&str]); 6] = [
    ("See", &["report", "status", "top", "doctor", "oom", "why", "explain", "compare"]),
    ("Measure", &["scan", "bench", "limits", "thp"]),
    ("Prove", &["trial", "lab"]),
    ("Change", &["plan", "apply", "verify", "undo", "tune", "pin", "merge", "age"]),
    ("Keep", &["monitor", "metrics", "agent"]),
    ("Share and integrate", &["capture", "fleet", "schema", "completions", "man"]),
];

/// Replaces clap's list of subcommands in the help of `command` by one with groups.
pub(super) fn group_verbs(command: Command) -> Command {
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let widest = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max();
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, verbs) in GROUPS {
        template.push_str(&format!("\n{header}{group}:{header:#}\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let gap = " ".repeat(widest.unwrap_or_default() - verb.len());
            template.push_str(&format!("  {literal}{verb}{literal:#}{gap}  {about}\n"));
        }
    }
    template.push_str(&format!(
        "\n`pagewise VERB --help` explains a verb and its options.\n\n\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ));
    command.help_template(template)
}

/// Puts the headings of the groups into the list of subcommands of the man page `pagewise.1`.
pub(crate) fn group_man_page(page: &str) -> String {
    let mut grouped = String::with_capacity(page.len() + 256);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let verb = lines.peek().and_then(|next| next.strip_prefix("pagewise\\-")?.split_once('('));
        let group = verb.and_then(|(verb, _)| {
            GROUPS.iter().find(|(_, verbs)| verbs.first() == Some(&verb)).map(|(group, _)| group)
        });
        if let (".TP", Some(group)) = (line, group) {
            grouped.push_str(&format!(".SS \"{group}\"\n"));
        }
        grouped.push_str(line);
        grouped.push('\n');
    }
    grouped
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn help() -> String {
        Cli::command().render_help().to_string()
    }

    #[test]
    fn every_visible_verb_is_in_one_group_and_in_the_order_of_the_table() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let visible: Vec<&str> = visible.map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        assert_eq!(grouped, visible);
    }

    /// The list is not wrapped, so it must fit a narrow terminal.
    #[test]
    fn a_verb_takes_one_line_of_60_columns() {
        let help = help();
        let mut verbs = 0;
        for (group, names) in GROUPS {
            let block = help.split(&format!("\n{group}:\n")).nth(1).unwrap();
            let block: Vec<&str> = block.split("\n\n").next().unwrap().lines().collect();
            assert_eq!(block.len(), names.len(), "{block:?}");
            for (line, name) in block.iter().zip(names) {
                assert!(line.chars().count() <= 60, "{line}");
                let (verb, about) = line.trim_start().split_once("  ").unwrap();
                assert_eq!(verb, *name);
                assert!(about.trim().len() >= 10, "{line}");
                verbs += 1;
            }
        }
        assert!(verbs > 20);
        assert!(help.contains("\n      --root <DIR|FILE>") && help.contains("\n  -V, --version"));
        assert!(help.contains("Exit status: 0 success"), "{help}");
    }

    #[test]
    fn the_man_page_has_the_groups() {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).unwrap();
        let page = group_man_page(&String::from_utf8(page).unwrap());
        for (group, verbs) in GROUPS {
            let heading = format!(".SS \"{group}\"\n.TP\npagewise\\-{}(1)\n", verbs[0]);
            assert_eq!(page.matches(&heading).count(), 1, "{heading}\n{page}");
        }
    }
}
