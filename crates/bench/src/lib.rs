// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures costs on devices, swap and memory: zram at the block layer, page faults from swap,
//! random access in small and huge pages.
//!
//! [`block`] measures zram devices, and codecs in user space, by requests in rounds of random
//! order. [`faults`] swaps memory out and touches it again. [`canary`] measures random access to
//! memory in small and huge pages. [`picks`] determines the best algorithm for each goal.
//! [`stand_in`] generates pages to use where pages of programs must not be written. [`pool`] maps
//! memory from hugetlb pools.
//!
//! Devices, swap and settings are provided by a [`Lender`](pagewise_model::lend::Lender): it makes
//! the changes and undoes them when they are returned to it. So this crate writes no setting. The
//! only program that it starts is itself, as the worker of [`faults`].

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod block;
pub mod canary;
pub mod faults;
pub mod picks;
pub mod pool;
pub mod stand_in;
