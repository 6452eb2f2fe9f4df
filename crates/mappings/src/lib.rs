// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of our own for measurements: pages that are mapped, filled, advised, swapped out and
//! touched one by one, with or without a file behind them, or from a hugetlb pool.
//!
//! memmap2 is not sufficient: it has no shared memory without a file and no safe way to free or
//! locate single pages, and its mappings are slices, from which the compiler may omit a read. Here
//! every touch is a real access.
//!
//! [`pin`] maps and locks the code of running programs, which it finds through `/proc/PID/map_files`.
//!
//! This crate does not decide what is measured, and writes no file.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod calls;
pub mod pin;

pub use calls::{Advice, Region, Sleeper};
