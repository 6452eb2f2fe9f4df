// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that create a zram swap device at each boot: a drop-in of zram-generator if that is
//! installed, otherwise a systemd unit. The start script of a host without systemd
//! (`start_script.rs`) runs the same commands.
//!
//! The unit uses only `sh`, files of sysfs, cat, modprobe, mkswap and swapon, which exist on every
//! installation with swap. It does not use zramctl, which sets neither a memory limit nor, before
//! 2.41, a level. It writes the values in the order that the driver requires: algorithm, level,
//! memory limit, size. It does not wait for a device unit, because that was too late on slow boots;
//! instead it loads the module itself, without the device that the module creates by default. It
//! creates a device of its own (`hot_add`), so that it never uses a device of another program.
//!
//! The unit does nothing if compressed swap is enabled: then the plan, or another program, has
//! already created it. It is not started if a generator of systemd has made a unit for swap on
//! zram, whose device may appear later. If the kernel does not offer the algorithm, the driver's
//! default is used, because that is better than no swap; the error is in the journal.

use pagewise_model::plan::ZramSwap;

/// Path of the systemd unit that creates the zram device at boot.
pub(crate) const UNIT: &str = "/etc/systemd/system/pagewise-zram.service";
/// Path of the symbolic link because of which systemd starts the unit at boot.
pub(crate) const LINK: &str = "/etc/systemd/system/swap.target.wants/pagewise-zram.service";
/// Path of the drop-in because of which zram-generator creates the device.
pub(crate) const DROP_IN: &str = "/etc/systemd/zram-generator.conf.d/50-pagewise.conf";

/// Returns the content of the systemd unit that creates the zram device at boot.
pub(crate) fn unit_text(zram: &ZramSwap) -> String {
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
# zram-generator, installed later, or fstab sets up zram swap: one device is enough
ConditionPathExistsGlob=!/run/systemd/generator/dev-zram*.swap

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
        start = escape_script(&start),
        stop = escape_script(STOP),
    )
}

/// The script that removes what the start script created. It does nothing if compressed swap was
/// already enabled when the unit started.
const STOP: &str = "\
[ -e /run/pagewise-zram/number ] || exit 0
read -r number </run/pagewise-zram/number
swapoff /dev/zram$number || :
echo $number >/sys/class/zram-control/hot_remove";

/// Returns the script that the unit runs at its start. It contains no single quotes, because the
/// unit puts the script between single quotes.
fn start_script(zram: &ZramSwap) -> String {
    format!("{}\necho $number >/run/pagewise-zram/number", create_script(zram))
}

/// Returns the script that creates the zram device. It contains no single quotes.
pub(crate) fn create_script(zram: &ZramSwap) -> String {
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
trap - EXIT",
        algorithm = compressor.algorithm,
        level = level.unwrap_or_default(),
        limit = limit.unwrap_or_default(),
        disksize = disksize_bytes.get(),
    )
}

/// Formats a script as a unit file requires it: on one logical line, with `$` and `%` doubled.
fn escape_script(script: &str) -> String {
    let literal = script.replace('%', "%%").replace('$', "$$");
    literal.lines().collect::<Vec<_>>().join("; \\\n  ")
}

/// Returns the content of zram-generator's drop-in for the device `number`.
pub(crate) fn drop_in_text(zram: &ZramSwap, number: u32) -> String {
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
