// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes that a terminal sends → [`Key`]s. Sequences of keys that the live view has no use for are dropped whole.

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
}

/// Whether the bytes end within the sequence of a key or within a character.
pub(super) fn is_unfinished(typed: &[u8]) -> bool {
    let sequence = typed.iter().rposition(|&byte| byte == 0x1b).map(|at| &typed[at + 1..]);
    let in_sequence = sequence.is_some_and(|rest| match rest {
        [] | [b'[' | b'O'] => true,
        [b'[', parameters @ ..] => parameters.iter().all(|byte| !is_final(*byte)),
        _ => false,
    });
    let cut = std::str::from_utf8(typed).is_err_and(|error| error.error_len().is_none());
    in_sequence || cut
}

/// The keys in the order in which they were pressed.
pub(super) fn parse_keys(typed: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(typed);
    let mut rest = text.chars().peekable();
    let mut keys = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => match rest.next_if(|&next| next == '[' || next == 'O') {
                None => keys.push(Key::Escape),
                Some(_) => {
                    let end = rest.find(|&c| u8::try_from(c).is_ok_and(is_final));
                    keys.extend(arrow(end));
                }
            },
            '\r' | '\n' => keys.push(Key::Enter),
            '\x7f' | '\x08' => keys.push(Key::Backspace),
            c if !c.is_control() => keys.push(Key::Char(c)),
            _ => {}
        }
    }
    keys
}

/// Whether this byte ends a sequence.
fn is_final(byte: u8) -> bool {
    matches!(byte, b'@'..=b'~')
}

fn arrow(end: Option<char>) -> Option<Key> {
    match end {
        Some('A') => Some(Key::Up),
        Some('B') => Some(Key::Down),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_one_key_in_both_modes_of_a_terminal() {
        assert_eq!(parse_keys(b"\x1b[A\x1bOB"), [Key::Up, Key::Down]);
        assert_eq!(parse_keys(b"\x1b[1;5Aq"), [Key::Up, Key::Char('q')]);
        assert_eq!(parse_keys(b"\x1b[15~\x1b[Hq"), [Key::Char('q')], "F5 and Home have no use");
    }

    #[test]
    fn characters_and_editing_keys() {
        assert_eq!(parse_keys("é\x7f\r".as_bytes()), [Key::Char('é'), Key::Backspace, Key::Enter]);
        assert_eq!(parse_keys(b"\x1b"), [Key::Escape]);
        assert_eq!(parse_keys(b"\x01\xff"), [Key::Char('\u{fffd}')]);
    }

    #[test]
    fn a_sequence_that_comes_in_pieces_is_waited_for() {
        for unfinished in
            [&b"\x1b"[..], b"\x1b[", b"\x1b[1;", b"\x1bO", "é".as_bytes()[..1].as_ref()]
        {
            assert!(is_unfinished(unfinished), "{unfinished:?}");
        }
        for whole in [&b"q"[..], b"\x1b[A", b"\x1bOB", b"\x1b[15~", "é".as_bytes()] {
            assert!(!is_unfinished(whole), "{whole:?}");
        }
    }
}
