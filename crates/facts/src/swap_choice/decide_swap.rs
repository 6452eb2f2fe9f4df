// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides between zram and zswap on this machine, from Readings and optional measurements
//! ([`SwapDecision`]).
//!
//! The decision is a list of questions, of which the first decisive answer is used. If a Reading
//! that a question needs is missing, the decision is left open: a missing Reading never leads to
//! another choice than the Reading itself would.
//!
//! The figures in the sentences were measured by the authors of Pagewise in emulated guests with
//! synthetic programs (docs/measured/zram-or-zswap.md). A page cost the same with zram and zswap
//! there, so the cost is not decisive; how each of them treats cold pages is. Two things are not
//! decided here: whether memory is short (see `judge`), and how to change from one to the other.

use crate::kubernetes;
use crate::tiers::{self, DiskKind};
use pagewise_model::{Bytes, FeatureState, Interval, Name, Percent, Snapshot, Tier};

use super::case::{Case, Missing};
use super::decision::{Compression, Settled, SwapDecision, SwapEvidence, ZswapSettings};
use super::words;
use super::zram::{DENSE, FAST, algorithm, size_mib, zram_size};

/// If the compression ratio is below this, compression frees less than a tenth of what is swapped.
const LEAST_RATIO: f64 = 1.1;
/// Share of incompressible pages above which a difference between zram and zswap was measured.
const MUCH_INCOMPRESSIBLE: f64 = 0.3;
/// Share of cold pages below which zswap's shrinker has few pages to write to disk. In the
/// measurements the share was 0.35.
const LITTLE_COLD: f64 = 0.1;

/// Decides whether zram or zswap suits this machine.
#[must_use]
pub fn decide_swap(interval: &Interval, evidence: &SwapEvidence) -> SwapDecision {
    let case = Case { interval, host: &interval.end, evidence };
    let settled = choose_compression(&case).unwrap_or_else(words::explain_missing);
    let (zram, zswap) = (zram_settings(&case), zswap_settings(&case));
    let Settled { choice, why, changes } = settled;
    let trial =
        words::trial_command(&case, &zram, &zswap).filter(|_| choice != Some(Compression::Neither));
    SwapDecision { choice, why, changes, zram, zswap, trial }
}

fn choose_compression(case: &Case<'_>) -> Result<Settled, Missing> {
    if let Some(kind) = case.container()? {
        return Ok(words::explain_container(kind));
    }
    let disks: Vec<&Tier> = case.disks()?;
    if let Some(ratio) = case.ratio()?.filter(|&ratio| ratio < LEAST_RATIO) {
        return Ok(words::explain_poor_compression(ratio));
    }
    if disks.is_empty() { choose_without_disk(case) } else { choose_with_disk(case, &disks) }
}

fn choose_without_disk(case: &Case<'_>) -> Result<Settled, Missing> {
    let host = case.host;
    if host.tiers.is_empty() && kubernetes::is_node(host) {
        return Ok(words::explain_kubernetes());
    }
    if let Some(device) = case.resume_device()? {
        return Ok(words::explain_hibernation_alone(&device));
    }
    if !case.has_zram()? {
        return Ok(words::explain_no_kernel_part(false, case.has_zswap()?));
    }
    match &case.evidence.trial {
        Some(trial) if trial.better == Compression::Zswap => {
            Ok(words::explain_trial_needs_disk(trial))
        }
        _ => Ok(words::explain_zram_alone(case, pool_percent(host))),
    }
}

fn choose_with_disk(case: &Case<'_>, disks: &[&Tier]) -> Result<Settled, Missing> {
    let host = case.host;
    if !case.has_zswap()? {
        let has_zram = case.has_zram()?;
        return Ok(if has_zram {
            words::explain_no_zswap(case, disks[0])
        } else {
            words::explain_no_kernel_part(true, false)
        });
    }
    let slots = || case.slots(disks, pool_percent(host));
    if let Some(trial) = &case.evidence.trial {
        let is_possible = match trial.better {
            Compression::Zswap => slots()?.free > Bytes::new(0),
            _ => case.has_zram()?,
        };
        if is_possible {
            return Ok(words::explain_trial(trial));
        }
    }
    if !case.has_shrinker()? {
        let is_first =
            host.zswap.enabled.get() == Some(true) && tiers::in_ram(host).next().is_none();
        let is_open = is_first || !case.has_zram()?;
        return Ok(words::explain_no_shrinker(case, disks[0], is_open));
    }
    let kinds: Vec<Option<DiskKind>> = disks.iter().map(|tier| case.kind(tier)).collect();
    for kind in [DiskKind::Network, DiskKind::Card] {
        if let Some(at) = kinds.iter().position(|&it| it == Some(kind)) {
            return Ok(words::explain_unsuited(kind, disks[at], case.has_zram()?));
        }
    }
    if let Some(settled) = choose_with_zram_in_use(case, disks)? {
        return Ok(settled);
    }
    if let Some(at) = kinds.iter().position(Option::is_none) {
        return Err(Missing(format!("on what kind of disk {} is", disks[at].path)));
    }
    if let Some(at) = kinds.iter().position(|&it| it == Some(DiskKind::Spinning)) {
        return Ok(words::explain_spinning_disk(disks[at]));
    }
    if !case.has_mglru()? {
        return Ok(words::explain_classic_lru());
    }
    if let Some(group) = case.group_at_limit()? {
        return Ok(words::explain_group_at_limit(group));
    }
    if let Some(closed) = case.closed_to_zswap(disks)? {
        return Ok(words::explain_closed_to_zswap(&closed));
    }
    if let Some(cold) = case.evidence.cold.filter(|&cold| cold < LITTLE_COLD) {
        return Ok(words::explain_little_cold(cold));
    }
    let slots = slots()?;
    if slots.free < slots.wanted {
        let is_open = host.zswap.enabled.get() == Some(true) || !case.has_zram()?;
        return Ok(words::explain_few_slots(case, disks[0], &slots, is_open));
    }
    Ok(words::explain_zswap(case, disks[0], &slots))
}

/// Returns the decision if zram swap is already enabled; `None` if it is not.
fn choose_with_zram_in_use(case: &Case<'_>, disks: &[&Tier]) -> Result<Option<Settled>, Missing> {
    let mut full = None;
    for tier in tiers::in_ram(case.host) {
        match tier.is_full() {
            Some(true) => full = Some(tier),
            Some(false) if case.evidence.incompressible >= Some(MUCH_INCOMPRESSIBLE) => {
                return Ok(Some(words::explain_incompressible_zram(tier)));
            }
            Some(false) => return Ok(Some(words::explain_room_in_zram(tier, disks[0]))),
            None => return Err(Missing(format!("how full {} is", tier.path))),
        }
    }
    Ok(full.map(|tier| words::explain_full_zram(case, tier, disks[0])))
}

/// The recommended compression algorithm and size of a zram device, the same as in findings,
/// `bench` and `scan`.
fn zram_settings(case: &Case<'_>) -> (Name, Bytes) {
    let host = case.host;
    let chosen = || host.zram.first().and_then(algorithm).cloned();
    let size = || match (host.memory.total.get(), case.evidence.ratio) {
        (Some(ram), Some(ratio)) => zram_size(ram, Some(ratio)),
        _ => Bytes::new(size_mib(host) << 20),
    };
    let usual = || (chosen().unwrap_or_else(|| Name::from(FAST)), size());
    case.evidence.zram.clone().unwrap_or_else(usual)
}

/// The recommended settings of zswap. What the user has chosen is kept: the pool size and, if zswap
/// is enabled, the compressor.
fn zswap_settings(case: &Case<'_>) -> ZswapSettings {
    let zswap = &case.host.zswap;
    ZswapSettings {
        compressor: zswap_compressor(case.host, case.evidence.is_density_wanted),
        max_pool_percent: pool_percent(case.host),
        has_shrinker: zswap.shrinker_enabled.value().is_some(),
    }
}

/// The recommended compressor of zswap: the current one if zswap is enabled, otherwise the fastest.
/// If low memory use is more important than speed, it is the one with the best ratio, provided that
/// the kernel has it.
#[must_use]
pub fn zswap_compressor(host: &Snapshot, is_density_wanted: bool) -> Name {
    let zswap = &host.zswap;
    let chosen = zswap.compressor.value().filter(|_| zswap.enabled.get() == Some(true));
    let usual = if is_density_wanted && has_dense_zswap(host) { DENSE } else { FAST };
    chosen.cloned().unwrap_or_else(|| Name::from(usual))
}

fn pool_percent(host: &Snapshot) -> u64 {
    /// The kernel's default for `max_pool_percent`, in percent of RAM.
    const POOL_PERCENT: u64 = 20;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = host.zswap.max_pool_percent.get().map(|percent: Percent| percent.get() as u64);
    percent.filter(|&percent| percent > 0).unwrap_or(POOL_PERCENT)
}

/// Whether zswap could use [`DENSE`]. The kernel loads a compressor's module when the compressor is
/// set.
fn has_dense_zswap(host: &Snapshot) -> bool {
    let state = host.capability("zswap.zstd").map(|dense| &dense.state);
    matches!(state, Some(FeatureState::Present | FeatureState::Loadable { .. }))
}
