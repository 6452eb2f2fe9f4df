// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides how a host's swapped pages should be compressed: zram or zswap, algorithm and size.
//!
//! Pure: it reads no file. Findings, plans, `scan` and `bench` all take these values from here, so
//! that they never recommend different ones for the same measured values. Whether a host needs
//! compressed swap at all is not decided here: this requires a verdict, and `clippy.toml` forbids
//! levels and findings in this crate.

mod case;
mod decide_swap;
mod decision;
mod words;
mod zram;

pub use decide_swap::{decide_swap, zswap_compressor};
pub use decision::{Compression, SwapDecision, SwapEvidence, SwapTrial, ZswapSettings};
pub use zram::{
    DENSE, ENOUGH_BYTES, ENOUGH_PAGES, FAST, algorithm, choose_zram, is_enough_to_size,
    is_enough_to_size_with, size_mib, zram_size,
};
