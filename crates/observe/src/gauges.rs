// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single facts of a host for whoever measures: each is read when it is asked for, without a
//! [`Snapshot`](pagewise_model::Snapshot).
//!
//! What a host does not tell is `None`: a measurement goes on without it.

use std::collections::BTreeSet;

use pagewise_model::{Bytes, Micros};

use crate::{memory, psi, zram};
use pagewise_files::text::{number, words};
use pagewise_files::{HostRoot, ReadHost, ReadValues};

/// Reads single facts of a host.
#[derive(Debug, Clone, Copy)]
pub struct HostGauges<'h>(pub &'h HostRoot);

/// Time of all processors together since boot, in ticks of [`rustix::param::clock_ticks_per_second`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// They ran something.
    pub busy: u64,
    /// The hypervisor ran something else (steal).
    pub stolen: u64,
    /// Idle time included.
    pub all: u64,
    /// The number of processors.
    pub processors: u64,
}

impl HostGauges<'_> {
    /// Swap in use.
    #[must_use]
    pub fn swap_used(self) -> Option<Bytes> {
        let memory = memory::read(self.0);
        let free = memory.swap_free.get()?.get();
        memory.swap_total.get()?.get().checked_sub(free).map(Bytes::new)
    }

    /// Whether any swap is on.
    #[must_use]
    pub fn has_swap(self) -> bool {
        self.0.text("proc/swaps").is_ok_and(|areas| areas.lines().count() > 1)
    }

    /// The time in which all tasks waited for memory (PSI, full).
    #[must_use]
    pub fn memory_stall(self) -> Option<Micros> {
        psi::pressure(self.0, "proc/pressure/memory").full.total_us.get()
    }

    /// `/proc/stat`.
    #[must_use]
    pub fn processor_ticks(self) -> Option<ProcessorTicks> {
        let text = self.0.text("proc/stat").ok()?;
        let mut lines = text.lines();
        let first = lines.next()?;
        let numbers = first.bytes.strip_prefix(b"cpu ")?;
        let numbers: Vec<u64> = words(numbers).map(number).collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = numbers[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        let processors = lines.take_while(|line| line.bytes.starts_with(b"cpu")).count() as u64;
        Some(ProcessorTicks { busy, stolen, all: busy + idle + iowait + stolen, processors })
    }

    /// The load averages over 1, 5 and 15 minutes.
    #[must_use]
    pub fn load(self) -> Option<[f64; 3]> {
        let text = self.0.bytes("proc/loadavg").ok()?;
        let mut numbers = words(&text).map_while(number);
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    }

    /// What the kernel reads time from, as `tsc`.
    #[must_use]
    pub fn clocksource(self) -> Option<String> {
        self.word("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// What chooses the frequency of the processors, as `performance`: each governor in use once.
    #[must_use]
    pub fn governors(self) -> BTreeSet<String> {
        const PROCESSORS: &str = "sys/devices/system/cpu";
        let processors = self.0.numbered(PROCESSORS, "cpu").into_iter();
        let governor = |id| self.word(&format!("{PROCESSORS}/cpu{id}/cpufreq/scaling_governor"));
        processors.filter_map(governor).collect()
    }

    /// The most memory that a zram device has used since it was made (`mm_stat`).
    #[must_use]
    pub fn most_used_by_zram(self, number: u32) -> Option<Bytes> {
        // the live machine's attributes are read once until they are let go
        self.0.let_go();
        zram::mm_stat(self.0, &format!("sys/block/zram{number}/mm_stat")).memory_used_max.get()
    }

    fn word(self, path: &str) -> Option<String> {
        self.0.name_at(path).value().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{file, host};

    #[test]
    fn ticks_of_all_processors_are_read() {
        let ticks = |text: &str| HostGauges(&host([("proc/stat", text)])).processor_ticks();
        let all = ticks("cpu  10 1 5 100 7 2 3 4 0 0\ncpu0 1 1\ncpu1 3 4\nintr 5\n").unwrap();
        assert_eq!(all, ProcessorTicks { busy: 21, stolen: 4, all: 132, processors: 2 });
        for bad in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 x\n"] {
            assert!(ticks(bad).is_none(), "{bad}");
        }
        let here = HostRoot::live().unwrap();
        let here = HostGauges(&here).processor_ticks();
        assert!(here.is_some_and(|ticks| ticks.processors > 0 && ticks.all > 0));
    }

    /// Taken from a kernel 6.18.
    #[test]
    fn files_of_the_kernel_are_read() {
        let mm_stat =
            " 67108864 20447232 21131264        0 25341952      128        0       12      340\n";
        let pressure = "some avg10=0.00 avg60=0.12 avg300=0.05 total=183215\n\
                        full avg10=0.00 avg60=0.10 avg300=0.04 total=150927\n";
        let meminfo = "MemTotal:       24684392 kB\nSwapCached:            0 kB\n\
                       SwapTotal:        262140 kB\nSwapFree:         200700 kB\n";
        let swaps = "Filename\t\tType\t\tSize\n/dev/zram0  partition\t262140\n";
        let host = host([
            ("sys/block/zram3/mm_stat", mm_stat),
            ("proc/pressure/memory", pressure),
            ("proc/meminfo", meminfo),
            ("proc/swaps", swaps),
            ("proc/loadavg", "0.55 1.29 0.97 2/151 19963\n"),
        ]);
        let gauges = HostGauges(&host);
        assert_eq!(gauges.most_used_by_zram(3), Some(Bytes::new(25_341_952)));
        assert_eq!(gauges.most_used_by_zram(4), None);
        assert_eq!(gauges.memory_stall(), Some(Micros::new(150_927)));
        assert_eq!(gauges.swap_used(), Some(Bytes::new((262_140 - 200_700) * 1024)));
        assert_eq!((gauges.load(), gauges.has_swap()), (Some([0.55, 1.29, 0.97]), true));
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
}
