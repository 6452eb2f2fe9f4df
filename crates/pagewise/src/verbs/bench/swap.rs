// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swaps the same pages out and touches them again: every algorithm with private memory, then one
//! algorithm with every kind of memory and every `vm.page-cluster`; with `--zswap`, both also with
//! zswap.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_bench::block::Entrant;
use pagewise_bench::faults::{self, Control, FaultSpec, FaultsEnd, Unmeasured};
use pagewise_bench::stand_in::StandIn;
use pagewise_guest::files::find_folder_on_disk;
use pagewise_model::lend::Lender;
use pagewise_model::{Access, Compressor, Refusal, StoreKind, SwapStore, SwappedKind};
use pagewise_terminal::progress::Measuring;
use rustix::fs::{MemfdFlags, memfd_create};

use super::pages::Drawn;
use super::times::Times;
use super::{BenchResults, Setting};

pub(super) fn measure(
    setting: &Setting<'_>,
    drawn: &Drawn,
    lender: &mut dyn Lender,
    measured: &mut BenchResults,
) -> anyhow::Result<()> {
    let times = Times::estimate(setting.args);
    let zswap = zswap_folder(setting, lender, measured);
    let is_on_disk = zswap.as_ref().is_some_and(Option::is_some) && setting.args.mix.is_none();
    let file = if !has_other_swap(setting) && !is_on_disk {
        write_pages(drawn, times.swap_pages)?
    } else {
        let where_to = if is_on_disk { ZSWAP_FILE } else { OTHER_SWAP };
        measured.notes.push(format!("{STANDS_IN} {where_to}"));
        write_stand_in(&StandIn::new(ratio(measured), setting.args.seed), times.swap_pages)?
    };
    let devices = measured_devices(measured);
    let Some(best) = best_device(measured, &devices) else { return Ok(()) };
    let every_kind = if setting.args.full { devices.clone() } else { vec![best] };
    for spec in [
        spec_for_every_algorithm(setting, devices, ratio(measured), times),
        spec_for_all_kinds_of_memory(setting, every_kind, times),
    ] {
        let mut spec = match &zswap {
            Some(folder) => spec.with_zswap(folder.clone()),
            None => spec,
        };
        spec.stores.retain(|store| can_be_measured(measured, store));
        if spec.stores.iter().all(|store| store.kind == StoreKind::Zram) {
            spec.stores.extend(first_zswap(measured));
        }
        if setting.stop.flag().load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
        let shown = Measuring::start(setting.global, "swap");
        let mut progress = |at: faults::Progress| shown.show_count(at.done, at.of);
        let until = Some(Instant::now() + times.swap);
        let stop = setting.stop.flag();
        let mut control = Control { stop, until, progress: &mut progress };
        match faults::measure(lender, &spec, &file, &mut control) {
            Ok(rounds) => add_rounds(measured, rounds, times.swap),
            Err(refused) => measured.not_measured.push(refused.within("swap")),
        }
    }
    Ok(())
}

/// The folder for the swap file behind zswap, if zswap is to be measured; `None` inside on a
/// machine without a disk. zswap is global to the host, so it is measured only if no other swap is
/// in use.
fn zswap_folder(
    setting: &Setting<'_>,
    lender: &dyn Lender,
    measured: &mut BenchResults,
) -> Option<Option<PathBuf>> {
    if !setting.args.zswap {
        return None;
    }
    let why = if setting.snapshot.zswap.enabled.value().is_none() {
        "this kernel has no zswap (CONFIG_ZSWAP)"
    } else if !setting.snapshot.tiers.is_empty() {
        "zswap is one for the whole host, and this host uses other swap"
    } else {
        return Some(lender.swap_folder().or_else(find_folder_on_disk));
    };
    measured.not_measured.push(Refusal::new("swap with zswap", why));
    None
}

/// Whether to measure this store in the second part: if zswap refused a store in the first part, it
/// would refuse it again.
fn can_be_measured(measured: &BenchResults, store: &SwapStore) -> bool {
    let mut rows = measured.swap.iter().flat_map(|rounds| &rounds.rows);
    let is_first = measured.swap.is_empty();
    is_first || store.kind == StoreKind::Zram || rows.any(|row| row.store == *store)
}

/// The first zswap store that was measured, in case zswap lacks the best algorithm of zram.
fn first_zswap(measured: &BenchResults) -> Option<SwapStore> {
    let mut rows = measured.swap.iter().flat_map(|rounds| &rounds.rows);
    rows.find(|row| row.store.kind == StoreKind::Zswap).map(|row| row.store.clone())
}

fn add_rounds(measured: &mut BenchResults, rounds: faults::FaultResults, time: Duration) {
    measured.not_measured.extend(rounds.troubles.iter().map(describe_unmeasured));
    if rounds.ended == FaultsEnd::OutOfTime {
        let seconds = time.as_secs();
        measured
            .notes
            .push(format!("swap: not all rounds fit into {seconds} s; --full takes them"));
    }
    measured.block.stopped |= rounds.ended == FaultsEnd::Stopped;
    measured.swap.push(rounds);
}

fn describe_unmeasured(trouble: &Unmeasured) -> Refusal {
    let times =
        if trouble.times > 1 { format!(" ({} times)", trouble.times) } else { String::new() };
    Refusal::new(format!("swap with {}", trouble.what), format!("{}{times}", trouble.why))
}

/// The note that explains why synthetic pages were swapped instead of the pages that the user
/// named.
const STANDS_IN: &str = "swap is measured with synthetic pages that compress as well as the named pages, because the kernel could \
     swap the named pages to";
const OTHER_SWAP: &str = "other swap, which is in use and may be on a disk";
const ZSWAP_FILE: &str = "the swap file behind zswap";

/// Whether the host has other swap, to which the kernel could swap the named pages out.
fn has_other_swap(setting: &Setting<'_>) -> bool {
    let named = setting.args.mix.is_none();
    named && !setting.snapshot.tiers.is_empty()
}

/// Writes `count` synthetic pages into an anonymous file.
fn write_stand_in(pages: &StandIn, count: usize) -> anyhow::Result<File> {
    let mut file = File::from(memfd_create("pagewise-pages", MemfdFlags::CLOEXEC)?);
    let mut written = Ok(());
    pages.each(count, rustix::param::page_size(), |page| {
        if written.is_ok() {
            written = file.write_all(page);
        }
    });
    written.context("the pages for swap")?;
    Ok(file)
}

/// Writes the first pages into an anonymous file (memfd) that vanishes with this process.
fn write_pages(drawn: &Drawn, pages: usize) -> anyhow::Result<File> {
    let bytes = drawn.pages.bytes();
    let requested = pages.saturating_mul(rustix::param::page_size()).min(bytes.len());
    let mut file = File::from(memfd_create("pagewise-pages", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes[..requested]).context("the pages for swap")?;
    Ok(file)
}

/// The algorithms that were measured on a device at the block layer.
fn measured_devices(measured: &BenchResults) -> Vec<Compressor> {
    let device = |entrant: &Entrant| match entrant {
        Entrant::Algorithm { candidate, .. } => Some(candidate.clone()),
        Entrant::Reference { .. } => None,
    };
    measured.block.entrants.iter().filter_map(device).collect()
}

/// Original bytes per compressed byte, as measured with the first algorithm.
fn ratio(measured: &BenchResults) -> Option<f64> {
    measured.block.entrants.iter().find_map(|entrant| match entrant {
        Entrant::Algorithm { filled, .. } => filled.original_per_compressed,
        Entrant::Reference { .. } => None,
    })
}

/// The algorithm that wins the balanced goal, or else the first of `devices`.
fn best_device(measured: &BenchResults, devices: &[Compressor]) -> Option<Compressor> {
    let balanced = pagewise_bench::picks::picks(&measured.block).balanced;
    let is_best =
        |device: &&Compressor| balanced.as_ref().is_some_and(|pick| pick.winner == **device);
    devices.iter().find(is_best).or(devices.first()).cloned()
}

fn spec_for_every_algorithm(
    setting: &Setting<'_>,
    devices: Vec<Compressor>,
    ratio: Option<f64>,
    times: Times,
) -> FaultSpec {
    let folder = setting.args.disk.clone().filter(|path| path.is_dir());
    let usual = FaultSpec::usual(devices, times.swap_pages);
    FaultSpec {
        file_pages: usual.file_pages.min(file_pages(times.swap_rounds)),
        memory: vec![SwappedKind::Private],
        access: vec![Access::Random],
        page_clusters: vec![0],
        rounds: times.swap_rounds,
        file_folder: folder,
        file_ratio: ratio,
        seed: setting.args.seed,
        ..usual
    }
}

/// Maximum bytes that swap writes to the disk; the block layer writes at most as much again.
const WEAR: usize = 256 << 20;

/// Number of pages to measure with in each round: few if there are many rounds, because each round
/// writes the file anew.
fn file_pages(rounds: u32) -> usize {
    WEAR / rustix::param::page_size() / usize::try_from(rounds).unwrap_or(usize::MAX).max(1)
}

fn spec_for_all_kinds_of_memory(
    setting: &Setting<'_>,
    devices: Vec<Compressor>,
    times: Times,
) -> FaultSpec {
    let rounds = times.swap_rounds;
    let usual = FaultSpec::usual(devices, times.swap_pages / 4);
    FaultSpec { rounds, seed: setting.args.seed, ..usual }
}
