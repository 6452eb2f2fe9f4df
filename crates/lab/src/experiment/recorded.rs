// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of evidence → the experiment and its raw runs, to be judged again.
//!
//! The program writes the folder: `experiment.json` before the first run, a line of `runs.jsonl` after
//! each, `summary.json` at the end. What was killed has no summary and perhaps half a last line.

use std::fs;
use std::path::Path;

use pagewise_model::TrialRun;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Experiment;
use crate::error::{At, Error};

/// The file that says what was run.
pub const EXPERIMENT: &str = "experiment.json";
/// The file with a line for each run.
pub const RUNS: &str = "runs.jsonl";
/// The file that says what was found.
pub const SUMMARY: &str = "summary.json";

/// What `experiment.json` begins with.
const SCHEMA: &str = "pagewise/experiment/1";

/// What was run, by what, on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Which document this is.
    pub schema: String,
    /// The version of the program.
    pub pagewise: String,
    /// The machine, as in other documents.
    pub machine: Value,
    /// Where the experiment came from: its file and the command line; nothing for a trial.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub source: Value,
    /// What was to be found out.
    pub experiment: Experiment,
}

impl Described {
    /// By this program.
    #[must_use]
    pub fn new(experiment: Experiment, machine: Value) -> Self {
        let pagewise = env!("CARGO_PKG_VERSION").to_owned();
        let (schema, source) = (SCHEMA.to_owned(), Value::Null);
        Self { schema, pagewise, machine, source, experiment }
    }
}

/// A folder that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its name; a trial has none.
    pub name: Option<String>,
    /// What was run.
    pub experiment: Experiment,
    /// Its runs.
    pub runs: Vec<TrialRun>,
    /// What was said of them, where it came to that.
    pub summary: Option<Value>,
}

impl Recorded {
    /// Reads a folder.
    ///
    /// # Errors
    /// Where a file is missing, or is not as this program writes it.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let described: Described = parsed(&folder.join(EXPERIMENT))?;
        if described.schema != SCHEMA {
            let what = format!("expected {SCHEMA}, found {:?}", described.schema);
            return Err(Error::Unusable { path: folder.join(EXPERIMENT), what });
        }
        let name = described.source["experiment"].as_str().map(str::to_owned);
        let experiment = described.experiment;
        if let Err(what) = experiment.check() {
            return Err(Error::Unusable { path: folder.join(EXPERIMENT), what });
        }
        let runs = runs(&folder.join(RUNS))?;
        let summary = folder.join(SUMMARY);
        let summary = summary.exists().then(|| parsed(&summary)).transpose()?;
        Ok(Self { name, experiment, runs, summary })
    }

    /// What the summary says otherwise than `found`, by key; nothing where it says the same.
    #[must_use]
    pub fn differences(&self, found: &impl Serialize) -> Vec<String> {
        let Some(Value::Object(said)) = &self.summary else { return Vec::new() };
        // through text, as the summary went: who reads a number may lose its last digit
        let text = serde_json::to_string(found).unwrap_or_default();
        let Ok(Value::Object(found)) = serde_json::from_str(&text) else { return Vec::new() };
        // summaries of earlier versions do not name the clock: it was a real one
        let is_old = |key: &str, value: &Value| key == "clock" && *value == "real";
        let differs = |(key, value): &(&String, &Value)| match said.get(*key) {
            Some(said) => said != *value,
            None => !is_old(key, value),
        };
        found.iter().filter(differs).map(|(key, _)| key.clone()).collect()
    }
}

fn parsed<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).at(path)?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::Unusable { path: path.to_owned(), what: error.to_string() })
}

/// A last line without an end was being written when the writer was killed.
fn runs(path: &Path) -> Result<Vec<TrialRun>, Error> {
    let text = fs::read_to_string(path).at(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let run = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| Error::Unusable {
            path: path.to_owned(),
            what: format!("line {}: {error}", at + 1),
        })
    };
    whole.lines().enumerate().map(run).collect()
}
