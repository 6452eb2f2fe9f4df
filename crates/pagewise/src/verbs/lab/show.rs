// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab show`: describes an experiment without running anything.

use pagewise_lab::library::{self, Cell, File, Runner};
use pagewise_model::{Bytes, TrialArm, TrialSwap};
use pagewise_report::{PlannedExperiment, text};
use pagewise_stats::Metric;
use pagewise_terminal::{Global, Outcome, output, screen};
use pagewise_workload::Workload;
use serde_json::Value;

use super::picked::pick;
use crate::cli::lab::Picked;

pub(super) fn run(global: &Global, wanted: &Picked) -> anyhow::Result<Outcome> {
    let (file, cells) = pick(wanted)?;
    let Some(first) = cells.first() else { return Ok(Outcome::Done) };
    let planned = PlannedExperiment {
        experiment: file.name.clone(),
        about: file.about().to_owned(),
        claim: file.claim().map(str::to_owned),
        workload: describe_workload(&first.workload)
            .into_iter()
            .chain(describe_neighbour(first))
            .collect(),
        machines: cells.iter().map(describe_machine).collect(),
        measured: measurement_lines(&file, first),
        arms: first.experiment.arms.iter().map(|arm| row(arm, &first.workload)).collect(),
        runs: cells.iter().map(|cell| cell.experiment.runs()).sum(),
        seconds: cells.iter().map(library::estimate_seconds).sum(),
    };
    let shown = if global.json {
        document(&planned, &cells)?
    } else {
        text::planned(&planned, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

fn document(planned: &PlannedExperiment, cells: &[Cell]) -> anyhow::Result<String> {
    let mut document = serde_json::to_value(planned)?;
    document["schema"] = "pagewise/lab-show/1".into();
    document["pagewise"] = env!("CARGO_PKG_VERSION").into();
    document["cells"] = cells.iter().map(|cell| Value::from(cell.name.clone())).collect();
    Ok(format!("{document:#}\n"))
}

/// The parameters of a workload by name, with its kind first.
fn describe_workload(workload: &Workload) -> Vec<(String, String)> {
    let Ok(Value::Object(all)) = serde_json::to_value(workload) else { return Vec::new() };
    let mut facts: Vec<(String, String)> =
        all.iter().map(|(name, value)| (name.replace('_', " "), format_value(value))).collect();
    facts.sort_by_key(|(name, _)| name != "kind");
    facts
}

/// The neighbour (the program that runs beside the command), and the memory limit of its cgroup.
fn describe_neighbour(cell: &Cell) -> Option<(String, String)> {
    let neighbour = cell.experiment.neighbour.as_ref()?;
    let limit = neighbour.memory_limit_bytes.map(|bytes| Bytes::new(bytes).format_typed());
    let limit = limit.map(|limit| format!("limit = {limit}"));
    let facts = match Workload::of_program(&neighbour.program) {
        Some(own) => describe_workload(&own)
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect(),
        None => vec![neighbour.program.argv().join(" ")],
    };
    let facts: Vec<String> = limit.into_iter().chain(facts).collect();
    Some(("neighbour".to_owned(), facts.join(", ")))
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().map(format_value).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn describe_machine(cell: &Cell) -> String {
    let limit = cell.experiment.memory_limit_bytes.map(|bytes| Bytes::new(bytes).to_string());
    let limit = limit.map(|limit| format!("; the workload in a cgroup of {limit}"));
    let limit = limit.unwrap_or_default();
    let Runner::Guest(machine) = &cell.runner else { return format!("this host{limit}") };
    let cpus =
        if machine.cpus == 1 { "1 cpu".to_owned() } else { format!("{} cpus", machine.cpus) };
    let disk = machine.disk.map(|size| format!(", a disk of {size}")).unwrap_or_default();
    let count = if machine.count { ", counting instructions" } else { "" };
    let (name, kernel, memory) = (&cell.name, &machine.kernel, machine.memory);
    format!("{name}: a guest with the kernel {kernel}, {memory}, {cpus}{disk}{count}{limit}")
}

fn measurement_lines(file: &File, cell: &Cell) -> Vec<(String, String)> {
    let experiment = &cell.experiment;
    let names: Vec<&str> = experiment.metrics.iter().map(|metric| metric.name.as_str()).collect();
    let doc = experiment.metrics.first().and_then(Metric::standard_row).map(|known| known.doc);
    let decides = [names.first().copied(), doc].into_iter().flatten().collect::<Vec<_>>();
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![fact("decides", decides.join(": "))];
    if names.len() > 1 {
        facts.push(fact("beside it", names[1..].join(", ")));
    }
    let matters = format!("from {} % on", experiment.min_effect * 100.0);
    facts.push(fact("matters", matters));
    facts.push(if cell.preview {
        fact("rounds", format!("{}, for a glance: no verdicts", experiment.pairs))
    } else {
        fact("pairs", format!("{} at most", experiment.pairs))
    });
    facts.push(fact("discarded", describe_discarded_rounds(experiment.warm_up)));
    if let Some(line) = &experiment.counted_from {
        facts.push(fact("counted", format!("from the line {line:?} of its output on")));
    }
    if experiment.profile {
        facts.push(fact("profile", "where the kernel's reclaim thread spends its time".to_owned()));
    }
    facts.push(fact("file", file.place().to_owned()));
    facts
}

fn describe_discarded_rounds(rounds: u32) -> String {
    match rounds {
        0 => "the first run".to_owned(),
        1 => "the first run and a round of warm-up".to_owned(),
        more => format!("the first run and {more} rounds of warm-up"),
    }
}

fn row(arm: &TrialArm, base: &Workload) -> [String; 3] {
    let swap = match arm.swap.as_deref() {
        None => "the machine's own".to_owned(),
        Some([]) => "none".to_owned(),
        Some(areas) => {
            let words: Vec<String> = areas.iter().map(describe_swap_area).collect();
            match areas {
                [TrialSwap::Zswap(_), ..] => {
                    format!("{}, in front of {}", words[0], words[1..].join(", then "))
                }
                _ => words.join(", then "),
            }
        }
    };
    let mut sets: Vec<String> =
        arm.settings.iter().map(|set| format!("{} = {}", set.knob, set.value)).collect();
    sets.extend(own_parameters(arm, base));
    [arm.name.clone(), swap, sets.join(", ")]
}

/// The parameters in which an arm's workload differs from that of the experiment.
fn own_parameters(arm: &TrialArm, base: &Workload) -> Vec<String> {
    let Some(program) = &arm.program else { return Vec::new() };
    let Some(own) = Workload::of_program(program) else { return vec![program.argv().join(" ")] };
    let base = describe_workload(base);
    let differs = describe_workload(&own).into_iter().filter(|fact| !base.contains(fact));
    differs.map(|(name, value)| format!("{name} = {value}")).collect()
}

fn describe_swap_area(area: &TrialSwap) -> String {
    let size = |bytes: u64| Bytes::new(bytes).format_typed();
    match area {
        TrialSwap::Zram { size_bytes, algorithm, mem_limit_bytes, writeback, .. } => {
            let algorithm = algorithm.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            let limit = mem_limit_bytes.map(|bytes| format!(" in at most {}", size(bytes)));
            let writeback = writeback.as_ref().map(|writeback| format!(" {writeback}"));
            let more = [limit, writeback].into_iter().flatten().collect::<String>();
            format!("zram {}{algorithm}{more}", size(*size_bytes))
        }
        TrialSwap::File { size_bytes, .. } => format!("file {}", size(*size_bytes)),
        TrialSwap::Device { path, .. } => format!("disk {path}"),
        TrialSwap::Zswap(zswap) => zswap.to_string(),
    }
}
