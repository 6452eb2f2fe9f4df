// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts text to ASCII without changing its width, for terminals without UTF-8.

use unicode_width::UnicodeWidthChar;

/// Replaces each character by ASCII; by `?` if it has no equivalent.
pub(super) fn spell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match counterpart(c) {
            Some(ascii) => out.push(ascii),
            None => out.extend(std::iter::repeat_n('?', c.width().unwrap_or(1))),
        }
    }
    out
}

fn counterpart(c: char) -> Option<char> {
    Some(match c {
        c if c.is_ascii() => c,
        '█' => '@',
        '▓' => '%',
        '▒' => ':',
        '≡' => '=',
        '▞' => '/',
        '░' | '▁' => '.',
        '▂' => ':',
        '▃' => '-',
        '▄' => '=',
        '▅' => '+',
        '▆' => '*',
        '▇' => '%',
        '…' => '~',
        '–' | '·' => '-',
        'µ' => 'u',
        '×' => 'x',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_as_wide_as_the_text() {
        assert_eq!(spell("\x1b[1ma█░…\x1b[0m"), "\x1b[1ma@.~\x1b[0m");
        assert_eq!(spell("漢é"), "???");
    }
}
