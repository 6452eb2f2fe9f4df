// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps memory for measurements: its pages can be filled, advised, swapped out and touched one by
//! one. The memory may be anonymous, shared, from a file, or from a hugetlb pool.
//!
//! The crate memmap2 is not sufficient: it has no shared memory without a file, and no safe way to
//! free or locate single pages. Its mappings are slices, so that the compiler may omit a read. In
//! this crate, each touch really accesses the page.
//!
//! The module [`pin`] maps and locks the code of running programs, which it finds through
//! `/proc/PID/map_files`.
//!
//! This crate does not decide what is measured, and does not write files.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod calls;
pub mod pin;

pub use calls::{Advice, Region, Sleeper};
