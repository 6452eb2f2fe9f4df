// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which values a recording may contain: numbers, sizes, and words that the kernel, systemd
//! or zram-generator defines. Other words may be names that people chose.

use pagewise_model::knob::{Domain, KNOBS};

/// Words that a recording may contain in addition to those in the table of settings.
const WORDS: [&str; 36] = [
    "y", "n", "on", "off", "yes", "no", "true", "false", "max", "infinity", "none", "default",
    "lzo", "lzo-rle", "lz4", "lz4hc", "zstd", "deflate", "842", "zbud", "z3fold", "zsmalloc",
    "level", "kill", "continue", "stop", "disable", "system", "inherit", "madvise", "ram", "min",
    "int", "ceil", "floor", "round",
];

/// Whether a value consists only of numbers, sizes and known words.
#[must_use]
pub fn is_plain(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let separates = |c: char| c.is_ascii_whitespace() || "()=,;:/*^|".contains(c);
    value.len() <= 200 && text.split(separates).all(|word| is_size(word) || is_known(word))
}

/// Whether a word is a number or size, such as `-1`, `0x7`, `4G`, `512MiB` or `50%`, or empty.
fn is_size(word: &str) -> bool {
    let number = word.trim_start_matches(['-', '+']);
    if let Some(digits) = number.strip_prefix("0x") {
        return digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let unit = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_unit =
        unit.is_empty() || unit.len() <= 3 && unit.trim_end_matches(['i', 'B']).len() <= 1;
    let has_digits = unit.len() < number.len();
    word.is_empty()
        || has_digits && is_unit && unit.bytes().all(|byte| b"KMGTkmgtiB%".contains(&byte))
}

fn is_known(word: &str) -> bool {
    let is_of_knob =
        |domain: Domain| matches!(domain, Domain::Word { words } if words.contains(&word));
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
        || KNOBS.iter().any(|knob| is_of_knob(knob.domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_known_words_are_plain_and_names_are_not() {
        for plain in [
            "1",
            "-2",
            "4G",
            "512MiB",
            "50%",
            "0x0007",
            "always",
            "defer+madvise",
            "zstd(level=3) lz4",
            "min(ram / 2, 4096)",
            "Y",
            "infinity",
            "256 256 32",
            "",
        ] {
            assert!(is_plain(plain.as_bytes()), "{plain}");
        }
        for other in
            ["bob", "/home/bob", "1bob", "zstd(dict=/bob)", "always bob", "0xbobby", "caf\u{e9}"]
        {
            assert!(!is_plain(other.as_bytes()), "{other}");
        }
    }
}
