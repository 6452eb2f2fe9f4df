// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the plan file that the user named.

use std::path::Path;

use pagewise_model::plan::Plan;
use pagewise_model::{Name, Refusal};
use pagewise_observe::UserFile;
use serde_json::Value;

/// Maximum size of a plan's document in bytes; a plan that writes two hundred files has half of it.
const LONGEST: u64 = 16 << 20;
/// Maximum number of values in a plan's document; two hundred steps have a tenth.
const MOST_VALUES: usize = 50_000;
const SCHEMA: &str = "pagewise/plan/1";

/// Reads a plan: the document of `pagewise plan --json`.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    let text = UserFile::open(path, LONGEST)?.into_json(MOST_VALUES)?;
    let wrong = |why: String| {
        let what = format!("{}: {why}", Name::from(path.display().to_string().as_str()));
        Refusal::with_advice(what, "`pagewise plan --json` prints a plan")
    };
    Ok(parse(&text).map_err(wrong)?)
}

/// Parses the document of a plan.
///
/// # Errors
/// A description of what is wrong.
pub(crate) fn parse(text: &str) -> Result<Plan, String> {
    let document: Value =
        serde_json::from_str(text).map_err(|error| format!("expected a plan as JSON: {error}"))?;
    match document.get("schema") {
        None => {}
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(other) => {
            let other = other.to_string();
            let found = Name::from(other.as_str());
            return Err(format!("expected a document {SCHEMA}, found {found}"));
        }
    }
    serde_json::from_value(document).map_err(|error| {
        let error = error.to_string();
        format!("expected a plan: {}", Name::from(error.as_str()))
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files that are read")]
mod tests {
    use super::*;

    #[test]
    fn the_plan_among_the_examples_is_read() {
        let text = include_str!("../../../../../examples/plan-zram.json");
        assert!(!parse(text).unwrap().steps.is_empty());
    }

    fn refusal(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        std::fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_with_more_values_than_any_is_not_parsed() {
        let text = format!(r#"{{"steps":[{}0]}}"#, "{\"a\":0},".repeat(MOST_VALUES));
        let error = refusal(&text);
        assert!(error.contains("at most 50000 values"), "{error}");
    }

    #[test]
    fn what_is_no_plan_is_refused_by_what_it_is() {
        assert!(refusal("{").contains("expected a plan as JSON"));
        assert!(refusal(r#"{"schema":"pagewise/bench/1"}"#).contains("found \"pagewise/bench/1\""));
        let error = refusal(r#"{"schema":"pagewise/plan/1"}"#);
        assert!(error.contains("missing field `id`"), "{error}");
        let steps = r#"{"id":"0","goal":"balanced","machine":{},"declined":[],"steps":[{
            "id":"a","reason":"","risk":"","coupled":[],"needs":[],"undo":{"how":"restore","what":""},
            "survives_reboot":false,"action":"format-disk","target":"/dev/sda"}]}"#;
        let error = refusal(steps);
        assert!(error.contains("format-disk"), "{error}");
    }
}
