// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a file of zram-generator in the same way as zram-generator, and finds the error because
//! of which zram-generator rejects the file.
//!
//! The grammar is that of the crate rust-ini 0.15 to 0.21. That crate is not used, because its
//! errors do not contain the line, and because it depends on a macro that makes builds
//! irreproducible. Some parts of the grammar are surprising: a comment must begin in the first
//! column; `zram-size = 5 # text` has the value `5 # text`; a name ends at the next `=` or `:`,
//! even some lines later, so that a stray line becomes a part of the name below it; and any error
//! makes zram-generator set up no device at all, whichever of its files contains the error.
//!
//! Values are checked like in `parse_line` of zram-generator 1.1 and 1.2. Sizes are parsed and
//! evaluated with the crate fasteval, which zram-generator uses.

use std::collections::BTreeMap;

use fasteval::Evaler;

/// One assignment of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the section, without brackets; `None` before the first section.
    pub section: Option<String>,
    /// Name of the option. It contains line breaks if lines before it have no `=`.
    pub key: String,
    /// Value of the option, without quotes.
    pub value: String,
    /// Number of the line that contains the `=`, counted from 1.
    pub line: usize,
}

/// The first error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Number of the line that must be corrected, counted from 1.
    pub line: usize,
    /// What zram-generator does not accept.
    pub what: &'static str,
}

/// Parses a whole file.
///
/// # Errors
///
/// At the first place that zram-generator cannot parse.
pub fn parse(text: &[u8]) -> Result<Vec<Assignment>, SyntaxError> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        SyntaxError { line, what: "the line is not UTF-8" }
    })?;
    Parser { rest: text.chars(), at: None, line: 1, column: 0 }.parse()
}

struct Parser<'a> {
    rest: std::str::Chars<'a>,
    /// The current character; `None` at the end of the text.
    at: Option<char>,
    line: usize,
    column: usize,
}

const STRAY: &str = "the line has no =";
const UNCLOSED: &str = "a quote is not closed";

impl Parser<'_> {
    fn advance(&mut self) {
        if self.at == Some('\n') {
            self.line += 1;
            self.column = 0;
        }
        self.at = self.rest.next();
        self.column += 1;
    }

    fn error<T>(line: usize, what: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { line, what })
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.at.is_some_and(&is_skipped) {
            self.advance();
        }
    }

    fn parse(mut self) -> Result<Vec<Assignment>, SyntaxError> {
        let (mut all, mut section, mut key) = (Vec::new(), None, String::new());
        self.advance();
        self.skip_while(char::is_whitespace);
        while let Some(first) = self.at {
            let line = self.line;
            match first {
                '#' | ';' if self.column > 1 => {
                    let what = "a comment must begin in the first column of its line";
                    return Self::error(line, what);
                }
                '#' | ';' => self.skip_while(|c| c != '\n'),
                '[' => {
                    self.advance();
                    let name = self.read_until(&[Some(']')], line, "the section has no ]")?;
                    self.advance();
                    section = Some(name.trim().to_owned());
                }
                '=' | ':' if key.is_empty() => {
                    return Self::error(line, "there is no name before the =");
                }
                '=' | ':' => {
                    self.advance();
                    let value = self.value()?.trim().to_owned();
                    let key = std::mem::take(&mut key);
                    all.push(Assignment { section: section.clone(), key, value, line });
                }
                _ => {
                    self.trim_key(&mut key, line)?;
                }
            }
            self.skip_while(char::is_whitespace);
        }
        Ok(all)
    }

    fn trim_key(&mut self, key: &mut String, line: usize) -> Result<(), SyntaxError> {
        let name = self.read_until(&[Some('='), Some(':')], line, STRAY)?;
        name.trim().clone_into(key);
        Ok(())
    }

    fn value(&mut self) -> Result<String, SyntaxError> {
        self.skip_while(|c| c.is_whitespace() && c != '\n' && c != '\r');
        let (line, eol) = (self.line, [Some('\n'), Some('\r'), None]);
        let quote = self.at.filter(|c| matches!(c, '"' | '\''));
        let mut value = String::new();
        if quote.is_some() {
            self.advance();
            value = self.read_until(&[quote], line, UNCLOSED)?;
            self.advance();
        }
        value.push_str(&self.read_until(&eol, line, UNCLOSED)?);
        Ok(value)
    }

    /// Returns the text up to one of these characters, which is not consumed. An error contains the
    /// number of the line in which the text begins.
    fn read_until(
        &mut self,
        ends: &[Option<char>],
        began: usize,
        what: &'static str,
    ) -> Result<String, SyntaxError> {
        let mut text = String::new();
        while !ends.contains(&self.at) {
            match self.at {
                None => return Self::error(began, what),
                Some('\\') => {
                    self.advance();
                    self.escape(&mut text)?;
                }
                Some(c) => text.push(c),
            }
            self.advance();
        }
        Ok(text)
    }

    fn escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let line = self.line;
        match self.at {
            None => return Self::error(line, "a \\ stands at the end of the file"),
            Some('0') => text.push('\0'),
            Some('a') => text.push('\x07'),
            Some('b') => text.push('\x08'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some('\n') => {}
            Some('x') => {
                let mut digits = String::new();
                for _ in 0..4 {
                    self.advance();
                    digits.extend(self.at);
                }
                match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                    Some(c) if digits.len() == 4 => text.push(c),
                    _ => {
                        return Self::error(
                            line,
                            "\\x must be followed by four hexadecimal digits",
                        );
                    }
                }
            }
            Some(other) => text.push(other),
        }
        Ok(())
    }
}

/// Returns why zram-generator rejects a value, and therefore all its files; `None` if it accepts
/// the value.
///
/// `ram` is the size of RAM in MiB, if it is known. `variables` says whether there is a line
/// `set!…`: such lines define names from the output of commands, so that an unknown name is not an
/// error.
#[must_use]
pub fn explain_rejected_value(
    key: &str,
    value: &str,
    ram: Option<f64>,
    variables: bool,
) -> Option<&'static str> {
    let is_size_or_none = || value == "none" || value.parse::<u64>().is_ok();
    let is_path = || value.starts_with('/') && !value.split('/').any(|part| part == "..");
    let priority = || value.parse::<i32>().is_ok_and(|it| (-1..=0x7fff).contains(&it));
    let (is_accepted, why) = match key {
        "zram-size" | "zram-resident-limit" => return explain_rejected_size(value, ram, variables),
        "host-memory-limit" | "memory-limit" | "max-zram-size" => {
            (is_size_or_none(), "the value must be a number of MiB or none")
        }
        "swap-priority" => (priority(), "the value must be a number from -1 to 32767"),
        "writeback-device" | "mount-point" => {
            (is_path(), "the value must be an absolute path without ..")
        }
        "zram-fraction" => (
            value.parse::<f64>().is_ok_and(|it| it >= 0.0),
            "the value must be a number that is not negative",
        ),
        _ => return None,
    };
    (!is_accepted).then_some(why)
}

const EXPRESSION: &str = "the value is no expression that zram-generator can evaluate";

fn explain_rejected_size(value: &str, ram: Option<f64>, variables: bool) -> Option<&'static str> {
    let mut slab = fasteval::Slab::new();
    let Ok(parsed) = fasteval::Parser::new().parse_noclear(value, &mut slab.ps) else {
        return Some(EXPRESSION);
    };
    // if fasteval evaluates the function `print`, it writes to standard error
    if value.contains("print") {
        return None;
    }
    let mut names: BTreeMap<String, f64> = BTreeMap::new();
    names.insert("ram".to_owned(), ram.unwrap_or(1024.0));
    match parsed.from(&slab.ps).eval(&slab, &mut names) {
        Err(fasteval::Error::Undefined(_)) if variables => None,
        Err(_) => Some(EXPRESSION),
        // zram-generator checks `size >= 0`, which is false for NaN, too
        Ok(size) if ram.is_some() && (size < 0.0 || size.is_nan()) => Some("the size is negative"),
        Ok(_) => None,
    }
}

/// Returns the line without the comment at its end, which the writer probably intended. `None` if
/// that would not correct the line.
#[must_use]
pub fn remove_comment(line: &str) -> Option<&str> {
    let at = line.find([' ', '\t']).and_then(|_| {
        line.char_indices()
            .filter(|(_, c)| matches!(c, '#' | ';'))
            .map(|(at, _)| at)
            .find(|&at| at > 0 && line[..at].ends_with([' ', '\t']))
    })?;
    let mended = line[..at].trim_end();
    (!mended.trim().is_empty()).then_some(mended)
}

#[cfg(test)]
#[path = "../tests/grammar/generator_file.rs"]
mod tests;
