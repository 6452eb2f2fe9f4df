// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/etc/pagewise/doctor.toml` → which findings an operator does not want to hear about.
//!
//! ```toml
//! ignore = ["cgroup-v1-limits", "zram-oversized"]
//! min_severity = "critical"
//! ```
//!
//! Both keys are optional. A key, an id or a severity that there is not is an error: a word that was
//! mistyped must not silence anything or, worse, seem to.

use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use pagewise_decide::RULES;
use pagewise_model::most_similar;
use serde::Deserialize;

use crate::cli::Severity;
use crate::trouble::Advised;

/// Read where no other file is named.
pub(crate) const FILE: &str = "/etc/pagewise/doctor.toml";
/// Such a file has a few lines.
const LONGEST: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    /// Rules whose findings are left out.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// Findings that matter less are not shown.
    #[serde(default)]
    pub(crate) min_severity: Option<Severity>,
}

/// The named file, which must be there, or the usual one, which need not.
pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Accepted> {
    let path = named.unwrap_or(Path::new(FILE));
    match read_text(path) {
        Ok(text) => parse(&text).with_context(|| path.display().to_string()),
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {
            Ok(Accepted::default())
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the program's own settings, not the host's")]
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if read as u64 > LONGEST {
        return Err(std::io::Error::other("larger than 64 KiB, which no such file is"));
    }
    Ok(text)
}

fn parse(text: &str) -> anyhow::Result<Accepted> {
    let accepted: Accepted = toml::from_str(text).map_err(|error| {
        let what = error.to_string().trim_end().to_owned();
        Advised { what, next: "it may have ignore = [\"ID\", …] and min_severity = \"warning\"" }
    })?;
    match accepted.ignore.iter().find(|id| !is_rule(id)) {
        Some(unknown) => Err(no_such_rule(unknown).into()),
        None => Ok(accepted),
    }
}

fn is_rule(id: &str) -> bool {
    RULES.iter().any(|rule| rule.id == id)
}

fn no_such_rule(id: &str) -> Advised {
    let near = most_similar(id, RULES.iter().map(|rule| rule.id));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Advised { what: format!("no rule {id:?} is known{hint}"), next: "pagewise doctor --list" }
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
        assert!(refused("ignores = []").contains("unknown field `ignores`"));
        assert!(refused("min_severity = \"grave\"").contains("expected one of"));
        assert!(refused("ignore = \"zram-full\"").contains("line 1"));
    }

    #[test]
    fn only_a_file_that_was_named_must_be_there() {
        let missing = Path::new("/nonexistent/doctor.toml");
        let error = format!("{:#}", read(Some(missing)).unwrap_err());
        assert!(error.starts_with("/nonexistent/doctor.toml: "), "{error}");
        assert!(read(Some(Path::new("/dev/zero"))).is_err());
    }
}
