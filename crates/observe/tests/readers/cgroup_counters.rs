// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of one cgroup.

use std::path::Path;

use pagewise_model::{Bytes, Micros};
use pagewise_observe::CgroupCounters;

use crate::testing::host;

#[test]
fn both_versions_are_read_and_what_one_lacks_is_none() {
    let host = host([
        ("sys/fs/cgroup/a/memory.swap.current", "8192\n"),
        ("sys/fs/cgroup/a/memory.peak", "4096\n"),
        ("sys/fs/cgroup/a/memory.events", "low 0\noom_kill 2\n"),
        ("sys/fs/cgroup/a/memory.current", "16384\n"),
        ("sys/fs/cgroup/a/memory.stat", "file 99\ninactive_file 4096\nactive_file 8192\n"),
        ("sys/fs/cgroup/a/cpu.stat", "usage_usec 77\nuser_usec 5\n"),
        ("sys/fs/cgroup/memory/b/memory.stat", "swap 12\ntotal_cache 77\ntotal_swap 500\n"),
        ("sys/fs/cgroup/memory/b/memory.max_usage_in_bytes", "12288\n"),
        ("sys/fs/cgroup/memory/b/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n"),
    ]);
    let two = CgroupCounters::new(Path::new("/sys/fs/cgroup/a"), true);
    assert_eq!(
        (two.swap(&host), two.peak(&host)),
        (Some(Bytes::new(8192)), Some(Bytes::new(4096)))
    );
    assert_eq!((two.oom_kills(&host), two.cpu(&host)), (2, Some(Micros::new(77))));
    assert_eq!(
        (two.swap_peak(&host), two.zswap(&host), two.memory_stall(&host)),
        (None, None, None)
    );
    assert_eq!(
        (two.usage(&host), two.page_cache(&host)),
        (Some(Bytes::new(16384)), Some(Bytes::new(12288)))
    );
    let one = CgroupCounters::new(Path::new("/sys/fs/cgroup/memory/b"), false);
    assert_eq!(
        (one.swap(&host), one.peak(&host)),
        (Some(Bytes::new(500)), Some(Bytes::new(12288)))
    );
    assert_eq!((one.oom_kills(&host), one.cpu(&host)), (1, None));
    assert_eq!((one.usage(&host), one.page_cache(&host)), (None, None));
}
