// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a source nobody used for two minutes, where the kernel keeps account of that: of memory
//! cgroups with multi-gen LRU, for root. Of one process no kernel here tells.

use pagewise_model::{GroupGenerations, Millis, Pages, Reading, Snapshot, Source};
use pagewise_observe::{HostRoot, generations};

use crate::cli::Sources;

/// As long as published studies of cold memory take.
const COLD: Millis = Millis::new(120_000);

/// Cold pages of a cgroup with those below it, or of all of the host.
pub(super) fn of(host: &HostRoot, snapshot: &Snapshot, source: &Sources) -> Reading<u64> {
    if snapshot.mglru.is_on() == Some(false) {
        return Reading::absent("multi-gen LRU is off", snapshot.mglru.enabled.source.clone());
    }
    let below = match (&source.cgroup, source.host) {
        (Some(path), _) => path.trim_start_matches("/sys/fs/cgroup").trim_matches('/'),
        (None, true) => "",
        (None, false) => {
            let why = "the kernel tells it of cgroups (--cgroup, --host), not of processes";
            return Reading::absent(why, Source::none());
        }
    };
    generations(host).map(|groups| cold(&groups, below).get())
}

fn cold(groups: &[GroupGenerations], below: &str) -> Pages {
    let is_meant = |group: &&GroupGenerations| {
        let path = group.path.as_str().trim_matches('/');
        let rest = path.strip_prefix(below);
        below.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    groups.iter().filter(is_meant).map(|group| group.cold_anon(COLD)).sum()
}

#[cfg(test)]
mod tests {
    use pagewise_model::Generation;

    use super::*;

    #[test]
    fn a_group_stands_for_those_below_it_and_no_other() {
        let group = |path: &str, anon| {
            let generation =
                |anon| Generation { age: COLD, anon: Pages::new(anon), file: Pages::new(0) };
            let nodes = vec![vec![generation(anon), generation(1000)]];
            GroupGenerations { path: path.into(), nodes }
        };
        let groups = [group("/", 1), group("/a", 2), group("/a/b", 4), group("/ab", 8)];
        let of = |below| cold(&groups, below).get();
        assert_eq!((of(""), of("a"), of("a/b"), of("c")), (15, 6, 4, 0));
    }
}
