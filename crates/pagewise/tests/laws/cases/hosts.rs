// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes to recorded hosts that several cases share.

use crate::scene::Scene;

/// No swap; a zram device without a size.
pub(crate) const PLAIN: &str = "debian12-6.18-x86_64-24g-plain";
/// A large process in huge pages.
pub(crate) const THP: &str = "debian12-6.18-x86_64-24g-thp";
/// A zram swap tier with a lower priority than a swap file, both empty.
pub(crate) const BEHIND_FILE: &str = "debian12-6.18-x86_64-24g-zram-behind-file";
/// The same, while a cgroup of 64 MiB swaps 130 MiB to the file.
pub(crate) const BEHIND_FILE_USED: &str = "debian12-6.18-x86_64-24g-zram-behind-file-used";
/// A zram swap tier alone, empty.
pub(crate) const ZRAM_SWAP: &str = "debian12-6.18-x86_64-24g-zram-swap";
/// A cgroup whose process was killed at its limit.
pub(crate) const OOM_LIMIT: &str = "debian-trixie-6.12-x86_64-256m-oom-limit";
/// [`ZRAM_SWAP`], while a cgroup of 64 MiB swaps 130 MiB of text to it.
pub(crate) const ZRAM_SWAP_USED: &str = "debian12-6.18-x86_64-24g-zram-swap-used";
/// cgroup v2: a cgroup of 64 MiB uses 160 MiB, the rest of it in zram.
pub(crate) const AT_LIMIT: &str = "debian-sid-7.2-x86_64-512m-zram-pressure";
/// No swap; a kernel whose zswap has a shrinker.
pub(crate) const ZSWAP_OFF: &str = "debian-sid-7.2-x86_64-256m-oom-host";
/// A cgroup of 40 MiB whose program file does not fit into memory together with its data, and no
/// swap.
pub(crate) const SWAP_OFF: &str = "debian-trixie-6.12-x86_64-512m-swap-off";

/// The header line of /proc/swaps.
const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

/// Sets the swap tiers, each as `path kind size used priority` in KiB.
pub(super) fn swaps(host: Scene, tiers: &[&str]) -> Scene {
    let lines: String = tiers.iter().map(|tier| format!("{tier}\n")).collect();
    host.file("proc/swaps", format!("{HEAD}{lines}"))
}

/// Sets memory pressure (PSI averages): some over 10 and 60 s, full over 10 and 60 s.
pub(super) fn pressure(host: Scene, averages: [&str; 4]) -> Scene {
    let [some10, some60, full10, full60] = averages;
    let text = |total: u32| {
        format!(
            "some avg10={some10} avg60={some60} avg300=0.00 total={total}\n\
             full avg10={full10} avg60={full60} avg300=0.00 total=814414\n"
        )
    };
    host.file_at("start", "proc/pressure/memory", text(1_541_868)).file_at(
        "end",
        "proc/pressure/memory",
        text(1_641_868),
    )
}

/// Tasks wait for memory for more than the thresholds.
pub(super) fn waiting(host: Scene) -> Scene {
    pressure(host, ["14.00", "11.20", "4.00", "3.00"])
}

/// A working set that does not fit: dropped pages are read again, and tasks wait for them. Most
/// data read from disk is new, so this is not thrashing.
pub(super) fn rereading(host: Scene) -> Scene {
    host.grow("workingset_refault_file", 100_000)
        .grow("pgsteal_file", 90_000)
        .grow("pgmajfault", 500)
        .grow("pgpgin", 900_000)
}

/// No swap at all.
pub(super) fn swap_off(host: Scene) -> Scene {
    swaps(host, &[]).line("proc/meminfo", "SwapTotal:", "SwapTotal:             0 kB")
}

/// A zram device with a size that holds `stored` bytes, compressed to 40 %.
pub(super) fn zram0(host: Scene, stored: u64) -> Scene {
    let compressed = stored * 2 / 5;
    let mm_stat = format!("{stored:8} {compressed:8} {compressed:8} 0 {compressed:8} 0 0 0 0\n");
    host.file("sys/block/zram0/initstate", "1\n")
        .file("sys/block/zram0/disksize", "536870912\n")
        .file("sys/block/zram0/dev", "252:0\n")
        .file("sys/block/zram0/mm_stat", mm_stat)
}

/// Sets the `mm_stat` of the device that is a swap tier.
pub(super) fn mm_stat(host: Scene, columns: &str) -> Scene {
    host.file("sys/block/zram1/mm_stat", format!("{columns}\n"))
}

/// A kernel with zram as a module, which is on disk and not loaded.
pub(super) fn zram_not_loaded(host: Scene) -> Scene {
    host.without("sys/block/zram0")
        .without("sys/class/zram-control")
        .line("proc/config.gz", "CONFIG_ZRAM=y", "CONFIG_ZRAM=m")
        .file(
            "lib/modules/6.18.44/modules.dep",
            "\n\nkernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko.xz\n",
        )
}

/// Adds a mount to the recorded ones.
pub(super) fn mounted(host: Scene, line: &str) -> Scene {
    let text = host.text("end", "proc/self/mountinfo").expect("mounts are recorded");
    let text = format!("{text}{line}\n");
    host.file("proc/self/mountinfo", text)
}

const GROUP: &str = "sys/fs/cgroup/system.slice/db.service";

/// The same machine with cgroup v2 only, and one service in its own cgroup.
pub(super) fn version_2(host: Scene) -> Scene {
    let root = "anon 70000000\nfile 3600000000\nshmem 9000000\n";
    let service = "anon 40000000\nfile 200000000\nshmem 0\npgmajfault 12\n";
    host.without("sys/fs/cgroup")
        .file("proc/self/mountinfo", VERSION_2_MOUNTS)
        .file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        .file("sys/fs/cgroup/memory.stat", root)
        .file("sys/fs/cgroup/system.slice/memory.stat", service)
        .file(&format!("{GROUP}/memory.stat"), service)
        .file(&format!("{GROUP}/memory.current"), "240000000\n")
        .file(&format!("{GROUP}/memory.max"), "250000000\n")
        .file(&format!("{GROUP}/memory.swap.max"), "max\n")
        .file(&format!("{GROUP}/memory.events"), group_events(0))
        .file(&format!("{GROUP}/memory.pressure"), group_pressure("0.00"))
}

const VERSION_2_MOUNTS: &str = "\
22 27 0:21 / /proc rw - proc proc rw
23 27 0:22 / /sys rw - sysfs sysfs rw
27 1 254:0 / / rw - ext4 /dev/vda rw,discard
31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
";

/// The `memory.events` of the service's cgroup, which reached its limit this many times.
pub(super) fn group_events(reached_max: u32) -> String {
    format!("low 0\nhigh 0\nmax {reached_max}\noom 0\noom_kill 0\noom_group_kill 0\n")
}

/// The memory pressure of the cgroup, as the share of the last minute.
fn group_pressure(some60: &str) -> String {
    format!(
        "some avg10={some60} avg60={some60} avg300=0.00 total=90000\n\
         full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
}

/// Sets a file of the service's cgroup.
pub(super) fn group(host: Scene, file: &str, text: impl AsRef<[u8]>) -> Scene {
    host.file(&format!("{GROUP}/{file}"), text)
}
