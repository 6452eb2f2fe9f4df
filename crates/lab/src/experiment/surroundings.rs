// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions of the machine that affect the times of an experiment.

use pagewise_observe::{HostGauges, HostRoot};
use serde::{Deserialize, Serialize};

/// Conditions that affect measured times; a value that this machine does not provide is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimingConditions {
    /// The kernel's time source, such as `tsc`.
    pub clocksource: Option<String>,
    /// The CPU frequency governor, such as `performance`; all names if CPUs differ.
    pub governor: Option<String>,
    /// Load average of the machine over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
}

/// Reads the conditions as they are now.
#[must_use]
pub fn read_conditions() -> TimingConditions {
    let Ok(host) = HostRoot::live() else { return TimingConditions::default() };
    let gauges = HostGauges(&host);
    let governors: Vec<String> = gauges.governors().into_iter().collect();
    TimingConditions {
        clocksource: gauges.clocksource(),
        governor: (!governors.is_empty()).then(|| governors.join(", ")),
        load: gauges.load(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_its_clock_and_load() {
        let here = read_conditions();
        assert!(here.load.is_some(), "{here:?}");
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<TimingConditions>(&text).unwrap(), here);
    }
}
