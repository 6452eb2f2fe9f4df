// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions: things done to memory that change no setting and no content, so the journal has no record of them and
//! `undo` has nothing to do. A setting that limits an action while it lasts is a loan.

mod accessed;
pub mod aging;
mod lru_gen;
pub mod merge;
pub mod reclaim;
pub mod zram;

pub use accessed::clear_accessed;
