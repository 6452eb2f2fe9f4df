// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A zram swap device → the files that set it up at each boot: a drop-in of zram-generator where that is
//! installed, otherwise a unit of our own.
//!
//! The unit runs `sh` on files of sysfs, and cat, modprobe, mkswap and swapon, which every installation that can
//! have swap has. zramctl is not used: it sets neither a memory limit nor, before 2.41, a level. The order of
//! writes is the one that the driver needs: algorithm, its level, memory limit, size. The unit waits for
//! no device unit, which in slow boots came too late, and loads the module itself, without the device that the
//! module makes by default. It makes a device of its own (`hot_add`), so that it never takes one from another
//! program, and does nothing if compressed swap is on: the plan has made it already, or another program has. An algorithm that the kernel does not offer is no
//! reason to have no swap: the driver's own is used then, and the error is in the journal.

use pagewise_model::plan::ZramSwap;

/// The unit.
pub(crate) const UNIT: &str = "/etc/systemd/system/pagewise-zram.service";
/// The link by which systemd starts it at boot.
pub(crate) const LINK: &str = "/etc/systemd/system/swap.target.wants/pagewise-zram.service";
/// The drop-in of zram-generator.
pub(crate) const DROP_IN: &str = "/etc/systemd/zram-generator.conf.d/50-pagewise.conf";

/// The unit's text.
pub(crate) fn unit(zram: &ZramSwap) -> String {
    let start = start_script(zram);
    format!(
        "\
# Written by pagewise (pagewise plan, pagewise apply). To undo: pagewise undo.
# Swap in compressed RAM of {disksize}, compressed with {algorithm}.
[Unit]
Description=Swap in compressed RAM (zram), set up by pagewise
DefaultDependencies=no
Before=swap.target
ConditionVirtualization=!container

[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=pagewise-zram
ExecStart=/bin/sh -ec '{start}'
ExecStop=/bin/sh -ec '{stop}'

[Install]
WantedBy=swap.target
",
        disksize = zram.disksize_bytes,
        algorithm = zram.compressor,
        start = escaped(&start),
        stop = escaped(STOP),
    )
}

/// Takes away what the start made; nothing if that found compressed swap in use.
const STOP: &str = "\
[ -e /run/pagewise-zram/number ] || exit 0
read -r number </run/pagewise-zram/number
swapoff /dev/zram$number || :
echo $number >/sys/class/zram-control/hot_remove";

/// Sets the device up. Holds no single quote: the unit puts it into a pair of them.
pub(crate) fn start_script(zram: &ZramSwap) -> String {
    let ZramSwap { compressor, disksize_bytes, mem_limit_bytes, priority } = zram;
    let level = compressor.level.map(|level| {
        format!("echo algo={} level={level} >$sys/algorithm_params || :\n", compressor.algorithm)
    });
    let limit = mem_limit_bytes.map(|limit| format!("echo {} >$sys/mem_limit\n", limit.get()));
    format!(
        "\
while read -r area rest; do case $area in /dev/zram*) exit 0;; esac; done </proc/swaps
[ -e /sys/class/zram-control ] || modprobe zram num_devices=0
number=$(cat /sys/class/zram-control/hot_add)
trap \"echo $number >/sys/class/zram-control/hot_remove\" EXIT
sys=/sys/block/zram$number
echo {algorithm} >$sys/comp_algorithm || :
{level}{limit}echo {disksize} >$sys/disksize
mkswap /dev/zram$number
swapon -p {priority} /dev/zram$number
trap - EXIT
echo $number >/run/pagewise-zram/number",
        algorithm = compressor.algorithm,
        level = level.unwrap_or_default(),
        limit = limit.unwrap_or_default(),
        disksize = disksize_bytes.get(),
    )
}

/// As a unit file holds it: one logical line, `$` and `%` doubled.
fn escaped(script: &str) -> String {
    let literal = script.replace('%', "%%").replace('$', "$$");
    literal.lines().collect::<Vec<_>>().join("; \\\n  ")
}

/// The drop-in's text, for the device `number`.
pub(crate) fn drop_in(zram: &ZramSwap, number: u32) -> String {
    let level = zram.compressor.level.map(|level| format!("(level={level})"));
    let limit =
        zram.mem_limit_bytes.map(|limit| format!("zram-resident-limit = {}\n", limit.get() >> 20));
    format!(
        "\
# Written by pagewise (pagewise plan, pagewise apply). To undo: pagewise undo.
# Sizes are in MiB.
[zram{number}]
zram-size = {size}
{limit}compression-algorithm = {algorithm}{level}
swap-priority = {priority}
",
        size = zram.disksize_bytes.get() >> 20,
        limit = limit.unwrap_or_default(),
        algorithm = zram.compressor.algorithm,
        level = level.unwrap_or_default(),
        priority = zram.priority,
    )
}
