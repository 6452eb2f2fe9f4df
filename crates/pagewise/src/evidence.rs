// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder that says all: what was run, every run as it ends, what was found, and a page to look at.
//!
//! A disk that is full costs the folder, never the answer: it is told at the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_lab::experiment::{Described, EXPERIMENT, RUNS, SUMMARY, surroundings};
use pagewise_model::{Snapshot, TrialRun};
use pagewise_report::{Tried, html, json};
use pagewise_stats::Experiment;
use serde_json::{Value, json};

use crate::output;
use crate::redaction::Redaction;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    runs: File,
    redaction: Redaction,
    /// What could not be written first.
    failed: Option<std::io::Error>,
}

impl Folder {
    /// Makes sure of it before anything is run. `source` says where the experiment came from.
    pub(crate) fn new(
        path: &Path,
        experiment: &Experiment,
        snapshot: &Snapshot,
        source: Value,
        redaction: Redaction,
    ) -> anyhow::Result<Self> {
        output::empty_folder(path)?;
        let snapshot = redaction.snapshot(snapshot);
        let source = redaction.source(source, experiment);
        let machine = json!({
            "kernel": snapshot.taken.kernel,
            "host": snapshot.host,
            "memory": snapshot.memory.total,
            "surroundings": surroundings(),
        });
        let described =
            Described { source, ..Described::new(redaction.experiment(experiment), machine) };
        let text = serde_json::to_string_pretty(&described)? + "\n";
        output::new_file_below(path, EXPERIMENT, text.as_bytes())?;
        let runs = output::new_file_to_fill(&path.join(RUNS))?;
        Ok(Self { path: path.to_owned(), runs, redaction, failed: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// In one write: a kill leaves whole lines.
    pub(crate) fn run(&mut self, run: &TrialRun) {
        if self.failed.is_some() {
            return;
        }
        let line = serde_json::to_string(run).map(|line| line + "\n");
        let written =
            line.map_err(Into::into).and_then(|line| self.runs.write_all(line.as_bytes()));
        self.failed = written.err();
    }

    pub(crate) fn finish(&self, tried: &Tried<'_>) -> anyhow::Result<()> {
        if let Some(error) = &self.failed {
            let runs = self.path.join(RUNS);
            anyhow::bail!("{}: {error}; the runs since are not in it", runs.display());
        }
        self.runs.sync_all().with_context(|| self.path.display().to_string())?;
        let snapshot = &self.redaction.snapshot(tried.snapshot);
        let trial = &self.redaction.trial(tried.trial);
        let tried = &Tried { snapshot, trial, ..*tried };
        output::new_file_below(&self.path, SUMMARY, json::trial(tried).as_bytes())?;
        output::new_file_below(&self.path, "report.html", html::trial(tried).as_bytes())
    }
}
