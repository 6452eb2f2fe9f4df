// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For any names on the machine: lines fit the width, colours are printed only if requested, escape
//! sequences in names are neutralised.

mod host;
mod killed;

use pagewise_model::{Interval, Name, OomExplanation, OomFact, Problem, Process, Source, TierKind};
use pagewise_report::Answer;
use pagewise_report::text::{TextStyle, doctor, oom, report, report_in_view, status};
use pagewise_report::view::{ProcessView, Sort, View};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

fn all_texts(interval: &Interval, findings: &[pagewise_model::Finding], look: TextStyle) -> String {
    let owners = host::owners();
    let answer = Answer {
        interval,
        verdict: host::verdict(),
        findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: host::cost(),
    };
    let killed = kills_about(findings);
    let processes = ProcessView { sort: Sort::Growth, ..ProcessView::default() };
    let view = View { processes: Some(processes), ..View::default() };
    let screen = View { first_screen_only: true, ..View::default() };
    [
        report_in_view(&answer, &screen, look),
        report(&answer, look),
        report_in_view(&answer, &view, look),
        status(&answer, look),
        doctor(&answer, look),
        oom(&answer, &killed::found(&killed), &killed::elsewhere(), look),
    ]
    .concat()
}

/// Kills with the texts of these findings.
fn kills_about(findings: &[pagewise_model::Finding]) -> Vec<OomExplanation> {
    let mut killed = killed::explained();
    for (kill, finding) in killed.iter_mut().zip(findings) {
        kill.title.clone_from(&finding.title);
        kill.facts.push(OomFact { label: "who held it", text: finding.what.clone() });
        kill.change.extend(finding.next.iter().cloned());
    }
    killed
}

/// Sets `name` everywhere where a host can have a name of its own choice.
fn rename(interval: &mut Interval, name: &str) {
    let end = &mut interval.end;
    let given = || host::found(Name::from(name), "/sys/name");
    end.host.name = given();
    end.host.virtualization = given();
    end.host.container = given();
    end.host.root = Name::from(name);
    end.taken.kernel = given();
    for tier in &mut end.tiers {
        tier.path = Name::from(name);
        tier.kind = TierKind::File;
        tier.disk.name = given();
        tier.disk.file_system = given();
    }
    end.zram.iter_mut().for_each(|zram| zram.backing_device = given());
    end.zswap.compressor = given();
    end.zones.iter_mut().for_each(|zone| zone.name = Name::from(name));
    end.free_blocks.iter_mut().for_each(|blocks| blocks.zone = Name::from(name));
    end.knobs.iter_mut().for_each(|knob| knob.live = given());
    end.knobs.iter_mut().for_each(|knob| knob.instance = Some(Name::from(name)));
    end.cgroups.groups.iter_mut().for_each(|group| group.path = Name::from(name));
    end.processes.list.push(Process { name: Name::from(name), ..end.processes.list[1].clone() });
    end.problems.push(Problem::new(&Source::line(name, 3), name, name.as_bytes()));
}

/// Findings contain names unchanged; the page must neutralise them.
fn findings_about(name: &str) -> Vec<pagewise_model::Finding> {
    let mut findings = [vec![host::waiting()], host::findings()].concat();
    for finding in &mut findings {
        finding.title = format!("{name} {}", finding.title);
        finding.what = name.to_owned();
        finding.why = format!("{} {name} {name}", finding.why);
        finding.next.push(format!("pagewise thp --name '{name}'"));
        finding.next.push(format!("pagewise thp --name {name}"));
        finding.evidence.push(pagewise_model::Evidence {
            path: name.to_owned(),
            line: Some(1),
            value: name.to_owned(),
        });
    }
    findings
}

/// The lines that are wider than the terminal, apart from a single word of a command: half a word
/// may be the name of something else, so that a command is never broken inside of one. With a
/// no-break space in a name the whole command stays on one line.
fn too_wide(text: &str, width: usize) -> Vec<&str> {
    let is_wide = |line: &&str| UnicodeWidthStr::width(*line) > width;
    let is_word = |line: &&str| line.contains('\u{a0}') || is_single_shell_word(line);
    text.lines().filter(is_wide).filter(|line| !is_word(line)).collect()
}

/// True if a shell would find only one word in this line, which may go on in the next, or if it is
/// the command that takes another back.
fn is_single_shell_word(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with("# undo with ") {
        // a shell does not continue a comment in the next line
        return true;
    }
    let word = line.strip_suffix(" \\").unwrap_or(line);
    let unquoted = word.replace("\\\\", "").replace("\\'", "");
    let parts = |text: &str| text.split('\'').step_by(2).all(|outside| !outside.contains(' '));
    parts(word) || parts(&unquoted)
}

#[test]
fn only_a_word_of_a_command_is_a_single_word() {
    assert!(is_single_shell_word("     'long name'.service \\"));
    assert!(!is_single_shell_word("     --name 'long name'"));
    assert_eq!(too_wide("  a sentence of words\n  /a/long/path", 10), ["  a sentence of words"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any names and any width, no line is wider than the terminal unless it is one word of a
    /// command, and no character that a terminal would interpret is printed.
    #[test]
    fn no_line_is_too_wide_and_nothing_escapes(name in "\\PC{0,40}|.{0,200}|[a-z/. -]{200}|[漢字👩‍🚀☺️e\u{301}]{0,80}", width in 60usize..140) {
        let mut interval = host::interval();
        rename(&mut interval, &name);
        let text = all_texts(&interval, &findings_about(&name), TextStyle { width, colour: false });
        prop_assert_eq!(too_wide(&text, width), Vec::<&str>::new());
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}

#[test]
fn a_wide_terminal_has_whole_names_in_tables_and_prose_as_before() {
    let mut interval = host::interval();
    let long = format!("/kubepods.slice/{}", "x".repeat(120));
    interval.end.cgroups.groups[1].path = Name::from(long.as_str());
    let text = |width| all_texts(&interval, &host::findings(), TextStyle { width, colour: false });
    assert!(!text(100).contains(&long) && text(240).contains(&long));
    let prose = |width| text(width).lines().filter(|line| line.contains("virtual:")).count();
    assert_eq!(prose(100), prose(240));
    let wide = text(240);
    let sentences = wide.lines().filter(|line| line.contains("address space asked for"));
    assert!(sentences.clone().count() > 0);
    assert!(sentences.map(UnicodeWidthStr::width).all(|width| width <= 100));
}

#[test]
fn hostile_names_stay_neutral_in_colour_too() {
    let mut interval = host::interval();
    rename(&mut interval, "\x1b[2J\r\u{202e}evil");
    let findings = findings_about("\x1b]0;title\x07");
    let text = all_texts(&interval, &findings, TextStyle { width: 100, colour: true });
    assert!(text.contains("\\u{1b}[2J\\u{d}\\u{202e}evil"));
    assert!(!text.contains('\u{202e}') && !text.contains('\r') && !text.contains('\x07'));
    let only_colours = text.split('\x1b').skip(1).all(|after| {
        after
            .strip_prefix('[')
            .and_then(|rest| rest.split_once('m'))
            .is_some_and(|(codes, _)| codes.chars().all(|c| c.is_ascii_digit() || c == ';'))
    });
    assert!(only_colours);
}

#[test]
fn colour_adds_nothing_but_colour() {
    let interval = host::interval();
    let findings = host::findings();
    let plain = all_texts(&interval, &findings, TextStyle { width: 100, colour: false });
    let coloured = all_texts(&interval, &findings, TextStyle { width: 100, colour: true });
    assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
    let stripped: String = coloured
        .split('\x1b')
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once('m').unwrap().1 })
        .collect();
    assert_eq!(stripped, plain);
}

#[test]
fn no_line_ends_in_spaces() {
    let interval = host::interval();
    let findings = host::findings();
    for width in [60, 80, 100] {
        let text = all_texts(&interval, &findings, TextStyle { width, colour: false });
        assert!(text.lines().all(|line| line == line.trim_end()));
    }
}

#[test]
fn more_findings_than_fit_are_counted() {
    let interval = host::interval();
    let findings: Vec<_> = host::findings().into_iter().cycle().take(9).collect();
    let text = all_texts(&interval, &findings, TextStyle { width: 100, colour: false });
    assert!(text.contains("and 3 more:"));
    assert!(text.contains("9 findings: 3 critical, 3 warnings and 3 worth knowing"));
}
