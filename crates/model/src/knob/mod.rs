// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of kernel settings: one row each, walked by reader, planner, help and report.
//!
//! A row says nothing about which kernel has the setting: presence is probed by its path. Settings
//! that newer kernels removed keep their row.
//!
//! Surprises that the types must carry: two files *act when they are read* (`hot_add` makes a
//! device), some settings exclude each other and read 0 while the other rules, some can only be
//! undone by a reset, and one is undone from what another file reports.
//!
//! Defaults are those of a 64-bit kernel with base pages of 4 KiB; a default that is computed from
//! the machine or chosen when the kernel was built is `None`.
//!
//! Left out, because they are no file under `/proc/sys` or `/sys`: system calls (`prctl`,
//! `madvise`, `swapon` priorities), mount options, kernel command line parameters without a file
//! (`psi=`, `hugepagesz=`, `zram.num_devices=`), properties that only systemd knows
//! (`ManagedOOM…=`) and files of one process (`oom_score_adj`, `clear_refs`). Left out, because
//! they inform and take nothing: statistics, which have nouns of their own.

mod agreement;
mod cgroup;
mod damon;
mod ksm;
pub mod lend;
mod mglru;
mod numa;
mod row;
mod settable;
mod setting;
mod swap;
mod table;
mod thp;
pub mod undo;
mod vm;
mod zram;
mod zswap;

pub use settable::{KnobScope, KnobValue, SettableKnob, settable};
pub use setting::{Access, Domain, Knob, KnobReading, Persist, Undo};
pub use table::KNOBS;
