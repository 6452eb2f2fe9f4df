// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram-generator's grammar, as the program itself was seen to accept and refuse it.

#[path = "generator_table.rs"]
mod generator_table;

use super::*;
use crate::zram_managers::find_first_error;
use generator_table::FILES;

/// The first error of a file, values included; `None` if zram-generator accepts it.
fn error(text: &str) -> Option<(usize, &'static str)> {
    find_first_error(text.as_bytes(), Some(2000.0), &mut false)
        .map(|error| (error.line, error.what))
}

#[test]
fn what_the_program_refuses_is_refused_in_the_same_line() {
    for (text, line) in FILES {
        assert_eq!(error(text).map(|(line, _)| line), *line, "{text:?}: {:?}", error(text));
    }
}

#[test]
fn names_reach_over_lines_and_values_lose_their_quotes() {
    let all = parse(b"[zram0]\nstray\nzram-size = \"5\" \nx:\\x0041\n").unwrap();
    let shown: Vec<(&str, &str, usize)> =
        all.iter().map(|it| (it.key.as_str(), it.value.as_str(), it.line)).collect();
    assert_eq!(shown[0].0, "stray\nzram-size");
    assert_eq!((shown[0].1, shown[1]), ("5", ("x", "A", 4)));
}

#[test]
fn a_comment_is_cut_only_from_behind_something() {
    assert_eq!(remove_comment("zram-size = ram / 2 # half"), Some("zram-size = ram / 2"));
    assert_eq!(remove_comment("[zram0]\t; first"), Some("[zram0]"));
    assert_eq!(remove_comment("  # only"), None);
    assert_eq!(remove_comment("zram-size = ram#2"), None);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_eq!(parse(b"[zram0]\n\xff\n").unwrap_err().line, 2);
}
