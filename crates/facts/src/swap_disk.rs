// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether the kernel swaps to a disk that is slow.
//!
//! The kernel counts pages that are swapped in and out, but not per swap area. The pages that
//! devices in compressed RAM read and wrote over the interval are subtracted; if these are not
//! known, the pages of disks are not known either. A disk also serves other requests, so the
//! latency is the mean of all its requests: a page from swap has to wait in the same queue.

use pagewise_model::{Change, Counter, DiskStats, Interval, Name, Reading, Snapshot, Tier};

use crate::tiers;

/// Mean time of a request, in ms, from which on a disk counts as slow: about the time of one random
/// access of an idle spinning disk.
const SLOW_MS: f64 = 10.0;
/// Mean number of requests in flight from which on the disk is busy all the time.
const QUEUE: f64 = 1.0;
/// Pages per second swapped to or from disks from which on tasks are slowed down; the same
/// threshold as for major faults.
const PAGES_PER_SECOND: f64 = 10.0;

/// A slow disk that has a swap area, with its counters over an interval.
#[derive(Debug)]
pub struct SwapDisk<'a> {
    /// Name of the disk, such as `sda`.
    pub name: &'a Name,
    /// Name of the physical disk below it, if it is a mapping (LVM, dm-crypt).
    pub lowest: Option<&'a Name>,
    /// Requests that were completed per second.
    pub per_second: f64,
    /// Mean time from the submission of a request to its completion, in ms. `None` if no request
    /// was completed although some were in flight all the time.
    pub latency_ms: Option<f64>,
    /// Mean number of requests in flight.
    pub queue: f64,
    /// Pages per second that were swapped in from disks.
    pub pages_in: f64,
    /// Pages per second that were swapped out to disks.
    pub pages_out: f64,
    /// The counters of the disk at the end of the interval.
    pub now: &'a DiskStats,
    /// The changes of the disk's counters, by the name of the column in `/proc/diskstats`.
    pub changes: Vec<(&'static str, Change)>,
}

/// Finds the slowest disk to which the kernel swaps, or from which it reads pages back. `None` if
/// all disks are fast enough, if nothing is swapped to disks, or if this is not known.
pub fn find_slow_disk(interval: &Interval) -> Option<SwapDisk<'_>> {
    let (pages_in, pages_out) = pages_of_disks(interval)?;
    let slow = |tier| find_slow_tier(interval, tier, pages_in, pages_out);
    tiers::on_disk(&interval.end).filter_map(slow).max_by(|a, b| {
        let stands_still = |disk: &SwapDisk<'_>| disk.latency_ms.is_none();
        stands_still(a).cmp(&stands_still(b)).then(a.queue.total_cmp(&b.queue))
    })
}

fn find_slow_tier<'a>(
    interval: &'a Interval,
    tier: &'a Tier,
    pages_in: f64,
    pages_out: f64,
) -> Option<SwapDisk<'a>> {
    let name = tier.disk.name.value()?;
    let (before, now) =
        (find_stats(interval.start.as_deref()?, name)?, find_stats(&interval.end, name)?);
    let seconds = interval.seconds()?;
    let reads = change(interval, name, |disk| &disk.reads)?;
    let writes = change(interval, name, |disk| &disk.writes)?;
    let read_time = change(interval, name, |disk| &disk.read_time)?;
    let write_time = change(interval, name, |disk| &disk.write_time)?;
    let queue_time = change(interval, name, |disk| &disk.queue_time)?;
    let completed = reads.delta.saturating_add(writes.delta);
    let waited = read_time.delta.saturating_add(write_time.delta);
    let in_flight = before.in_flight.get()?.min(now.in_flight.get()?);
    let latency_ms = (completed > 0).then(|| waited as f64 / completed as f64);
    // the kernel adds a request's time to the counters when the request completes, so a disk that
    // does not answer has none
    let queue = match latency_ms {
        Some(_) => queue_time.delta as f64 / (seconds * 1000.0),
        None => in_flight as f64,
    };
    let is_slow = queue >= QUEUE && latency_ms.is_none_or(|latency| latency >= SLOW_MS);
    let swaps = pages_in + pages_out >= PAGES_PER_SECOND;
    (is_slow && (swaps || latency_ms.is_none())).then(|| SwapDisk {
        name,
        lowest: tier.disk.lowest.value().filter(|lowest| *lowest != name),
        per_second: completed as f64 / seconds,
        latency_ms,
        queue,
        pages_in,
        pages_out,
        now,
        changes: vec![
            ("reads", reads),
            ("ms of reads", read_time),
            ("writes", writes),
            ("ms of writes", write_time),
            ("ms in queue", queue_time),
        ],
    })
}

fn find_stats<'a>(host: &'a Snapshot, name: &Name) -> Option<&'a DiskStats> {
    host.disk_stats.iter().find(|disk| disk.name == *name)
}

fn change<T: Counter>(
    interval: &Interval,
    name: &Name,
    pick: impl Fn(&DiskStats) -> &Reading<T>,
) -> Option<Change> {
    interval.change(|host| {
        find_stats(host, name).map_or_else(Reading::not_read, |disk| pick(disk).clone())
    })
}

/// Pages per second that were swapped in from disks, and pages per second that were swapped out to
/// disks.
fn pages_of_disks(interval: &Interval) -> Option<(f64, f64)> {
    let page = interval.end.page_size().get();
    let mut swapped_in = interval.vmstat("pswpin")?;
    let mut swapped_out = interval.vmstat("pswpout")?;
    for tier in tiers::in_ram(&interval.end) {
        let path = tier.path.as_str();
        let name = Name::from(path.strip_prefix("/dev/").unwrap_or(path));
        let read = change(interval, &name, |disk| &disk.read)?;
        let written = change(interval, &name, |disk| &disk.written)?;
        swapped_in.delta = swapped_in.delta.saturating_sub(read.delta / page);
        swapped_out.delta = swapped_out.delta.saturating_sub(written.delta / page);
    }
    let per_second = |change: &Change| change.delta as f64 / change.seconds;
    Some((per_second(&swapped_in), per_second(&swapped_out)))
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Millis, TierKind};
    use pagewise_testkit::made_host::{grow, mib, set_disk, tier, with, word};

    use super::*;

    /// A host whose disk sda completes 500 requests in 10 s, each within 40 ms, while 1,500 pages
    /// are swapped.
    fn host() -> Interval {
        let mut interval = with(|host| {
            let mut area = tier("/dev/sda2", TierKind::Partition, mib(900), -2);
            area.disk.name = word("/sys/class/block/sda2/uevent", "sda");
            area.disk.lowest = area.disk.name.clone();
            host.tiers = vec![area];
        });
        set_disk(&mut interval, "sda", [300, 12_000, 200, 8_000], 60, 600_000);
        grow(&mut interval, "pswpin", 500);
        grow(&mut interval, "pswpout", 1_000);
        interval
    }

    #[test]
    fn latency_and_queue_are_means_over_the_interval() {
        let interval = host();
        let disk = find_slow_disk(&interval).unwrap();
        assert_eq!((disk.name.as_str(), disk.per_second, disk.queue), ("sda", 50.0, 60.0));
        assert_eq!((disk.latency_ms, disk.lowest), (Some(40.0), None));
        assert_eq!((disk.pages_in, disk.pages_out), (50.0, 100.0));
    }

    #[test]
    fn a_fast_disk_and_an_idle_one_are_not_slow() {
        let mut fast = host();
        set_disk(&mut fast, "sda", [30_000, 12_000, 200, 8_000], 60, 600_000);
        assert!(find_slow_disk(&fast).is_none());
        let mut idle = host();
        set_disk(&mut idle, "sda", [3, 120, 2, 80], 0, 200);
        assert!(find_slow_disk(&idle).is_none());
    }

    #[test]
    fn pages_that_went_to_zram_did_not_go_to_the_disk() {
        let mut interval = host();
        interval.end.tiers.push(tier("/dev/zram0", TierKind::Zram, mib(100), 100));
        // how much zram swapped is not known
        assert!(find_slow_disk(&interval).is_none());
        set_disk(&mut interval, "zram0", [500, 1, 1_000, 1], 0, 2);
        assert!(find_slow_disk(&interval).is_none());
        set_disk(&mut interval, "zram0", [500, 1, 100, 1], 0, 2);
        let disk = find_slow_disk(&interval).unwrap();
        assert_eq!((disk.name.as_str(), disk.pages_in, disk.pages_out), ("sda", 0.0, 90.0));
    }

    #[test]
    fn a_disk_that_answers_nothing_has_no_latency() {
        let mut interval = host();
        set_disk(&mut interval, "sda", [0; 4], 7, 0);
        grow(&mut interval, "pswpin", 0);
        grow(&mut interval, "pswpout", 0);
        let disk = find_slow_disk(&interval).unwrap();
        assert_eq!((disk.latency_ms, disk.queue), (None, 7.0));
        interval.start.as_mut().unwrap().disk_stats[0].in_flight =
            Reading::found(0, pagewise_model::Source::none());
        assert!(find_slow_disk(&interval).is_none());
    }

    #[test]
    fn what_is_not_known_is_not_slow() {
        let mut interval = host();
        interval.end.disk_stats.clear();
        assert!(find_slow_disk(&interval).is_none());
        let mut wrapped = host();
        let start = wrapped.start.as_mut().unwrap();
        start.disk_stats[0].read_time =
            Reading::found(Millis::new(u64::from(u32::MAX)), pagewise_model::Source::none());
        assert!(find_slow_disk(&wrapped).is_none());
        let mut single = host();
        single.start = None;
        assert!(find_slow_disk(&single).is_none());
    }
}
