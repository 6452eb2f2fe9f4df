// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how much memory fits into RAM and a zram device together, from an estimate and the
//! sizes of both.
//!
//! A full device of D bytes takes RAM for its pool (in which the partly filled zspages of a small
//! source do not matter) and for its slot table. RAM of R bytes then holds R + D minus that memory.
//! zram saves memory as long as it takes less than D. This is the case above the break-even ratio,
//! because the saving must also pay for the slot table.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^53"
)]

use pagewise_model::{AlgorithmEstimate, Bytes, Effective, Estimate};

/// Computes the memory that fits into `ram` with a full zram device of `disksize`, if all memory
/// compresses like that of `estimate`. `None` if no page was sampled.
#[must_use]
pub fn estimate_effective(
    estimate: &Estimate,
    algorithm: &AlgorithmEstimate,
    ram: Bytes,
    disksize: Bytes,
) -> Option<Effective> {
    let original = estimate.pages.checked_mul(estimate.page_bytes.get()).filter(|all| *all > 0)?;
    let times = disksize.get() as f64 / original as f64;
    let scaled = |bytes: Bytes| bytes.get() as f64 * times;
    let slots = scaled(algorithm.slot_table_bytes);
    let takes = scaled(algorithm.memory_in_pool_bytes) + slots;
    let holds = ram.get() as f64 + disksize.get() as f64 - takes;
    Some(Effective {
        ram_bytes: ram,
        disksize_bytes: disksize,
        takes_bytes: Bytes::new(takes as u64),
        holds_bytes: Bytes::new(holds.max(0.0) as u64),
        break_even_ratio: 1.0 / (1.0 - slots / disksize.get().max(1) as f64),
    })
}
