// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines from the terminal and the environment how text may be formatted.

use std::ffi::OsString;
use std::io::IsTerminal;

use pagewise_report::text::TextStyle;
use terminal_size::{Width, terminal_size};

use crate::Global;

/// Width in columns if standard output is not a terminal.
const UNWATCHED: usize = 100;

/// The format of text on standard output: its width in columns, and whether it has colours.
pub fn text_style(global: &Global) -> TextStyle {
    let is_terminal = std::io::stdout().is_terminal();
    let columns = terminal_size().filter(|_| is_terminal).map(|(Width(columns), _)| columns.into());
    TextStyle {
        width: columns.unwrap_or(UNWATCHED),
        colour: !global.no_color && is_colour_enabled(is_terminal, |name| std::env::var_os(name)),
    }
}

/// Whether standard output is a terminal that can be controlled.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether text of the command line parser (clap) may have colours on this stream.
pub(crate) fn has_colour(stream: &impl IsTerminal) -> bool {
    is_colour_enabled(stream.is_terminal(), |name| std::env::var_os(name))
}

/// Whether to print colours, by the conventions of no-color.org and bixense.com/clicolors.
fn is_colour_enabled(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|found| found == *value);
    let set = |name: &str| variable(name).is_some_and(|found| !found.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    if set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0") {
        return true;
    }
    is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(is_terminal: bool, set: &[(&str, &str)]) -> bool {
        is_colour_enabled(is_terminal, |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        assert!(with(true, &[]));
        assert!(!with(false, &[]));
        assert!(!with(true, &[("NO_COLOR", "1")]));
        assert!(with(true, &[("NO_COLOR", "")]));
        assert!(!with(true, &[("CLICOLOR", "0")]));
        assert!(!with(true, &[("TERM", "dumb")]));
        assert!(with(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!with(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }
}
