// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan`: estimates how small memory would become if it were compressed or merged.

mod cold;
mod dump;
pub(super) mod kernel;
mod sampling;
pub(super) mod target;
mod worker;

use pagewise_facts::swap_choice;
use pagewise_model::{Bytes, Cost, Effective, Estimate, Snapshot};
use pagewise_observe::{HostRoot, Scope};
use pagewise_pages::tally::Question;
use pagewise_report::{ScanReport, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use super::new_page::NewPage;
use super::refuse_recording;
use crate::cli::Scan;
use crate::input;

pub(super) fn run(global: &Global, args: &Scan, started: CostMeter) -> anyhow::Result<Outcome> {
    refuse_recording(global, "scan")?;
    let page = NewPage::start(args.html.as_deref())?;
    let host = input::open(global)?.without_start();
    let interval =
        host.interval(&Scope::everything(std::time::Duration::ZERO), || anyhow::Ok(()))?;
    let question = question(args, &interval.end);
    let cold = cold::read_cold(&host.end, &interval.end, &args.source); // before sampling: it accesses pages
    let mut looked = sampling::scan(global, args, &host.end, &interval.end, &question)?;
    looked.estimates.iter_mut().take(1).for_each(|whole| whole.cold = cold.clone());
    let cost = cost::measure_since(started, &interval);
    let bytes_read = cost.bytes_read.saturating_add(looked.bytes_read);
    show(global, page, &interval.end, &looked, Cost { bytes_read, ..cost })?;
    Ok(Outcome::Done)
}

fn question(args: &Scan, snapshot: &Snapshot) -> Question {
    let own = own_question(snapshot);
    let algorithms =
        if args.algorithm.is_empty() { own.algorithms } else { args.algorithm.clone() };
    Question { kernel: args.kernel_like.unwrap_or(own.kernel), algorithms, ..own }
}

/// What a scan has to estimate on this machine: its kernel's zram, and the algorithms that it
/// offers.
fn own_question(snapshot: &Snapshot) -> Question {
    let page = snapshot.page_size().get();
    let huge = snapshot.thp.pmd_size.get().map_or(2 << 20, Bytes::get);
    Question {
        page: usize::try_from(page).unwrap_or(4096),
        pages_per_huge: huge / page.max(1),
        kernel: kernel::own_kernel(snapshot),
        algorithms: kernel::offered_algorithms(snapshot),
        duplicates: true,
    }
}

fn show(
    global: &Global,
    page: Option<NewPage>,
    snapshot: &Snapshot,
    looked: &sampling::ScanOutcome,
    cost: Cost,
) -> anyhow::Result<()> {
    let (estimates, notes) = (looked.estimates.as_slice(), looked.notes.as_slice());
    let effective = estimate_effective_memory(snapshot, estimates);
    let scanned = ScanReport { snapshot, estimates, effective, notes, cost };
    let shown = || {
        if global.json {
            json::scan(&scanned)
        } else {
            text::scan(&scanned, screen::text_style(global))
        }
    };
    NewPage::write_or_print(page, global, || pagewise_html::scan_page(&scanned), shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&cost));
    }
    Ok(())
}

/// How much data RAM would hold if the zram device that findings recommend were full of pages like
/// the sampled ones; `None` if the sample is too small for an estimate.
fn estimate_effective_memory(snapshot: &Snapshot, estimates: &[Estimate]) -> Option<Effective> {
    let (ram, whole) = (snapshot.memory.total.get()?, estimates.first()?);
    let algorithm = whole.algorithms.first()?;
    let original = Bytes::new(whole.pages.checked_mul(whole.page_bytes.get())?);
    if !swap_choice::is_enough_to_size(original, whole.sized_pages) {
        return None;
    }
    let size = Bytes::new(swap_choice::size_mib(snapshot) << 20);
    pagewise_pages::effective::estimate_effective(whole, algorithm, ram, size)
}

/// Estimates; the first is that of all parts together.
type Estimates = Vec<Estimate>;

/// Scans for `report`: a small sample of the largest processes that this user may read.
///
/// # Errors
/// If no page could be read; the error says why, and what would help.
pub(super) fn scan_for_report(host: &HostRoot, snapshot: &Snapshot) -> anyhow::Result<Estimates> {
    let question =
        Question { algorithms: kernel::fast_algorithms(snapshot), ..own_question(snapshot) };
    sampling::scan_for_report(host, &target::largest_processes(snapshot), &question)
}
