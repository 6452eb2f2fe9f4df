// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the text of an experiment into its parts, each with its line number.
//!
//! Only errors that the text alone shows are reported here: wrong keys, units and words.
//! [`super::cells`] checks how the parts fit together.

use std::collections::BTreeMap;

use pagewise_stats::USUAL_PAIRS;
use pagewise_workload::Size;
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::area::Area;
use super::quantity::{Share, Time};

/// An error in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}{}: {what}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct FileError {
    /// Path of the file, or name of a built-in experiment.
    pub name: String,
    /// Number of the line with the error, from 1.
    pub line: Option<usize>,
    /// What was expected and what was found.
    pub what: String,
}

/// An experiment as written in its file.
#[derive(Debug, Clone)]
pub struct File {
    /// Name of the experiment: the file name without `.toml`.
    pub name: String,
    /// The whole text of the file, which is copied into the evidence.
    pub text: String,
    /// Name of the file in error messages.
    pub(super) place: String,
    pub(super) parts: Parts,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parts {
    pub(super) about: String,
    #[serde(default)]
    pub(super) claim: Option<String>,
    pub(super) workload: Spanned<Table>,
    #[serde(default)]
    pub(super) neighbour: Option<Spanned<Table>>,
    #[serde(default)]
    pub(super) machine: Option<Spanned<Machine>>,
    pub(super) measure: Spanned<Measure>,
    #[serde(default, rename = "arm")]
    pub(super) arms: Vec<Spanned<Arm>>,
}

/// Where an experiment runs by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultRunner {
    /// On this host, with borrowed settings.
    #[default]
    Host,
    /// In guests that are started for the experiment.
    Guest,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) limit: Option<Size>,
    pub(super) memory: Vec<Size>,
    pub(super) kernels: Vec<String>,
    pub(super) cpus: Option<u32>,
    pub(super) count: bool,
    pub(super) disk: Option<Size>,
    pub(super) runner: DefaultRunner,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    pub(super) primary: String,
    #[serde(default)]
    pub(super) guards: Vec<String>,
    #[serde(default)]
    pub(super) higher_is_better: bool,
    #[serde(default = "usual_pairs")]
    pub(super) pairs: u32,
    #[serde(default = "usual_effect")]
    pub(super) min_effect: Share,
    #[serde(default = "usual_warm_up")]
    pub(super) warm_up: u32,
    #[serde(default = "usual_deadline")]
    pub(super) deadline: Time,
    #[serde(default)]
    pub(super) profile: bool,
    #[serde(default)]
    pub(super) from: Option<String>,
}

fn usual_pairs() -> u32 {
    USUAL_PAIRS
}

fn usual_effect() -> Share {
    Share(0.02)
}

fn usual_warm_up() -> u32 {
    1
}

fn usual_deadline() -> Time {
    Time(std::time::Duration::from_secs(600))
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arm {
    pub(super) name: String,
    /// Swap areas of the arm. `None`: the machine's own swap; empty: no swap.
    #[serde(default)]
    pub(super) swap: Option<Vec<Area>>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, Word>,
    #[serde(default)]
    pub(super) workload: Table,
    #[serde(default)]
    pub(super) preview: bool,
}

/// The value of a setting, which is passed to the kernel as text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a number, true, false or text")]
pub(super) enum Word {
    Number(i64),
    Truth(bool),
    Text(String),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Truth(truth) => u8::from(*truth).fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl File {
    /// Parses an experiment; errors name it as `place`.
    ///
    /// # Errors
    /// What is wrong in the text, and in which line.
    pub fn read(name: &str, place: &str, text: &str) -> Result<Self, FileError> {
        let parts: Parts = toml::from_str(text).map_err(|error| FileError {
            name: place.to_owned(),
            line: error.span().map(|span| line_number(text, span.start)),
            what: error.message().trim_end().replace('\n', "; "),
        })?;
        let (name, place, text) = (name.to_owned(), place.to_owned(), text.to_owned());
        Ok(Self { name, text, place, parts })
    }

    /// The question that the experiment answers.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.parts.about
    }

    /// The published claim that the experiment tests, if any.
    #[must_use]
    pub fn claim(&self) -> Option<&str> {
        self.parts.claim.as_deref()
    }

    /// Name of the file in error messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Makes an error at the line of `part`.
    pub(super) fn error_at<T>(&self, part: &Spanned<T>, what: impl Into<String>) -> FileError {
        let line = Some(line_number(&self.text, part.span().start));
        FileError { name: self.place.clone(), line, what: what.into() }
    }

    /// Makes an error of the file that belongs to no single line.
    pub(super) fn error_in_file(&self, what: impl Into<String>) -> FileError {
        FileError { name: self.place.clone(), line: None, what: what.into() }
    }
}

/// The line number of an offset in a text, from 1.
fn line_number(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Parses `KEY=VALUE` as an entry of a table: a number or boolean if it reads as one, otherwise
/// text.
pub(super) fn parse_setting(text: &str) -> Result<(String, Value), String> {
    let wrong = || format!("expected workload.KEY=VALUE, found {text:?}");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let key = key.strip_prefix("workload.").filter(|key| !key.is_empty()).ok_or_else(wrong)?;
    let plain = toml::from_str::<Table>(&format!("value = {value}"));
    let parsed = plain.ok().filter(|table| table.len() == 1);
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    Ok((key.to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}
