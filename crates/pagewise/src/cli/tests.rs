// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use clap::{CommandFactory, FromArgMatches};
use pagewise_terminal::exit;

#[test]
fn the_table_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_and_option_has_a_sentence() {
    let mut command = Cli::command();
    command.build();
    for verb in command.get_subcommands() {
        assert!(verb.get_about().is_some(), "{}", verb.get_name());
        for argument in verb.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", verb.get_name(), argument.get_id());
        }
    }
    assert!(command.get_arguments().all(|argument| argument.get_help().is_some()));
}

/// The fuzzer builds the clap table once and parses many lines with it, so parsing must leave no
/// state in the table.
#[test]
fn a_table_that_has_parsed_lines_parses_as_a_new_one() {
    let lines: [&[&str]; 14] = [
        &["status", "--json"],
        &["--json", "status", "extra"],
        &["help", "lab", "run"],
        &["trial", "--a", "swap=none", "--b", "swap=zram:lz4", "--", "true"],
        &["trial", "--a", "swap=nothing"],
        &["lab", "run", "swap", "--pairs", "0"],
        &["lab", "run", "swap", "--memory", "320M", "--preview"],
        &["lab", "guest", "--count", "--cpus", "2", "--", "true"],
        &["lab", "--help"],
        &["report", "--only", "zam"],
        &["repotr"],
        &["-q", "-v"],
        &["--version"],
        &[],
    ];
    let parse = |table: &mut clap::Command, line: &[&str]| {
        let matches = table.try_get_matches_from_mut([&["pagewise"], line].concat());
        let cli = matches.and_then(|mut it| Cli::from_arg_matches_mut(&mut it));
        cli.map(|cli| format!("{cli:?}")).map_err(|error| error.to_string())
    };
    let mut used = Cli::command();
    for line in lines.iter().chain(lines.iter().rev()) {
        assert_eq!(parse(&mut used, line), parse(&mut Cli::command(), line), "{line:?}");
    }
}

/// Each percentage option has its own range: a collapse can at most double memory (100 %), and an
/// effect above 50 % needs no experiment to be seen.
#[test]
fn percentages_end_where_their_option_says() {
    let grown = |text: &str| {
        let line = ["pagewise", "thp", "collapse", "--pid", "1", "--max-growth", text];
        Some(match Cli::try_parse_from(line).ok()?.verb {
            Some(Verb::Thp(thp)) => match &thp.what {
                Some(ThpAct::Collapse(wanted)) => wanted.max_growth,
                _ => panic!("collapse"),
            },
            _ => panic!("thp"),
        })
    };
    assert_eq!([grown("0%"), grown("50.1%"), grown("100%")], [Some(0.0), Some(0.501), Some(1.0)]);
    assert_eq!([grown("100.1%"), grown("-1%"), grown("x")], [None; 3]);
    let effect = |text: &str| {
        let line = ["pagewise", "trial", "--aa", "--min-effect", text, "--", "true"];
        Cli::try_parse_from(line).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(effect("50%"), Ok(()));
    let refused = effect("50.1%").unwrap_err();
    assert!(
        refused.contains("expected a percentage from 0 to 50, such as 2%, found \"50.1%\""),
        "{refused}"
    );
    let paced = |text| Cli::try_parse_from(["pagewise", "scan", "--host", "--max-cpu", text]);
    assert!(paced("0%").is_err() && paced("0.1%").is_ok() && paced("101%").is_err());
}

#[test]
fn options_may_stand_before_and_after_the_verb() {
    for line in [["pagewise", "--json", "status"], ["pagewise", "status", "--json"]] {
        let cli = Cli::try_parse_from(line).unwrap();
        assert!(cli.global.json && matches!(cli.verb, Some(Verb::Status(_))));
    }
    assert!(Cli::try_parse_from(["pagewise"]).unwrap().verb.is_none());
}

/// Users look up exit statuses in the help of the program, of `lab guest` and of `thp run`.
#[test]
fn the_help_names_every_status() {
    let mut texts = String::new();
    let mut command = Cli::command();
    command.build();
    collect(&command, &mut texts);
    for status in [
        exit::FAILED,
        exit::USAGE,
        exit::FINDINGS,
        exit::TIMED_OUT,
        exit::GUEST_LOST,
        exit::NOT_FOUND,
        exit::STOPPED,
        exit::OUT_OF_MEMORY,
    ] {
        let mut numbers = texts.split(|letter: char| !letter.is_ascii_digit());
        assert!(numbers.any(|number| number == status.to_string()), "{status}");
    }
}

fn collect(command: &clap::Command, texts: &mut String) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if help.contains("Exit status") {
        texts.push_str(&help);
    }
    command.get_subcommands().for_each(|command| collect(command, texts));
}

/// Every command that an explanation page prints parses; `CMD` stands for the user's own command.
#[test]
fn every_command_of_an_explanation_can_be_typed() {
    let host = pagewise_model::Snapshot::default();
    let mut commands = 0;
    for subject in pagewise_explain::subjects() {
        let page = pagewise_explain::explain(&host, subject.name).unwrap();
        for next in page.next {
            let line = next.command.strip_prefix("sudo ").unwrap_or(&next.command);
            let parsed = Cli::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{}: {line}: {}", subject.name, parsed.unwrap_err());
            commands += 1;
        }
    }
    assert!(commands >= 2 * pagewise_explain::subjects().len());
}

#[test]
fn every_explained_rule_is_a_rule_and_its_subject_is_one() {
    let rules: Vec<_> = pagewise_decide::rules().map(|(id, _)| id).collect();
    let names: Vec<_> = pagewise_explain::subjects().iter().map(|it| it.name).collect();
    for rule in pagewise_explain::explained_rules() {
        assert!(rules.contains(&rule), "{rule}");
        let subject = pagewise_explain::subject_of_rule(rule).unwrap();
        assert!(names.contains(&subject), "{rule}: {subject}");
    }
    assert_eq!(pagewise_explain::subject_of_rule("settings-differ"), None);
}
