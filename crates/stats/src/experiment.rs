// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is run, what is compared, how often: the description of an experiment, and whether it makes sense.

use std::time::Duration;

use pagewise_model::arm::{is_of_zram, of_neighbour, twice};
use pagewise_model::{Clock, Program, TrialArm, TrialSetting, TrialSwap};
use serde::{Deserialize, Serialize};

use crate::clock::not_judged;
use crate::metric::{Metric, NotAMetric};
use crate::swap_kinds::{INSTEAD, not_comparable};

/// Pairs where nothing else is said: fewer than six tell nothing, and seven cover 95 %.
pub const USUAL_PAIRS: u32 = 7;
/// The most pairs.
pub const MOST_PAIRS: u32 = 100;
/// The longest line from which on may be counted, in bytes.
const LONGEST_LINE: usize = 200;

/// What is run, and what is to be found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What is run.
    #[serde(flatten)]
    pub program: Program,
    /// At least two; the first is what the others are compared with.
    pub arms: Vec<TrialArm>,
    /// At least one; the first decides.
    pub metrics: Vec<Metric>,
    /// At most so many pairs.
    pub pairs: u32,
    /// Effects up to this do not matter, as 0.02 for 2 %.
    pub min_effect: f64,
    /// Rounds that are discarded, after a first run that is discarded too.
    pub warm_up: u32,
    /// Draws the order of the runs.
    pub seed: u64,
    /// The most memory that the command may use.
    pub memory_limit_bytes: Option<u64>,
    /// A run that lasts longer is ended.
    pub deadline: Duration,
    /// Whose clock it runs by.
    #[serde(default)]
    pub clock: Clock,
    /// Look where the kernel's reclaim thread spends its time.
    #[serde(default)]
    pub profile: bool,
    /// The line of the command's output from which on events, processor time and stalls are counted; none for its
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_from: Option<String>,
    /// What runs beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Neighbour>,
}

/// A program that runs beside the one that is measured, in a cgroup of its own, until that ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// What is run.
    #[serde(flatten)]
    pub program: Program,
    /// The most memory that it may use.
    pub memory_limit_bytes: Option<u64>,
    /// The line that it prints when the measured program may start; at once if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

impl Experiment {
    /// The metric that decides; time where there is none.
    #[must_use]
    pub fn primary(&self) -> &Metric {
        static TIME: std::sync::LazyLock<Metric> = std::sync::LazyLock::new(Metric::time);
        self.metrics.first().unwrap_or(&TIME)
    }

    /// Whether it makes sense as it stands.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), Unsound> {
        if self.program.argv().is_empty() || self.arms.len() < 2 {
            return Err(Unsound::Empty);
        }
        if let Some((arm, knob)) = self.arms.iter().find_map(|arm| Some((arm, twice(arm)?))) {
            return Err(Unsound::SetTwice { arm: arm.name.clone(), knob: knob.to_owned() });
        }
        for metric in &self.metrics {
            let again = Metric::parse(&metric.name)?;
            let requested = again.known().map(|known| known.higher_is_better);
            if requested.is_some_and(|wanted| wanted != metric.higher_is_better) {
                let less = if metric.higher_is_better { "more" } else { "less" };
                return Err(Unsound::NeverWanted { less, metric: metric.name.clone() });
            }
            if self.metrics.iter().filter(|other| other.name == metric.name).count() > 1 {
                return Err(Unsound::MetricTwice(metric.name.clone()));
            }
        }
        if !(1..=MOST_PAIRS).contains(&self.pairs) || self.warm_up > MOST_PAIRS {
            return Err(Unsound::Pairs(self.pairs));
        }
        if !(0.0..1.0).contains(&self.min_effect) {
            return Err(Unsound::Effect(self.min_effect));
        }
        let ready = self.neighbour.iter().filter_map(|neighbour| neighbour.ready.as_ref());
        if let Some(line) = self.counted_from.iter().chain(ready).find(|line| !is_line(line)) {
            return Err(Unsound::Line(line.clone()));
        }
        self.arms.iter().try_for_each(checked_arm)?;
        self.checked_neighbour()?;
        self.checked_swap()?;
        self.checked_clock()
    }

    /// What an arm runs.
    #[must_use]
    pub fn program_of<'a>(&'a self, arm: &'a TrialArm) -> &'a Program {
        arm.program.as_ref().unwrap_or(&self.program)
    }

    /// The most runs: a first one and the rounds of warm-up, which are discarded, and the pairs.
    #[must_use]
    pub fn runs(&self) -> u32 {
        let arms = u32::try_from(self.arms.len()).unwrap_or(u32::MAX);
        let rounds = self.warm_up.saturating_add(self.pairs);
        arms.saturating_mul(rounds).saturating_add(1)
    }

    /// Whether an arm brings swap: then that of the host has to be off, or to be allowed beside it.
    #[must_use]
    pub fn lends_swap(&self) -> bool {
        self.arms.iter().any(|arm| arm.swap.as_ref().is_some_and(|areas| !areas.is_empty()))
    }

    /// Whether it needs somebody who lends: settings, swap or a limit on memory.
    #[must_use]
    pub fn borrows(&self) -> bool {
        let of_arm = |arm: &TrialArm| !arm.settings.is_empty() || arm.swap.is_some();
        let is_limited = self.memory_limit_bytes.is_some() || self.neighbour.is_some();
        is_limited || self.arms.iter().any(of_arm)
    }

    fn checked_neighbour(&self) -> Result<(), Unsound> {
        match &self.neighbour {
            Some(neighbour) if neighbour.program.argv().is_empty() => Err(Unsound::Empty),
            Some(_) => Ok(()),
            None => {
                let is_of_it = |set: &TrialSetting| of_neighbour(&set.knob).is_some();
                let arm = self.arms.iter().find(|arm| arm.settings.iter().any(is_of_it));
                let what = "a setting of a neighbour, and the experiment has none";
                let lacking = |arm: &TrialArm| Unsound::Lacking { arm: arm.name.clone(), what };
                arm.map_or(Ok(()), |arm| Err(lacking(arm)))
            }
        }
    }

    fn checked_swap(&self) -> Result<(), Unsound> {
        let primary = &self.primary().name;
        let others = self.arms.iter().skip(1);
        let why = others.filter_map(|arm| not_comparable(primary, &self.arms[0], arm)).next();
        why.map_or(Ok(()), |why| {
            Err(Unsound::CannotDecide { metric: primary.clone(), why, instead: INSTEAD })
        })
    }

    fn checked_clock(&self) -> Result<(), Unsound> {
        let primary = self.primary();
        let Some(why) = not_judged(primary.kind(), self.clock) else { return Ok(()) };
        let instead = match self.clock {
            Clock::Counted => "cpu (which counts instructions there), refaults or scanned",
            _ => "refaults, scanned or major-faults",
        };
        Err(Unsound::CannotDecide { metric: primary.name.clone(), why, instead })
    }
}

/// Whether a command can print it as a line.
fn is_line(text: &str) -> bool {
    (1..=LONGEST_LINE).contains(&text.len()) && !text.contains('\n')
}

/// Why an experiment makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unsound {
    /// Nothing to run, or nothing to compare.
    #[error("expected a command and two arms")]
    Empty,
    /// A setting stands twice in an arm.
    #[error("arm {arm} sets {knob} twice")]
    SetTwice {
        /// Which arm.
        arm: String,
        /// Which setting.
        knob: String,
    },
    /// A metric of which only the other direction makes sense.
    #[error("{less} of {metric} is never wanted")]
    NeverWanted {
        /// `more` or `less`.
        less: &'static str,
        /// Which.
        metric: String,
    },
    /// A metric stands twice.
    #[error("{0} is asked for twice")]
    MetricTwice(String),
    /// A metric is none.
    #[error(transparent)]
    Metric(#[from] NotAMetric),
    /// Too few or too many pairs or rounds of warm-up.
    #[error("expected 1 to {MOST_PAIRS} pairs, found {0}")]
    Pairs(u32),
    /// No line of output.
    #[error("expected a line of 1 to {LONGEST_LINE} bytes to wait for, found {0:?}")]
    Line(String),
    /// No effect is that large.
    #[error("expected a least effect below 1, found {0}")]
    Effect(f64),
    /// An arm is not complete.
    #[error("arm {arm} has {what}")]
    Lacking {
        /// Which arm.
        arm: String,
        /// What it lacks.
        what: &'static str,
    },
    /// The kernel takes none below zero.
    #[error("arm {arm}: expected a swap priority from 0 on, found {found}")]
    Priority {
        /// Which arm.
        arm: String,
        /// Its priority.
        found: i16,
    },
    /// A setting of zram without zram.
    #[error("arm {arm} sets {knob} and has no zram device of its own")]
    NoZram {
        /// Which arm.
        arm: String,
        /// Which setting.
        knob: String,
    },
    /// The clock of the machine does not tell.
    #[error("{metric} cannot decide: {why}; let a count decide, as {instead}")]
    CannotDecide {
        /// The metric that was to decide.
        metric: String,
        /// Why it cannot.
        why: &'static str,
        /// What can.
        instead: &'static str,
    },
}

/// zswap stores no page that has no place in swap.
const ZSWAP_ALONE: &str =
    "zswap in the wrong place: expected it first, with a swap area after it, as zswap:lz4+file:1G";

fn checked_arm(arm: &TrialArm) -> Result<(), Unsound> {
    let name = || arm.name.clone();
    if arm.program.as_ref().is_some_and(|program| program.argv().is_empty()) {
        return Err(Unsound::Lacking { arm: name(), what: "an empty command" });
    }
    let areas = arm.swap.as_deref().unwrap_or_default();
    for (at, area) in areas.iter().enumerate() {
        if let Some(found) = area.priority().filter(|priority| *priority < 0) {
            return Err(Unsound::Priority { arm: name(), found });
        }
        if matches!(area, TrialSwap::Zswap(_)) && (at > 0 || areas.len() == 1) {
            return Err(Unsound::Lacking { arm: name(), what: ZSWAP_ALONE });
        }
        let (TrialSwap::Zram { size_bytes: 0, .. } | TrialSwap::File { size_bytes: 0, .. }) = area
        else {
            continue;
        };
        return Err(Unsound::Lacking { arm: name(), what: "a swap area of no size" });
    }
    for writeback in areas.iter().filter_map(TrialSwap::writeback) {
        let is_it = |path: &str| *path == writeback.device;
        let uses = areas.iter().filter(|area| area.disk().is_some_and(is_it)).count();
        if uses > 1 {
            return Err(Unsound::Lacking { arm: name(), what: "one disk for two areas" });
        }
        if writeback.every_seconds == 0 {
            return Err(Unsound::Lacking { arm: name(), what: "writeback without a pause" });
        }
    }
    let has_zram = areas.iter().any(|area| matches!(area, TrialSwap::Zram { .. }));
    let of_zram = arm.settings.iter().find(|set| is_of_zram(&set.knob));
    match of_zram.filter(|_| !has_zram) {
        Some(set) => Err(Unsound::NoZram { arm: name(), knob: set.knob.clone() }),
        None => Ok(()),
    }
}
