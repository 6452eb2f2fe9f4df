// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the memory controller of cgroup v2, for each group and for each node.

use super::row::{sysfs, trigger};
use super::{Access, Domain, Knob, Persist};

const SYSTEMD: &[Persist] = &[Persist::Systemd];
const RECLAIMED: &str = "pages have been reclaimed already; they come back when they are used";
const PER_OPEN_FILE: &str = "it lives as long as the file stays open and ends by itself";

pub(super) const ROWS: &[Knob] = &[
    sysfs(
        "cgroup.memory.min",
        "sys/fs/cgroup/{cgroup}/memory.min",
        Domain::Limit,
        "Bytes that are never reclaimed from the group; more than there is means OOM kills.",
    )
    .with_default("0")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.low",
        "sys/fs/cgroup/{cgroup}/memory.low",
        Domain::Limit,
        "Bytes that are reclaimed from the group only when nobody else has any left.",
    )
    .with_default("0")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.high",
        "sys/fs/cgroup/{cgroup}/memory.high",
        Domain::Limit,
        "Bytes above which the group is slowed down and reclaimed; lowering it reclaims in the write.",
    )
    .with_default("max")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.max",
        "sys/fs/cgroup/{cgroup}/memory.max",
        Domain::Limit,
        "Bytes that the group may use at most; lowering it below the use may kill.",
    )
    .with_default("max")
    .with_persist(SYSTEMD),
    trigger(
        "cgroup.memory.reclaim",
        "sys/fs/cgroup/{cgroup}/memory.reclaim",
        Domain::Text,
        RECLAIMED,
        "Reclaims this many bytes from the group now; EAGAIN means that it got less.",
    ),
    sysfs(
        "cgroup.memory.swap.max",
        "sys/fs/cgroup/{cgroup}/memory.swap.max",
        Domain::Limit,
        "Bytes of swap that the group may use at most; 0 leaves it without swap.",
    )
    .with_default("max")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.swap.high",
        "sys/fs/cgroup/{cgroup}/memory.swap.high",
        Domain::Limit,
        "Bytes of swap above which allocations of the group are slowed down for good.",
    )
    .with_default("max")
    .with_persist(&[Persist::Agent]),
    sysfs(
        "cgroup.memory.zswap.max",
        "sys/fs/cgroup/{cgroup}/memory.zswap.max",
        Domain::Limit,
        "Bytes that the group may use of the zswap pool, as compressed.",
    )
    .with_default("max")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.zswap.writeback",
        "sys/fs/cgroup/{cgroup}/memory.zswap.writeback",
        Domain::Bool,
        "0 keeps the group's pages off the swap device; a parent's 0 wins.",
    )
    .with_default("1")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.oom.group",
        "sys/fs/cgroup/{cgroup}/memory.oom.group",
        Domain::Bool,
        "1 kills the whole group when one of it must be killed.",
    )
    .with_default("0")
    .with_persist(SYSTEMD),
    sysfs(
        "cgroup.memory.peak",
        "sys/fs/cgroup/{cgroup}/memory.peak",
        Domain::Size,
        "Most bytes the group ever used; newer kernels let a write start it again for that open file.",
    )
    .with_persist(&[Persist::Agent])
    .without_undo(PER_OPEN_FILE),
    sysfs(
        "cgroup.memory.swap.peak",
        "sys/fs/cgroup/{cgroup}/memory.swap.peak",
        Domain::Size,
        "Most bytes of swap the group ever used; a write starts it again for that open file.",
    )
    .with_persist(&[Persist::Agent])
    .without_undo(PER_OPEN_FILE),
    trigger(
        "cgroup.memory.pressure",
        "sys/fs/cgroup/{cgroup}/memory.pressure",
        Domain::Text,
        PER_OPEN_FILE,
        "'some|full US WINDOW_US' asks to be woken by stalls; without root, windows of whole 2 s.",
    )
    .with_access(Access::WriteOnly)
    .with_persist(&[Persist::Systemd, Persist::Agent])
    .with_couples(&["cgroup.pressure"]),
    sysfs(
        "cgroup.pressure",
        "sys/fs/cgroup/{cgroup}/cgroup.pressure",
        Domain::Bool,
        "0 stops pressure accounting of the group, which also removes its pressure files.",
    )
    .with_default("1")
    .with_persist(&[Persist::Agent])
    .with_couples(&["cgroup.memory.pressure"]),
    trigger(
        "node.reclaim",
        "sys/devices/system/node/node{node}/reclaim",
        Domain::Text,
        RECLAIMED,
        "Reclaims this many bytes from the node now; EAGAIN means that it got less.",
    ),
];
