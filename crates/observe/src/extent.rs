// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts processes and memory cgroups before any of them is read.

use pagewise_hostfs::text::{number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// The number of objects that a full snapshot would hold in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of process ids, including kernel threads.
    pub processes: usize,
    /// Number of memory cgroups. Some kernels also count removed ones that still have pages
    /// charged.
    pub cgroups: usize,
}

/// Counts the processes and memory cgroups of the live machine. A count that cannot be
/// read is 0.
pub fn extent(host: &HostRoot) -> Extent {
    let listed = host.bytes("proc/cgroups").unwrap_or_default();
    let cgroups = listed.split(|&byte| byte == b'\n').find_map(|line| {
        let mut words = words(line);
        (words.next()? == b"memory").then(|| number(words.nth(1)?)).flatten()
    });
    Extent { processes: host.list_numbers("proc", "").len(), cgroups: cgroups.unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn processes_and_memory_cgroups_are_counted() {
        let cgroups =
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t7\t1\nmemory\t4\t37\t1\n";
        let files = [("proc/1/status", ""), ("proc/20/stat", ""), ("proc/cgroups", cgroups)];
        assert_eq!(extent(&host(files)), Extent { processes: 2, cgroups: 37 });
        assert_eq!(
            extent(&host([("proc/cgroups", "memory")])),
            Extent { processes: 0, cgroups: 0 }
        );
    }
}
