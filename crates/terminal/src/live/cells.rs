// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of a frame as cells of ratatui, and the output for the cells that changed, in the 16
//! colours that every terminal has.
//!
//! crossterm, and with it ratatui's own backend, writes these colours as `38;5;1`. Terminals that
//! know only 16 colours read that as three attributes, of which 5 means blinking.

use std::fmt::Write as _;

use anstyle::Ansi256Color;
use crossterm::Command;
use crossterm::cursor::MoveTo;
use pagewise_model::make_printable;
use pagewise_report::live::LiveLine;
use pagewise_report::text::style;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The lines from the top of a screen; what does not fit is cut.
pub(super) fn screen((columns, lines): (u16, u16), frame: &[LiveLine]) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
    for (y, line) in (0..lines).zip(frame) {
        let mut x = 0;
        for span in &line.spans {
            let (text, style) = (make_printable(&span.text), cell_style(style(span.role)));
            let room = usize::from(columns.saturating_sub(x));
            x = buffer.set_stringn(x, y, text, room, style).0;
        }
    }
    buffer
}

/// The output that changes a screen of the same size. After a character outside of ASCII the cursor
/// is moved, because terminals disagree about the width of some.
pub(super) fn changes(before: &Buffer, after: &Buffer) -> String {
    let mut out = String::new();
    let (mut at, mut style) = (None, anstyle::Style::new());
    for (x, y, cell) in before.diff(after) {
        if at != Some((x, y)) {
            // writing to a String cannot fail
            let _ = MoveTo(x, y).write_ansi(&mut out);
        }
        let next = style_of(cell);
        if next != style {
            let _ = write!(out, "{style:#}{next}");
            style = next;
        }
        out.push_str(cell.symbol());
        at = Some((x + 1, y)).filter(|_| cell.symbol().is_ascii());
    }
    let _ = write!(out, "{style:#}");
    out
}

/// Converts a style of a report to a style of cells.
fn cell_style(style: anstyle::Style) -> Style {
    let effects = style.get_effects();
    let pairs =
        [(anstyle::Effects::BOLD, Modifier::BOLD), (anstyle::Effects::DIMMED, Modifier::DIM)];
    let modifiers = pairs.into_iter().filter(|(effect, _)| effects.contains(*effect));
    let style_of_cell = modifiers.fold(Style::new(), |style, (_, own)| style.add_modifier(own));
    match style.get_fg_color() {
        Some(anstyle::Color::Ansi(colour)) => {
            style_of_cell.fg(Color::Indexed(Ansi256Color::from_ansi(colour).index()))
        }
        _ => style_of_cell,
    }
}

/// Converts the style of a cell to a style of a report: the inverse of [`cell_style`].
fn style_of(cell: &Cell) -> anstyle::Style {
    let colour = match cell.fg {
        Color::Indexed(index) => Ansi256Color(index).into_ansi(),
        _ => None,
    };
    let mut effects = anstyle::Effects::new();
    effects = effects.set(anstyle::Effects::BOLD, cell.modifier.contains(Modifier::BOLD));
    effects = effects.set(anstyle::Effects::DIMMED, cell.modifier.contains(Modifier::DIM));
    anstyle::Style::new().fg_color(colour.map(anstyle::Color::Ansi)).effects(effects)
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;
    use pagewise_report::live::LiveSpan;
    use pagewise_report::text::Role;

    use super::*;

    fn line(parts: &[(Role, &str)]) -> LiveLine {
        let span = |&(role, text): &(Role, &str)| LiveSpan { role, text: text.to_owned() };
        LiveLine { spans: parts.iter().map(span).collect() }
    }

    fn written(before: &[LiveLine], after: &[LiveLine]) -> String {
        changes(&screen((20, 3), before), &screen((20, 3), after))
    }

    #[test]
    fn only_cells_that_changed_are_written() {
        let plain = |text| line(&[(Role::Plain, text)]);
        let (before, after) = (["a", "bc", "c"].map(plain), ["a", "bC"].map(plain));
        assert_eq!(written(&before, &after), "\x1b[2;2HC\x1b[3;1H ");
        assert_eq!(written(&after, &after), "");
    }

    #[test]
    fn what_a_terminal_would_act_on_becomes_visible() {
        let drawn = written(&[], &[line(&[(Role::Plain, "\x1b[2Jx"), (Role::Strong, "bold")])]);
        assert_eq!(drawn, "\x1b[1;1H\\u{1b}[2Jx\x1b[1mbold\x1b[0m");
    }

    #[test]
    fn colours_are_those_that_every_terminal_has() {
        let parts = [(Role::Critical, "a"), (Role::Anon, "b"), (Role::Quiet, "c")];
        assert_eq!(
            written(&[], &[line(&parts)]),
            "\x1b[1;1H\x1b[1m\x1b[31ma\x1b[0m\x1b[34mb\x1b[0m\x1b[2mc\x1b[0m"
        );
        for colour in [AnsiColor::Red, AnsiColor::BrightCyan] {
            let style = colour.on_default().bold();
            let mut cell = Cell::default();
            assert_eq!(style_of(cell.set_style(cell_style(style))), style);
        }
        assert_eq!(cell_style(style(Role::Plain)), Style::new());
    }

    #[test]
    fn after_a_character_of_uncertain_width_the_cursor_is_moved() {
        let drawn = written(&[], &[line(&[(Role::Plain, "漢█ab")])]);
        assert_eq!(drawn, "\x1b[1;1H漢\x1b[1;3H█\x1b[1;4Hab");
    }
}
