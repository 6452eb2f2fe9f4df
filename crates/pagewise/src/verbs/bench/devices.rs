// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures pages on temporary zram devices, at the block layer and as swap.

use std::path::Path;

use crate::host_loans::HostLoans;
use pagewise_bench::block::{self, BlockSpec, Disk};
use pagewise_model::lend::{Lender, ZramSpec};
use pagewise_model::{BenchLayer, Bytes, Compressor, Driver, Refusal, Zram};
use pagewise_observe::Scope;

use super::pages::Drawn;
use super::times::Times;
use super::{BenchResults, Setting, swap};

/// Why no zram device can be measured.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct NoDevices(pub(super) Refusal);

impl From<Refusal> for NoDevices {
    fn from(refused: Refusal) -> Self {
        Self(refused.within("zram devices, and swap"))
    }
}

/// # Errors
/// [`NoDevices`] if the compression libraries can be measured instead.
pub(super) fn measure(setting: &Setting<'_>, drawn: &Drawn) -> anyhow::Result<BenchResults> {
    if !rustix::process::geteuid().is_root() {
        let refused = Refusal::with_advice("borrowing devices needs root", "run it as root");
        anyhow::bail!(NoDevices::from(refused));
    }
    let mut loans = HostLoans::open(setting.args.allow_shared_swap)?;
    match measure_with(setting, drawn, &mut loans.session) {
        Ok(mut measured) => {
            measured.notes.extend(loans.end());
            Ok(measured)
        }
        Err(error) => {
            loans.end_with_messages();
            Err(error)
        }
    }
}

fn measure_with(
    setting: &Setting<'_>,
    drawn: &Drawn,
    lender: &mut dyn Lender,
) -> anyhow::Result<BenchResults> {
    let times = Times::estimate(setting.args);
    let candidates = if setting.args.algorithm.is_empty() {
        offered_algorithms(setting, lender).map_err(NoDevices::from)?
    } else {
        setting.args.algorithm.clone()
    };
    let spec = BlockSpec {
        disk: setting.args.disk.clone().map(choose_disk),
        blocks: times.blocks(),
        seed: setting.args.seed,
        ..BlockSpec::new(candidates, times.block, times.block_rounds)
    };
    let block = setting.with_progress("block layer", |watch| {
        block::measure_devices(lender, setting.host, &drawn.pages, &spec, watch)
    })?;
    let mut measured = BenchResults {
        layer: BenchLayer::Zram,
        not_measured: block.failures.clone(),
        block,
        swap: Vec::new(),
        notes: drawn.notes.clone(),
    };
    if !setting.args.no_swap && !measured.block.stopped {
        swap::measure(setting, drawn, lender, &mut measured)?;
    }
    Ok(measured)
}

/// What is measured as the disk at this path: a folder is written to; a device or a file is only
/// read.
fn choose_disk(path: std::path::PathBuf) -> Disk {
    if path.is_dir() { Disk::Write(path) } else { Disk::Read(path) }
}

/// The algorithms that this kernel's zram offers, read from any zram device; without a zram device,
/// a temporary one is created.
fn offered_algorithms(
    setting: &Setting<'_>,
    lender: &mut dyn Lender,
) -> Result<Vec<Compressor>, Refusal> {
    let tells =
        |device: &&Zram| device.driver == Driver::Zram && device.algorithm.value().is_some();
    let (names, has_levels) = match setting.snapshot.zram.iter().find(tells) {
        Some(device) => (device.algorithm.value().cloned(), has_levels(device.id)),
        None => {
            let lent = lender.lend_zram(&ZramSpec::new(Bytes::new(4 << 20)))?;
            let devices = pagewise_observe::snapshot(setting.host, &Scope::glance()).zram;
            let has_levels = has_levels(lent.number);
            lender.return_loan(lent.loan)?;
            let device = devices.into_iter().find(|device| device.id == lent.number);
            (device.and_then(|device| device.algorithm.value().cloned()), has_levels)
        }
    };
    let names = names.ok_or_else(|| {
        Refusal::new("the list of algorithms", "no zram device tells it (comp_algorithm)")
    })?;
    let candidate = |name: &pagewise_model::Name| Compressor::new(name.as_str());
    let mut all: Vec<Compressor> = names.available.iter().map(candidate).collect();
    if setting.args.full && has_levels {
        all.extend(compressors_with_levels(&all));
    }
    Ok(all)
}

/// Whether this kernel's zram has compression levels (`algorithm_params`, Linux 6.11 and newer).
fn has_levels(number: u32) -> bool {
    Path::new(&format!("/sys/block/zram{number}/algorithm_params")).exists()
}

/// The compression levels that users most often ask about, of the algorithms that this kernel
/// offers.
fn compressors_with_levels(offered: &[Compressor]) -> Vec<Compressor> {
    const LEVELS: [(&str, i32); 4] = [("zstd", 1), ("zstd", 9), ("lz4hc", 4), ("deflate", 1)];
    let offers = |name: &str| offered.iter().any(|one| one.algorithm.as_str() == name);
    let there = LEVELS.into_iter().filter(|(name, _)| offers(name));
    there.map(|(name, level)| Compressor::with_level(name, level)).collect()
}
