// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine around an experiment → what somebody who doubts its times wants to know.

use std::collections::BTreeSet;
use std::fs;

use serde::{Deserialize, Serialize};

/// What times depend on beside what is measured; what this machine does not tell is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// What the kernel reads time from, as `tsc`.
    pub clocksource: Option<String>,
    /// What chooses the processors' frequency, as `performance`; more than one where they differ.
    pub governor: Option<String>,
    /// Processes that wanted to run, on average over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
}

/// As it is now.
#[must_use]
pub fn surroundings() -> Surroundings {
    Surroundings {
        clocksource: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: governor(),
        load: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
    }
}

fn word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn governor() -> Option<String> {
    let processors = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let of = |processor: fs::DirEntry| {
        word(&processor.path().join("cpufreq/scaling_governor").display().to_string())
    };
    let all: BTreeSet<String> = processors.filter_map(of).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

fn load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_its_clock_and_load() {
        let here = surroundings();
        assert!(here.load.is_some(), "{here:?}");
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Surroundings>(&text).unwrap(), here);
        assert_eq!(load("0.55 1.29 0.97 2/151 19963\n"), Some([0.55, 1.29, 0.97]));
        assert_eq!(load("0.55 x"), None);
    }
}
