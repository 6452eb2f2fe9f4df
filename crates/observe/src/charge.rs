// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readings that limit an action on memory and are repeated while it runs: how short of memory the
//! machine is, and the usage and limit of a cgroup.

use pagewise_model::{Bytes, Cgroup, Name, Percent, Reading, RefaultCounters};

use pagewise_hostfs::text::{number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// How short of memory the machine is, from two small files.
#[derive(Debug, Clone, Default)]
pub struct Shortage {
    /// Share of the last 10 s in which at least one task was stalled on memory (PSI `some avg10`).
    pub stalled: Reading<Percent>,
    /// Available memory: `MemAvailable` in `/proc/meminfo`.
    pub available: Reading<Bytes>,
    /// Total memory: `MemTotal` in `/proc/meminfo`.
    pub total: Reading<Bytes>,
}

/// Reads how much memory is available now. Cheap enough to be called several times a second.
pub fn shortage(host: &HostRoot) -> Shortage {
    let stalled = crate::psi::pressure(host, "proc/pressure/memory").some.avg10;
    let memory = crate::memory::read(host);
    Shortage { stalled, available: memory.available, total: memory.total }
}

/// The usage and the limit of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// The current memory usage of the group.
    pub current: Bytes,
    /// The lowest of the group's own limits, if it has any.
    pub limit: Option<Bytes>,
}

/// Reads usage and limit of the memory cgroup with this path below the hierarchy's root; `None` if
/// there is no such group.
pub fn charge(host: &HostRoot, path: &str) -> Option<Charge> {
    let (root, is_v2) = crate::cgroup::memory_cgroups(host)?;
    let folder = format!("{}/{}", root.trim_matches('/'), path.trim_matches('/'));
    let folder = folder.trim_end_matches('/');
    let size = |name: &str| -> Reading<Bytes> { host.bytes_at(&format!("{folder}/{name}")) };
    let limit = |name: &str| {
        let text = host.bytes(&format!("{folder}/{name}")).ok()?;
        number(text.trim_ascii()).filter(|bytes| *bytes < 1 << 62).map(Bytes::new)
    };
    let (current, limits) = if is_v2 {
        (size("memory.current"), [limit("memory.high"), limit("memory.max")])
    } else {
        (size("memory.usage_in_bytes"), [limit("memory.limit_in_bytes"), None])
    };
    Some(Charge { current: current.get()?, limit: limits.into_iter().flatten().min() })
}

/// Reads the memory cgroup with this path in full; `None` if there is none.
pub fn memory_cgroup(host: &HostRoot, path: &str) -> Option<Cgroup> {
    let found = crate::cgroup::read_one(host, &crate::mounts::read(host), path);
    host.close_held_folders();
    found
}

/// At most so many cgroups below one are searched for processes.
const MOST_GROUPS: usize = 1024;

/// The processes of the memory cgroup with this path and of those below it, with their names; none if
/// there is no such group.
pub fn cgroup_processes(host: &HostRoot, path: &str) -> Vec<(u32, Name)> {
    let Some((root, _)) = crate::cgroup::memory_cgroups(host) else { return Vec::new() };
    let folder = format!("{}/{}", root.trim_matches('/'), path.trim_matches('/'));
    let mut groups = vec![folder.trim_end_matches('/').to_owned()];
    let mut processes = Vec::new();
    let mut at = 0;
    while at < groups.len() {
        let text = host.bytes(&format!("{}/cgroup.procs", groups[at])).unwrap_or_default();
        let pids = text.split(|byte| *byte == b'\n').filter_map(number::<u32>);
        processes.extend(pids.filter_map(|pid| {
            let name = host.name_at(&format!("proc/{pid}/comm"));
            name.value().cloned().map(|name| (pid, name))
        }));
        let below = host.folders(&groups[at]);
        let below: Vec<String> =
            below.into_iter().map(|name| format!("{}/{name}", groups[at])).collect();
        groups.extend(below);
        groups.truncate(MOST_GROUPS);
        at += 1;
    }
    processes
}

/// The refaults of the memory cgroup with this path, those below it included, and what it has in
/// swap; `None` if there is no such group or the kernel does not count them.
pub fn refaults(host: &HostRoot, path: &str) -> Option<RefaultCounters> {
    let (root, is_v2) = crate::cgroup::memory_cgroups(host)?;
    let folder = format!("{}/{}", root.trim_matches('/'), path.trim_matches('/'));
    let folder = folder.trim_end_matches('/');
    let stat = host.bytes(&format!("{folder}/memory.stat")).ok()?;
    let line_of = |name: &str| {
        let mut lines = stat.split(|byte| *byte == b'\n');
        let found = lines.find(|line| words(line).next() == Some(name.as_bytes()))?;
        words(found).nth(1).and_then(number::<u64>)
    };
    let all = if is_v2 { "" } else { "total_" };
    let swap = if is_v2 {
        host.bytes_at(&format!("{folder}/memory.swap.current")).get()
    } else {
        line_of("total_swap").map(Bytes::new)
    };
    Some(RefaultCounters {
        file: line_of(&format!("{all}workingset_refault_file"))?,
        anon: line_of(&format!("{all}workingset_refault_anon"))?,
        swap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn a_charge_has_the_lowest_limit_of_either_version() {
        const V2: &str = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let of =
            |files: &[(&'static str, &'static str)]| charge(&host(files.iter().copied()), "/a/b");
        let found = of(&[
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/a/b/memory.current", "5000\n"),
            ("sys/fs/cgroup/a/b/memory.high", "7000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        let expected = Charge { current: Bytes::new(5000), limit: Some(Bytes::new(7000)) };
        assert_eq!(found, Some(expected));
        const V1: &str = "26 1 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = of(&[
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(found, Some(Charge { current: Bytes::new(5000), limit: None }));
        assert_eq!(of(&[("proc/self/mountinfo", V1)]), None, "no such group");
    }

    #[test]
    fn processes_are_those_of_the_whole_tree() {
        let files = [
            ("proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/a/cgroup.procs", "12\n13\n"),
            ("sys/fs/cgroup/a/b/cgroup.procs", "14\n"),
            ("sys/fs/cgroup/c/cgroup.procs", "15\n"),
            ("proc/12/comm", "redis-server\n"),
            ("proc/14/comm", "redis-cli\n"),
            ("proc/15/comm", "other\n"),
        ];
        let found = cgroup_processes(&host(files), "/a");
        // 13 has ended meanwhile
        assert_eq!(found, [(12, Name::from("redis-server")), (14, Name::from("redis-cli"))]);
        assert!(cgroup_processes(&host(files), "/d").is_empty());
        assert!(cgroup_processes(&host(Vec::<(&str, &str)>::new()), "/a").is_empty());
    }

    #[test]
    fn refaults_are_those_of_the_whole_tree_in_either_version() {
        const V2: &str = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        const V1: &str = "26 1 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = refaults(
            &host([
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
                (
                    "sys/fs/cgroup/a/memory.stat",
                    "workingset_refault_anon 3\nworkingset_refault_file 70\n",
                ),
                ("sys/fs/cgroup/a/memory.swap.current", "4096\n"),
            ]),
            "/a",
        );
        let swap = Some(Bytes::new(4096));
        assert_eq!(found, Some(RefaultCounters { file: 70, anon: 3, swap }));
        let stat = "workingset_refault_anon 1\nworkingset_refault_file 1\n\
                    total_swap 4096\ntotal_workingset_refault_anon 3\ntotal_workingset_refault_file 70\n";
        let old = [("proc/self/mountinfo", V1), ("sys/fs/cgroup/memory/a/memory.stat", stat)];
        assert_eq!(refaults(&host(old), "/a"), Some(RefaultCounters { file: 70, anon: 3, swap }));
        assert_eq!(refaults(&host(old), "/b"), None);
    }
}
