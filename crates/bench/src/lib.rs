// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Borrowed devices, swap and memory → what they cost: zram at the block layer, page faults from swap, random
//! access in small and huge pages.
//!
//! [`block`] measures zram devices, and codecs in user space, by requests in rounds of random order. [`faults`]
//! swaps memory out and touches it again, [`canary`] chases through memory in small and huge pages. [`picks`] says which algorithm is best for what. [`stand_in`] makes up
//! pages where those of programs may not be used, [`pool`] has memory from the pools of huge pages.
//!
//! Devices, swap and settings come from a [`Lender`](pagewise_model::lend::Lender) and go back to it: this crate
//! writes no setting. It starts itself only, as the worker of [`faults`].

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod block;
pub mod canary;
pub mod faults;
pub mod picks;
pub mod pool;
pub mod stand_in;
