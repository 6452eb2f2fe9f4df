// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the size and algorithm that findings, `scan` and `bench` recommend for zram. There is
//! no second computation, so that they never differ for the same measurements.
//!
//! The size (disksize) limits the uncompressed data. It is chosen such that the full device takes
//! half of RAM at the measured compression ratio: more would leave too little for the code and
//! files that programs use. The ratio was measured by the host's own devices, by `scan` or by
//! `bench`; a ratio of 2 is assumed if nothing was measured.
//!
//! The algorithm is the one that decompresses a page fastest, because a process waits for that: the
//! one that `bench` measured as fastest, otherwise lz4.

use crate::ratio::{ASSUMED_RATIO, measured_ratio};
use pagewise_model::{Bytes, Name, ParetoPoint, Picks, Ratio, Snapshot, Zram, ZramChoice};

/// Upper limit of the disksize, as a multiple of RAM, whatever the ratio is: the slot table takes
/// RAM from the start, and the ratio can get worse later.
const MOST_TIMES_RAM: f64 = 2.0;
/// The compression algorithm that decompresses fastest on every CPU that the authors of Pagewise
/// measured. `pagewise bench` measures it on the user's machine.
pub const FAST: &str = "lz4";
/// The compression algorithm of the kernel with the best ratio.
pub const DENSE: &str = "zstd";

/// A recommended size is derived from a sample only if the sample represents at least this much
/// memory.
pub const ENOUGH_BYTES: Bytes = Bytes::new(64 << 20);
/// A recommended size is derived from a sample only if at least this many of its pages were
/// compressed.
pub const ENOUGH_PAGES: u64 = 2000;

/// Whether a sample of `sampled` pages from `source` bytes of memory is large enough to recommend a
/// size for the host. The ratio of one small process says nothing about the host's other memory.
pub fn is_enough_to_size(source: Bytes, sampled: u64) -> bool {
    source >= ENOUGH_BYTES && sampled >= ENOUGH_PAGES
}

/// Like [`is_enough_to_size`], for a sample of `pages` in `bytes` from which `left_out` same-filled
/// pages were left out.
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

/// The recommended disksize of one device, in whole MiB, on a machine with `ram` whose memory has
/// the compression ratio `ratio` (original bytes per byte of RAM; `None` if it was not measured).
pub fn zram_size(ram: Bytes, ratio: Option<f64>) -> Bytes {
    let times = (ratio.unwrap_or(ASSUMED_RATIO).max(1.0) / 2.0).min(MOST_TIMES_RAM);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    let size = (ram.get() as f64 * times) as u64;
    Bytes::new((size >> 20).max(1) << 20)
}

/// The recommended compression algorithm of a zram device: the current one if the user chose it,
/// otherwise the fastest that the kernel offers.
pub fn algorithm(device: &Zram) -> Option<&Name> {
    let offered = device.algorithm.value()?;
    let chosen = device.initialised.get() == Some(true);
    let fast = offered.available.iter().find(|name| name.as_str() == FAST);
    Some(fast.filter(|_| !chosen).unwrap_or(&offered.active))
}

/// The recommendation of `bench` for a machine with `ram`: the best algorithm for the balanced
/// goal, with its measured ratio. If there is none because no writes were measured, the algorithm
/// that is fastest to read. If the best algorithm is not measurably better than lz4, lz4 is
/// recommended.
///
/// Read times alone do not decide: lz4hc reads as fast as lz4 but takes fifteen times as long to
/// write, and every page that is read was written before.
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
