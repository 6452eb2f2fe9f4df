// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/etc/pagewise/doctor.toml`, which lists the findings that `doctor` leaves out on this
//! machine.
//!
//! ```toml
//! ignore = ["mglru-off", "zram-oversized"]
//! min_severity = "critical"
//! ```
//!
//! Both keys are optional. An unknown key, rule ID or severity is an error: a mistyped word must
//! neither hide a finding nor silently have no effect.

use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use pagewise_model::{Refusal, most_similar};
use pagewise_observe::UserFile;
use toml::{Table, Value};

use crate::cli::Severity;

/// The configuration file if the command line names no other.
pub(crate) const FILE: &str = "/etc/pagewise/doctor.toml";
/// Maximum size of the configuration file in bytes; such a file usually has a few lines.
const LONGEST: u64 = 64 << 10;

/// What `doctor` leaves out, as read from the configuration file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Accepted {
    /// IDs of the rules whose findings are left out.
    pub(crate) ignore: Vec<String>,
    /// Findings of a lower severity than this are not shown.
    pub(crate) min_severity: Option<Severity>,
}

/// Reads the configuration from `named`, which must exist; if no file is named, from [`FILE`],
/// which may be missing.
pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Accepted> {
    let path = named.unwrap_or(Path::new(FILE));
    match UserFile::open(path, LONGEST).and_then(UserFile::into_text) {
        Ok(text) => parse(&text).with_context(|| path.display().to_string()),
        Err(error) if named.is_none() && error.is_missing() => Ok(Accepted::default()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn parse(text: &str) -> anyhow::Result<Accepted> {
    // the message does not quote the line: root can name any file here, even one with secrets
    let table: Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        config_error(&format!("line {line}: {}", error.message().trim_end().replace('\n', "; ")))
    })?;
    let mut accepted = Accepted::default();
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("ignore", Value::Array(ids)) => accepted.ignore = parse_rules(ids)?,
            ("min_severity", Value::String(word)) => {
                accepted.min_severity = Some(parse_severity(word)?);
            }
            ("ignore", other) => {
                return Err(config_error(&format!(
                    "ignore: expected a list of ids, found {other}"
                )));
            }
            ("min_severity", other) => {
                return Err(config_error(&format!("min_severity: expected a word, found {other}")));
            }
            (other, _) => return Err(config_error(&describe_unknown_word("key", other, KEYS))),
        }
    }
    Ok(accepted)
}

const KEYS: [&str; 2] = ["ignore", "min_severity"];

fn parse_rules(ids: &[Value]) -> anyhow::Result<Vec<String>> {
    let rule = |id: &Value| match id.as_str() {
        Some(id) if is_rule(id) => Ok(id.to_owned()),
        Some(unknown) => {
            let what =
                describe_unknown_word("rule", unknown, pagewise_decide::rules().map(|(id, _)| id));
            Err(Refusal::with_advice(what, "pagewise doctor --list").into())
        }
        None => Err(config_error(&format!("ignore: expected ids in quotes, found {id}"))),
    };
    ids.iter().map(rule).collect()
}

fn parse_severity(word: &str) -> anyhow::Result<Severity> {
    let known = Severity::from_str(word, false);
    known.map_err(|_| {
        config_error(&format!("min_severity: expected info, warning or critical, found {word:?}"))
    })
}

fn config_error(what: &str) -> anyhow::Error {
    let next = "it may have ignore = [\"ID\", …] and min_severity = \"warning\"";
    Refusal::with_advice(what.trim_end().to_owned(), next).into()
}

fn describe_unknown_word<'a>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let near = most_similar(word, known);
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("no {kind} {word:?} is known{hint}")
}

fn is_rule(id: &str) -> bool {
    pagewise_decide::rules().any(|(rule, _)| rule == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_are_optional() {
        assert_eq!(parse("").unwrap(), Accepted::default());
        let both = parse("ignore = [\"zram-full\"]\nmin_severity = \"critical\"\n").unwrap();
        assert_eq!(both.ignore, ["zram-full"]);
        assert_eq!(both.min_severity, Some(Severity::Critical));
    }

    #[test]
    fn what_there_is_not_is_refused_by_name() {
        let refused = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert_eq!(
            refused("ignore = [\"zram-ful\"]"),
            "no rule \"zram-ful\" is known; did you mean zram-full?"
        );
        assert_eq!(refused("ignores = []"), "no key \"ignores\" is known; did you mean ignore?");
        assert!(refused("min_severity = \"grave\"").contains("expected info, warning or critical"));
        assert!(refused("min_severity = 3").contains("expected a word, found 3"));
        assert!(refused("ignore = \"zram-full\"").contains("expected a list of ids"));
        assert!(refused("ignore = [7]").contains("ids in quotes, found 7"));
        assert!(refused("ignore = [").contains("line 1"));
    }

    #[test]
    fn only_a_file_that_was_named_must_be_there() {
        let missing = Path::new("/nonexistent/doctor.toml");
        let error = format!("{:#}", read(Some(missing)).unwrap_err());
        assert!(error.starts_with("/nonexistent/doctor.toml: "), "{error}");
        assert!(read(Some(Path::new("/dev/zero"))).is_err());
    }
}
