// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why zram is not used: a case for every reason that the rule `zram-unused` knows.

use pagewise_model::Severity::{Critical, Info, Warning};

use super::hosts::{
    BEHIND_FILE, PLAIN, ZRAM_SWAP, group, group_events, mounted, swap_off, swaps, version_2,
    waiting, zram_not_loaded, zram0,
};
use super::other::swappiness;
use super::{Case, Near};
use crate::scene::Scene;

const ID: &str = "zram-unused";

/// A cgroup (v1) below another one.
const INNER: &str = "sys/fs/cgroup/memory/cg-2/cg-3";

/// A swap file that holds 100 MiB.
const FILE: &str = "/swap-1 file 524284 102400 -2";

pub(super) static CASES: &[Case] = &[
    Case {
        id: ID,
        reason: "the module is not loaded, and a file takes the swap",
        host: PLAIN,
        fires: |host| swaps(zram_not_loaded(host), &[FILE]),
        severity: Warning,
        title: "the zram module is not loaded",
        also: &[],
        near: Near::Silent(zram_not_loaded),
    },
    Case {
        id: ID,
        reason: "the module is not loaded, and memory is short without any swap",
        host: PLAIN,
        fires: |host| waiting(zram_not_loaded(host)),
        severity: Warning,
        title: "the zram module is not loaded",
        also: &["memory-pressure"],
        near: Near::Silent(|host| {
            let none = host.without("sys/block/zram0").without("sys/class/zram-control");
            let not_built = "# CONFIG_ZRAM is not set";
            waiting(none.line("proc/config.gz", "CONFIG_ZRAM=y", not_built))
        }),
    },
    Case {
        id: ID,
        reason: "a container cannot have it",
        host: PLAIN,
        fires: |host| swaps(docker(zram_not_loaded(host)), &[FILE]),
        severity: Info,
        title: "this container cannot have its own zram device",
        also: &[],
        near: Near::Silent(|host| docker(zram_not_loaded(host))),
    },
    Case {
        id: ID,
        reason: "a device without a size",
        host: PLAIN,
        fires: |host| host,
        severity: Info,
        title: "zram0 is not initialised",
        also: &[],
        near: Near::Silent(|host| zram0(host, 30 << 20)),
    },
    Case {
        id: ID,
        reason: "a device without a size, while a file takes the swap",
        host: PLAIN,
        fires: |host| swaps(host, &[FILE]),
        severity: Warning,
        title: "zram0 is not initialised",
        also: &[],
        near: Near::Told(
            |host| swaps(host, &["/swap-1 file 524284 0 -2"]),
            Info,
            "zram0 is not initialised",
        ),
    },
    Case {
        id: ID,
        reason: "a size and no signature",
        host: PLAIN,
        fires: |host| zram0(host, 0),
        severity: Info,
        title: "zram0 has a size, but pagewise sees no swap signature on it",
        also: &[],
        // the device stores something, though its kind cannot be determined
        near: Near::Silent(|host| zram0(host, 64 << 20)),
    },
    Case {
        id: ID,
        reason: "a signature that udev saw, and not switched on",
        host: PLAIN,
        fires: |host| udev_saw_swap(zram0(host, 4096)),
        severity: Info,
        title: "zram0 is prepared for swap but not enabled (swapon)",
        also: &[],
        near: Near::Silent(|host| {
            let mount = "50 27 252:0 / /var/cache rw - ext4 /dev/zram0 rw";
            mounted(udev_saw_swap(zram0(host, 4096)), mount)
        }),
    },
    Case {
        id: ID,
        reason: "a signature on the device itself, and not switched on",
        host: PLAIN,
        fires: |host| zram0(host, 4096).file("dev/zram0", signature(b"SWAPSPACE2")),
        severity: Info,
        title: "zram0 is prepared for swap but not enabled (swapon)",
        also: &[],
        near: Near::Told(
            |host| zram0(host, 4096).file("dev/zram0", signature(b"SWAPSPACE3")),
            Info,
            "zram0 has a size, but pagewise sees no swap signature on it",
        ),
    },
    Case {
        id: ID,
        reason: "a swap file has the higher priority",
        host: BEHIND_FILE,
        fires: |host| host,
        severity: Info,
        title: "zram1 is not used: its swap priority is 5, and /swap-1 has 50",
        also: &[],
        near: Near::Silent(|host| in_front(host, 49)),
    },
    Case {
        id: ID,
        reason: "a swap file has the higher priority and takes the swap",
        host: BEHIND_FILE,
        fires: |host| behind(host, 102_400),
        severity: Warning,
        title: "zram1 is not used: its swap priority is 5, and /swap-1 has 50",
        also: &[],
        // a full one cannot be the reason, and pages were swapped
        near: Near::But(|host| behind(host, 524_284), &["tier-order"]),
    },
    Case {
        id: ID,
        reason: "a swap file has the higher priority, takes the swap, and somebody waits",
        host: BEHIND_FILE,
        fires: |host| waiting(behind(host, 102_400)),
        severity: Critical,
        title: "zram1 is not used: its swap priority is 5, and /swap-1 has 50",
        also: &["memory-pressure"],
        near: Near::Told(
            |host| waiting(behind(host, 0)),
            Warning,
            "its swap priority is 5, and /swap-1 has 50",
        ),
    },
    Case {
        id: ID,
        reason: "swappiness so low that only file pages are reclaimed, on classic lists",
        host: ZRAM_SWAP,
        fires: |host| swappiness(never_swapped(was_scanned(host)), "9"),
        severity: Info,
        title: "zram1 is empty: with vm.swappiness 9, only file pages are reclaimed",
        also: &[],
        near: Near::Told(
            |host| swappiness(never_swapped(was_scanned(host)), "10"),
            Info,
            "zram1 is empty: dropping page cache has been enough",
        ),
    },
    Case {
        id: ID,
        reason: "swappiness 1 with multi-gen LRU",
        host: ZRAM_SWAP,
        fires: |host| swappiness(generations(never_swapped(was_scanned(host))), "1"),
        severity: Info,
        title: "zram1 is empty: with vm.swappiness 1, only file pages are reclaimed",
        also: &[],
        near: Near::Told(
            |host| swappiness(generations(never_swapped(was_scanned(host))), "2"),
            Info,
            "zram1 is empty: dropping page cache has been enough",
        ),
    },
    Case {
        id: ID,
        reason: "the group that hits its limit is barred from swapping",
        host: ZRAM_SWAP,
        fires: |host| limited(host, "0\n", 212),
        severity: Info,
        title: "zram1 is empty: /system.slice/db.service is not allowed to swap",
        also: &[],
        near: Near::Silent(|host| limited(host, "max\n", 212)),
    },
    Case {
        id: ID,
        reason: "the groups with most of the anonymous memory is barred from swapping",
        host: ZRAM_SWAP,
        fires: |host| limited(was_scanned(host), "0\n", 0),
        severity: Info,
        title: "zram1 is empty: /system.slice/db.service is not allowed to swap",
        also: &[],
        near: Near::Silent(|host| limited(host, "0\n", 0)),
    },
    Case {
        id: ID,
        reason: "swappiness 0 of a version 1 group that hits its limit",
        host: ZRAM_SWAP,
        fires: |host| barred_by_version_1(host, "0\n"),
        severity: Info,
        title: "zram1 is empty: /cg-2/cg-3 is not allowed to swap",
        also: &[],
        near: Near::Silent(|host| barred_by_version_1(host, "1\n")),
    },
    Case {
        id: ID,
        reason: "memory was never short",
        host: ZRAM_SWAP,
        fires: never_swapped,
        severity: Info,
        title: "zram1 is empty: memory was never short since boot",
        also: &[],
        near: Near::Silent(|host| host.counter("pswpout", 1)),
    },
    Case {
        id: ID,
        reason: "dropping page cache was enough",
        host: ZRAM_SWAP,
        fires: |host| never_swapped(was_scanned(host)),
        severity: Info,
        title: "zram1 is empty: dropping page cache has been enough so far",
        also: &[],
        near: Near::Silent(|host| {
            swaps(never_swapped(was_scanned(host)), &["/dev/zram1 partition 524284 4 100"])
        }),
    },
    Case {
        id: ID,
        reason: "swap was switched off, and the device was left as it is",
        host: ZRAM_SWAP,
        fires: |host| swap_off(host).file("dev/zram1", signature(b"SWAPSPACE2")),
        severity: Info,
        title: "zram1 is prepared for swap but not enabled (swapon)",
        also: &[],
        near: Near::Silent(|host| host),
    },
    Case {
        id: ID,
        reason: "a version 1 group whose limit of both is that of memory",
        host: ZRAM_SWAP,
        fires: |host| limited_by_version_1(host, 250_003_456),
        severity: Info,
        title: "zram1 is empty: /cg-2/cg-3 is not allowed to swap",
        also: &["group-limit"],
        near: Near::Silent(|host| limited_by_version_1(host, 250_007_552)),
    },
];

fn docker(host: Scene) -> Scene {
    host.file("run/systemd/container", "docker\n")
}

fn udev_saw_swap(host: Scene) -> Scene {
    host.file("run/udev/data/b252:0", "\n\nE:ID_FS_TYPE=swap\n")
}

/// A first page that ends with this mark.
fn signature(mark: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 4096 - mark.len()];
    page.extend_from_slice(mark);
    page
}

fn behind(host: Scene, used: u32) -> Scene {
    let file = format!("/swap-1 file 524284 {used} 50");
    swaps(host, &[&file, "/dev/zram1 partition 524284 0 5"])
}

fn in_front(host: Scene, of: i32) -> Scene {
    let file = format!("/swap-1 file 524284 0 {of}");
    swaps(host, &[&file, "/dev/zram1 partition 524284 0 50"])
}

fn never_swapped(host: Scene) -> Scene {
    host.counter("pswpout", 0)
}

fn was_scanned(host: Scene) -> Scene {
    host.counter("pgscan_kswapd", 900_000).counter("pgscan_direct", 100)
}

fn generations(host: Scene) -> Scene {
    host.file("sys/kernel/mm/lru_gen/enabled", "0x0007\n")
        .file("sys/kernel/mm/lru_gen/min_ttl_ms", "0\n")
}

fn limited(host: Scene, swap_max: &str, hits: u32) -> Scene {
    let host = group(version_2(host), "memory.events", group_events(hits));
    group(host, "memory.swap.max", swap_max)
}

fn limited_by_version_1(host: Scene, both: u64) -> Scene {
    let stat = format!("{INNER}/memory.stat");
    let both_line = format!("hierarchical_memsw_limit {both}");
    host.line(&stat, "hierarchical_memory_limit", "hierarchical_memory_limit 250003456")
        .line(&stat, "hierarchical_memsw_limit", &both_line)
        .file(&format!("{INNER}/memory.limit_in_bytes"), "250003456\n")
        .file(&format!("{INNER}/memory.memsw.limit_in_bytes"), format!("{both}\n"))
        .file(&format!("{INNER}/memory.failcnt"), "3\n")
}

fn barred_by_version_1(host: Scene, swappiness: &str) -> Scene {
    host.file(&format!("{INNER}/memory.swappiness"), swappiness)
        .file(&format!("{INNER}/memory.failcnt"), "3\n")
}
