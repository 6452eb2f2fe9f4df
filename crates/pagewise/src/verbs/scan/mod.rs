// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan`: what this memory would become.

mod dump;
mod kernel;
mod look;
mod target;

use pagewise_model::{Cost, Estimate, Snapshot};
use pagewise_observe::Scope;
use pagewise_pages::tally::Question;
use pagewise_report::{Scanned, json, text};

use super::Outcome;
use crate::cli::{Global, Scan};
use crate::cost::{self, Started};
use crate::trouble::Advised;
use crate::{input, output, screen};

pub(super) fn run(global: &Global, wanted: &Scan, started: Started) -> anyhow::Result<Outcome> {
    refuse_recording(global)?;
    let host = input::open(global)?.without_start();
    let interval =
        host.interval(&Scope::everything(std::time::Duration::ZERO), || anyhow::Ok(()))?;
    let question = question(wanted, &interval.end);
    let looked = look::at(global, wanted, &host.end, &interval.end, &question)?;
    let cost = cost::so_far(started, &interval);
    let bytes_read = cost.bytes_read.saturating_add(looked.bytes_read);
    show(global, &interval.end, &looked, Cost { bytes_read, ..cost })?;
    Ok(Outcome::Done)
}

fn refuse_recording(global: &Global) -> anyhow::Result<()> {
    if global.root.is_none() {
        return Ok(());
    }
    let what = "scan: a recording holds no page contents, by design".to_owned();
    let next = "scan the machine itself, or a dump, core or device: --file, --core, --device";
    Err(Advised { what, next }.into())
}

fn question(wanted: &Scan, snapshot: &Snapshot) -> Question {
    let kernel = wanted.kernel_like.unwrap_or_else(|| kernel::own(snapshot));
    let algorithms = match wanted.algorithm.is_empty() {
        true => kernel::offered(snapshot),
        false => wanted.algorithm.clone(),
    };
    let page = snapshot.host.page_size.get().map_or(4096, |size| size.get());
    Question { page: usize::try_from(page).unwrap_or(4096), kernel, algorithms, duplicates: true }
}

fn show(
    global: &Global,
    snapshot: &Snapshot,
    looked: &look::Looked,
    cost: Cost,
) -> anyhow::Result<()> {
    let scanned = Scanned { snapshot, estimates: &looked.estimates, notes: &looked.notes, cost };
    let shown = match global.json {
        true => json::scan(&scanned),
        false => text::scan(&scanned, screen::look(global)),
    };
    output::print(shown.as_bytes())?;
    if global.verbose {
        eprintln!("pagewise: {}", cost::line(&cost));
    }
    Ok(())
}

/// The estimate of everything comes first.
type Estimates = Vec<Estimate>;
