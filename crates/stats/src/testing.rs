// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invented experiments and runs for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_model::{Clock, Program, RunEnd, TrialArm, TrialRun};

use crate::experiment::Experiment;
use crate::metric::Metric;

/// Makes an experiment whose arms have names but no settings.
pub(crate) fn experiment(arms: &[&str]) -> Experiment {
    let arm = |name: &&str| TrialArm { name: (*name).to_owned(), ..TrialArm::default() };
    Experiment {
        program: Program::from_words(&["true"]),
        arms: arms.iter().map(arm).collect(),
        metrics: vec![Metric::new_time()],
        pairs: 7,
        min_effect: 0.02,
        warm_up: 1,
        seed: 1,
        memory_limit_bytes: None,
        deadline: Duration::from_secs(60),
        clock: Clock::Real,
        profile: false,
        counted_from: None,
        neighbour: None,
    }
}

/// Makes a run that took one second.
pub(crate) fn run(number: u32, arm: &str, pair: Option<u32>, end: RunEnd) -> TrialRun {
    TrialRun {
        started_seconds: f64::from(number),
        end,
        values: BTreeMap::from([("time".to_owned(), 1.0), ("cpu".to_owned(), 0.5)]),
        ..TrialRun::new_unstarted(number, pair, arm)
    }
}
