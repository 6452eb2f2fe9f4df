// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of kernel settings, with one row for each setting. The readers, the planner, the help
//! and the report all use this table.
//!
//! A row does not say which kernels have the setting; whether a host has it is probed by its path.
//! Settings that newer kernels removed keep their row.
//!
//! Unusual properties of settings that the types of this module express: two files *act when they
//! are read* (`hot_add` creates a device); some settings exclude each other, and the inactive one
//! reads 0; some changes can only be undone by a reset; and one setting is restored from a value
//! that another file reports.
//!
//! Defaults are those of a 64-bit kernel with base pages of 4 KiB. A default that is computed from
//! the machine or chosen at build time is `None`.
//!
//! Not in the table because they are not files under `/proc/sys` or `/sys`: system calls (`prctl`,
//! `madvise`, `swapon` priorities), mount options, kernel command line parameters without a file
//! (`psi=`, `hugepagesz=`, `zram.num_devices=`), properties that only systemd knows
//! (`ManagedOOM…=`) and files of one process (`oom_score_adj`, `clear_refs`). Not in the table
//! because they cannot be set: statistics, which have types of their own.

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

pub use settable::{KnobScope, KnobValue, SettableKnob, list_settable};
pub use setting::{Access, Domain, Knob, KnobReading, Persist, Undo};
pub use table::KNOBS;
