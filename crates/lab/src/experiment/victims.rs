// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds in the kernel's log the processes of a run's cgroup that the OOM killer killed.
//!
//! The log is that of the whole host, so kills are filtered by cgroup. The kernel prints the cgroup
//! for at most ten kills in five seconds. A kill that is printed without a cgroup may belong to any
//! cgroup and is left out; the number of kills comes from the cgroup's own counter, which is
//! complete.

use pagewise_model::OomKill;
use pagewise_model::lend::MemoryGroup;
use pagewise_observe::KillsSince;

/// The kernel's log from now on; `None` if it is not readable, or if there is no cgroup by which to
/// filter.
#[derive(Debug)]
pub(super) struct Log(Option<(KillsSince, String)>);

impl Log {
    pub(super) fn from_now(group: Option<&MemoryGroup>) -> Self {
        let name = group.and_then(|group| group.folder.file_name());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        Self(name.and_then(|name| Some((KillsSince::now()?, name))))
    }

    /// Names of the killed processes of the cgroup, in order.
    pub(super) fn victims(self) -> Vec<String> {
        self.0.map_or_else(Vec::new, |(mut log, group)| kills_in_group(&log.kills(), &group))
    }
}

/// The kills in this cgroup. `group` is the last part of the cgroup's path, which is unique,
/// because it contains the pid of this process and a number. The complete path is not compared,
/// because the kernel prints it from the root of the hierarchy, which is not visible in a
/// container.
fn kills_in_group(kills: &[OomKill], group: &str) -> Vec<String> {
    let is_ours = |kill: &&OomKill| {
        let path = kill.victim_group.as_ref().map_or("", |path| path.as_str());
        path.split('/').any(|part| part == group)
    };
    let killed =
        kills.iter().filter(is_ours).flat_map(|kill| kill.victim.iter().chain(&kill.others));
    killed.map(|victim| victim.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Name, OomVictim};

    use super::*;

    fn victim(name: &str) -> OomVictim {
        OomVictim { name: Name::from(name), ..OomVictim::default() }
    }

    /// The log record of a killed process with its cgroup. `None`: the kernel did not print the
    /// cgroup, because of its rate limit.
    fn kill(name: &str, group: Option<&str>) -> OomKill {
        let victim_group = group.map(Name::from);
        OomKill { victim: Some(victim(name)), victim_group, ..OomKill::default() }
    }

    #[test]
    fn only_those_of_the_group_are_kept() {
        let mut whole = kill("first", Some("/pagewise-7-2"));
        whole.others = vec![victim("second")];
        let all = [
            kill("neighbour", Some("/pagewise-7-20")),
            whole,
            kill("unplaced", None),
            kill("below", Some("/docker/1/pagewise-7-2/child")),
            kill("host", Some("/")),
            OomKill { victim: None, ..kill("", Some("/pagewise-7-2")) },
        ];
        assert_eq!(kills_in_group(&all, "pagewise-7-2"), ["first", "second", "below"]);
    }

    #[test]
    fn a_quiet_log_names_nobody() {
        assert!(Log(None).victims().is_empty());
        assert!(Log::from_now(None).victims().is_empty());
    }
}
