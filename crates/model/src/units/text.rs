// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsers for the kernel's text files: lines, words, numbers, sizes and flags.
//!
//! Text is handled as bytes, because names in it need not be UTF-8. The meaning of a file's
//! contents is known to its reader, not to this module.

use crate::Bytes;

/// Splits text into lines, including the part after the last line break. It does not use `split`,
/// which compares byte by byte and took half of Pagewise's own time for reading `/proc/PID/status`.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]);
    let mut begin = 0;
    ends.filter_map(move |end| bytes.get(std::mem::replace(&mut begin, end + 1)..end))
}

/// Splits text into words at white space.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Parses a whole number in plain digits, with a sign if the type allows one. Returns `None` for
/// other text and if the number does not fit the type.
pub fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    let plain = word.first().is_some_and(|&first| first.is_ascii_digit() || first == b'-');
    std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok()
}

/// Parses a size such as `12 kB`, which means KiB.
pub fn kib(text: &[u8]) -> Option<Bytes> {
    number(text.strip_suffix(b"kB")?.trim_ascii()).and_then(Bytes::from_kib)
}

/// Parses a switch: `1`, `Y`, `true` or `0`, `N`, `false`, in any case.
pub fn flag(word: &[u8]) -> Option<bool> {
    let is_one_of =
        |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()));
    if is_one_of(&["1", "y", "true"]) {
        Some(true)
    } else if is_one_of(&["0", "n", "false"]) {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_plain_digits_that_fit() {
        assert_eq!(number::<u64>(b"42"), Some(42));
        assert_eq!(number::<i64>(b"-2"), Some(-2));
        for bad in [&b"+42"[..], b"", b"4 2", b"0x2a", b"99999999999999999999999999999999", b"\xff"]
        {
            assert_eq!(number::<u64>(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_kib_with_their_unit() {
        assert_eq!(kib(b"12 kB"), Bytes::from_kib(12));
        for bad in [&b"12"[..], b"kB", b"12 KB", b"-1 kB", b"18446744073709551615 kB"] {
            assert_eq!(kib(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_are_what_stands_between_line_breaks(bytes in "[a \n]{0,40}") {
            prop_assert!(lines(bytes.as_bytes()).eq(bytes.split('\n').map(str::as_bytes)));
        }
    }
}
