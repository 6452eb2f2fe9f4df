// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quotes texts for the formats of other tools.

use std::fmt::Write;

/// A string of JSON, YAML (double-quoted) and TOML (basic string) alike: the escapes that JSON needs mean
/// the same in all three, and characters that YAML or TOML do not permit are escaped as well.
pub(super) fn quote_string(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            other if is_printable(other) => out.push(other),
            other => {
                // JSON and YAML 1.2 read a pair of surrogates differently, so only the first plane is
                // escaped; beyond it all characters are printable in YAML.
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
        }
    }
    out + "\""
}

/// Whether the character may stand in a quoted text of YAML, JSON and TOML as it is.
fn is_printable(letter: char) -> bool {
    let is_break = matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    !letter.is_control() && !is_break
}

/// A text as the value of a YAML key that is indented by `indent` spaces: lines as they are if YAML can
/// hold them so, otherwise a string.
pub(super) fn yaml_block(text: &str, indent: usize) -> String {
    let is_plain = |line: &str| line.chars().all(|it| it == ' ' || it.is_ascii_graphic());
    let body = text.strip_suffix('\n').unwrap_or_default();
    let starts_plain = body.starts_with(|first: char| first.is_ascii_graphic());
    if !starts_plain || body.ends_with('\n') || !body.split('\n').all(is_plain) {
        return format!("{}\n", quote_string(text));
    }
    let mut out = String::from("|\n");
    for line in body.split('\n') {
        if !line.is_empty() {
            out += &" ".repeat(indent);
            out += line;
        }
        out.push('\n');
    }
    out
}

/// A list of YAML in one line.
pub(super) fn yaml_list(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote_string(word)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A string of Nix.
pub(super) fn quote_nix(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace("${", "\\${")
        .replace('\n', "\\n")
        .replace('\r', "\\r");
    format!("\"{escaped}\"")
}

/// A comment that ends with its line, in every format with `#`, folded to 100 columns.
pub(super) fn format_comment(text: &str) -> String {
    let plain: String = text.chars().map(|it| if is_printable(it) { it } else { '?' }).collect();
    let lines = textwrap::wrap(&plain, 98);
    lines.iter().map(|line| format!("# {line}\n")).collect()
}
