// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out which pages of a live process are where: in RAM, in swap, in huge pages; never what
//! they contain.
//!
//! - [`coverage`]: how much of a process is in huge pages, block by block;
//! - [`walks`]: what address translation costs it, by hardware counters;
//! - [`pagemap`], [`scan`], [`smaps`], [`frames`]: the kernel's files and its PAGEMAP_SCAN call,
//!   for crates that search pages;
//! - [`environment`]: one variable of its environment;
//! - [`backing`], [`devices`]: what backs a mapping, so that device memory is never read;
//! - [`served`]: whether a server must answer before the file of a mapping can be opened.
//!
//! Only files below `/proc/PID` and, as root, `/proc/kpage*` are read, and only of live processes:
//! a recording holds no addresses. Facts about the host are passed in by the caller, who has them
//! from `pagewise-observe`.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod backing;
mod calls;
pub mod coverage;
pub mod devices;
pub mod environment;
pub mod frames;
mod maps;
pub mod open;
pub mod pagemap;
pub mod scan;
pub mod served;
pub mod smaps;
pub mod walks;
