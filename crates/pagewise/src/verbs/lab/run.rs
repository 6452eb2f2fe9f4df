// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab run`: runs the cells of an experiment one after the other, and reports each
//! result.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pagewise_lab::experiment::SUMMARY;
use pagewise_lab::library::{self, Cell, File, Index, Runner};
use pagewise_model::{Cost, Interval, Refusal, Trial};
use pagewise_observe::{HostRoot, Scope};
use pagewise_report::{CellTried, Experimented, TrialReport, json, text};
use pagewise_stats::judge;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, exit, output, screen};
use serde_json::{Value, json};

use super::evidence::Folder;
use super::machines::{self, CellOutcome, EvidencePlan, Machines};
use super::picked::pick;
use super::print_message;
use crate::cli::lab::LabRun;
use crate::host_loans::NOT_ALL_BACK;

pub(super) fn run(global: &Global, wanted: &LabRun, started: CostMeter) -> anyhow::Result<Outcome> {
    refuse_recording(global)?;
    let (file, cells) = pick(&wanted.picked)?;
    let host = HostRoot::live().context("/")?;
    let machine = Interval::single(pagewise_observe::snapshot(&host, &Scope::glance()));
    machines::check(&cells, wanted.now)?;
    let folders = folders(wanted.evidence.as_deref(), &file, &cells)?;
    let stop = Stop::listen()?;
    print_expected_time(global, &file, &cells);
    let machines = Machines::new((global, wanted), &machine.end, &stop);
    let mut done: Vec<Done> = Vec::new();
    for (cell, folder) in cells.iter().zip(folders) {
        let named = cells.len() > 1;
        let plan = EvidencePlan {
            folder: folder.as_deref(),
            source: source(&file),
            keeps_names: wanted.keep_names,
        };
        let one = run_cell((global, &machines), &file, (cell, &plan), named)?;
        let go_on = !one.outcome.stopped;
        done.push(one);
        if !go_on {
            break;
        }
    }
    if global.json {
        print_document(&file, &machine, &done, cells.len(), started)?;
    }
    outcome_of(&done)
}

fn refuse_recording(global: &Global) -> anyhow::Result<()> {
    if global.root.is_none() {
        return Ok(());
    }
    let what = "lab run runs workloads; a recording runs nothing".to_owned();
    bail!(Refusal::with_advice(what, "omit --root"));
}

/// A cell that was run, with its verdict.
struct Done {
    name: String,
    preview: bool,
    outcome: CellOutcome,
    trial: Trial,
    /// Whether some runs are missing from the evidence because of a write error.
    unkept: bool,
}

/// Runs a cell, writes its evidence and, except with --json, prints its result.
fn run_cell(
    (global, machines): (&Global, &Machines<'_>),
    file: &File,
    (cell, plan): (&Cell, &EvidencePlan<'_>),
    named: bool,
) -> anyhow::Result<Done> {
    if named {
        print_message(global, &format!("{} begins", cell.name));
    }
    let outcome = machines.run(cell, plan)?;
    let trial = judge(&outcome.experiment, &outcome.runs);
    let tried = TrialReport {
        name: Some(&file.name),
        snapshot: &outcome.snapshot,
        trial: &trial,
        runs: &outcome.runs,
        evidence: outcome.evidence.as_ref().map(Folder::path),
        cost: Cost::default(),
    };
    show(global, cell, &outcome, &tried, named)?;
    let unkept = outcome.evidence.as_ref().and_then(|folder| folder.finish(&tried).err());
    if let Some(error) = &unkept {
        // this error is only printed, so that the result is still printed, too
        output::print_message(format_args!("{error:#}"));
    }
    let (name, preview, unkept) = (cell.name.clone(), cell.preview, unkept.is_some());
    Ok(Done { name, preview, outcome, trial, unkept })
}

/// Prints what ended the cell early, if anything did, and its results.
fn show(
    global: &Global,
    cell: &Cell,
    outcome: &CellOutcome,
    tried: &TrialReport<'_>,
    named: bool,
) -> anyhow::Result<()> {
    if outcome.stopped {
        return Ok(());
    }
    if let Some(trouble) = &outcome.trouble {
        output::print_message(format_args!("{}: {trouble}", cell.name));
        trouble.next.iter().for_each(output::print_hint);
    }
    if global.json || !outcome.has_pairs() {
        return Ok(());
    }
    let heading = if named { format!("{}\n", cell.name) } else { String::new() };
    output::print_answer(global, &(heading + &text::trial(tried, screen::text_style(global))))?;
    if cell.preview {
        let glance = "a glance at three rounds: nothing is judged; leave --preview away for that";
        print_message(global, glance);
    }
    Ok(())
}

/// The origin of the experiment, for the evidence.
fn source(file: &File) -> Value {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let line: Vec<String> = words.collect();
    json!({ "experiment": file.name, "place": file.place(), "text": file.text, "command_line": line })
}

/// The folder for the evidence of each cell. If there are several cells, an index is written before
/// the first of them runs.
fn folders(
    folder: Option<&Path>,
    file: &File,
    cells: &[Cell],
) -> anyhow::Result<Vec<Option<PathBuf>>> {
    let Some(folder) = folder else { return Ok(vec![None; cells.len()]) };
    if cells.len() == 1 {
        return Ok(vec![Some(folder.to_owned())]);
    }
    output::create_empty_folder(folder)?;
    let index = Index::new(&file.name, cells.iter().map(|cell| cell.name.clone()).collect());
    let text = serde_json::to_string_pretty(&index)? + "\n";
    output::create_file_below(folder, SUMMARY, text.as_bytes())?;
    Ok(cells.iter().map(|cell| Some(folder.join(&cell.name))).collect())
}

fn print_expected_time(global: &Global, file: &File, cells: &[Cell]) {
    let runs: u32 = cells.iter().map(|cell| cell.experiment.runs()).sum();
    let seconds: f64 = cells.iter().map(library::estimate_seconds).sum();
    let arms = cells.first().map_or(0, |cell| cell.experiment.arms.len());
    let guests = cells.iter().filter(|cell| matches!(cell.runner, Runner::Guest(_))).count();
    let places = match guests {
        0 => "on this host".to_owned(),
        1 => "in a guest".to_owned(),
        many => format!("in {many} guests"),
    };
    let clock = if guests > 0 { ", by the guest's clock" } else { "" };
    let minutes = seconds / 60.0;
    let name = &file.name;
    print_message(
        global,
        &format!(
            "{name}: {arms} arms, {runs} runs {places}, about {minutes:.1} min{clock} (Ctrl-C stops)"
        ),
    );
}

fn print_document(
    file: &File,
    machine: &Interval,
    done: &[Done],
    requested: usize,
    started: CostMeter,
) -> anyhow::Result<()> {
    let troubles: Vec<Option<String>> = done.iter().map(Done::trouble).collect();
    let cells: Vec<CellTried<'_>> = done
        .iter()
        .zip(&troubles)
        .map(|(done, trouble)| CellTried {
            name: &done.name,
            snapshot: &done.outcome.snapshot,
            trouble: trouble.as_deref(),
            trial: &done.trial,
            runs: &done.outcome.runs,
        })
        .collect();
    let stopped = format!("only {} of {requested} cells were run to their end", done.len());
    let is_short = done.len() < requested || done.iter().any(|one| one.outcome.stopped);
    let commands: f64 = done.iter().map(|one| one.outcome.own_cpu_seconds()).sum();
    let all = cost::measure_since(started, machine);
    let text = json::lab(&Experimented {
        snapshot: &machine.end,
        name: &file.name,
        about: file.about(),
        claim: file.claim(),
        preview: done.iter().any(|one| one.preview),
        stopped: is_short.then_some(&*stopped),
        cells: &cells,
        cost: Cost { cpu_seconds: (all.cpu_seconds - commands).max(0.0), ..all },
    });
    output::print_document(&text)?;
    Ok(())
}

impl Done {
    fn trouble(&self) -> Option<String> {
        self.outcome.trouble.as_ref().map(ToString::to_string)
    }
}

fn outcome_of(done: &[Done]) -> anyhow::Result<Outcome> {
    if let Some(stopped) = done.iter().find(|one| one.outcome.stopped) {
        let (pairs, of) = (stopped.trial.pairs, stopped.trial.planned_pairs);
        output::print_message(format_args!(
            "{}: stopped after {pairs} of {of} pairs; {}",
            stopped.name,
            if stopped.outcome.is_all_back {
                "all that was borrowed was given back"
            } else {
                NOT_ALL_BACK
            }
        ));
        return Ok(Outcome::Status(exit::STOPPED));
    }
    if done.iter().any(|one| one.outcome.trouble.is_some() || one.unkept) {
        Ok(Outcome::Status(exit::FAILED))
    } else {
        Ok(Outcome::Done)
    }
}
