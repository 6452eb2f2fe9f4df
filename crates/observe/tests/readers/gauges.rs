// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single values of a host that are read repeatedly.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Bytes, Micros};
use pagewise_observe::{DeviceTraffic, HostGauges, PoolUse, ProcessorTicks};

use crate::testing::{file, host};

#[test]
fn ticks_of_all_processors_are_read() {
    let ticks = |text: &str| HostGauges(&host([("proc/stat", text)])).processor_ticks();
    let all = ticks("cpu  10 1 5 100 7 2 3 4 0 0\ncpu0 1 1\ncpu1 3 4\nintr 5\n").unwrap();
    assert_eq!(all, ProcessorTicks { busy: 21, user: 11, stolen: 4, all: 132, processors: 2 });
    for bad in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 x\n"] {
        assert!(ticks(bad).is_none(), "{bad}");
    }
    let here = HostRoot::live().unwrap();
    let here = HostGauges(&here).processor_ticks();
    assert!(here.is_some_and(|ticks| ticks.processors > 0 && ticks.all > 0));
}

/// Content from a kernel 6.18.
#[test]
fn files_of_the_kernel_are_read() {
    let mm_stat =
        " 67108864 20447232 21131264        0 25341952      128        0       12      340\n";
    let pressure = "some avg10=0.00 avg60=0.12 avg300=0.05 total=183215\n\
                    full avg10=0.00 avg60=0.10 avg300=0.04 total=150927\n";
    let meminfo = "MemTotal:       24684392 kB\nSwapCached:            0 kB\n\
                   SwapTotal:        262140 kB\nSwapFree:         200700 kB\n\
                   Zswap:              1024 kB\nZswapped:           4096 kB\n";
    let swaps = "Filename\t\tType\t\tSize\n/dev/zram0  partition\t262140\n";
    let host = host([
        ("sys/block/zram3/mm_stat", mm_stat),
        ("proc/pressure/memory", pressure),
        ("proc/meminfo", meminfo),
        ("proc/swaps", swaps),
        ("proc/loadavg", "0.55 1.29 0.97 2/151 19963\n"),
        ("sys/block/vda/stat", "  3241 12 183400 1500 800 3 65536 900 0 2000 2400 0 0 0 0 10 5\n"),
        ("sys/block/vdb/stat", "3241 12\n"),
        ("sys/module/zswap/parameters/enabled", "Y\n"),
    ]);
    let gauges = HostGauges(&host);
    assert_eq!(gauges.zram_peak(3), Some(Bytes::new(25_341_952)));
    assert_eq!(gauges.zram_peak(4), None);
    let pool = |taken, original| {
        Some(PoolUse { taken: Bytes::new(taken), original: Bytes::new(original) })
    };
    assert_eq!(gauges.zram_use(3), pool(21_131_264, 67_108_864));
    assert_eq!((gauges.zram_use(4), gauges.zswap_use()), (None, pool(1 << 20, 4 << 20)));
    assert_eq!(gauges.memory_stall(), Some(Micros::new(150_927)));
    assert_eq!(gauges.swap_used(), Some(Bytes::new((262_140 - 200_700) * 1024)));
    assert_eq!((gauges.load(), gauges.has_swap()), (Some([0.55, 1.29, 0.97]), true));
    assert_eq!((gauges.zswap_pool(), gauges.is_zswap_on()), (Some(Bytes::new(1 << 20)), true));
    let traffic = DeviceTraffic { read: Bytes::new(183_400 * 512), written: Bytes::new(1 << 25) };
    assert_eq!(gauges.device_traffic("vda"), Some(traffic));
    assert_eq!((gauges.device_traffic("vdb"), gauges.device_traffic("vdc")), (None, None));
}

#[test]
fn what_a_host_does_not_tell_is_none() {
    let files = [
        ("proc/meminfo", "MemTotal: 1 kB\n"),
        ("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
        ("proc/loadavg", "0.55 x"),
        ("proc/swaps", "Filename\t\tType\t\tSize\n"),
    ];
    let host = host(files);
    let gauges = HostGauges(&host);
    assert_eq!((gauges.swap_used(), gauges.memory_stall(), gauges.load()), (None, None, None));
    assert!(!gauges.has_swap() && gauges.clocksource().is_none());
    assert!(!gauges.is_zswap_on() && gauges.zswap_pool().is_none());
    assert_eq!(gauges.zswap_use(), None);
    assert!(gauges.governors().is_empty());
}

#[test]
fn each_governor_is_named_once() {
    let path = |id| format!("sys/devices/system/cpu/cpu{id}/cpufreq/scaling_governor");
    let files = [(0, "schedutil\n"), (1, "performance\n"), (2, "schedutil\n")];
    let host = HostRoot::memory(files.map(|(id, governor)| file(path(id), governor)));
    let governors = HostGauges(&host).governors();
    assert_eq!(governors.into_iter().collect::<Vec<_>>(), ["performance", "schedutil"]);
}
