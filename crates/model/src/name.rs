// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that came from the machine, safe to print.

use std::borrow::Borrow;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A name or short text that the host chose: process, device, cgroup, setting.
///
/// Anybody may name a process `\x1b[2J`. Bytes that are not UTF-8 and characters that a terminal
/// would act on (control characters, and the Unicode marks that reorder text) are replaced by a
/// visible escape when the name is made, so that every later reader may print it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Name(Box<str>);

impl Name {
    /// Makes a printable name of raw bytes. What is longer than [`Name::LONGEST`] is cut, and says
    /// how long it was.
    pub fn from_bytes(raw: &[u8]) -> Self {
        if let Some(head) = raw.get(..Self::LONGEST).filter(|_| raw.len() > Self::LONGEST) {
            let head = Self::from_bytes(head);
            return Self(format!("{head}… ({} bytes)", raw.len()).into());
        }
        // nearly every name is plain, and a snapshot makes thousands
        if let Some(plain) = plain(raw) {
            return Self(plain.into());
        }
        let mut shown = String::with_capacity(raw.len());
        for chunk in raw.utf8_chunks() {
            chunk.valid().chars().for_each(|c| push_printable(&mut shown, c));
            for byte in chunk.invalid() {
                shown.push_str(&format!("\\x{byte:02x}"));
            }
        }
        Self(shown.into())
    }

    /// The most bytes that are kept: four times the longest path of the kernel, as it may write a
    /// byte as four. One file of a recording could otherwise become one name of 50 MiB.
    pub const LONGEST: usize = 16 << 10;

    /// The printable text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text itself, where nothing in it needs an escape. Answers only for plain ASCII.
pub(crate) fn plain(raw: &[u8]) -> Option<&str> {
    // without an early end, which compilers make one comparison of many bytes
    let is_plain = raw.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    is_plain.then(|| std::str::from_utf8(raw).ok()).flatten()
}

fn push_printable(shown: &mut String, c: char) {
    if c.is_control() || is_reordering(c) {
        shown.extend(c.escape_unicode());
    } else {
        shown.push(c);
    }
}

/// Unicode marks that change the direction of what follows, or are invisible.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

/// To look a name up by its printable text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_that_a_terminal_would_obey_become_visible() {
        assert_eq!(Name::from("a\x1b[2Jb").as_str(), "a\\u{1b}[2Jb");
        assert_eq!(Name::from("evil\u{202e}txt").as_str(), "evil\\u{202e}txt");
        assert_eq!(Name::from("\u{9b}2J").as_str(), "\\u{9b}2J");
    }

    #[test]
    fn bytes_that_are_not_utf8_stay_distinguishable() {
        assert_eq!(Name::from_bytes(b"caf\xe9").as_str(), "caf\\xe9");
        assert_eq!(Name::from("café").as_str(), "café");
    }
}
