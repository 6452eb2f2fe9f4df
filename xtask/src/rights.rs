// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates the `clippy.toml` of the workspace, and of each crate that has its own, from
//! `xtask/rights.toml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::run;

/// For each right that a crate does not have, the reason; `note` is a sentence for the head of the
/// file.
type Reasons = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rights: BTreeMap<String, Vec<String>>,
    workspace: Reasons,
    crates: BTreeMap<String, Reasons>,
}

impl Table {
    fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text)?;
        for (name, reasons) in table.crates.iter().chain([(&"workspace".into(), &table.workspace)])
        {
            for right in reasons.keys().filter(|key| *key != NOTE) {
                ensure!(table.rights.contains_key(right), "{name}: {right:?} is no right");
            }
        }
        Ok(table)
    }

    /// Makes the text of a `clippy.toml`.
    fn render(&self, reasons: &Reasons) -> String {
        let mut text = "# Made by `cargo xtask rights --write` of xtask/rights.toml.\n".to_owned();
        for line in reasons.get(NOTE).iter().flat_map(|note| textwrap::wrap(note, WIDTH)) {
            let _ = writeln!(text, "# {line}");
        }
        text.push_str("allow-unwrap-in-tests = true\nallow-print-in-tests = true\n");
        for (list, of_types) in [("disallowed-methods", false), ("disallowed-types", true)] {
            let mut rows = String::new();
            for (right, paths) in
                self.rights.iter().filter(|(right, _)| (*right == TYPES) == of_types)
            {
                let Some(reason) = reasons.get(right) else { continue };
                for path in paths {
                    let _ = writeln!(rows, "    {{ path = {path:?}, reason = {reason:?} }},");
                }
            }
            if !rows.is_empty() {
                let _ = write!(text, "{list} = [\n{rows}]\n");
            }
        }
        text
    }
}

const NOTE: &str = "note";
/// Name of the right that is about types; the other rights are about calls.
const TYPES: &str = "judge";
/// Maximum number of columns of a comment in a generated file.
const WIDTH: usize = 110;

/// Writes the `clippy.toml` files; without `write`, fails if one of them differs.
pub(crate) fn main(write: bool) -> Result<()> {
    let project = run::project();
    let path = project.join("xtask/rights.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let table = Table::parse(&text).with_context(|| path.display().to_string())?;
    let of_crates =
        table.crates.iter().map(|(name, reasons)| (format!("crates/{name}/clippy.toml"), reasons));
    let all = of_crates.chain([("clippy.toml".to_owned(), &table.workspace)]);
    let mut differ = Vec::new();
    for (name, reasons) in all {
        let (place, text) = (project.join(&name), table.render(reasons));
        if write {
            fs::write(&place, text).with_context(|| place.display().to_string())?;
        } else if fs::read_to_string(&place).ok().as_ref() != Some(&text) {
            differ.push(name);
        }
    }
    ensure!(
        differ.is_empty(),
        "not what xtask/rights.toml says; `cargo xtask rights --write` makes them: {}",
        differ.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "[rights]\nread = [\"std::fs::read\"]\njudge = [\"a::Level\"]\n[workspace]\nread = \"x\"\n\
        [crates.facts]\nnote = \"Pure.\"\nread = \"no\"\njudge = \"decide does\"\n";

    #[test]
    fn a_crate_gets_its_calls_and_types_with_reasons() {
        let table = Table::parse(TABLE).unwrap();
        let text = table.render(&table.crates["facts"]);
        let rows = "disallowed-methods = [\n    { path = \"std::fs::read\", reason = \"no\" },\n]\n\
            disallowed-types = [\n    { path = \"a::Level\", reason = \"decide does\" },\n]\n";
        assert!(text.ends_with(rows) && text.contains("\n# Pure.\n"), "{text}");
        assert!(!table.render(&table.workspace).contains("disallowed-types"));
    }

    #[test]
    fn an_unknown_right_is_refused() {
        let error = Table::parse(&TABLE.replace("read = \"no\"", "raed = \"no\"")).unwrap_err();
        assert_eq!(error.to_string(), "facts: \"raed\" is no right");
    }
}
