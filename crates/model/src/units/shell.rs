// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quotes words for commands that a person pastes into a shell.

/// Quotes a word so that a POSIX shell takes it literally.
pub fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_the_shell_whatever_is_in_it() {
        assert_eq!(quote_for_shell("/dev/zram0"), "/dev/zram0");
        assert_eq!(quote_for_shell("/my swap; rm -rf /"), "'/my swap; rm -rf /'");
        assert_eq!(quote_for_shell("it's"), r"'it'\''s'");
        assert_eq!(quote_for_shell(""), "''");
    }
}
