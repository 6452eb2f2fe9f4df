// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out what the tests of a job left behind on this machine.
//!
//! Other programs may create zram devices, swap and cgroups at the same time. So only two kinds of
//! things count: those that tests, and runs that tests started, have listed in the folder of the
//! [`turn`]; and cgroups whose names only tests use.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::libtest::Results;
use super::outcome::{Outcome, State};
use super::thing::Thing;
use super::turn;

/// Maximum time to wait until things vanish: the kernel removes a cgroup some time after its last
/// process has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// The mount points of memory cgroups, in v2 and v1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];
/// The prefixes of cgroup names that only tests use.
const NAMES: [&str; 2] = ["pagewise-test", "pagewise-faults"];

/// The things on this machine that tests have made, one line for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Machine(BTreeSet<String>);

impl Machine {
    /// Reads which things exist now. The list is only valid for the holder of the turn; only root
    /// can take a turn.
    pub(super) fn read_now() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let list = fs::read_to_string(Path::new(turn::FOLDER).join("made")).unwrap_or_default();
        Self::from_list(if is_root { &list } else { "" }, &GROUPS)
    }

    fn from_list(list: &str, groups: &[&str]) -> Self {
        let listed = list.lines().filter_map(Thing::parse).filter(Thing::is_there);
        let mut found: BTreeSet<String> = listed.map(|thing| thing.to_string()).collect();
        for folder in groups {
            let names = fs::read_dir(folder).into_iter().flatten().flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let ours = names.filter(|name| NAMES.iter().any(|own| name.starts_with(own)));
            found.extend(ours.map(|name| format!("path {folder}/{name}")));
        }
        Self(found)
    }

    /// The things that are not in `self` and still exist after waiting.
    fn find_left(&self, look: impl Fn() -> Self, patience: Duration) -> Vec<String> {
        let until = Instant::now() + patience;
        loop {
            let left: Vec<String> = look().0.difference(&self.0).cloned().collect();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            thread::sleep(Duration::from_millis(100).min(patience));
        }
    }

    /// The outcome of tests that started when the machine was in this state. If they left something
    /// behind, they failed.
    pub(super) fn add_leftovers(&self, outcome: Outcome) -> Outcome {
        let left = self.find_left(Self::read_now, PATIENCE);
        if left.is_empty() {
            return outcome;
        }
        let text =
            format!("{}\nleft on this machine: {}", outcome.text.trim_end(), left.join(", "));
        // running the tests again would not remove what they left behind
        let tests = Results { failures: Vec::new(), ..outcome.tests };
        Outcome { state: State::Failed, text, tests }
    }
}

#[cfg(test)]
mod check {
    use super::*;

    fn machine(lines: &[&str]) -> Machine {
        Machine(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    #[test]
    fn only_what_is_new_and_stays_is_left() {
        let before = machine(&["/sys/block/zram0", "swap on /a"]);
        let left = |now: Machine| before.find_left(|| now.clone(), Duration::ZERO);
        assert_eq!(left(machine(&["/sys/block/zram0"])), [""; 0]);
        assert_eq!(left(machine(&["/sys/block/zram0", "/sys/block/zram1"])), ["/sys/block/zram1"]);
        let looks = std::cell::Cell::new(0);
        let goes = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { machine(&["/sys/fs/cgroup/pagewise-x"]) } else { machine(&[]) }
        };
        assert_eq!(before.find_left(goes, Duration::from_secs(60)), [""; 0]);
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn only_what_tests_list_or_name_is_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["pagewise-test-x", "pagewise-1-2", "listed", "other"] {
            fs::create_dir(path(name)).unwrap();
        }
        let list = format!("path {}\npath {}\nnonsense\n", path("listed"), path("gone"));
        let found = Machine::from_list(&list, &[&folder.path().display().to_string()]);
        let expected = ["listed", "pagewise-test-x"].map(|name| format!("path {}", path(name)));
        assert_eq!(found, Machine(BTreeSet::from(expected)));
    }
}
