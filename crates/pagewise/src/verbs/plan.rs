// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise plan`: what to change on this machine, and why; it changes nothing.

mod native;

use std::path::PathBuf;

use pagewise_model::plan::Goal;
use pagewise_model::{Refusal, Snapshot};
use pagewise_observe::UserFile;
use pagewise_plan::{Measured, Request, make_plan};
use pagewise_report::{PlannedChanges, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::{cli, input};

/// Maximum size in bytes of a document named with `--from`; one of `bench` for many algorithms has
/// some hundred KiB.
const LONGEST: u64 = 16 << 20;

pub(super) fn run(
    global: &Global,
    args: &cli::Plan,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let measured = read_all(&args.from)?;
    if let Some(folder) = &args.native_only {
        if global.root.is_some() {
            let what = "--native-only: a recording is read without the right to write files";
            let next = "pagewise plan --root … --diff | patch -p1 -d DIR";
            anyhow::bail!(Refusal::advised(what, next));
        }
        native::check_folder(folder)?;
    }
    let host = input::open(global)?;
    let interval = input::interval(&host, global)?;
    measured.iter().try_for_each(|document| refuse_other_machine(document, &interval.end))?;
    let measured = measured.into_iter().fold(Measured::default(), Measured::and);
    let installation = pagewise_observe::installation(&host.end);
    let request = Request {
        interval: &interval,
        installation: &installation,
        measured: &measured,
        goal: args.goal.into(),
        only: &args.only,
    };
    let plan = make_plan(&request);
    if let Some(folder) = &args.native_only {
        native::write(folder, &plan)?;
        return Ok(Outcome::Done);
    }
    let cost = cost::so_far(started, &interval);
    let findings = pagewise_decide::diagnose(&interval);
    let not_addressed = pagewise_plan::find_not_addressed(&plan, &findings, &args.only);
    let planned = PlannedChanges {
        snapshot: &interval.end,
        plan: &plan,
        not_addressed: &not_addressed,
        cost,
    };
    let shown = if global.json {
        json::plan(&planned)
    } else if args.diff {
        text::plan_diff(&plan)
    } else {
        text::plan(&planned, screen::text_style(global))
    };
    output::answer(global, &shown)?;
    Ok(Outcome::Done)
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
        let text = UserFile::open(path, LONGEST).and_then(UserFile::into_text)?;
        Measured::from_json(&text).map_err(|error| {
            let next = "give it the output of `pagewise bench --json`, `scan --json`, `trial --json`, `lab run --json` \
                        or `lab replay --json`; for a recording of a machine, use --root";
            Refusal::advised(format!("--from {}: {error}", path.display()), next).into()
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
    Err(Refusal::advised(what, "measure here: sudo pagewise bench --json >bench.json").into())
}
