// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of a job left on this machine: devices, swap, loop devices and cgroups that were not there before.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::outcome::{Outcome, State};

/// The kernel takes a cgroup away some time after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where memory cgroups are, in version 2 and 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];

/// What is there, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Machine(BTreeSet<String>);

impl Machine {
    pub(super) fn look() -> Self {
        let named = |folder: &str, prefix: &str| -> Vec<String> {
            let names = fs::read_dir(folder).into_iter().flatten().flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names
                .filter(|name| name.starts_with(prefix))
                .map(|name| format!("{folder}/{name}"))
                .collect()
        };
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        let is_attached = |device: &String| Path::new(device).join("loop/backing_file").exists();
        let mut found: BTreeSet<String> = swaps.map(|area| format!("swap on {area}")).collect();
        found.extend(named("/sys/block", "zram"));
        found.extend(named("/sys/block", "loop").into_iter().filter(is_attached));
        found.extend(GROUPS.iter().flat_map(|folder| named(folder, "pagewise")));
        Self(found)
    }

    /// What was not there before and stays.
    fn left(&self, look: impl Fn() -> Self, patience: Duration) -> Vec<String> {
        let until = Instant::now() + patience;
        loop {
            let left: Vec<String> = look().0.difference(&self.0).cloned().collect();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            thread::sleep(Duration::from_millis(100).min(patience));
        }
    }

    /// The outcome of tests that began on this machine: they have failed if they left something.
    pub(super) fn judge(&self, outcome: Outcome) -> Outcome {
        let left = self.left(Self::look, PATIENCE);
        if left.is_empty() {
            return outcome;
        }
        let text =
            format!("{}\nleft on this machine: {}", outcome.text.trim_end(), left.join(", "));
        Outcome { state: State::Failed, text, ..outcome }
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
        let left = |now: Machine| before.left(|| now.clone(), Duration::ZERO);
        assert_eq!(left(machine(&["/sys/block/zram0"])), [""; 0]);
        assert_eq!(left(machine(&["/sys/block/zram0", "/sys/block/zram1"])), ["/sys/block/zram1"]);
        let looks = std::cell::Cell::new(0);
        let goes = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { machine(&["/sys/fs/cgroup/pagewise-x"]) } else { machine(&[]) }
        };
        assert_eq!(before.left(goes, Duration::from_secs(60)), [""; 0]);
        assert_eq!(looks.get(), 3);
    }
}
