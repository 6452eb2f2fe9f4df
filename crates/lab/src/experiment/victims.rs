// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's log while a run lasts → which processes of the run's cgroup were killed for lack of memory.
//!
//! The log is that of the whole host: only processes of the run's cgroup are kept. The kernel says whose a
//! process was for at most ten kills in five seconds. A kill without that may be anybody's and is left out;
//! the cgroup's own counter has all.

use pagewise_model::OomKill;
use pagewise_model::lend::MemoryGroup;
use pagewise_observe::KillsSince;

/// The log from here on; nothing where we may not read it, or where no cgroup tells whose a process is.
#[derive(Debug)]
pub(super) struct Log(Option<(KillsSince, String)>);

impl Log {
    pub(super) fn from_now(group: Option<&MemoryGroup>) -> Self {
        let name = group.and_then(|group| group.folder.file_name());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        Self(name.and_then(|name| Some((KillsSince::now()?, name))))
    }

    /// Names of those of the group that were killed since, the first first.
    pub(super) fn victims(self) -> Vec<String> {
        self.0.map_or_else(Vec::new, |(mut log, group)| of_group(&log.kills(), &group))
    }
}

/// `group` is the last part of the cgroup's path: it holds the number of our process and one of its own. The
/// kernel prints paths from the hierarchy's root, which a container does not see.
fn of_group(kills: &[OomKill], group: &str) -> Vec<String> {
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

    /// A process with its cgroup; one without was killed too fast for the kernel to say.
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
        assert_eq!(of_group(&all, "pagewise-7-2"), ["first", "second", "below"]);
    }

    #[test]
    fn a_quiet_log_names_nobody() {
        assert!(Log(None).victims().is_empty());
        assert!(Log::from_now(None).victims().is_empty());
    }
}
