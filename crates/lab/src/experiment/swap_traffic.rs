// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from counters before and after a run how many pages were swapped in and out, by the
//! kind of device.
//!
//! `pswpin` alone does not make arms comparable (see [`SwappedPages`]); the sum `swap-ins` does.
//! Disk traffic is read from the disk itself if only the arm uses the disk; otherwise it is the
//! number of swapped pages minus the traffic of zram devices. A disk for zram's writeback is always
//! used by the arm alone.
//!
//! All counters are those of the whole host. While an arm has swap areas of its own, the host has
//! no other swap.

use std::path::{Path, PathBuf};

use pagewise_model::{Bytes, SwappedPages};
use pagewise_observe::{DeviceTraffic, HostGauges, HostRoot};
use pagewise_stats::name::{
    DISK_SWAP_READS, DISK_SWAP_WRITES, REFUSED_SHARE, SWAP_INS, ZSWAP_REFUSED,
};
use rustix::param::page_size;

/// The swap areas of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LentSwap {
    /// Numbers of the run's zram devices.
    pub(super) zram: Vec<u32>,
    /// Paths of whole disks used as swap.
    pub(super) disks: Vec<PathBuf>,
    /// Paths of whole disks to which zram devices write pages back.
    pub(super) behind_zram: Vec<PathBuf>,
    /// Whether the run has swap files; their disks have other traffic too.
    pub(super) has_files: bool,
    pub(super) has_zswap: bool,
}

impl LentSwap {
    fn has_swap_areas(&self) -> bool {
        self.has_files || !self.zram.is_empty() || !self.disks.is_empty()
    }

    /// Bytes that the run's zram devices and disks have read and written since boot; `None` if one
    /// of them has no counters.
    pub(super) fn traffic(&self, host: &HostRoot) -> Option<SwapTraffic> {
        let of_zram = |number: &u32| HostGauges(host).device_traffic(&format!("zram{number}"));
        let of_disk = |path: &PathBuf| HostGauges(host).device_traffic(device_name(path)?);
        let zram = self.zram.iter().map(of_zram).collect::<Option<Vec<_>>>()?;
        let of_disks = |disks: &[PathBuf]| disks.iter().map(of_disk).collect::<Option<Vec<_>>>();
        let (disks, behind_zram) = (of_disks(&self.disks)?, of_disks(&self.behind_zram)?);
        Some(SwapTraffic {
            zram: sum_traffic(&zram),
            disks: sum_traffic(&disks),
            behind_zram: sum_traffic(&behind_zram),
        })
    }
}

fn device_name(device: &Path) -> Option<&str> {
    device.file_name()?.to_str()
}

fn sum_traffic(all: &[DeviceTraffic]) -> DeviceTraffic {
    DeviceTraffic {
        read: all.iter().map(|one| one.read).sum(),
        written: all.iter().map(|one| one.written).sum(),
    }
}

/// Number of bytes that swap devices read and wrote, by the kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SwapTraffic {
    zram: DeviceTraffic,
    disks: DeviceTraffic,
    behind_zram: DeviceTraffic,
}

/// Counters of swap before and after a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swapped<'a> {
    pub(super) swap: &'a LentSwap,
    pub(super) vmstat: SwappedPages<'a>,
    pub(super) traffic: [Option<SwapTraffic>; 2],
}

impl Swapped<'_> {
    /// Name and value of each metric of swap traffic that the kernel provides.
    pub(super) fn metrics(self) -> Vec<(&'static str, f64)> {
        let count = |pages: Option<u64>| pages.map(|pages| pages as f64);
        let mut metrics = vec![(SWAP_INS, count(self.vmstat.count_swapped_in()))];
        if self.swap.has_swap_areas() {
            let [reads, writes] = self.disk_pages();
            metrics.extend([(DISK_SWAP_READS, reads), (DISK_SWAP_WRITES, writes)]);
        }
        if self.swap.has_zswap {
            let refused = count(self.vmstat.count_refused());
            let share = refused.zip(self.growth("zswpout")).and_then(|(refused, stored)| {
                let all = refused + stored;
                (all > 0.0).then(|| refused / all)
            });
            metrics.extend([(ZSWAP_REFUSED, refused), (REFUSED_SHARE, share)]);
        }
        metrics.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Number of pages that disks read, and number that they wrote.
    fn disk_pages(self) -> [Option<f64>; 2] {
        let [before, after] = self.traffic;
        let grown = |part: fn(SwapTraffic) -> Bytes| {
            let bytes = part(after?).get().checked_sub(part(before?).get())?;
            Some(bytes as f64 / page_size() as f64)
        };
        let others =
            |counter: &str, zram: Option<f64>| Some((self.growth(counter)? - zram?).max(0.0));
        let [reads, writes] = if self.swap.has_files {
            let zram = [grown(|it| it.zram.read), grown(|it| it.zram.written)];
            [others("pswpin", zram[0]), others("pswpout", zram[1])]
        } else {
            [grown(|it| it.disks.read), grown(|it| it.disks.written)]
        };
        let behind = [grown(|it| it.behind_zram.read), grown(|it| it.behind_zram.written)];
        let both = |own: Option<f64>, behind: Option<f64>| Some(own? + behind?);
        [both(reads, behind[0]), both(writes, behind[1])]
    }

    fn growth(self, name: &str) -> Option<f64> {
        self.vmstat.growth_of(name).map(|pages| pages as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Counters;

    fn counters(text: &str) -> Counters {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("vmstat"), text).unwrap();
        pagewise_observe::counters(&HostRoot::folder(folder.path()).unwrap(), "vmstat")
    }

    fn traffic(zram: u64, disks: u64) -> Option<SwapTraffic> {
        let pages = |pages: u64| {
            let bytes = Bytes::new(pages * page_size() as u64);
            DeviceTraffic { read: bytes, written: bytes }
        };
        Some(SwapTraffic { zram: pages(zram), disks: pages(disks), behind_zram: pages(0) })
    }

    fn metrics(
        swap: &LentSwap,
        texts: [&str; 2],
        traffic: [Option<SwapTraffic>; 2],
    ) -> Vec<(&'static str, f64)> {
        let [from, to] = texts.map(counters);
        Swapped { swap, vmstat: SwappedPages([&from, &to]), traffic }.metrics()
    }

    const KERNEL_6_12: [&str; 2] = [
        "pswpin 10\npswpout 20\nzswpin 5\nzswpout 5\nzswpwb 1\nswpin_zero 0\nswpout_zero 0\n",
        "pswpin 110\npswpout 320\nzswpin 205\nzswpout 305\nzswpwb 201\nswpin_zero 7\nswpout_zero 9\n",
    ];

    #[test]
    fn what_is_swapped_in_is_counted_wherever_it_was() {
        let zswap = LentSwap { has_zswap: true, has_files: true, ..LentSwap::default() };
        let found = metrics(&zswap, KERNEL_6_12, [traffic(0, 0), traffic(0, 0)]);
        let expected = [
            (SWAP_INS, 307.0),
            (DISK_SWAP_READS, 100.0),
            (DISK_SWAP_WRITES, 300.0),
            (ZSWAP_REFUSED, 100.0),
            (REFUSED_SHARE, 0.25),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_disk_of_its_own_tells_by_itself_and_a_file_is_what_zram_did_not_do() {
        let with_file = LentSwap { zram: vec![1], has_files: true, ..LentSwap::default() };
        let found = metrics(&with_file, KERNEL_6_12, [traffic(0, 0), traffic(60, 0)]);
        assert_eq!(found[1..], [(DISK_SWAP_READS, 40.0), (DISK_SWAP_WRITES, 240.0)]);
        let disks = vec!["/dev/vda".into()];
        let with_disk = LentSwap { zram: vec![1], disks, ..LentSwap::default() };
        let found = metrics(&with_disk, KERNEL_6_12, [traffic(3, 5), traffic(60, 45)]);
        assert_eq!(found[1..], [(DISK_SWAP_READS, 40.0), (DISK_SWAP_WRITES, 40.0)]);
        let found = metrics(&with_disk, KERNEL_6_12, [traffic(3, 5), None]);
        assert_eq!(found, [(SWAP_INS, 307.0)]);
    }

    /// A page that zram reads back from its disk counts twice: as disk traffic, and as swapped in
    /// from zram.
    #[test]
    fn what_zram_writes_back_is_traffic_of_a_disk() {
        let behind_zram = vec!["/dev/vda".into()];
        let alone = LentSwap { zram: vec![1], behind_zram, ..LentSwap::default() };
        let traffic = |zram: u64, behind: u64| {
            let mut traffic = traffic(zram, 0)?;
            traffic.behind_zram = self::traffic(0, behind)?.disks;
            Some(traffic)
        };
        let found = metrics(&alone, KERNEL_6_12, [traffic(0, 4), traffic(100, 34)]);
        assert_eq!(found, [(SWAP_INS, 307.0), (DISK_SWAP_READS, 30.0), (DISK_SWAP_WRITES, 30.0)]);
        let with_file = LentSwap { has_files: true, ..alone };
        let found = metrics(&with_file, KERNEL_6_12, [traffic(0, 4), traffic(60, 34)]);
        assert_eq!(found[1..], [(DISK_SWAP_READS, 70.0), (DISK_SWAP_WRITES, 270.0)]);
    }

    #[test]
    fn what_a_kernel_does_not_count_is_absent() {
        let zswap = LentSwap { has_zswap: true, has_files: true, ..LentSwap::default() };
        let kernel_6_1 = [
            "pswpin 10\npswpout 20\nzswpin 5\nzswpout 5\n",
            "pswpin 110\npswpout 320\nzswpin 205\nzswpout 305\n",
        ];
        let found = metrics(&zswap, kernel_6_1, [traffic(0, 0), traffic(0, 0)]);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [SWAP_INS, DISK_SWAP_READS, DISK_SWAP_WRITES]);
        assert_eq!(found[0].1, 300.0);
        assert!(metrics(&zswap, ["", ""], [None, None]).is_empty());
        let none = metrics(&LentSwap::default(), KERNEL_6_12, [None, None]);
        assert_eq!(none, [(SWAP_INS, 307.0)]);
    }

    /// A device that does not exist has no counters of traffic.
    #[test]
    fn a_device_that_is_not_there_tells_nothing() {
        let host = HostRoot::live().unwrap();
        let swap = LentSwap { zram: vec![4_000_000], ..LentSwap::default() };
        assert_eq!(swap.traffic(&host), None);
        assert_eq!(LentSwap::default().traffic(&host), traffic(0, 0));
    }
}
