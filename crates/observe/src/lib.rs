// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a host into a [`Snapshot`](pagewise_model::Snapshot). No other crate knows the kernel's
//! file formats.
//!
//! A [`HostRoot`] provides the files: the live machine, a folder, or a recording in memory. Each
//! module is named for what it reads. A file that is missing, refused or malformed becomes an
//! absent or denied Reading; a malformed one also adds a [`Problem`](pagewise_model::Problem). A
//! bad file never fails the whole snapshot, and values are not judged here. Page contents are never
//! read.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod calls;
mod capability;
mod cgroup;
mod cgroup_counters;
mod charge;
mod container;
mod counters;
mod damon;
mod disk;
mod disk_stats;
mod extent;
mod feature;
pub mod formats;
mod gauges;
mod generations;
mod gpu_memory;
mod host;
mod huge_page_sizes;
mod hugetlb;
mod installation;
mod journald;
mod kconfig;
mod kernel_log;
mod knob;
mod known;
mod ksm;
pub mod limits;
mod live;
mod memory;
mod memory_files;
mod mglru;
mod module;
mod mounts;
pub mod parsers;
mod process;
mod processors;
mod psi;
mod record;
mod rest;
mod sar;
mod sizes;
mod snapshot;
mod stall_alarm;
mod swap;
mod sysv;
mod tape;
#[cfg(test)]
mod testing;
mod thp;
mod thread_cpu;
mod thread_profile;
mod uptime;
mod users;
mod virt;
mod zfs;
mod zmerge;
mod zone;
mod zram;
mod zsmalloc;
mod zswap;

pub use calls::{OwnUsage, ticks};
pub use cgroup::memory_cgroups;
pub use cgroup_counters::CgroupCounters;
pub use charge::{Charge, Shortage, cgroup_processes, charge, memory_cgroup, refaults, shortage};
pub use counters::read as counters;
pub use damon::{Region as DamonRegion, idle_share, read_targets, regions as damon_regions};
pub use extent::{Extent, extent};
pub use gauges::{DeviceTraffic, HostGauges, PoolUse, ProcessorTicks};
pub use generations::{generations, generations_below};
pub use installation::{installation, machine_id_hash};
pub use kernel_log::{
    KillsSince, journals_of_folder, read as kernel_log, read_folder as kernel_log_of_folder,
    read_journals as kernel_log_of_journals, read_text as kernel_log_of_text, unpack_text,
};
pub use knob::knobs;
pub use known::Known;
pub use live::LiveReader;
pub use pagewise_hostfs::recording::{
    End, FORMAT, MAX_ENTRIES, MAX_FILE, MAX_SUM, Manifest, OpenError, Replay, Step, open_replay,
    unpack_replay,
};
pub use pagewise_hostfs::{
    ConfigurationFile, ConfigurationLimits, Entry, FolderError, HostRoot, MakeFolder,
    PROGRAM_FOLDERS, Pieces, ProgramError, Refusal, TrustedFolder, UserFile, UserFileError,
    acts_as_root, check_trusted_file, find_program, find_system_program, json_values,
    read_configuration,
};
pub use process::{command_lines, process_names};
pub use processors::Processors;
pub use psi::read as psi;
pub use record::{Recording, open, open_readings, open_with};
pub use rest::Rest;
pub use sar::read as sar;
pub use snapshot::{ProcessScope, Scope, keep_slow_parts, snapshot};
pub use stall_alarm::{StallAlarm, Woken};
pub use tape::{Tape, TapeEnd};
pub use thread_cpu::{ThreadCpu, children, family_usage, process_usage};
pub use thread_profile::ThreadProfile;
pub use users::user_names;
pub use zmerge::is_zmerge_loaded;
