// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how the kernel would store pages when it compresses them. Pure: no I/O. The contents of
//! a page are not kept, only counts and hashes.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod aging;
mod bytes;
pub mod codec;
pub mod duplicates;
pub mod effective;
pub mod estimate;
pub mod fill;
pub mod huge;
pub mod interval;
pub mod kernel;
pub mod library;
pub mod lz4;
pub mod lzo;
pub mod packer;
pub mod random_draw;
pub mod same;
mod saved;
pub mod tally;
pub mod zsmalloc;
