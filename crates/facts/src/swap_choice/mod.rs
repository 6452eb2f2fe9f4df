// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides how a host's swapped pages should be compressed: with zram or zswap, and with which
//! algorithm and size.
//!
//! This module is pure: it reads no file. Findings, plans, `scan` and `bench` all take these values
//! from here, so that they never recommend different values for the same measurements. Whether a
//! host needs compressed swap at all is not decided here: that depends on how short of memory the
//! host is, which `pagewise_decide` judges.

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
