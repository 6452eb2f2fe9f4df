// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise plan`: what to change on this machine, and why; it changes nothing.

mod native;
mod rendered;

use std::path::PathBuf;

use pagewise_model::plan::Goal;
use pagewise_model::{Interval, Refusal, Snapshot};
use pagewise_observe::UserFile;
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_report::{PlannedChanges, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::{cli, input};

/// Maximum size in bytes of a document named with `--from`. A document of `bench` for many
/// algorithms has some hundred KiB.
const LONGEST: u64 = 16 << 20;
/// Maximum number of values in a document with measurements. A document of `lab run` has about 50
/// for each run.
const MOST_VALUES: usize = 100_000;

pub(super) fn run(
    global: &Global,
    args: &cli::Plan,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if let Some(folder) = &args.native_only {
        if global.root.is_some() {
            let what = "--native-only: a recording is read without the right to write files";
            let next = "pagewise plan --root … --diff | patch -p1 -d DIR";
            anyhow::bail!(Refusal::with_advice(what, next));
        }
        native::check_folder(folder)?;
    }
    if global.root.is_some() && args.output.is_some() {
        let what = "--output: a recording is read without the right to write files";
        let next = "pagewise plan --root … --json >plan.json, or --render FORMAT >FILE";
        anyhow::bail!(Refusal::with_advice(what, next));
    }
    let made = make(global, &args.choice)?;
    let (interval, plan) = (&made.interval, &made.plan);
    if let Some(folder) = &args.native_only {
        native::write(folder, plan)?;
        return Ok(Outcome::Done);
    }
    if let Some(format) = args.render {
        return rendered::print(plan, format, args.output.as_deref());
    }
    let findings = pagewise_decide::diagnose(interval);
    let has_wishes = !args.choice.want.is_empty();
    let not_addressed =
        pagewise_plan::find_not_addressed(plan, &findings, &args.choice.only, has_wishes);
    let cost = cost::measure_since(started, interval);
    let planned = PlannedChanges {
        snapshot: &interval.end,
        plan,
        not_addressed: &not_addressed,
        why_not: args.why_not,
        cost,
    };
    if let Some(path) = &args.output {
        output::create_file(path, json::plan(&planned).as_bytes())?;
    }
    let shown = if global.json {
        json::plan(&planned)
    } else if args.diff {
        text::plan_diff(plan)
    } else {
        text::plan(&planned, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    if let Some(path) = &args.output {
        output::print_message(format_args!(
            "the plan is in {0}; to carry it out: sudo pagewise apply {0}",
            path.display()
        ));
    }
    Ok(Outcome::Done)
}

/// A plan, and the host for which it was made.
pub(super) struct MadePlan {
    pub(super) interval: Interval,
    pub(super) plan: pagewise_model::plan::Plan,
}

/// Makes the plan that these arguments ask for.
pub(super) fn make(global: &Global, choice: &cli::PlanChoice) -> anyhow::Result<MadePlan> {
    let measured = read_all(&choice.from)?;
    let host = input::open(global)?;
    let interval = input::read_interval(&host, global)?;
    measured.iter().try_for_each(|document| refuse_other_machine(document, &interval.end))?;
    let measured = measured.into_iter().fold(Measured::default(), Measured::combined_with);
    let installation = pagewise_observe::installation(&host.end);
    let request = Request {
        interval: &interval,
        installation: &installation,
        measured: &measured,
        goal: choice.goal.into(),
        only: &choice.only,
        wants: &choice.want,
        anyway: choice.anyway,
    };
    let plan = make_plan(&request);
    Ok(MadePlan { interval, plan })
}

impl From<cli::Goal> for Goal {
    fn from(goal: cli::Goal) -> Self {
        match goal {
            cli::Goal::Throughput => Self::Throughput,
            cli::Goal::Latency => Self::Latency,
            cli::Goal::Ratio => Self::Ratio,
            cli::Goal::Balanced => Self::Balanced,
        }
    }
}

fn read_all(files: &[PathBuf]) -> anyhow::Result<Vec<Measured>> {
    let read = |path: &PathBuf| {
        let text = UserFile::open(path, LONGEST).and_then(|file| file.into_json(MOST_VALUES))?;
        Measured::from_json(&text).map_err(|error| {
            let next = "give it the output of `pagewise bench --json`, `scan --json`, `trial --json`, `lab run --json` \
                        or `lab replay --json`; for a recording of a machine, use --root";
            Refusal::with_advice(format!("--from {}: {error}", path.display()), next).into()
        })
    };
    files.iter().map(read).collect()
}

/// Refuses measurements of another machine, whose costs do not apply here. Host names in recordings
/// are hashed, so the names are compared only if both are known.
fn refuse_other_machine(measured: &Measured, host: &Snapshot) -> anyhow::Result<()> {
    let (Some(there), Some(here)) = (measured.host(), host.host.name.value()) else {
        return Ok(());
    };
    if there == here.as_str() {
        return Ok(());
    }
    let what = format!("--from: measured on {there}, and this machine is {here}");
    Err(Refusal::with_advice(what, "measure here: sudo pagewise bench --json >bench.json").into())
}
