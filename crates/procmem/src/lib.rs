// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which pages of a live process are in RAM, in swap and in huge pages, without reading
//! their contents.
//!
//! - [`coverage`]: how much of a process's memory is in huge pages, block by block;
//! - [`walks`]: how much time a process spends on address translation, measured with hardware
//!   counters;
//! - [`pagemap`], [`scan`], [`smaps`], [`frames`]: the kernel's files and its PAGEMAP_SCAN call,
//!   for crates that search for pages;
//! - [`environment`]: a single variable of a process's environment;
//! - [`backing`], [`devices`]: what backs a mapping, so that device memory is never read;
//! - [`served`]: whether a server must answer before the file of a mapping can be opened.
//!
//! It reads only files below `/proc/PID` and, as root, `/proc/kpage*`, and only of live processes,
//! because a recording does not contain addresses. Facts about the host are passed in by the
//! caller, who reads them with `pagewise-observe`.

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
