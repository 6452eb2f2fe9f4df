// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise fleet report`: many machines at once, from a folder of recordings and of documents that
//! `pagewise report --json` printed.
//!
//! The files may come from anybody, so this process first gives up all rights except reading. Several
//! threads read one file after the other; of each machine, only what the report needs is kept.

mod files;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use pagewise_decide::{LimitInputs, survey_limits};
use pagewise_fleet::{Fleet, machine_of_document, machine_of_interval};
use pagewise_model::{Interval, Machine, Millis, Name, Reading, Snapshot, Source, UnreadMachine};
use pagewise_observe::{Scope, UserFile};
use pagewise_report::{json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::progress::StepSpinner;
use pagewise_terminal::{Global, Outcome, screen};

use super::new_page::NewPage;
use crate::cli;
use files::{Found, Kind, find_files};

/// The largest JSON document that is read: that of a machine with very many processes and cgroups.
const LONGEST_DOCUMENT: u64 = 64 << 20;
/// The largest number of values in it.
const MOST_VALUES: usize = 1_000_000;
/// Threads that read: more would need more memory than the reading of one file takes.
const MOST_THREADS: usize = 8;

pub(super) fn run(
    global: &Global,
    args: &cli::Fleet,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    let cli::FleetAct::Report(args) = &args.act;
    // create the file before this process gives up the right to create files
    let page = NewPage::start(args.html.as_deref())?;
    let shown = StepSpinner::start(global, "reading the folder");
    let found = find_files(&args.folder)?;
    let _ = Confinement::for_recording(true).enter();
    shown.set_step("reading the machines");
    let (fleet, unread) = read_all(&found);
    shown.set_step("comparing the machines");
    let report = fleet.into_report(unread);
    shown.end();
    NewPage::write_or_print(
        page,
        global,
        || pagewise_html::fleet_page(&report),
        || {
            if global.json {
                return json::fleet(
                    &report,
                    cost::measure_since(started, &Interval::single(Snapshot::default())),
                );
            }
            text::fleet(&report, screen::text_style(global))
        },
    )?;
    Ok(Outcome::Done)
}

/// Reads the files in several threads. The files that are no machines are in their order.
fn read_all(found: &[Found]) -> (Fleet, Vec<UnreadMachine>) {
    let next = AtomicUsize::new(0);
    let fleet = Mutex::new(Fleet::default());
    let unread = Mutex::new(Vec::new());
    let work = || {
        while let Some(file) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            // a poisoned lock means that another thread has panicked, which ends the program
            match read(file) {
                Ok(machine) => {
                    let Ok(mut fleet) = fleet.lock() else { return };
                    fleet.add(machine);
                }
                Err(error) => {
                    let Ok(mut unread) = unread.lock() else { return };
                    unread
                        .push(UnreadMachine { file: file.name(), why: reason(&error, &file.path) });
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(MOST_THREADS) {
            scope.spawn(work);
        }
        work();
    });
    let mut unread = unread.into_inner().unwrap_or_default();
    unread.sort_by(|a: &UnreadMachine, b| a.file.cmp(&b.file));
    (fleet.into_inner().unwrap_or_default(), unread)
}

/// The reason without the path, which the report shows already.
fn reason(error: &anyhow::Error, path: &Path) -> String {
    let text = format!("{error:#}");
    let path = path.to_string_lossy();
    let short =
        text.strip_prefix(&*path).map_or(text.as_str(), |rest| rest.trim_start_matches(": "));
    Name::from(short).as_str().to_owned()
}

fn read(file: &Found) -> anyhow::Result<Machine> {
    match file.kind {
        Kind::Document => {
            let text = UserFile::open(&file.path, LONGEST_DOCUMENT)?.into_json(MOST_VALUES)?;
            let document = serde_json::from_str(&text).context("no JSON")?;
            Ok(machine_of_document(file.machine(), &document)?)
        }
        Kind::Recording => {
            let recording = pagewise_observe::open(&file.path)?;
            let interval =
                recording.interval(&Scope::everything(Duration::ZERO), || anyhow::Ok(()))?;
            let verdict = pagewise_decide::judge(&interval);
            let findings = super::findings(&interval, &[]);
            let generations = Reading::absent("a recording does not contain them", Source::none());
            let limits = survey_limits(
                &interval,
                &LimitInputs {
                    selected: None,
                    age: Millis::new(120_000),
                    generations: &generations,
                    watched: None,
                },
            );
            Ok(machine_of_interval(file.machine(), &interval, &verdict, &findings, &limits))
        }
    }
}
