// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how much of a source is cold: not used for two minutes. It uses only what the kernel
//! already records; if that is not enough, the answer says why the amount is unknown, and which
//! tool would show it.
//!
//! - Multi-gen LRU: shows it for memory cgroups, to root, but not for single processes.
//! - `damon_stat`: shows it only for all of memory together, including free memory and files. It is
//!   mentioned in the reason, because its share cannot be attributed to the scanned source.
//! - DAMON threads for one process, and page idle tracking: both report only after writes to their
//!   control files, and a scan must not change the host.

use pagewise_model::{
    GroupGenerations, Millis, Outcome, Pages, Percent, Reading, Snapshot, Source,
};
use pagewise_observe::{HostRoot, generations, idle_share, read_targets};

use crate::cli::Sources;

/// Memory that was not used for this long is cold; published studies of cold memory use the same
/// time.
const COLD: Millis = Millis::new(120_000);

/// Cold pages of a cgroup including its descendants, or of the whole host.
pub(super) fn read_cold(host: &HostRoot, snapshot: &Snapshot, source: &Sources) -> Reading<u64> {
    let below = match (&source.cgroup, source.host) {
        (Some(path), _) => path.trim_start_matches("/sys/fs/cgroup").trim_matches('/'),
        (None, true) => "",
        (None, false) => {
            return Reading::absent(explain_unknown(host, snapshot, source), Source::none());
        }
    };
    let read = match snapshot.mglru.is_on() {
        Some(false) => Reading::absent(
            "multi-gen LRU is off: /sys/kernel/mm/lru_gen/enabled",
            snapshot.mglru.enabled.source.clone(),
        ),
        _ => generations(host).map(|groups| sum_cold_pages(&groups, below).get()),
    };
    match read.outcome {
        Outcome::Absent(why) if source.host => {
            Reading::absent(format!("{why}{}", describe_damon_stat(host)), read.source)
        }
        _ => read,
    }
}

/// Describes what `damon_stat` reports about the whole host, if it is running; otherwise empty.
fn describe_damon_stat(host: &HostRoot) -> String {
    let describe = |share: Percent| {
        let share = share.get();
        format!("; damon_stat saw {share:.0} % of all memory idle, free memory and files too")
    };
    idle_share(host, COLD).get().map(describe).unwrap_or_default()
}

/// Says why cold memory of processes is unknown.
fn explain_unknown(host: &HostRoot, snapshot: &Snapshot, source: &Sources) -> String {
    const NOT: &str = "the kernel shows it for cgroups (--cgroup, --host), not for processes";
    let is_watched = read_targets(host).iter().any(|pid| source.pid.contains(pid));
    match snapshot.damon.kdamonds.outcome {
        _ if is_watched => {
            "DAMON watches this process, but shows the result only to programs that write to its files: \
             damo report access"
                .to_owned()
        }
        Outcome::Absent(_) => NOT.to_owned(),
        _ => format!("{NOT}; DAMON can measure it: damo start PID, later damo report access"),
    }
}

fn sum_cold_pages(groups: &[GroupGenerations], below: &str) -> Pages {
    let is_meant = |group: &&GroupGenerations| {
        let path = group.path.as_str().trim_matches('/');
        let rest = path.strip_prefix(below);
        below.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    groups.iter().filter(is_meant).map(|group| group.cold_anon(COLD)).sum()
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Generation, NodeGenerations};

    use super::*;

    #[test]
    fn a_group_stands_for_those_below_it_and_no_other() {
        let group = |path: &str, anon| {
            let generation = |anon| Generation {
                number: 0,
                age: COLD,
                anon: Pages::new(anon),
                file: Pages::new(0),
            };
            let generations = vec![generation(anon), generation(1000)];
            let nodes = vec![NodeGenerations { node: 0, generations }];
            GroupGenerations { id: 1, path: path.into(), nodes }
        };
        let groups = [group("/", 1), group("/a", 2), group("/a/b", 4), group("/ab", 8)];
        let of = |below| sum_cold_pages(&groups, below).get();
        assert_eq!((of(""), of("a"), of("a/b"), of("c")), (15, 6, 4, 0));
    }
}
