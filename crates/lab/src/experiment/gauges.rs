// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run holds while it lasts, looked at now and then → the most of it, and what kswapd took.
//!
//! When the command has ended its memory is free again, and the swap that held it too: what was used can
//! only be seen before. A zram device notes by itself the most memory that it used.

use std::fs;
use std::path::{Path, PathBuf};

use pagewise_model::lend::{MemoryGroup, ZramDevice};

use super::host::Changed;
use super::metric::{KSWAPD_CPU, MEMORY_STALL, POOL, SWAP_USED};

/// What is looked at, from the beginning of a run on.
#[derive(Debug)]
pub(super) struct Gauges {
    group: Option<MemoryGroup>,
    zram: Vec<PathBuf>,
    /// How much of the host's swap was in use.
    host_swap: Option<u64>,
    most_swap: Option<u64>,
    most_zswap: Option<u64>,
    most_host_swap: Option<u64>,
    kswapd: Vec<u32>,
    kswapd_ns: Option<u64>,
    stall: (Option<u64>, Option<u64>),
}

impl Gauges {
    pub(super) fn new(group: Option<&MemoryGroup>, zram: &[ZramDevice], kswapd: &[u32]) -> Self {
        Self {
            group: group.cloned(),
            zram: zram.iter().map(|device| device.sysfs.clone()).collect(),
            host_swap: host_swap(),
            most_swap: None,
            most_zswap: None,
            most_host_swap: None,
            kswapd: kswapd.to_vec(),
            kswapd_ns: processor_time(kswapd),
            stall: stall(group),
        }
    }

    /// A look while the command runs: four small files.
    pub(super) fn look(&mut self) {
        let swap = self.group.as_ref().and_then(swap_of);
        self.most_swap = self.most_swap.max(swap);
        let unified = self.group.as_ref().filter(|group| group.unified);
        let zswap = unified.and_then(|group| number(&group.folder.join("memory.zswap.current")));
        self.most_zswap = self.most_zswap.max(zswap);
        if swap.is_none() {
            let more = host_swap().zip(self.host_swap).map(|(now, then)| now.saturating_sub(then));
            self.most_host_swap = self.most_host_swap.max(more);
        }
    }

    /// When the command has ended, before anything is given back.
    pub(super) fn told(&self, changed: &mut Changed) {
        let peak = self.group.as_ref().filter(|group| group.unified);
        let peak = peak.and_then(|group| number(&group.folder.join("memory.swap.peak")));
        let float = |bytes: u64| bytes as f64;
        let own = peak.max(self.most_swap).map(float);
        changed.add(SWAP_USED, own, || self.most_host_swap.map(float));
        if !self.zram.is_empty() || self.most_zswap.is_some() {
            let pools = self.zram.iter().map(|device| pool(device)).sum::<Option<u64>>();
            let all = pools.map(|pools| pools.saturating_add(self.most_zswap.unwrap_or(0)));
            changed.add(POOL, all.map(float), || None);
        }
        let grown = processor_time(&self.kswapd).zip(self.kswapd_ns);
        let nanos = grown.map(|(now, then)| now.saturating_sub(then));
        changed.add(KSWAPD_CPU, None, || nanos.map(|nanos| float(nanos) / 1e9));
        let now = stall(self.group.as_ref());
        let seconds =
            |now: Option<u64>, then: Option<u64>| Some(float(now?.checked_sub(then?)?) / 1e6);
        let wide = || seconds(now.1, self.stall.1);
        changed.add(MEMORY_STALL, seconds(now.0, self.stall.0), wide);
    }
}

/// A file that holds one number.
pub(super) fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Version 1 says it among its statistics, which lag by some pages. Its two usages are read one
/// after the other: what is charged in between would look like swap.
fn swap_of(group: &MemoryGroup) -> Option<u64> {
    if group.unified {
        return number(&group.folder.join("memory.swap.current"));
    }
    let stat = fs::read_to_string(group.folder.join("memory.stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("total_swap ")?.trim().parse().ok())
}

/// Swap of the whole host that is in use.
fn host_swap() -> Option<u64> {
    host_swap_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn host_swap_in(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_suffix("kB")?.trim().parse().ok()
    };
    kib("SwapTotal:")?.checked_sub(kib("SwapFree:")?)?.checked_mul(1024)
}

/// The most memory that a device used since it was made.
fn pool(device: &Path) -> Option<u64> {
    pool_in(&fs::read_to_string(device.join("mm_stat")).ok()?)
}

/// `orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages …`, all in bytes but
/// the last ones.
fn pool_in(mm_stat: &str) -> Option<u64> {
    mm_stat.split_whitespace().nth(4)?.parse().ok()
}

/// The kernel's reclaim threads, one for each node; none in a container that does not see them.
pub(super) fn kswapd() -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_kswapd(comm.trim())
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.is_empty())
    };
    pids.filter(is_it).collect()
}

fn is_kswapd(comm: &str) -> bool {
    let node = comm.strip_prefix("kswapd");
    node.is_some_and(|node| !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Nanoseconds of all of them; none where one does not tell, or there is none.
fn processor_time(pids: &[u32]) -> Option<u64> {
    let of = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    (!pids.is_empty()).then(|| pids.iter().map(of).sum()).flatten()
}

/// Microseconds in which all waited for memory: of the group, and of the host.
fn stall(group: Option<&MemoryGroup>) -> (Option<u64>, Option<u64>) {
    let read = |path: &Path| full_in(&fs::read_to_string(path).ok()?);
    let own = group.filter(|group| group.unified);
    let own = own.and_then(|group| read(&group.folder.join("memory.pressure")));
    (own, read(Path::new("/proc/pressure/memory")))
}

/// `full avg10=0.00 avg60=0.00 avg300=0.00 total=N`.
fn full_in(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with("full "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taken from a kernel 6.18.
    #[test]
    fn files_of_the_kernel_are_read() {
        let mm_stat =
            " 67108864 20447232 21131264        0 25341952      128        0       12      340\n";
        assert_eq!(pool_in(mm_stat), Some(25_341_952));
        assert_eq!(pool_in("0 0\n"), None);
        let pressure = "some avg10=0.00 avg60=0.12 avg300=0.05 total=183215\n\
                        full avg10=0.00 avg60=0.10 avg300=0.04 total=150927\n";
        assert_eq!(full_in(pressure), Some(150_927));
        assert_eq!(full_in("some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"), None);
        let meminfo = "MemTotal:       24684392 kB\nSwapCached:            0 kB\n\
                       SwapTotal:        262140 kB\nSwapFree:         200700 kB\n";
        assert_eq!(host_swap_in(meminfo), Some((262_140 - 200_700) * 1024));
        assert_eq!(host_swap_in("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn reclaim_threads_are_told_by_their_names() {
        for (name, is) in
            [("kswapd0", true), ("kswapd12", true), ("kswapd", false), ("kswapdx", false)]
        {
            assert_eq!(is_kswapd(name), is, "{name}");
        }
        assert_eq!(processor_time(&[]), None);
        assert!(processor_time(&[std::process::id()]).is_some_and(|nanos| nanos > 0));
        assert_eq!(processor_time(&[std::process::id(), u32::MAX]), None);
    }

    /// The most counts, not the last.
    #[test]
    fn the_most_that_a_group_had_in_swap_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let loan = pagewise_model::lend::LoanId(1);
        let group = MemoryGroup { loan, folder: folder.path().to_owned(), unified: false };
        let mut gauges = Gauges::new(Some(&group), &[], &[]);
        for swap in [500, 8000, 0] {
            let stat = format!("cache 77\nswap 12\ntotal_cache 77\ntotal_swap {swap}\n");
            fs::write(folder.path().join("memory.stat"), stat).unwrap();
            gauges.look();
        }
        let mut changed = Changed::default();
        gauges.told(&mut changed);
        assert_eq!(changed.values[SWAP_USED], 8000.0);
        assert!(!changed.host_wide.iter().any(|name| name == SWAP_USED));
        assert!(!changed.values.contains_key(KSWAPD_CPU) && !changed.values.contains_key(POOL));
    }
}
