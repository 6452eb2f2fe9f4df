// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses bytes from a terminal into [`Key`]s. Sequences of keys that the live view does not use
//! are skipped completely.

/// A key of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// The arrow to the left.
    Left,
    /// The arrow to the right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
}

/// Whether the bytes end in the middle of an escape sequence or of a character.
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

/// The keys, in the order in which they were pressed.
pub(super) fn parse_keys(typed: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(typed);
    let mut rest = text.chars().peekable();
    let mut keys = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => match rest.next_if(|&next| next == '[' || next == 'O') {
                None => keys.push(Key::Escape),
                Some(_) => {
                    let mut sequence = String::new();
                    for c in rest.by_ref() {
                        sequence.push(c);
                        if u8::try_from(c).is_ok_and(is_final) {
                            break;
                        }
                    }
                    keys.extend(parse_sequence(&sequence));
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

/// Whether this byte ends an escape sequence.
fn is_final(byte: u8) -> bool {
    matches!(byte, b'@'..=b'~')
}

/// The key of an escape sequence, given by its parameters and final letter. Home and End have
/// several sequences.
fn parse_sequence(sequence: &str) -> Option<Key> {
    let number = sequence.split([';', '~']).next().unwrap_or_default();
    match (sequence.chars().last()?, number) {
        ('A', _) => Some(Key::Up),
        ('B', _) => Some(Key::Down),
        ('C', _) => Some(Key::Right),
        ('D', _) => Some(Key::Left),
        ('H', _) | ('~', "1" | "7") => Some(Key::Home),
        ('F', _) | ('~', "4" | "8") => Some(Key::End),
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
        assert_eq!(parse_keys(b"\x1b[D\x1bOC"), [Key::Left, Key::Right]);
        assert_eq!(parse_keys(b"\x1b[15~\x1b[2~q"), [Key::Char('q')], "F5 and Insert have no use");
    }

    #[test]
    fn home_and_end_are_known_by_all_their_sequences() {
        let home = [&b"\x1b[H"[..], b"\x1bOH", b"\x1b[1~", b"\x1b[7~", b"\x1b[1;2H"];
        assert!(home.iter().all(|typed| parse_keys(typed) == [Key::Home]));
        let end = [&b"\x1b[F"[..], b"\x1bOF", b"\x1b[4~", b"\x1b[8~", b"\x1b[1;2F"];
        assert!(end.iter().all(|typed| parse_keys(typed) == [Key::End]));
        assert_eq!(parse_keys("\x1b[é".as_bytes()), [], "cut within a sequence");
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
