// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram devices. Settings must be written in this order: comp_algorithm, algorithm_params,
//! recomp_algorithm, backing_dev, compressed_writeback, mem_limit, and last disksize, which
//! initialises the device.
//!
//! `num_devices` is a module parameter that has no file.

use super::row::{COUNT, SMALL, int, sysfs, trigger};
use super::{Access, Domain, Knob, Persist};

const RESET_ONLY: &str = "only a reset clears it, which discards the data";
const CREATED: &str = "the device stays until hot_remove, which needs its number";
const ACTED: &str = "slots have been read, compressed or written already";

pub(super) const ROWS: &[Knob] = &[
    trigger(
        "zram-control.hot_add",
        "sys/class/zram-control/hot_add",
        Domain::Trigger,
        CREATED,
        "Reading it makes a new zram device and prints its number: never read it to look.",
    )
    .with_access(Access::ReadActs)
    .with_persist(&[Persist::Agent, Persist::Udev])
    .with_couples(&["zram-control.hot_remove"]),
    trigger(
        "zram-control.hot_remove",
        "sys/class/zram-control/hot_remove",
        SMALL,
        "the device and its data are gone",
        "Removes the zram device of this number, which must not be in use.",
    )
    .with_persist(&[Persist::Agent, Persist::Udev])
    .with_couples(&["zram-control.hot_add"]),
    sysfs(
        "zram.comp_algorithm",
        "sys/block/zram{N}/comp_algorithm",
        Domain::Listed,
        "Primary compressor; only before disksize, and newer kernels forget its parameters on a write.",
    )
    .with_persist(&[Persist::ZramGenerator, Persist::Udev])
    .with_couples(&["zram.algorithm_params", "zram.disksize", "zram.reset"]),
    trigger(
        "zram.algorithm_params",
        "sys/block/zram{N}/algorithm_params",
        Domain::Text,
        RESET_ONLY,
        "Level and dictionary of an algorithm; a write replaces them all, bad ones fail at disksize.",
    )
    .with_persist(&[Persist::ZramGenerator, Persist::Udev, Persist::Agent])
    .with_couples(&[
        "zram.comp_algorithm",
        "zram.recomp_algorithm",
        "zram.disksize",
        "zram.reset",
    ]),
    sysfs(
        "zram.recomp_algorithm",
        "sys/block/zram{N}/recomp_algorithm",
        Domain::Text,
        "Secondary compressors by priority 1 to 3, used by recompress; only before disksize.",
    )
    .with_persist(&[Persist::ZramGenerator, Persist::Udev])
    .without_undo(RESET_ONLY)
    .with_couples(&[
        "zram.algorithm_params",
        "zram.recompress",
        "zram.disksize",
        "zram.reset",
    ]),
    trigger(
        "zram.recompress",
        "sys/block/zram{N}/recompress",
        Domain::Text,
        ACTED,
        "Recompresses idle or huge slots now; without priority= kernels differ in what they try.",
    )
    .with_couples(&["zram.recomp_algorithm", "zram.idle"]),
    sysfs(
        "zram.disksize",
        "sys/block/zram{N}/disksize",
        Domain::Size,
        "Uncompressed capacity in bytes, set once; its slot table costs 0.4 to 0.6 % of it at once.",
    )
    .with_default("0")
    .with_persist(&[Persist::ZramGenerator, Persist::Udev])
    .without_undo("changing it needs a reset, which discards the data")
    .with_couples(&[
        "zram.comp_algorithm",
        "zram.algorithm_params",
        "zram.recomp_algorithm",
        "zram.backing_dev",
        "zram.compressed_writeback",
        "zram.mem_limit",
        "zram.reset",
    ]),
    sysfs(
        "zram.mem_limit",
        "sys/block/zram{N}/mem_limit",
        Domain::Size,
        "Cap in bytes on the memory used, 0 for none; when it is hit, writes fail as I/O errors.",
    )
    .with_default("0")
    .with_access(Access::WriteOnly)
    .with_persist(&[Persist::ZramGenerator, Persist::Udev])
    .with_reported_undo("the fourth number of mm_stat")
    .with_couples(&["zram.disksize", "zram.reset"]),
    trigger(
        "zram.mem_used_max",
        "sys/block/zram{N}/mem_used_max",
        int(0, 0),
        "the old peak is forgotten",
        "Writing 0 starts the peak of memory used again from the present use.",
    ),
    trigger(
        "zram.reset",
        "sys/block/zram{N}/reset",
        int(1, i32::MAX as u64),
        "all data on the device are gone",
        "Frees everything and forgets the set-up; the device must be swapped off and closed.",
    )
    .with_couples(&[
        "zram.comp_algorithm",
        "zram.algorithm_params",
        "zram.recomp_algorithm",
        "zram.disksize",
        "zram.mem_limit",
        "zram.backing_dev",
        "zram.compressed_writeback",
        "zram.writeback_limit",
        "zram.writeback_limit_enable",
    ]),
    trigger(
        "zram.compact",
        "sys/block/zram{N}/compact",
        Domain::Trigger,
        "objects have moved already; nothing is lost by it",
        "Moves stored objects together now so that whole pages become free.",
    ),
    trigger(
        "zram.idle",
        "sys/block/zram{N}/idle",
        Domain::Text,
        "marks go away only when a slot is used",
        "Marks slots idle: all of them, or those unused for this many seconds where age is tracked.",
    )
    .with_couples(&["zram.recompress", "zram.writeback"]),
    sysfs(
        "zram.backing_dev",
        "sys/block/zram{N}/backing_dev",
        Domain::Text,
        "Block device that written-back slots go to; only before disksize.",
    )
    .with_default("none")
    .with_persist(&[Persist::ZramGenerator, Persist::Udev])
    .without_undo(RESET_ONLY)
    .with_couples(&["zram.disksize", "zram.writeback", "zram.reset"]),
    trigger(
        "zram.writeback",
        "sys/block/zram{N}/writeback",
        Domain::Text,
        ACTED,
        "Writes idle, huge or incompressible slots to the backing device now; wears flash.",
    )
    .with_couples(&["zram.backing_dev", "zram.idle", "zram.writeback_limit"]),
    sysfs(
        "zram.writeback_limit_enable",
        "sys/block/zram{N}/writeback_limit_enable",
        Domain::Bool,
        "Holds writeback to the budget in writeback_limit.",
    )
    .with_default("0")
    .with_persist(&[Persist::Udev, Persist::Agent])
    .with_couples(&["zram.writeback_limit", "zram.reset"]),
    sysfs(
        "zram.writeback_limit",
        "sys/block/zram{N}/writeback_limit",
        COUNT,
        "Pages of 4 KiB that may still be written back; counts down and is lost on reset.",
    )
    .with_default("0")
    .with_persist(&[Persist::Agent])
    .with_couples(&["zram.writeback_limit_enable", "zram.writeback", "zram.reset"]),
    sysfs(
        "zram.writeback_batch_size",
        "sys/block/zram{N}/writeback_batch_size",
        int(1, u32::MAX as u64),
        "Writeback requests in flight at one time.",
    )
    .with_default("32")
    .with_persist(&[Persist::Udev, Persist::Agent]),
    sysfs(
        "zram.compressed_writeback",
        "sys/block/zram{N}/compressed_writeback",
        Domain::Bool,
        "Writes slots back as they are compressed, to save CPU and battery; only before disksize.",
    )
    .with_default("0")
    .with_persist(&[Persist::Udev])
    .with_couples(&["zram.disksize", "zram.reset"]),
    sysfs(
        "zram.max_comp_streams",
        "sys/block/zram{N}/max_comp_streams",
        SMALL,
        "Without effect since compression is per CPU; newer kernels have removed it.",
    )
    .with_persist(&[Persist::Udev]),
];
