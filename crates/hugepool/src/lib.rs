// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory pools in whole huge pages, and how much of a process's memory is in huge pages.
//!
//! A [`Pool`] is for objects with similar lifetimes, so that long-lived objects do not keep huge
//! pages of short-lived ones alive. Small blocks are in slabs by size class inside huge pages;
//! blocks larger than a huge page have their own huge pages. A [`Table`] is a fixed number of large
//! blocks. Memory is taken from the kernel, and returned to it, in whole huge pages.
//!
//! Whether the kernel provides huge pages is measured, not assumed: [`Statistics`] count what was
//! refused, and [`Pool::coverage`] reads the current state. [`Process`] does this for all memory of
//! the process. The variable `PAGEWISE_THP` (`on`, `off`, `advised`) controls the whole process;
//! see [`Switch`].
//!
//! Every failure is returned as an error. No call ends the process or unwinds.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![expect(clippy::cast_precision_loss, reason = "shares for display need no 53 bits")]

pub mod coverage;
mod error;
pub mod ffi;
mod machine;
mod sys;

#[cfg(feature = "pool")]
mod arena;
#[cfg(feature = "pool")]
mod bits;
#[cfg(feature = "pool")]
mod cache;
#[cfg(feature = "pool")]
mod chunk;
#[cfg(feature = "pool")]
mod index;
#[cfg(feature = "pool")]
mod options;
#[cfg(feature = "pool")]
mod pool;
#[cfg(feature = "pool")]
mod shared;
#[cfg(feature = "pool")]
mod size_class;
#[cfg(feature = "pool")]
mod slab;
#[cfg(feature = "pool")]
mod stats;
#[cfg(feature = "pool")]
mod table;
#[cfg(feature = "pool")]
mod tally;

pub use coverage::{Coverage, Process};
pub use error::Error;
pub use machine::Availability;
#[cfg(feature = "pool")]
pub use machine::Switch;
#[cfg(feature = "pool")]
pub use options::{Fork, Options};
#[cfg(feature = "pool")]
pub use pool::Pool;
#[cfg(feature = "pool")]
pub use stats::Statistics;
#[cfg(feature = "pool")]
pub use table::Table;
