// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The size and algorithm that findings, `scan` and `bench` recommend for zram. They are computed
//! only here, so that these never differ for the same measured values.
//!
//! The size (disksize) limits the uncompressed data. It is chosen such that the full device takes
//! half of RAM at the measured ratio, or at a ratio of 2 if nothing was measured: more would leave
//! too little for the code and files that programs use. The ratio is that of the host's own
//! devices, or the one that `scan` or `bench` measured.
//!
//! The algorithm is the one that reads a page back fastest, because a process waits for that: the
//! one that `bench` measured, otherwise lz4.

use crate::ratio::{ASSUMED_RATIO, measured_ratio};
use pagewise_model::{Bytes, Name, ParetoPoint, Picks, Ratio, Snapshot, Zram, ZramChoice};

/// Upper limit of the disksize, as a multiple of RAM, whatever the ratio: the slot table takes RAM
/// from the start, and the ratio can get worse.
const MOST_TIMES_RAM: f64 = 2.0;
/// The compression algorithm that is fastest to read on every CPU that we measured; `pagewise
/// bench` measures it on this memory.
pub const FAST: &str = "lz4";
/// The compression algorithm of the kernel with the best ratio.
pub const DENSE: &str = "zstd";

/// The least memory that a sample must stand for before a size for the host follows from it.
pub const ENOUGH_BYTES: Bytes = Bytes::new(64 << 20);
/// The least number of compressed pages from which a size for the host follows.
pub const ENOUGH_PAGES: u64 = 2000;

/// Whether a sample of `sampled` pages from `source` bytes of memory is enough for a size for the host:
/// the ratio of one small process says nothing about the rest.
pub fn is_enough_to_size(source: Bytes, sampled: u64) -> bool {
    source >= ENOUGH_BYTES && sampled >= ENOUGH_PAGES
}

/// As [`is_enough_to_size`], for a sample of `pages` in `bytes`, beside which `left_out` pages of the
/// source were not measured because they are same-filled.
pub fn is_enough_to_size_with(bytes: Bytes, pages: u64, left_out: u64) -> bool {
    let page = bytes.get() / pages.max(1);
    let source = bytes.get().saturating_add(left_out.saturating_mul(page));
    is_enough_to_size(Bytes::new(source), pages)
}

/// The recommended disksize of one zram device for this host, in whole MiB.
pub fn size_mib(host: &Snapshot) -> u64 {
    let Some(ram) = host.memory.total.get() else { return 512 };
    zram_size(ram, measured_ratio(host).map(Ratio::get)).get() >> 20
}

/// The recommended disksize for one device, in whole MiB, on a machine with `ram` whose memory
/// compresses by `ratio` (original bytes per byte of RAM; `None` if it was not measured).
pub fn zram_size(ram: Bytes, ratio: Option<f64>) -> Bytes {
    let times = (ratio.unwrap_or(ASSUMED_RATIO).max(1.0) / 2.0).min(MOST_TIMES_RAM);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    let size = (ram.get() as f64 * times) as u64;
    Bytes::new((size >> 20).max(1) << 20)
}

/// The compression algorithm that is recommended for a zram device: the device's own if it was
/// chosen by the user, otherwise the fastest that the kernel offers.
pub fn algorithm(device: &Zram) -> Option<&Name> {
    let offered = device.algorithm.value()?;
    let chosen = device.initialised.get() == Some(true);
    let fast = offered.available.iter().find(|name| name.as_str() == FAST);
    Some(fast.filter(|_| !chosen).unwrap_or(&offered.active))
}

/// The recommendation of `bench` for a machine with `ram`: the algorithm of the balanced goal, with
/// the ratio measured for it; without one (no writes were measured), the fastest to read. If the
/// winner is not measurably better than lz4, it is lz4.
///
/// Reads alone do not decide: lz4hc reads as fast as lz4 and takes fifteen times as long to write,
/// and every page that is read was written before.
pub fn choose_zram(ram: Bytes, picks: &Picks, measured: &[ParetoPoint]) -> Option<ZramChoice> {
    let pick = picks.balanced.as_ref().or(picks.latency.as_ref())?;
    let next = pick.runner_up.as_ref().filter(|next| !next.is_real);
    let usual = next.map(|next| &next.contender).filter(|next| next.algorithm.as_str() == FAST);
    let contender = usual.unwrap_or(&pick.winner);
    let ratio =
        measured.iter().find(|point| point.contender == *contender)?.original_per_memory_used;
    Some(ZramChoice {
        contender: contender.clone(),
        disksize_bytes: zram_size(ram, Some(ratio)),
        original_per_memory_used: ratio,
    })
}

#[cfg(test)]
#[path = "../../tests/unit/zram.rs"]
mod tests;
