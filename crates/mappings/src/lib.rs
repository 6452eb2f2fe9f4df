// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of our own to measure with: pages that are mapped, filled, advised, swapped out and touched one
//! by one, without or with a file behind them, or from a pool of huge pages (hugetlb).
//!
//! memmap2 has no shared memory without a file, no way to drop or find single pages that is safe, and its
//! mappings are slices, of which a read may be left out. Here a touch is a touch.
//!
//! [`pin`] maps and locks the code of other programs, found through `/proc/PID/map_files`.
//!
//! What is measured, and by whom, is decided by the callers. No file of the host is written.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod calls;
pub mod pin;

pub use calls::{Advice, Region, Sleeper};
