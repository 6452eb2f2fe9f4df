// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial`: compares settings A and B with the user's own command.

mod current;
mod experiment;
mod knobs;

use std::ops::ControlFlow;

use anyhow::{Context, anyhow};
use pagewise_lab::experiment::{Control, ExperimentError, ExperimentRuns, TrialEvent, conduct};
use pagewise_model::lend::Lender;
use pagewise_model::{Cost, Interval, Refusal, TrialArm, TrialForecast, TrialRun};
use pagewise_observe::{HostRoot, Scope};
use pagewise_report::{TrialReport, json, text};
use pagewise_stats::{Experiment, judge};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use pagewise_terminal::{Global, Outcome, exit, output, screen};

use crate::cli::Trial;
use crate::host_loans::{HostLoans, NOT_ALL_BACK};
use crate::verbs::lab::evidence::Folder;
use pagewise_lab::redaction::Redaction;

/// Runs `pagewise trial`.
pub(crate) fn run(global: &Global, args: &Trial, started: CostMeter) -> anyhow::Result<Outcome> {
    if args.list_knobs {
        return knobs::list(global, started);
    }
    let experiment = experiment::experiment(global, args)?;
    let host = HostRoot::live().context("/")?;
    let scope = Scope { settings: true, ..Scope::glance() };
    let machine = Interval::single(pagewise_observe::snapshot(&host, &scope));
    compare_with_current(global, &experiment, &machine, args.aa)?;
    let stop = Stop::listen()?;
    let mut loans = experiment::host_loans(&experiment, args)?;
    let folder = args.evidence.as_deref();
    let mut folder = folder
        .map(|at| {
            let redaction = Redaction::new(args.keep_names);
            Folder::new(at, &experiment, &machine.end, serde_json::Value::Null, redaction)
        })
        .transpose()?;
    let lender = loans.as_mut().map(|loans| &mut loans.session as &mut dyn Lender);
    let conducted = conduct_and_record(global, &experiment, lender, &stop, folder.as_mut());
    let is_all_back = loans.is_none_or(HostLoans::end_with_messages);
    report_outcome(global, &experiment, &machine, conducted, is_all_back, folder.as_ref(), started)
}

/// Refuses arms that are equivalent on this machine, and reports an arm that changes nothing.
fn compare_with_current(
    global: &Global,
    experiment: &Experiment,
    machine: &Interval,
    same_is_meant: bool,
) -> anyhow::Result<()> {
    let (knobs, arms) = (&machine.end.knobs, &experiment.arms);
    let unchanged = |arm: &TrialArm| Some((arm.name.clone(), current::why_unchanged(arm, knobs)?));
    let lines: Vec<(String, String)> = arms.iter().filter_map(unchanged).collect();
    if let [a, b] = arms.as_slice() {
        if !same_is_meant && current::are_equivalent_here(a, b, knobs) {
            let why: Vec<&str> = lines.iter().map(|(_, why)| why.as_str()).collect();
            let what = format!("A and B are the same on this machine: {}", why.join(", "));
            let next = "set another value in --a or --b; --aa if you mean it";
            return Err(Refusal::with_advice(what, next).into());
        }
    }
    for (name, why) in lines.iter().filter(|_| !global.quiet) {
        output::print_message(format_args!("{name} is the machine as it is: {why}"));
    }
    Ok(())
}

/// Conducts the runs, shows them and writes them to the evidence, if requested.
fn conduct_and_record(
    global: &Global,
    experiment: &Experiment,
    lender: Option<&mut dyn Lender>,
    stop: &Stop,
    mut folder: Option<&mut Folder>,
) -> ExperimentRuns {
    let shown = Measuring::start(global, "trial");
    let mut on_event = |event: &TrialEvent| {
        match event {
            TrialEvent::Begins { run, of, .. } => shown.show_count(run - 1, *of),
            TrialEvent::Ran(run) => {
                if let Some(folder) = &mut folder {
                    folder.add_run(run);
                }
            }
            TrialEvent::Forecast(Some(forecast)) if !global.quiet => {
                shown.note(&forecast_in_words(experiment, forecast));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    conduct(experiment, lender, &mut Control { stop: stop.flag(), on_event: &mut on_event })
}

/// Describes in words how small a difference the trial can detect, as the warm-up runs suggest.
pub(crate) fn forecast_in_words(experiment: &Experiment, forecast: &TrialForecast) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let pairs = experiment.pairs;
    let enough = match forecast.pairs_for_min_effect {
        few if few <= pairs => String::new(),
        more => format!("; {} would take about {more}", percent(experiment.min_effect)),
    };
    format!(
        "runs vary by about {}: {pairs} pairs (about {:.0} s) will probably show effects from {} \
         on{enough}",
        percent(forecast.run_spread),
        forecast.seconds.max(1.0),
        percent(forecast.detectable_effect)
    )
}

/// Prints the verdict if there is one, and in any case the folder where the runs are stored.
fn report_outcome(
    global: &Global,
    experiment: &Experiment,
    machine: &Interval,
    conducted: ExperimentRuns,
    is_all_back: bool,
    folder: Option<&Folder>,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let ExperimentRuns { runs, trouble } = conducted;
    let trial = judge(experiment, &runs);
    let evidence = folder.map(Folder::path);
    let cost = own_cost(started, machine, &runs);
    let snapshot = &machine.end;
    let tried = TrialReport { name: None, snapshot, trial: &trial, runs: &runs, evidence, cost };
    if trouble.is_none() {
        show(global, &tried)?;
    }
    let kept = folder.map_or(Ok(()), |folder| folder.finish(&tried));
    match trouble {
        None => kept.map(|()| Outcome::Done),
        Some(ExperimentError::Stopped) => {
            print_stopped(&tried, is_all_back);
            kept.map(|()| Outcome::Status(exit::STOPPED))
        }
        Some(trouble) => Err(anyhow!(trouble)),
    }
}

fn print_stopped(tried: &TrialReport<'_>, is_all_back: bool) {
    let (pairs, of) = (tried.trial.pairs, tried.trial.planned_pairs);
    let kept = match tried.evidence {
        Some(folder) => {
            format!("the runs so far are in {}; pagewise lab replay judges them", folder.display())
        }
        None => "nothing was kept: --evidence DIR would".to_owned(),
    };
    output::print_message(format_args!(
        "stopped after {pairs} of {of} pairs; {}; {kept}",
        if is_all_back { "all settings were given back" } else { NOT_ALL_BACK }
    ));
}

/// The cost of pagewise itself, without that of the user's commands.
fn own_cost(started: CostMeter, machine: &Interval, runs: &[TrialRun]) -> Cost {
    let all = cost::measure_since(started, machine);
    let commands: f64 = runs.iter().filter_map(|run| run.values.get("cpu")).sum();
    Cost { cpu_seconds: (all.cpu_seconds - commands).max(0.0), ..all }
}

fn show(global: &Global, tried: &TrialReport<'_>) -> anyhow::Result<()> {
    let shown = if global.json {
        json::trial(tried)
    } else {
        text::trial(tried, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&tried.cost));
    }
    Ok(())
}
