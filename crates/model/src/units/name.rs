// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that came from the machine, made safe to print.

use std::borrow::{Borrow, Cow};
use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Serialize;

/// The name of a process, device, cgroup or setting, or another short text that was read from the
/// host.
///
/// Any user can name a process `\x1b[2J`. Bytes that are not UTF-8, and characters that a terminal
/// would act on or hide (control characters, and characters of Unicode that reorder text or are
/// invisible), are replaced by visible escapes when the name is created, so that it can be printed
/// anywhere without further checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Name(Box<str>);

impl Name {
    /// Creates a printable name from raw bytes. If there are more than [`Name::LONGEST`] bytes, the
    /// name is cut and the original length is appended.
    pub fn from_bytes(raw: &[u8]) -> Self {
        if let Some(head) = raw.get(..Self::LONGEST).filter(|_| raw.len() > Self::LONGEST) {
            let head = Self::from_bytes(head);
            return Self(format!("{head}… ({} bytes)", raw.len()).into());
        }
        // this is the fast path: nearly all names are plain ASCII, and a snapshot creates thousands
        // of names
        if let Some(plain) = as_plain_ascii(raw) {
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

    /// Maximum number of bytes that are kept: four times the kernel's longest path, because one
    /// byte may become an escape of four characters. Without a limit, one file of a recording could
    /// become a name of 50 MiB.
    pub const LONGEST: usize = 16 << 10;

    /// The name as printable text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the text itself if it is printable ASCII, which needs no escapes. Returns `None` for all
/// other text, even if it would need no escapes either.
pub(crate) fn as_plain_ascii(raw: &[u8]) -> Option<&str> {
    // no early exit, so that the compiler can vectorize the comparison
    let is_plain = raw.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    is_plain.then(|| std::str::from_utf8(raw).ok()).flatten()
}

fn push_printable(shown: &mut String, c: char) {
    if c.is_control() || is_invisible(c) {
        shown.extend(c.escape_unicode());
    } else {
        shown.push(c);
    }
}

/// Makes text of several lines safe to print: line breaks and tabs are kept, everything else is
/// escaped as in a [`Name`]. It is called immediately before text is written to an output stream.
/// Text from the host must have been converted to a [`Name`] long before, because line breaks in it
/// could not be distinguished from Pagewise's own here.
#[must_use]
pub fn make_printable(text: &str) -> Cow<'_, str> {
    escape_with(text, |c| c.is_control() && !matches!(c, '\n' | '\t'), push_printable)
}

/// Makes a JSON document safe to print without changing its meaning: control and invisible
/// characters that serializers leave in strings are replaced by JSON escapes.
#[must_use]
pub fn make_json_printable(document: &str) -> Cow<'_, str> {
    escape_with(
        document,
        |c| matches!(c, '\u{7f}'..='\u{9f}'),
        |shown, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // writing to a String cannot fail
                let _ = write!(shown, "\\u{unit:04x}");
            }
        },
    )
}

fn escape_with(
    text: &str,
    is_control: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let is_bad = |c: char| is_control(c) || is_invisible(c);
    let Some(first) = text.find(is_bad) else { return Cow::Borrowed(text) };
    let (good, rest) = text.split_at(first);
    let mut shown = String::with_capacity(text.len() + 64);
    shown.push_str(good);
    for c in rest.chars() {
        if is_bad(c) { escape(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Whether a character is invisible or changes the direction of the text after it: Unicode
/// categories Cf, Zl and Zp, and the property Default_Ignorable_Code_Point. This includes tag
/// characters and variation selectors, which can be used to hide text.
fn is_invisible(c: char) -> bool {
    // this is the fast path: nearly all text has only smaller code points
    c >= '\u{ad}'
        && matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

/// Allows a lookup by printable text in maps with [`Name`] keys.
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

    /// Invisible characters are escaped: Arabic letter mark, tags, a variation selector, a soft
    /// hyphen, a Hangul filler, an annotation.
    #[test]
    fn what_shows_nothing_becomes_visible() {
        for hidden in
            "\u{61c}\u{e0001}\u{e007f}\u{fe0f}\u{e0100}\u{ad}\u{3164}\u{fff9}\u{2067}".chars()
        {
            let raw = format!("a{hidden}b");
            let shown = format!("a{}b", hidden.escape_unicode());
            assert_eq!(Name::from(&*raw).as_str(), shown);
            assert_eq!(make_printable(&raw), shown);
        }
        for seen in ["naïve", "日本語", "шина", "مرحبا", "🙂", "a – b × c", "½ µs"]
        {
            assert_eq!(Name::from(seen).as_str(), seen);
            assert_eq!(make_printable(seen), seen);
        }
    }

    #[test]
    fn lines_and_tabs_stay_and_nothing_else_moves_the_cursor() {
        assert_eq!(make_printable("a\tb\nc\n"), "a\tb\nc\n");
        assert_eq!(
            make_printable("a\rb\x08\x7f\x1b]0;x\x07"),
            "a\\u{d}b\\u{8}\\u{7f}\\u{1b}]0;x\\u{7}"
        );
    }
}
