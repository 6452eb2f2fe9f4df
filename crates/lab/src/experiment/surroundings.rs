// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine around an experiment → what somebody who doubts its times wants to know.

use pagewise_observe::{HostGauges, HostRoot};
use serde::{Deserialize, Serialize};

/// What times depend on beside what is measured; what this machine does not tell is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimingConditions {
    /// What the kernel reads time from, as `tsc`.
    pub clocksource: Option<String>,
    /// What chooses the processors' frequency, as `performance`; more than one where they differ.
    pub governor: Option<String>,
    /// Processes that wanted to run, on average over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
}

/// As it is now.
#[must_use]
pub fn surroundings() -> TimingConditions {
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
        let here = surroundings();
        assert!(here.load.is_some(), "{here:?}");
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<TimingConditions>(&text).unwrap(), here);
    }
}
