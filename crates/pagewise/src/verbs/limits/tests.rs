// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `pagewise limits` on all recordings.

use pagewise_report::text::TextStyle;
use pagewise_testkit::scene::{Scene, slugs};

use super::*;

fn survey_of(interval: &Interval, selected: Option<&Name>) -> LimitSurvey {
    let none = Reading::absent("a recording does not contain them", Source::none());
    let args = cli::Limits { age: Duration::from_secs(120), ..cli::Limits::default() };
    survey(interval, &args, selected, &none, None)
}

fn check_width(shown: &str, width: usize) {
    // a shell does not continue a comment, so the line with the undo command is not wrapped
    let lines = shown.lines().filter(|line| !line.trim_start().starts_with("# undo with "));
    let widest = lines.map(|line| line.chars().count()).max();
    assert!(widest <= Some(width), "{widest:?} of {width}\n{shown}");
}

/// For every cgroup of every recorded host, no line is wider than the terminal, and each suggested
/// size comes with a command.
#[test]
fn limits_fit_into_80_and_120_columns() {
    for slug in slugs() {
        let interval = Scene::load(&slug).replay();
        let all = survey_of(&interval, None);
        for width in [80, 120] {
            let look = TextStyle { width, colour: false };
            check_width(&text::limits(&all, false, look), width);
            for group in all.groups.iter().take(20) {
                let one = survey_of(&interval, Some(&group.group));
                assert_eq!(one.groups[0].advice, group.advice, "{slug}");
                check_width(&text::limits(&one, true, look), width);
            }
        }
    }
}

/// In every recording, a suggested limit is at least the memory in use.
#[test]
fn no_recorded_group_is_told_to_have_less_than_it_uses() {
    let mut sizes = 0;
    for slug in slugs() {
        for group in survey_of(&Scene::load(&slug).replay(), None).groups {
            let Some(size) = group.advice.size else { continue };
            sizes += 1;
            assert!(
                Some(size) >= group.hot && Some(size) >= group.unevictable.get(),
                "{slug}: {group:?}"
            );
        }
    }
    assert!(sizes > 50, "{sizes} sizes");
}
