// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An estimate, RAM and the size of a zram device → how much memory fits in all.
//!
//! A device of D bytes that is full of memory like this takes its memory used (in a pool as large as
//! that: the ends of zspages that a small source begins weigh nothing there) and its slot table out
//! of RAM: R bytes hold R + D − what it takes. It pays as long as it takes less than D, which is from
//! the break-even ratio on: what the slots take has to be gained first.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^53"
)]

use pagewise_model::{AlgorithmEstimate, Bytes, Effective, Estimate};

/// What `ram` holds with a zram device of `disksize`, full of memory like that of `estimate`.
/// `None` where nothing was looked at.
#[must_use]
pub fn effective(
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
