// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder of evidence: the experiment, every run as soon as it ends, the results, and an HTML
//! page.
//!
//! If the folder cannot be written (full disk), the experiment continues and the error is reported
//! at the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_lab::experiment::{Described, EXPERIMENT, RUNS, SUMMARY, read_conditions};
use pagewise_model::{Refusal, Snapshot, TrialRun};
use pagewise_report::{TrialReport, json};
use pagewise_stats::Experiment;
use serde_json::{Value, json};

use pagewise_lab::redaction::Redaction;
use pagewise_terminal::output;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    runs: File,
    /// Number of bytes in the file of runs that are complete lines.
    whole: u64,
    redaction: Redaction,
    /// The first error when writing to the folder.
    failed: Option<std::io::Error>,
}

const IF_CUT_SHORT: &str = "free some space and run it again, or let --evidence name a folder on another disk; \
                            `pagewise lab replay` judges the runs that are in the folder";

impl Folder {
    /// Makes and checks the folder of evidence before anything is run. `source` is the origin of
    /// the experiment.
    pub(crate) fn new(
        path: &Path,
        experiment: &Experiment,
        snapshot: &Snapshot,
        source: Value,
        redaction: Redaction,
    ) -> anyhow::Result<Self> {
        output::create_empty_folder(path)?;
        let snapshot = redaction.snapshot(snapshot);
        let source = redaction.source(source, experiment);
        let machine = json!({
            "kernel": snapshot.taken.kernel,
            "host": snapshot.host,
            "memory": snapshot.memory.total,
            "surroundings": read_conditions(),
        });
        let described =
            Described { source, ..Described::new(redaction.experiment(experiment), machine) };
        let text = serde_json::to_string_pretty(&described)? + "\n";
        output::create_file_below(path, EXPERIMENT, text.as_bytes())?;
        let runs = output::create_file_to_fill(&path.join(RUNS));
        let runs = runs.inspect_err(|_| output::remove(&path.join(EXPERIMENT)))?;
        Ok(Self { path: path.to_owned(), runs, whole: 0, redaction, failed: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a run with one write, so that a kill leaves complete lines. If only a part could be
    /// written (full disk), that part is removed again.
    pub(crate) fn add_run(&mut self, run: &TrialRun) {
        if self.failed.is_some() {
            return;
        }
        match self.append(run) {
            Ok(length) => self.whole += length,
            Err(error) => {
                // if truncating fails too, the write error is still the one to report
                let _ = self.runs.set_len(self.whole);
                self.failed = Some(error);
            }
        }
    }

    fn append(&mut self, run: &TrialRun) -> std::io::Result<u64> {
        let line = serde_json::to_string(run)? + "\n";
        self.runs.write_all(line.as_bytes())?;
        Ok(line.len() as u64)
    }

    pub(crate) fn finish(&self, tried: &TrialReport<'_>) -> anyhow::Result<()> {
        if let Some(error) = &self.failed {
            let runs = self.path.join(RUNS);
            let what = format!("{}: {error}; the runs since are not in it", runs.display());
            anyhow::bail!(Refusal::with_advice(what, IF_CUT_SHORT));
        }
        self.runs.sync_all().with_context(|| self.path.display().to_string())?;
        let snapshot = &self.redaction.snapshot(tried.snapshot);
        let trial = &self.redaction.trial(tried.trial);
        let tried = &TrialReport { snapshot, trial, ..*tried };
        output::create_file_below(&self.path, SUMMARY, json::trial(tried).as_bytes())?;
        output::create_file_below(
            &self.path,
            "report.html",
            pagewise_html::trial_page(tried).as_bytes(),
        )
    }
}
