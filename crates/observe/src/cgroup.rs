// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the tree of memory cgroups into [`Cgroups`]; values of version 1 get the names of version
//! 2.
//!
//! Both versions count the same things under different names: `total_rss` is `anon`, `total_cache`
//! is `file` (both include shmem), `total_rss_huge` is `anon_thp`. In version 1 the lines without
//! `total_` exclude the children of a group; version 2 has no such lines. Version 1 prints "no
//! limit" as a number: the largest 64-bit value, rounded down to pages. A value for which version 1
//! has no file is absent, with that reason. The soft limit of version 1 corresponds to neither
//! `low` nor `high` and is not read.
//!
//! In version 2 a group without `memory.stat` has no memory controller, and neither have its
//! children: they are not listed. Groups whose name is not UTF-8 are not found; their memory is
//! counted in their parent.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::VecDeque;

use pagewise_model::{
    Bytes, Cgroup, CgroupEvents, CgroupPids, Cgroups, Counters, Hierarchy, IoLimit, Limit, Name,
    Pressure, Reading, Source, Stall, TaskLimit,
};

use crate::known::{KnownGroups, digest};
use crate::limits::{CGROUP_DEPTH, CGROUPS, IO_LIMITS};
use crate::mounts::{self, Mounts};
use crate::{counters, psi};
use pagewise_hostfs::text::{Line, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

/// How many of the groups that are kept are chosen by memory usage; the rest are chosen by OOM
/// kills and by how often they hit a limit.
const LARGEST: usize = CGROUPS / 2;
/// Minimum memory usage of a group of which it is read whether the group is frozen.
const LARGE: Bytes = Bytes::new(64 << 20);
/// `io.max` is read if tasks of a group wait for memory for this share of the time, in percent.
const WAITS_PERCENT: f64 = 1.0;
/// Number of groups for which memory is reserved at the start, because growing the vector moves
/// every group.
const FEW_GROUPS: usize = 64;

pub(crate) fn read(host: &HostRoot, mounts: &Mounts) -> Cgroups {
    read_in(host, mounts, Detail::Everything, None)
}

/// As [`read`]. With `keeps`, groups whose `memory.stat` and usage are as they were when the groups
/// `before` were read are taken from these; of such a group only these two files and
/// `memory.pressure` are read, because its averages fall while nothing happens. What others can
/// change without a change of `memory.stat`, such as a limit, is missed until the group is read in
/// full. `known` belongs to `before`, and to the returned groups afterwards.
pub(crate) fn read_after(
    host: &HostRoot,
    mounts: &Mounts,
    known: &mut KnownGroups,
    before: &Cgroups,
    keeps: bool,
) -> Cgroups {
    let earlier = Earlier { known: std::mem::take(known), before, keeps, now: RefCell::default() };
    let read = read_in(host, mounts, Detail::Everything, Some(&earlier));
    *known = earlier.now.into_inner();
    read
}

/// What an earlier reading found.
#[derive(Debug)]
struct Earlier<'a> {
    known: KnownGroups,
    before: &'a Cgroups,
    keeps: bool,
    /// What is known after this reading.
    now: RefCell<KnownGroups>,
}

impl Earlier<'_> {
    /// The group as it was, if its `memory.stat` and its usage are unchanged.
    fn find(&self, path: &str, files: &Files<'_>, stat: u64, version: Hierarchy) -> Option<Cgroup> {
        let is_same = self.keeps && self.known.has(files.folder, stat);
        let is_kept = is_same
            .then(|| self.before.group(path))
            .flatten()
            .filter(|before| {
                let used = before.current.get();
                used.is_some() && used == files.usage(version).get()
            })
            .cloned();
        self.now.borrow_mut().note(files.folder, stat, is_kept.is_some());
        let mut group = is_kept?;
        if version == Hierarchy::V2 {
            group.pressure = psi::pressure(files.host, &files.path("pressure"));
        }
        Some(group)
    }
}

/// Reads the same groups as a full reading, but only the values from which rates and growth are
/// computed.
pub(crate) fn read_counters(host: &HostRoot, mounts: &Mounts) -> Cgroups {
    read_in(host, mounts, Detail::Counters, None)
}

/// Reads the same groups as a full reading, but only the values that a live view shows.
pub(crate) fn read_live(host: &HostRoot, mounts: &Mounts) -> Cgroups {
    read_in(host, mounts, Detail::Live, None)
}

/// Reads one memory cgroup in full; `None` if it no longer exists.
pub(crate) fn read_one(host: &HostRoot, mounts: &Mounts, path: &str) -> Option<Cgroup> {
    let (hierarchy, mount) = detect_hierarchy(host, mounts);
    let walk = Walk { host, mount: mount?, hierarchy, detail: Detail::Everything, earlier: None };
    walk.group(path, &walk.folder(path))
}

/// How much of each group is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Everything,
    /// Only the events of a group, its refaults, major faults, anonymous memory and swap: no
    /// limits, no pressure.
    Counters,
    /// Only the counters, usage and limit of a group.
    Live,
}

fn read_in(
    host: &HostRoot,
    mounts: &Mounts,
    detail: Detail,
    earlier: Option<&Earlier<'_>>,
) -> Cgroups {
    let (hierarchy, mount) = detect_hierarchy(host, mounts);
    let mut cgroups = Cgroups { hierarchy, ..Cgroups::default() };
    if let Some(mount) = mount {
        cgroups.groups.reserve(FEW_GROUPS);
        Walk { host, mount, hierarchy, detail, earlier }.read_all(&mut cgroups);
        if hierarchy == Hierarchy::V2 && detail == Detail::Everything {
            let stat = counters::read(host, &format!("{mount}/cgroup.stat"));
            cgroups.dying = stat.get("nr_dying_descendants");
        }
        // unstable, because a stable sort allocates a buffer; no two groups have the same path
        cgroups.groups.sort_unstable_by(|a, b| path_components(a).cmp(path_components(b)));
    }
    cgroups
}

/// Where the memory cgroups are mounted (absolute path), and whether they are version 2. `None` if
/// no hierarchy has a memory controller.
pub fn memory_cgroups(host: &HostRoot) -> Option<(String, bool)> {
    let mounts = mounts::read(host);
    let (hierarchy, mount) = detect_hierarchy(host, &mounts);
    let found = mount.map(|mount| (absolute_path(mount), hierarchy == Hierarchy::V2));
    host.close_held_folders();
    found
}

/// The components of a group's path. Sorting by them puts a parent directly before its descendants,
/// with no other group in between.
fn path_components(group: &Cgroup) -> impl Iterator<Item = &str> {
    group.path.as_str().split('/').filter(|step| !step.is_empty())
}

/// Finds the mount point of the memory cgroups and their version.
fn detect_hierarchy<'a>(host: &HostRoot, mounts: &'a Mounts) -> (Hierarchy, Option<&'a str>) {
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

/// A walk over one hierarchy, with how much is read of each group.
#[derive(Debug, Clone, Copy)]
struct Walk<'a> {
    host: &'a HostRoot,
    mount: &'a str,
    hierarchy: Hierarchy,
    detail: Detail,
    earlier: Option<&'a Earlier<'a>>,
}

impl<'a> Walk<'a> {
    /// Walks the tree of cgroups level by level. The first [`CGROUPS`] groups are read in full;
    /// further ones are only [ranked](Rank), and replace groups that were read if they rank higher.
    fn read_all(&self, cgroups: &mut Cgroups) {
        let mut queue = VecDeque::from([(String::from("/"), 0)]);
        let mut ranked = Vec::new();
        while let Some((path, depth)) = queue.pop_front() {
            let folder = self.folder(&path);
            self.host.keep_folder_open(&folder);
            if let Some(children) = self.take(cgroups, &mut ranked, &path, &folder) {
                let below_max = children.iter().filter(|_| depth < CGROUP_DEPTH);
                queue.extend(below_max.map(|name| (join_path(&path, name), depth + 1)));
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

    /// Reads or ranks one group and returns the names of its children; `None` if it is no memory
    /// cgroup.
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

    /// Keeps the largest groups and those with the most OOM kills and limit hits, and reads in full
    /// those that were only ranked.
    fn keep_worst(&self, cgroups: &mut Cgroups, ranked: Vec<(Rank, String)>) {
        let all = cgroups.groups.len() + ranked.len();
        let read = cgroups.groups.drain(..).map(|group| {
            let rank = Rank::from_usage(&self.usage(&group), &group.events);
            (rank, Candidate::Read(Box::new(group)))
        });
        let mut candidates: Vec<(Rank, Candidate)> = read.collect();
        candidates.extend(ranked.into_iter().map(|(rank, path)| (rank, Candidate::Ranked(path))));
        // stable sort: of groups with equal rank, the one higher in the tree is kept
        candidates.sort_by_key(|(rank, _)| Reverse(rank.usage));
        candidates[LARGEST..].sort_by_key(|(rank, _)| Reverse(*rank));
        candidates.truncate(CGROUPS);
        let kept = candidates.into_iter().filter_map(|(_, candidate)| match candidate {
            Candidate::Read(group) => Some(*group),
            Candidate::Ranked(path) => {
                let folder = self.folder(&path);
                self.host.keep_folder_open(&folder);
                self.group(&path, &folder)
            }
        });
        cgroups.groups = kept.collect();
        cgroups.left_out = (all - cgroups.groups.len()) as u64;
    }

    /// The memory usage of a group, read separately if its counters do not include it.
    fn usage(&self, group: &Cgroup) -> Reading<Bytes> {
        match self.detail {
            Detail::Everything | Detail::Live => group.current.clone(),
            Detail::Counters => self.files(&self.folder(group.path.as_str())).usage(self.hierarchy),
        }
    }

    /// Reads a memory cgroup in full; `None` if the folder is no memory cgroup or no longer exists.
    fn group(&self, path: &str, folder: &str) -> Option<Cgroup> {
        let files = self.files(folder);
        let stat_path = files.path("stat");
        let stat = self.host.bytes(&stat_path);
        let kept = self
            .earlier
            .zip(stat.as_ref().ok())
            .and_then(|(earlier, stat)| earlier.find(path, &files, digest(stat), self.hierarchy));
        if kept.is_some() {
            return kept;
        }
        let stat = counters::parse(self.host, &stat_path, stat);
        // a denied file still shows that the controller exists
        if path != "/" && stat.is_empty() && !stat.get("anon").is_denied() {
            return None;
        }
        let mut group = match (self.hierarchy, self.detail) {
            (Hierarchy::V2, Detail::Everything) => version_2(&files, &stat),
            (Hierarchy::V2, Detail::Counters) => version_2_counters(&files, &stat),
            (_, Detail::Everything) => version_1(&files, &stat),
            (_, Detail::Counters) => version_1_counters(&files, &stat),
            (Hierarchy::V2, Detail::Live) => Cgroup {
                current: files.bytes("current"),
                max: files.limit("max"),
                ..version_2_counters(&files, &stat)
            },
            (_, Detail::Live) => Cgroup {
                current: files.bytes("usage_in_bytes"),
                max: version_1_limit(&files, &stat, "limit_in_bytes", "hierarchical_memory_limit"),
                ..version_1_counters(&files, &stat)
            },
        };
        group.path = Name::from(path);
        group.stat = stat;
        Some(group)
    }
}

/// How important a group is, computed from as few files as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    oom_kills: u64,
    /// How often the group reached its limit.
    at_limit: u64,
    usage: Bytes,
}

impl Rank {
    /// Reads what a group is ranked by; `None` if the folder is no memory cgroup or no longer
    /// exists.
    fn read(files: &Files<'_>, hierarchy: Hierarchy) -> Option<Self> {
        let usage = files.usage(hierarchy);
        let events = match hierarchy {
            Hierarchy::V2 => events(files),
            _ => version_1_events(files),
        };
        let is_group =
            usage.value().is_some() || usage.is_denied() || !files.counters("stat").is_empty();
        is_group.then(|| Self::from_usage(&usage, &events))
    }

    fn from_usage(usage: &Reading<Bytes>, events: &CgroupEvents) -> Self {
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

fn join_path(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The files of one group whose names begin with `memory.`.
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

    /// The memory usage of the group and its descendants.
    fn usage(&self, hierarchy: Hierarchy) -> Reading<Bytes> {
        match hierarchy {
            Hierarchy::V2 => self.bytes("current"),
            _ => self.bytes("usage_in_bytes"),
        }
    }

    fn limit(&self, file: &str) -> Reading<Limit> {
        self.host.value(&self.path(file), "a size in bytes or max", limit)
    }

    fn flag(&self, file: &str) -> Reading<bool> {
        self.host.flag_at(&self.path(file))
    }

    fn number(&self, file: &str) -> Reading<u64> {
        self.host.number_at(&self.path(file))
    }

    fn counters(&self, file: &str) -> Counters {
        counters::read(self.host, &self.path(file))
    }

    /// Whether all tasks of the group are stopped.
    fn frozen(&self) -> Reading<bool> {
        let events = counters::read(self.host, &format!("{}/cgroup.events", self.folder));
        events.get("frozen").map(|frozen| frozen == 1)
    }

    /// How often the limit on tasks refused a fork.
    fn count_refused_forks(&self) -> Reading<u64> {
        counters::read(self.host, &format!("{}/pids.events", self.folder)).get("max")
    }

    /// The limits on reads in `io.max`: lines like `8:0 rbps=1048576 wbps=max riops=max wiops=max`.
    fn io_limits(&self) -> Vec<IoLimit> {
        let Ok(text) = self.host.text(&format!("{}/io.max", self.folder)) else {
            return Vec::new();
        };
        let parse = |line: Line<'_>| {
            let mut words = line.words();
            let device = line.check_parsed(self.host, "a device and its limits", words.next())?;
            let find = |key: &[u8]| line.words().find_map(|word| word.strip_prefix(key));
            let bytes = find(b"rbps=").and_then(limit);
            let requests = find(b"riops=").filter(|word| *word != b"max");
            Some(IoLimit {
                device: Name::from_bytes(device),
                bytes: line.reading(self.host, "rbps= with a number or max", bytes),
                requests: match requests {
                    Some(word) => line.reading(self.host, "riops= with a number", number(word)),
                    None => Reading::absent("no limit", line.source()),
                },
            })
        };
        let limits_reads = |limit: &IoLimit| {
            limit.bytes.get().is_some_and(|it| it != Limit::Max) || limit.requests.get().is_some()
        };
        text.first_lines(self.host, IO_LIMITS).filter_map(parse).filter(limits_reads).collect()
    }

    /// Reads a counter; if it is absent and its source is unknown, the absence names `file`.
    fn named_counter(&self, counters: &Counters, file: &str, name: &str) -> Reading<u64> {
        let mut reading = counters.get(name);
        if reading.source == Source::none() {
            reading.source = Source::file(absolute_path(&self.path(file)));
        }
        reading
    }
}

/// Parses a limit: `max` or a size. A size above the largest possible limit also means "no limit".
fn limit(word: &[u8]) -> Option<Limit> {
    match word {
        b"max" => Some(Limit::Max),
        digits => number(digits).map(limit_of),
    }
}

pub(crate) fn limit_of(size: u64) -> Limit {
    /// The largest page size in bytes of any architecture whose kernel has cgroups.
    const PAGE: u64 = 64 << 10;
    const UNLIMITED: u64 = (i64::MAX as u64) / PAGE * PAGE;
    match size {
        UNLIMITED.. => Limit::Max,
        size => Limit::Bytes(Bytes::new(size)),
    }
}

fn version_2(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let size = |name| files.named_counter(stat, "stat", name).map(Bytes::new);
    let current = files.bytes("current");
    let pressure = psi::pressure(files.host, &files.path("pressure"));
    let is_large = current.get().is_some_and(|current| current >= LARGE);
    let counters = version_2_counters(files, stat);
    Cgroup {
        frozen: if is_large { files.frozen() } else { Reading::not_read() },
        current,
        peak: files.bytes("peak"),
        min: files.limit("min"),
        low: files.limit("low"),
        high: files.limit("high"),
        max: files.limit("max"),
        swap_max: files.limit("swap.max"),
        zswap_current: files.bytes("zswap.current"),
        zswap_max: files.limit("zswap.max"),
        zswap_writeback: files.flag("zswap.writeback"),
        swappiness: missing("cgroup v2 has no swappiness of its own"),
        file: size("file"),
        shmem: size("shmem"),
        anon_thp: size("anon_thp"),
        io_limits: if has_waiting_tasks(&pressure) { files.io_limits() } else { Vec::new() },
        pressure,
        pids: version_2_pids(files, counters.pids.refused.clone()),
        ..counters
    }
}

/// Whether tasks of a group wait for memory for long enough to ask for the reason.
fn has_waiting_tasks(pressure: &Pressure) -> bool {
    let averages = [&pressure.some.avg10, &pressure.some.avg60];
    averages.iter().any(|average| average.get().is_some_and(|it| it.get() >= WAITS_PERCENT))
}

fn version_2_counters(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let counter = |name| files.named_counter(stat, "stat", name);
    Cgroup {
        swap_current: files.bytes("swap.current"),
        anon: counter("anon").map(Bytes::new),
        refault_anon: counter("workingset_refault_anon"),
        refault_file: counter("workingset_refault_file"),
        pgmajfault: counter("pgmajfault"),
        events: events(files),
        pids: CgroupPids { refused: files.count_refused_forks(), ..CgroupPids::default() },
        ..Cgroup::default()
    }
}

fn version_2_pids(files: &Files<'_>, refused: Reading<u64>) -> CgroupPids {
    let path = |file: &str| format!("{}/pids.{file}", files.folder);
    let max = files.host.value(&path("max"), "a number of tasks or max", task_limit);
    let current = match max.get() {
        Some(TaskLimit::Tasks(_)) => files.host.number_at(&path("current")),
        Some(TaskLimit::Max) | None => Reading::not_read(),
    };
    CgroupPids { current, max, refused }
}

fn task_limit(word: &[u8]) -> Option<TaskLimit> {
    match word {
        b"max" => Some(TaskLimit::Max),
        digits => number(digits).map(TaskLimit::Tasks),
    }
}

fn version_1_pids() -> CgroupPids {
    let why = "cgroup v1 counts tasks in a hierarchy of its own, which is not read";
    CgroupPids { current: missing(why), max: missing(why), refused: missing(why) }
}

fn events(files: &Files<'_>) -> CgroupEvents {
    let events = files.counters("events");
    let event = |name| files.named_counter(&events, "events", name);
    CgroupEvents {
        low: event("low"),
        high: event("high"),
        max: event("max"),
        oom: event("oom"),
        oom_kill: event("oom_kill"),
    }
}

fn version_1(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let size = |name| files.named_counter(stat, "stat", name).map(Bytes::new);
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
        zswap_writeback: missing(no_zswap),
        swappiness: files.number("swappiness"),
        file: size("total_cache"),
        shmem: size("total_shmem"),
        anon_thp: size("total_rss_huge"),
        pressure: no_pressure(),
        pids: version_1_pids(),
        ..version_1_counters(files, stat)
    }
}

fn version_1_counters(files: &Files<'_>, stat: &Counters) -> Cgroup {
    let counter = |name| files.named_counter(stat, "stat", name);
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

/// The limit of the group itself. `memory.stat` prints (under `line`) the smallest limit of the
/// group and its ancestors: if that is "no limit", the group has none either, and its own file is
/// not read.
fn version_1_limit(
    files: &Files<'_>,
    stat: &Counters,
    file: &str,
    line: &'static str,
) -> Reading<Limit> {
    let smallest = stat.get(line).map(limit_of);
    if smallest.get() == Some(Limit::Max) { smallest } else { files.limit(file) }
}

/// The swap limit of a version 1 group. Version 1 limits the sum of memory and swap: the swap limit
/// is that sum minus the memory limit.
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
        oom_kill: files.named_counter(&control, "oom_control", "oom_kill"),
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
    use super::*;
    use crate::mounts;
    use pagewise_hostfs::Entry;

    const MOUNT_2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const MOUNT_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    fn file(path: impl Into<String>, text: impl AsRef<[u8]>) -> (String, Entry) {
        (path.into(), Entry::File(text.as_ref().to_vec()))
    }

    fn paths(cgroups: &Cgroups) -> Vec<&str> {
        cgroups.groups.iter().map(|group| group.path.as_str()).collect()
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

    fn two_groups(files: &[(&str, &str)]) -> HostRoot {
        let mut tree = vec![file("proc/self/mountinfo", MOUNT_2)];
        tree.push(file("sys/fs/cgroup/cgroup.controllers", "memory\n"));
        tree.push(file("sys/fs/cgroup/memory.stat", "anon 9\n"));
        let files = files.iter().map(|(name, text)| file(format!("sys/fs/cgroup/{name}"), text));
        tree.extend(files);
        HostRoot::memory(tree)
    }

    /// Of a group whose `memory.stat` and usage are the same, only these and the pressure are read
    /// again; a change of one of them makes the whole group be read.
    #[test]
    fn a_group_that_did_nothing_is_taken_from_the_reading_before() {
        let pressure = |percent| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=5\n");
        let host = |stat, current, max, percent| {
            two_groups(&[
                ("a/memory.stat", stat),
                ("a/memory.current", current),
                ("a/memory.max", max),
                ("a/memory.pressure", &pressure(percent)),
                ("b/memory.stat", "anon 1\n"),
                ("b/memory.current", "8192\n"),
            ])
        };
        let mut known = KnownGroups::default();
        let mut before = Cgroups::default();
        let mut read = |host: &HostRoot, keeps| {
            let mounts = mounts::read(host);
            before = read_after(host, &mounts, &mut known, &before, keeps);
            let a = before.group("/a").unwrap();
            let (usage, max) = (a.current.get().unwrap().get(), a.max.get().unwrap());
            let waited = a.pressure.some.avg10.get().map(pagewise_model::Percent::get);
            (usage, max == Limit::Max, waited, known.kept().len())
        };
        let kept = Some(3.0);
        // nothing is known yet
        assert_eq!(read(&host("anon 1\n", "4096\n", "max\n", "3.00"), true), (4096, true, kept, 0));
        let limited = host("anon 1\n", "4096\n", "9000\n", "1.00");
        assert_eq!(read(&limited, true), (4096, true, Some(1.0), 2));
        assert_eq!(read(&limited, false), (4096, false, Some(1.0), 0));
        let freed = host("anon 1\n", "4096\n", "max\n", "3.00");
        assert_eq!(read(&freed, true), (4096, false, kept, 2));
        assert_eq!(read(&host("anon 1\n", "8192\n", "max\n", "3.00"), true), (8192, true, kept, 1));
        assert_eq!(
            read(&host("anon 2\n", "8192\n", "9000\n", "3.00"), true),
            (8192, false, kept, 1)
        );
        assert_eq!(known.stats_of(), 3);
    }

    fn pids_of(files: &[(&str, &str)]) -> (CgroupPids, CgroupPids, usize) {
        let mut tree = vec![file("proc/self/mountinfo", MOUNT_2)];
        tree.push(file("sys/fs/cgroup/cgroup.controllers", "memory pids\n"));
        tree.push(file("sys/fs/cgroup/a/memory.stat", "anon 1\n"));
        let files = files.iter().map(|(name, text)| (format!("sys/fs/cgroup/a/pids.{name}"), text));
        tree.extend(files.map(|(path, text)| file(path, text)));
        let host = HostRoot::memory(tree);
        let mounts = mounts::read(&host);
        let pids = |all: Cgroups| all.group("/a").unwrap().pids.clone();
        let (all, counted) = (read(&host, &mounts), read_counters(&host, &mounts));
        (pids(all), pids(counted), host.take_problems().len())
    }

    #[test]
    fn the_limit_on_tasks_is_read_with_its_files() {
        let (pids, counted, _) =
            pids_of(&[("current", "97\n"), ("max", "100\n"), ("events", "max 12\n")]);
        let at = |name: &str| format!("/sys/fs/cgroup/a/pids.{name}");
        assert_eq!(pids.current, Reading::found(97, Source::file(at("current"))));
        assert_eq!(pids.max, Reading::found(TaskLimit::Tasks(100), Source::file(at("max"))));
        assert_eq!(pids.refused, Reading::found(12, Source::line(at("events"), 1)));
        assert_eq!(counted.refused, pids.refused);
        assert_eq!((counted.max.get(), counted.current.get()), (None, None));
    }

    #[test]
    fn tasks_without_a_limit_or_a_controller_are_not_zero() {
        let (pids, _, _) = pids_of(&[("current", "97\n"), ("max", "max\n")]);
        assert_eq!((pids.max.get(), pids.current.get()), (Some(TaskLimit::Max), None));
        assert_eq!(pids.refused.get(), None);
        let (none, _, problems) = pids_of(&[]);
        assert_eq!((none.max.get(), none.current.get(), none.refused.get()), (None, None, None));
        assert_eq!(problems, 0);
        let (garbled, _, problems) = pids_of(&[("max", "-3\n"), ("events", "max many\n")]);
        assert_eq!((garbled.max.get(), garbled.refused.get()), (None, None));
        assert!(problems > 0);
        let version_1 = version_1_pids();
        assert_eq!((version_1.max.get(), version_1.current.get()), (None, None));
    }

    #[test]
    fn limits_on_reads_are_read_of_groups_that_wait() {
        let text = "8:0 rbps=2097152 wbps=max riops=max wiops=max\n\
                    8:16 rbps=max wbps=1000 riops=max wiops=max\n\
                    259:0 rbps=max wbps=max riops=120 wiops=max\n\
                    8:32 rbps=x wbps=max riops=max wiops=max\n";
        let read_with = |waited: &str| {
            let stall = |which| format!("{which} avg10=0.00 avg60={waited} avg300=0.00 total=9\n");
            let host = HostRoot::memory([
                file("proc/self/mountinfo", MOUNT_2),
                file("sys/fs/cgroup/cgroup.controllers", "memory\n"),
                file("sys/fs/cgroup/a/memory.stat", "anon 1\n"),
                file("sys/fs/cgroup/a/memory.pressure", stall("some") + &stall("full")),
                file("sys/fs/cgroup/a/io.max", text),
            ]);
            let groups = read(&host, &mounts::read(&host));
            groups.group("/a").unwrap().io_limits.clone()
        };
        assert!(read_with("0.99").is_empty());
        let limits = read_with("1.00");
        let shown: Vec<_> = limits
            .iter()
            .map(|it| (it.device.as_str(), it.bytes.get(), it.requests.get()))
            .collect();
        let two = Some(Limit::Bytes(Bytes::new(2 << 20)));
        assert_eq!(shown, [("8:0", two, None), ("259:0", Some(Limit::Max), Some(120))]);
        assert_eq!(limits[1].requests.source.to_string(), "/sys/fs/cgroup/a/io.max:3");
    }

    /// The same groups are kept whatever is read of each, or rates could not be computed.
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
}
