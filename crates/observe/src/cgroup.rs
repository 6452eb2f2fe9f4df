// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the tree of memory cgroups into [`Cgroups`], version 1 in the words of version 2.
//!
//! Version 1 and 2 count alike and name differently: `total_rss` is `anon`, `total_cache` is `file`
//! (shmem included, in both), `total_rss_huge` is `anon_thp`. Without `total_` the lines of version 1
//! tell about a group without its children, which version 2 never does. "No limit" is a number there:
//! the largest that fits, rounded down to pages. What version 1 has no file for is absent and says so;
//! its soft limit is neither `low` nor `high` and stays out.
//!
//! In version 2 a group without `memory.stat` has no memory controller, and nor have those below it:
//! they are not listed. Groups whose name is not UTF-8 are not found; their memory is counted in the
//! group above.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::VecDeque;

use pagewise_model::{
    Bytes, Cgroup, CgroupEvents, Cgroups, Counters, Hierarchy, Limit, Name, Pressure, Reading,
    Source, Stall,
};

use crate::limits::{CGROUP_DEPTH, CGROUPS};
use crate::mounts::{self, Mounts};
use crate::{counters, psi};
use pagewise_files::text::{number, words};
use pagewise_files::{HostRoot, ReadHost, ReadValues, absolute};

/// Of the groups that are kept, the ones that use most; the others are those that were hurt most.
const LARGEST: usize = CGROUPS / 2;
/// Groups for which there is room at once: moving what is there to a larger place is costly.
const FEW_GROUPS: usize = 64;

pub(crate) fn read(host: &HostRoot, mounts: &Mounts) -> Cgroups {
    read_in(host, mounts, Detail::Everything)
}

/// The same groups, of each only what rates and growth are computed from.
pub(crate) fn read_counters(host: &HostRoot, mounts: &Mounts) -> Cgroups {
    read_in(host, mounts, Detail::Counters)
}

/// How much of each group is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Everything,
    /// Events, refaults, major faults, anonymous memory and swap: no limits, no pressure.
    Counters,
}

fn read_in(host: &HostRoot, mounts: &Mounts, detail: Detail) -> Cgroups {
    let (hierarchy, mount) = detect(host, mounts);
    let mut cgroups = Cgroups { hierarchy, ..Cgroups::default() };
    if let Some(mount) = mount {
        cgroups.groups.reserve(FEW_GROUPS);
        Walk { host, mount, hierarchy, detail }.all(&mut cgroups);
        // in place: a stable sort would borrow as much again, and no two groups have the same path
        cgroups.groups.sort_unstable_by(|a, b| steps(a).cmp(steps(b)));
    }
    cgroups
}

/// Where memory cgroups are mounted (absolute), and whether they are of version 2; `None` where no
/// memory controller is.
pub fn memory_cgroups(host: &HostRoot) -> Option<(String, bool)> {
    let mounts = mounts::read(host);
    let (hierarchy, mount) = detect(host, &mounts);
    let found = mount.map(|mount| (absolute(mount), hierarchy == Hierarchy::V2));
    host.let_go();
    found
}

/// The parts of a group's path: in their order parents come before children, and no stranger stands
/// between them.
fn steps(group: &Cgroup) -> impl Iterator<Item = &str> {
    group.path.as_str().split('/').filter(|step| !step.is_empty())
}

/// Where memory cgroups are mounted.
fn detect<'a>(host: &HostRoot, mounts: &'a Mounts) -> (Hierarchy, Option<&'a str>) {
    let has_memory = |mount: &&str| {
        let controllers = host.bytes(&format!("{mount}/cgroup.controllers")).unwrap_or_default();
        words(&controllers).any(|controller| controller == b"memory")
    };
    match (mounts.cgroup2(), mounts.cgroup1_memory()) {
        (Some(unified), _) if has_memory(&unified) => (Hierarchy::V2, Some(unified)),
        (Some(_), Some(memory)) => (Hierarchy::Hybrid, Some(memory)),
        (None, Some(memory)) => (Hierarchy::V1, Some(memory)),
        (_, None) => (Hierarchy::None, None),
    }
}

/// One hierarchy, and how much of its groups is read.
#[derive(Debug, Clone, Copy)]
struct Walk<'a> {
    host: &'a HostRoot,
    mount: &'a str,
    hierarchy: Hierarchy,
    detail: Detail,
}

impl<'a> Walk<'a> {
    /// Level by level. Where there are more than [`CGROUPS`], the rest is only [ranked](Rank) at first, and
    /// those that rank higher than what was read take its place.
    fn all(&self, cgroups: &mut Cgroups) {
        let mut queue = VecDeque::from([(String::from("/"), 0)]);
        let mut ranked = Vec::new();
        while let Some((path, depth)) = queue.pop_front() {
            let folder = self.folder(&path);
            self.host.hold(&folder);
            if let Some(children) = self.take(cgroups, &mut ranked, &path, &folder) {
                let below_max = children.iter().filter(|_| depth < CGROUP_DEPTH);
                queue.extend(below_max.map(|name| (below(&path, name), depth + 1)));
            }
        }
        if !ranked.is_empty() {
            self.keep_worst(cgroups, ranked);
        }
    }

    fn folder(&self, path: &str) -> String {
        format!("{}{}", self.mount, path.trim_end_matches('/'))
    }

    fn files<'f>(&self, folder: &'f str) -> Files<'f>
    where
        'a: 'f,
    {
        Files { host: self.host, folder }
    }

    /// Reads or ranks one group; answers the names of its children, `None` where it is none.
    fn take(
        &self,
        cgroups: &mut Cgroups,
        ranked: &mut Vec<(Rank, String)>,
        path: &str,
        folder: &str,
    ) -> Option<Vec<String>> {
        if cgroups.groups.len() >= CGROUPS {
            let rank = Rank::read(&self.files(folder), self.hierarchy)?;
            ranked.push((rank, path.to_owned()));
        } else {
            cgroups.groups.push(self.group(path, folder)?);
        }
        Some(self.host.folders(folder))
    }

    /// Of what was read and what was only ranked the largest and the most hurt, read in full.
    fn keep_worst(&self, cgroups: &mut Cgroups, ranked: Vec<(Rank, String)>) {
        let all = cgroups.groups.len() + ranked.len();
        let read = cgroups.groups.drain(..).map(|group| {
            let rank = Rank::of(&self.usage(&group), &group.events);
            (rank, Candidate::Read(Box::new(group)))
        });
        let mut candidates: Vec<(Rank, Candidate)> = read.collect();
        candidates.extend(ranked.into_iter().map(|(rank, path)| (rank, Candidate::Ranked(path))));
        // stable: of equals what stands higher in the tree stays
        candidates.sort_by_key(|(rank, _)| Reverse(rank.usage));
        candidates[LARGEST..].sort_by_key(|(rank, _)| Reverse(*rank));
        candidates.truncate(CGROUPS);
        let kept = candidates.into_iter().filter_map(|(_, candidate)| match candidate {
            Candidate::Read(group) => Some(*group),
            Candidate::Ranked(path) => {
                let folder = self.folder(&path);
                self.host.hold(&folder);
                self.group(&path, &folder)
            }
        });
        cgroups.groups = kept.collect();
        cgroups.left_out = (all - cgroups.groups.len()) as u64;
    }

    /// What a group uses, which its counters do not tell.
    fn usage(&self, group: &Cgroup) -> Reading<Bytes> {
        match self.detail {
            Detail::Everything => group.current.clone(),
            Detail::Counters => self.files(&self.folder(group.path.as_str())).usage(self.hierarchy),
        }
    }

    /// `None` where this is no memory cgroup, or not any more.
    fn group(&self, path: &str, folder: &str) -> Option<Cgroup> {
        let files = self.files(folder);
        let stat = files.counters("stat");
        // a file that may not be read is still a file
        if path != "/" && stat.is_empty() && !stat.get("anon").is_denied() {
            return None;
        }
        let mut group = match (self.hierarchy, self.detail) {
            (Hierarchy::V2, Detail::Everything) => version_2(&files, &stat),
            (Hierarchy::V2, Detail::Counters) => version_2_counters(&files, &stat),
            (_, Detail::Everything) => version_1(&files, &stat),
            (_, Detail::Counters) => version_1_counters(&files, &stat),
        };
        group.path = Name::from(path);
        group.stat = stat;
        Some(group)
    }
}

/// How much a group matters, from the fewest files that tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    oom_kills: u64,
    /// How often it was at its limit.
    at_limit: u64,
    usage: Bytes,
}

impl Rank {
    /// `None` where this is no memory cgroup, or not any more.
    fn read(files: &Files<'_>, hierarchy: Hierarchy) -> Option<Self> {
        let usage = files.usage(hierarchy);
        let events = match hierarchy {
            Hierarchy::V2 => events(files),
            _ => version_1_events(files),
        };
        let is_group =
            usage.value().is_some() || usage.is_denied() || !files.counters("stat").is_empty();
        is_group.then(|| Self::of(&usage, &events))
    }

    fn of(usage: &Reading<Bytes>, events: &CgroupEvents) -> Self {
        Self {
            oom_kills: events.oom_kill.get().unwrap_or(0),
            at_limit: events.max.get().unwrap_or(0),
            usage: usage.get().unwrap_or_default(),
        }
    }
}

enum Candidate {
    Read(Box<Cgroup>),
    Ranked(String),
}

fn below(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The `memory.` files of one group.
struct Files<'a> {
    host: &'a HostRoot,
    folder: &'a str,
}

impl Files<'_> {
    fn path(&self, file: &str) -> String {
        [self.folder, "/memory.", file].concat()
    }

    fn bytes(&self, file: &str) -> Reading<Bytes> {
        self.host.bytes_at(&self.path(file))
    }

    /// What the group and those below it use.
    fn usage(&self, hierarchy: Hierarchy) -> Reading<Bytes> {
        match hierarchy {
            Hierarchy::V2 => self.bytes("current"),
            _ => self.bytes("usage_in_bytes"),
        }
    }

    fn limit(&self, file: &str) -> Reading<Limit> {
        self.host.value(&self.path(file), "a size in bytes or max", limit)
    }

    fn number(&self, file: &str) -> Reading<u64> {
        self.host.number_at(&self.path(file))
    }

    fn counters(&self, file: &str) -> Counters {
        counters::read(self.host, &self.path(file))
    }

    /// One of the counters, as an absence that at least names the file.
    fn of(&self, counters: &Counters, file: &str, name: &str) -> Reading<u64> {
        let mut reading = counters.get(name);
        if reading.source == Source::none() {
            reading.source = Source::file(absolute(&self.path(file)));
        }
        reading
    }
}

/// `max`, or a size of which those that no memory can have mean the same.
fn limit(word: &[u8]) -> Option<Limit> {
    match word {
        b"max" => Some(Limit::Max),
        digits => number(digits).map(limit_of),
    }
}

pub(crate) fn limit_of(size: u64) -> Limit {
    /// The largest page size of any architecture whose kernel has cgroups.
    const PAGE: u64 = 64 << 10;
    const UNLIMITED: u64 = (i64::MAX as u64) / PAGE * PAGE;
    match size {
        UNLIMITED.. => Limit::Max,
        size => Limit::Bytes(Bytes::new(size)),
    }
}

fn version_2(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let size = |name| files.of(stat, "stat", name).map(Bytes::new);
    Cgroup {
        current: files.bytes("current"),
        peak: files.bytes("peak"),
        min: files.limit("min"),
        low: files.limit("low"),
        high: files.limit("high"),
        max: files.limit("max"),
        swap_max: files.limit("swap.max"),
        zswap_current: files.bytes("zswap.current"),
        zswap_max: files.limit("zswap.max"),
        swappiness: missing("cgroup v2 has no swappiness of its own"),
        file: size("file"),
        shmem: size("shmem"),
        anon_thp: size("anon_thp"),
        pressure: psi::pressure(files.host, &files.path("pressure")),
        ..version_2_counters(files, stat)
    }
}

fn version_2_counters(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let counter = |name| files.of(stat, "stat", name);
    Cgroup {
        swap_current: files.bytes("swap.current"),
        anon: counter("anon").map(Bytes::new),
        refault_anon: counter("workingset_refault_anon"),
        refault_file: counter("workingset_refault_file"),
        pgmajfault: counter("pgmajfault"),
        events: events(files),
        ..Cgroup::default()
    }
}

fn events(files: &Files<'_>) -> CgroupEvents {
    let events = files.counters("events");
    let event = |name| files.of(&events, "events", name);
    CgroupEvents {
        low: event("low"),
        high: event("high"),
        max: event("max"),
        oom: event("oom"),
        oom_kill: event("oom_kill"),
    }
}

fn version_1(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let size = |name| files.of(stat, "stat", name).map(Bytes::new);
    let limit = |file, line| version_1_limit(files, stat, file, line);
    let max = limit("limit_in_bytes", "hierarchical_memory_limit");
    let both = limit("memsw.limit_in_bytes", "hierarchical_memsw_limit");
    let no_limit = || missing("cgroup v1 has no such limit");
    let no_zswap = "cgroup v1 does not count zswap";
    Cgroup {
        current: files.bytes("usage_in_bytes"),
        peak: files.bytes("max_usage_in_bytes"),
        min: no_limit(),
        low: no_limit(),
        high: no_limit(),
        swap_max: swap_limit(both, &max),
        max,
        zswap_current: missing(no_zswap),
        zswap_max: missing(no_zswap),
        swappiness: files.number("swappiness"),
        file: size("total_cache"),
        shmem: size("total_shmem"),
        anon_thp: size("total_rss_huge"),
        pressure: no_pressure(),
        ..version_1_counters(files, stat)
    }
}

fn version_1_counters(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let counter = |name| files.of(stat, "stat", name);
    let size = |name| counter(name).map(Bytes::new);
    Cgroup {
        swap_current: size("total_swap"),
        anon: size("total_rss"),
        refault_anon: counter("total_workingset_refault_anon"),
        refault_file: counter("total_workingset_refault_file"),
        pgmajfault: counter("total_pgmajfault"),
        events: version_1_events(files),
        ..Cgroup::default()
    }
}

/// A group's own limit. `memory.stat` tells the smallest of this and those above, in `line`: where
/// that is none, the group has none either, and its file need not be read.
fn version_1_limit(
    files: &Files<'_>,
    stat: &Counters,
    file: &str,
    line: &'static str,
) -> Reading<Limit> {
    let smallest = stat.get(line).map(limit_of);
    if smallest.get() == Some(Limit::Max) { smallest } else { files.limit(file) }
}

/// Memory and swap together are limited: swap gets what is left over the limit of memory.
fn swap_limit(both: Reading<Limit>, memory: &Reading<Limit>) -> Reading<Limit> {
    let memory = memory.get();
    both.and_then(|both| match (both, memory) {
        (Limit::Max, _) => Ok(Limit::Max),
        (Limit::Bytes(both), Some(Limit::Bytes(memory))) => {
            Ok(Limit::Bytes(both.saturating_sub(memory)))
        }
        (Limit::Bytes(_), Some(Limit::Max)) => Ok(Limit::Bytes(Bytes::new(0))),
        (Limit::Bytes(_), None) => Err(Cow::Borrowed("the limit of memory alone is not known")),
    })
}

fn version_1_events(files: &Files<'_>) -> CgroupEvents {
    let control = files.counters("oom_control");
    let none = || missing("cgroup v1 has no such event");
    CgroupEvents {
        low: none(),
        high: none(),
        max: files.number("failcnt"),
        oom: none(),
        oom_kill: files.of(&control, "oom_control", "oom_kill"),
    }
}

fn no_pressure() -> Pressure {
    fn none<T>() -> Reading<T> {
        missing("cgroup v1 has no pressure files")
    }
    let stall = || Stall { avg10: none(), avg60: none(), avg300: none(), total_us: none() };
    Pressure { some: stall(), full: stall() }
}

fn missing<T>(why: &'static str) -> Reading<T> {
    Reading::absent(why, Source::none())
}

#[cfg(test)]
mod tests {
    use pagewise_model::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::mounts;
    use crate::testing::mangled;
    use pagewise_files::{Entry, Refusal};

    const MOUNT_2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const MOUNT_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const MOUNT_BESIDE: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    /// In the form of Linux 6.12, shortened; the numbers are ours.
    const STAT_2: &str = "anon 4096\nfile 8192\nkernel 100\nshmem 1024\nanon_thp 2048\nworkingset_refault_anon 3\nworkingset_refault_file 5\npgfault 10\npgmajfault 7\n";
    const EVENTS_2: &str = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 0\n";

    /// Linux 6.18, shortened.
    const STAT_1: &str = "cache 9416704\nrss 13656064\nrss_huge 0\nshmem 9068544\nswap 0\nhierarchical_memory_limit 67108864\nhierarchical_memsw_limit 100663296\ntotal_cache 1735118848\ntotal_rss 212729856\ntotal_rss_huge 2097152\ntotal_shmem 9068544\ntotal_workingset_refault_anon 12\ntotal_workingset_refault_file 722684\ntotal_swap 4096\ntotal_pgmajfault 2629\n";
    const CONTROL_1: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";

    type Tree = Vec<(String, Entry)>;

    fn file(path: impl Into<String>, text: impl AsRef<[u8]>) -> (String, Entry) {
        (path.into(), Entry::File(text.as_ref().to_vec()))
    }

    fn read_tree(files: Tree) -> (Cgroups, HostRoot) {
        let host = HostRoot::memory(files);
        let mounts = mounts::read(&host);
        (read(&host, &mounts), host)
    }

    fn unified() -> Tree {
        let mut tree = vec![
            file("proc/self/mountinfo", MOUNT_2),
            file("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
            file("sys/fs/cgroup/memory.stat", STAT_2),
            file("sys/fs/cgroup/nomem/cgroup.procs", ""),
            file("sys/fs/cgroup/nomem/sub/cgroup.procs", ""),
        ];
        let group = [
            ("stat", STAT_2),
            ("events", EVENTS_2),
            ("current", "16384\n"),
            ("peak", "20480\n"),
            ("min", "0\n"),
            ("low", "4096\n"),
            ("high", "max\n"),
            ("max", "65536\n"),
            ("swap.current", "12288\n"),
            ("swap.max", "max\n"),
        ];
        tree.extend(group.map(|(name, text)| file(format!("sys/fs/cgroup/a/memory.{name}"), text)));
        tree
    }

    fn version_1_tree(mounted: &str) -> Tree {
        let mut tree = vec![file("proc/self/mountinfo", mounted)];
        for group in ["sys/fs/cgroup/memory", "sys/fs/cgroup/memory/job"] {
            let files = [
                ("stat", STAT_1),
                ("oom_control", CONTROL_1),
                ("usage_in_bytes", "1000000\n"),
                ("max_usage_in_bytes", "2000000\n"),
                ("limit_in_bytes", "67108864\n"),
                ("memsw.limit_in_bytes", "100663296\n"),
                ("soft_limit_in_bytes", "9223372036854771712\n"),
                ("failcnt", "9\n"),
                ("swappiness", "60\n"),
            ];
            tree.extend(files.map(|(name, text)| file(format!("{group}/memory.{name}"), text)));
        }
        tree
    }

    fn paths(cgroups: &Cgroups) -> Vec<&str> {
        cgroups.groups.iter().map(|group| group.path.as_str()).collect()
    }

    fn size(bytes: u64) -> Option<Bytes> {
        Some(Bytes::new(bytes))
    }

    #[test]
    fn version_2_groups_are_read_and_those_without_memory_are_not() {
        let (cgroups, host) = read_tree(unified());
        assert_eq!(cgroups.hierarchy, Hierarchy::V2);
        assert_eq!(paths(&cgroups), ["/", "/a"]);
        let group = &cgroups.groups[1];
        assert_eq!((group.current.get(), group.peak.get()), (size(16384), size(20480)));
        assert_eq!((group.anon.get(), group.file.get()), (size(4096), size(8192)));
        assert_eq!((group.shmem.get(), group.anon_thp.get()), (size(1024), size(2048)));
        assert_eq!(group.low.get(), Some(Limit::Bytes(Bytes::new(4096))));
        assert_eq!((group.high.get(), group.swap_max.get()), (Some(Limit::Max), Some(Limit::Max)));
        assert_eq!((group.refault_anon.get(), group.refault_file.get()), (Some(3), Some(5)));
        assert_eq!(group.refault_file.source.to_string(), "/sys/fs/cgroup/a/memory.stat:7");
        assert_eq!((group.pgmajfault.get(), group.events.oom_kill.get()), (Some(7), Some(5)));
        assert_eq!(group.zswap_current.outcome, Outcome::Absent("no such file".into()));
        assert_eq!(group.stat.get("kernel").get(), Some(100));
        assert_eq!(host.take_problems(), []);
    }

    #[test]
    fn the_top_of_version_2_has_no_limits_and_that_is_not_zero() {
        let (cgroups, _) = read_tree(unified());
        let root = &cgroups.groups[0];
        assert_eq!(root.anon.get(), size(4096));
        assert_eq!((root.current.get(), root.max.get(), root.events.max.get()), (None, None, None));
    }

    /// With a limit above it a group may have none of its own, and its file decides.
    #[test]
    fn a_version_1_group_under_no_limit_has_none_of_its_own() {
        let group = |limit: &str, own: Option<&str>| {
            let mut tree = version_1_tree(MOUNT_1);
            let stat = STAT_1.replace("memory_limit 67108864", &format!("memory_limit {limit}"));
            tree.retain(|(path, _)| !path.ends_with("memory.limit_in_bytes"));
            tree.push(file("sys/fs/cgroup/memory/job/memory.stat", stat));
            let own = own.map(|own| file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", own));
            tree.extend(own);
            read_tree(tree).0.groups.remove(1).max
        };
        let none = group("9223372036854771712", None);
        assert_eq!(none.get(), Some(Limit::Max));
        assert_eq!(none.source.to_string(), "/sys/fs/cgroup/memory/job/memory.stat:6");
        let above = group("4096", Some("9223372036854771712\n"));
        assert_eq!(above.get(), Some(Limit::Max));
        let place = "/sys/fs/cgroup/memory/job/memory.limit_in_bytes";
        assert_eq!(above.source.to_string(), place);
        assert_eq!(group("4096", Some("8192\n")).get(), Some(Limit::Bytes(Bytes::new(8192))));
        assert_eq!(group("many", None).get(), None);
    }

    #[test]
    fn version_1_is_told_in_the_words_of_version_2() {
        let (cgroups, host) = read_tree(version_1_tree(MOUNT_1));
        assert_eq!(cgroups.hierarchy, Hierarchy::V1);
        assert_eq!(paths(&cgroups), ["/", "/job"]);
        let group = &cgroups.groups[1];
        assert_eq!((group.anon.get(), group.file.get()), (size(212_729_856), size(1_735_118_848)));
        assert_eq!((group.anon_thp.get(), group.swap_current.get()), (size(2 << 20), size(4096)));
        assert_eq!(group.max.get(), Some(Limit::Bytes(Bytes::new(64 << 20))));
        assert_eq!(group.swap_max.get(), Some(Limit::Bytes(Bytes::new(32 << 20))));
        assert_eq!((group.refault_anon.get(), group.refault_file.get()), (Some(12), Some(722_684)));
        assert_eq!((group.events.max.get(), group.events.oom_kill.get()), (Some(9), Some(2)));
        assert_eq!(group.swappiness.get(), Some(60));
        assert_eq!(group.low.outcome, Outcome::Absent("cgroup v1 has no such limit".into()));
        assert!(group.pressure.some.avg10.get().is_none());
        assert_eq!(host.take_problems(), []);
    }

    #[test]
    fn without_swap_accounting_swap_is_absent() {
        let mut tree = version_1_tree(MOUNT_1);
        tree.retain(|(path, _)| !path.contains("memsw"));
        tree.push(file("sys/fs/cgroup/memory/job/memory.stat", STAT_1.replace("swap", "swop")));
        let (cgroups, _) = read_tree(tree);
        let group = &cgroups.groups[1];
        assert_eq!((group.swap_current.get(), group.swap_max.get()), (None, None));
    }

    #[test]
    fn the_tree_that_has_the_memory_controller_counts() {
        let hierarchy = |tree: Tree| read_tree(tree).0.hierarchy;
        let both = [MOUNT_1, MOUNT_BESIDE].concat();
        assert_eq!(hierarchy(version_1_tree(&both)), Hierarchy::Hybrid);
        assert_eq!(hierarchy(version_1_tree(MOUNT_BESIDE)), Hierarchy::None);
        assert_eq!(hierarchy(Tree::new()), Hierarchy::None);
        let mut unified_wins = version_1_tree(MOUNT_BESIDE);
        unified_wins.push(file("sys/fs/cgroup/unified/cgroup.controllers", "memory"));
        assert_eq!(hierarchy(unified_wins), Hierarchy::V2);
    }

    #[test]
    fn no_limit_is_the_largest_number_of_any_page_size() {
        for (page, most) in [(12, 9_223_372_036_854_771_712), (16, 9_223_372_036_854_710_272)] {
            assert_eq!(i64::MAX as u64 >> page << page, most);
            assert_eq!(limit(most.to_string().as_bytes()), Some(Limit::Max));
        }
        assert_eq!(limit(b"18446744073709551615"), Some(Limit::Max));
        assert_eq!(limit(b"max"), Some(Limit::Max));
        assert_eq!(limit(b"0"), Some(Limit::Bytes(Bytes::new(0))));
        let huge = 1 << 62;
        assert_eq!(limit(format!("{huge}").as_bytes()), Some(Limit::Bytes(Bytes::new(huge))));
        assert_eq!((limit(b""), limit(b"-1"), limit(b"maximum")), (None, None, None));
    }

    #[test]
    fn a_group_that_we_may_not_read_is_still_a_group() {
        let mut tree = unified();
        let denied = || Entry::Refused(Refusal::Denied("run as root".into()));
        for name in ["stat", "current"] {
            tree.push((format!("sys/fs/cgroup/secret/memory.{name}"), denied()));
        }
        let (cgroups, _) = read_tree(tree);
        assert_eq!(paths(&cgroups), ["/", "/a", "/secret"]);
        let secret = &cgroups.groups[2];
        assert!(secret.current.is_denied() && secret.anon.is_denied());
    }

    #[test]
    fn children_stand_right_below_their_parent() {
        let mut tree = vec![file("proc/self/mountinfo", MOUNT_1)];
        for path in ["", "/a", "/a/z", "/a-b", "/a.slice", "/b"] {
            tree.push(file(format!("sys/fs/cgroup/memory{path}/memory.stat"), STAT_1));
        }
        assert_eq!(paths(&read_tree(tree).0), ["/", "/a", "/a/z", "/a-b", "/a.slice", "/b"]);
    }

    #[test]
    fn what_is_left_out_is_counted_and_lies_deepest() {
        let mut tree = vec![file("proc/self/mountinfo", MOUNT_1)];
        tree.push(file("sys/fs/cgroup/memory/memory.stat", STAT_1));
        for n in 0..CGROUPS / 2 {
            tree.push(file(format!("sys/fs/cgroup/memory/{n}/memory.stat"), "total_rss 1\n"));
            tree.push(file(format!("sys/fs/cgroup/memory/{n}/sub/memory.stat"), "total_rss 1\n"));
        }
        let (cgroups, _) = read_tree(tree);
        assert_eq!((cgroups.groups.len(), cgroups.left_out), (CGROUPS, 1));
    }

    /// Of very many groups the deepest may be the one that matters.
    #[test]
    fn the_largest_and_the_most_hurt_are_kept_wherever_they_are() {
        const MANY: usize = 5000;
        for (mounted, mount, usage, kills) in [
            (MOUNT_1, "sys/fs/cgroup/memory", "usage_in_bytes", "oom_control"),
            (MOUNT_2, "sys/fs/cgroup", "current", "events"),
        ] {
            let mut tree = vec![file("proc/self/mountinfo", mounted)];
            tree.push(file("sys/fs/cgroup/cgroup.controllers", "memory\n"));
            tree.push(file(format!("{mount}/memory.stat"), "anon 1\n"));
            let mut add = |path: &str, bytes: u64, killed: u64| {
                let group = format!("{mount}/{path}/memory");
                tree.push(file(format!("{group}.stat"), "anon 1\n"));
                tree.push(file(format!("{group}.{usage}"), format!("{bytes}\n")));
                tree.push(file(format!("{group}.{kills}"), format!("oom_kill {killed}\n")));
            };
            for n in 0..MANY {
                add(&format!("{n:04}"), 4096, 0);
            }
            add("0001/deep", 4096, 0);
            add("0001/deep/large", 1 << 30, 0);
            add("0001/deep/killed", 4096, 3);
            let (cgroups, host) = read_tree(tree);
            assert_eq!(cgroups.groups.len(), CGROUPS);
            assert_eq!(cgroups.left_out, (MANY + 4 - CGROUPS) as u64);
            let found =
                |path: &str| cgroups.groups.iter().find(|group| group.path.as_str() == path);
            assert_eq!(found("/0001/deep/large").unwrap().current.get(), size(1 << 30));
            assert_eq!(found("/0001/deep/killed").unwrap().events.oom_kill.get(), Some(3));
            assert!(cgroups.groups.is_sorted_by(|a, b| steps(a).le(steps(b))));
            assert_eq!(host.take_problems(), []);
        }
    }

    /// Which groups are kept does not depend on how much is read of them: else none would have a rate.
    #[test]
    fn the_same_groups_are_kept_where_only_counters_are_read() {
        for (mounted, mount, usage) in [
            (MOUNT_1, "sys/fs/cgroup/memory", "usage_in_bytes"),
            (MOUNT_2, "sys/fs/cgroup", "current"),
        ] {
            let mut tree = vec![file("proc/self/mountinfo", mounted)];
            tree.push(file("sys/fs/cgroup/cgroup.controllers", "memory\n"));
            tree.push(file(format!("{mount}/memory.stat"), "anon 1\n"));
            for n in 0..CGROUPS * 2 {
                let group = format!("{mount}/{n:04}/memory");
                tree.push(file(format!("{group}.stat"), "anon 1\n"));
                tree.push(file(format!("{group}.{usage}"), format!("{}\n", n * 4096)));
            }
            let host = HostRoot::memory(tree);
            let mounts = mounts::read(&host);
            let (all, counted) = (read(&host, &mounts), read_counters(&host, &mounts));
            assert_eq!(paths(&all), paths(&counted));
            assert_eq!((counted.groups.len(), counted.left_out), (CGROUPS, all.left_out));
            assert!(counted.groups.iter().all(|group| group.current.value().is_none()));
        }
    }

    #[test]
    fn a_group_that_vanishes_while_it_is_read_is_not_listed() {
        let mut tree = version_1_tree(MOUNT_1);
        // its folder was listed, and its files are gone
        tree.push(file("sys/fs/cgroup/memory/gone/cgroup.procs", ""));
        let (cgroups, host) = read_tree(tree);
        assert_eq!(paths(&cgroups), ["/", "/job"]);
        assert_eq!((cgroups.left_out, host.take_problems()), (0, vec![]));
    }

    #[test]
    fn a_bottomless_tree_ends() {
        let deep = "x/".repeat(5000);
        let mut tree = version_1_tree(MOUNT_1);
        for depth in 1..100 {
            let path = &deep[..depth * 2];
            tree.push(file(format!("sys/fs/cgroup/memory/{path}memory.stat"), "total_rss 1\n"));
        }
        tree.push(file(format!("sys/fs/cgroup/memory/{deep}memory.stat"), "total_rss 1\n"));
        // the root, its job, and what is as deep as we look
        assert_eq!(read_tree(tree).0.groups.len(), 2 + CGROUP_DEPTH);
    }

    /// This machine's tree, whichever it has.
    #[test]
    fn the_live_tree_is_read_without_a_problem() {
        let live = HostRoot::live().unwrap();
        let cgroups = read(&live, &mounts::read(&live));
        assert_eq!(cgroups.groups.is_empty(), cgroups.hierarchy == Hierarchy::None);
        for group in &cgroups.groups {
            assert!(group.anon.get().is_some(), "{}", group.path);
        }
        assert_eq!(live.take_problems(), []);
    }

    proptest! {
        #[test]
        fn no_file_of_a_group_panics(
            stat in mangled(STAT_1),
            events in mangled(EVENTS_2),
            control in mangled(CONTROL_1),
            limit in mangled("9223372036854771712\n"),
        ) {
            for mut tree in [unified(), version_1_tree(MOUNT_1)] {
                let top = tree.iter().find(|(path, _)| path.ends_with("memory.stat")).unwrap();
                let folder = top.0.trim_end_matches("memory.stat").to_owned();
                let spoiled = [("stat", &stat), ("events", &events), ("oom_control", &control),
                    ("max", &limit), ("limit_in_bytes", &limit), ("memsw.limit_in_bytes", &limit)];
                for group in ["a", "job"] {
                    tree.extend(spoiled.map(|(name, bytes)| {
                        file(format!("{folder}{group}/memory.{name}"), bytes)
                    }));
                }
                let _ = read_tree(tree);
            }
        }
    }
}
