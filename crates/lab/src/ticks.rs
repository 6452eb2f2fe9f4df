// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/stat` → what all processors did since boot, in ticks of the timer.

use std::fs;

/// Ticks of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// They worked.
    pub(crate) busy: u64,
    /// The host of this virtual machine kept them.
    pub(crate) stolen: u64,
    /// All that passed.
    pub(crate) all: u64,
    /// How many processors these are.
    pub(crate) processors: u64,
}

/// As it stands now; none where the file is not understood.
pub(crate) fn ticks() -> Option<Ticks> {
    ticks_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line, `cpu user nice system idle iowait irq softirq steal …`, and one line a processor.
pub(crate) fn ticks_in(text: &str) -> Option<Ticks> {
    let numbers = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let numbers: Vec<u64> = numbers.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = numbers[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq;
    let processors = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some(Ticks { busy, stolen, all: busy + idle + iowait + stolen, processors: processors as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_processors_is_read() {
        let all = ticks_in("cpu  10 1 5 100 7 2 3 4 0 0\ncpu0 1 1\ncpu1 3 4\nintr 5\n").unwrap();
        assert_eq!(all, Ticks { busy: 21, stolen: 4, all: 132, processors: 2 });
        for bad in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 x\n"] {
            assert!(ticks_in(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn this_machine_is_looked_at() {
        assert!(ticks().is_some_and(|ticks| ticks.processors > 0 && ticks.all > 0));
    }
}
