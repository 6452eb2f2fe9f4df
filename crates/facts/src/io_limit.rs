// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether a cgroup that reads reclaimed pages back is slowed down by a limit on its
//! reads (`io.max`).
//!
//! The kernel delays reads above such a limit. Tasks that need the pages then wait for memory,
//! although neither memory nor the disk is short. The pages that the group reads back (refaults)
//! are a lower bound of what it reads. If they nearly reach the limit, the limit is the reason; if
//! they exceed it, they come from another device.

use pagewise_model::{Bytes, Cgroup, Change, Interval, IoLimit, Limit};

use crate::groups::{self, GroupPair};
use crate::tiers;

/// Fewer refaults per second than this are noise.
const REFAULTS_PER_SECOND: f64 = 10.0;
/// The limit is considered the reason if refaults, divided by the limit, are in this range.
const NEAR: std::ops::RangeInclusive<f64> = 0.5..=1.5;
/// Maximum number of pages that a single read with read-ahead returns: 128 KiB with pages of 4 KiB.
const READ_AHEAD: f64 = 32.0;

/// A cgroup that is slowed down by a limit on its reads.
#[derive(Debug)]
pub struct Throttled<'a> {
    /// The group that has the limit: the waiting group itself or an ancestor.
    pub group: &'a Cgroup,
    /// The line of the group's `io.max` that contains the limit.
    pub limit: &'a IoLimit,
    /// The limit in bytes per second; `None` if the limit on the number of reads per second is the
    /// reason.
    pub bytes: Option<Bytes>,
    /// Pages that the group read back over the interval, by kind.
    pub refaults: Vec<Change>,
}

impl Throttled<'_> {
    /// Pages that the group read back per second.
    pub fn pages_per_second(&self) -> f64 {
        per_second(&self.refaults)
    }
}

fn per_second(refaults: &[Change]) -> f64 {
    refaults.iter().map(|change| change.delta as f64 / change.seconds).sum()
}

/// Finds the limit on reads, of the group itself or of an ancestor, that explains why the group
/// waits for pages. `None` if no limit explains it, or if the counters are not known.
pub fn find_throttling_limit<'a>(interval: &'a Interval, group: &Cgroup) -> Option<Throttled<'a>> {
    let pairs = groups::pairs(interval);
    let own_and_above = pairs
        .iter()
        .rev()
        .filter(|pair| pair.now.path == group.path || groups::is_below(group, pair.now));
    own_and_above.into_iter().find_map(|pair| find_reached_limit(interval, pair))
}

fn find_reached_limit<'a>(interval: &'a Interval, pair: &GroupPair<'a>) -> Option<Throttled<'a>> {
    let group = pair.now;
    let of_file = pair.change(|group| &group.refault_file);
    // pages that are swapped in from compressed RAM are not read from a device
    let all_on_disk =
        interval.end.tiers.iter().all(|tier| tier.zswap_in_front.get() == Some(false))
            && tiers::in_ram(&interval.end).next().is_none();
    let of_anon = pair.change(|group| &group.refault_anon).filter(|_| all_on_disk);
    let refaults: Vec<Change> =
        [of_file, of_anon].into_iter().flatten().filter(|change| change.delta > 0).collect();
    let pages = per_second(&refaults);
    if pages < REFAULTS_PER_SECOND {
        return None;
    }
    let bytes = pages * interval.end.page_size().get() as f64;
    let by_bytes = |limit: &IoLimit| match limit.bytes.get()? {
        Limit::Bytes(allowed) => NEAR.contains(&(bytes / allowed.get() as f64)).then_some(allowed),
        Limit::Max => None,
    };
    // the number of pages is at least the number of reads, and at most that of read-ahead
    let by_requests = |limit: &IoLimit| {
        let allowed = limit.requests.get()? as f64;
        (NEAR.start() * allowed..=READ_AHEAD * allowed).contains(&pages).then_some(())
    };
    let limits = &group.io_limits;
    let found = limits.iter().find_map(|limit| Some((limit, Some(by_bytes(limit)?))));
    let found = found
        .or_else(|| limits.iter().find_map(|limit| by_requests(limit).map(|()| (limit, None))));
    let (limit, bytes) = found?;
    Some(Throttled { group, limit, bytes, refaults })
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Name, Reading, Source, TierKind};
    use pagewise_testkit::made_host::{file, line, mib, tier, with};

    use super::*;

    const GROUP: &str = "/system.slice/db.service";

    /// A group that reads back `refaults` pages of files within 10 s, and that has this limit in
    /// its `io.max`.
    fn host(refaults: u64, bytes: Limit, requests: Option<u64>) -> Interval {
        let at = || Source::line("/sys/fs/cgroup/system.slice/db.service/io.max", 1);
        let mut interval = with(|host| {
            let mut area = tier("/dev/sda2", TierKind::Partition, mib(100), -2);
            area.zswap_in_front = file("/sys/module/zswap/parameters/enabled", false);
            host.tiers = vec![area];
            let limit = IoLimit {
                device: Name::from("8:0"),
                bytes: Reading::found(bytes, at()),
                requests: match requests {
                    Some(requests) => Reading::found(requests, at()),
                    None => Reading::absent("no limit", at()),
                },
            };
            set(host, |group| {
                group.io_limits = vec![limit.clone()];
                group.refault_file = line("/memory.stat", 3, 5);
                group.refault_anon = line("/memory.stat", 4, 5);
            });
        });
        set(&mut interval.end, |group| group.refault_file = line("/memory.stat", 3, 5 + refaults));
        interval
    }

    fn set(host: &mut pagewise_model::Snapshot, change: impl Fn(&mut Cgroup)) {
        let groups = host.cgroups.groups.iter_mut();
        groups.filter(|group| group.path.as_str() == GROUP).for_each(change);
    }

    fn found(interval: &Interval) -> Option<(String, Option<Bytes>)> {
        let group = interval.end.cgroups.group(GROUP).unwrap();
        find_throttling_limit(interval, group).map(|it| (it.limit.device.to_string(), it.bytes))
    }

    #[test]
    fn a_group_that_reads_back_what_its_limit_allows_is_at_it() {
        let two = Limit::Bytes(mib(2));
        // a limit of 2 MiB/s allows 5,120 pages in 10 s
        for (pages, is_at_limit) in [(5_000, true), (2_560, true), (2_500, false), (9_000, false)] {
            let told = found(&host(pages, two, None));
            assert_eq!(told.is_some(), is_at_limit, "{pages}: {told:?}");
        }
        assert_eq!(found(&host(5_000, two, None)).unwrap().1, Some(mib(2)));
        assert_eq!(found(&host(5_000, Limit::Max, None)), None);
    }

    #[test]
    fn a_limit_on_the_number_of_reads_may_be_the_reason() {
        assert_eq!(found(&host(5_000, Limit::Max, Some(100))), Some(("8:0".to_owned(), None)));
        assert_eq!(found(&host(5_000, Limit::Max, Some(2_000))), None);
        assert_eq!(found(&host(50_000, Limit::Max, Some(100))), None);
    }

    #[test]
    fn pages_from_swap_count_only_if_swap_is_on_disks() {
        let anon = |interval: &mut Interval| {
            set(&mut interval.end, |group| group.refault_anon = line("/memory.stat", 4, 5_005));
        };
        let mut on_disk = host(0, Limit::Bytes(mib(2)), None);
        anon(&mut on_disk);
        assert!(found(&on_disk).is_some());
        on_disk.end.tiers.push(tier("/dev/zram0", TierKind::Zram, mib(1), 100));
        assert_eq!(found(&on_disk), None);
        let mut zswap = host(0, Limit::Bytes(mib(2)), None);
        anon(&mut zswap);
        zswap.end.tiers[0].zswap_in_front = file("/sys/module/zswap/parameters/enabled", true);
        assert_eq!(found(&zswap), None);
    }
}
