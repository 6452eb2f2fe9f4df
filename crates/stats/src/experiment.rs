// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of an experiment (program, arms, metrics, number of runs), and checks of its
//! consistency.

use std::time::Duration;

use pagewise_model::arm::{find_setting_set_twice, is_of_zram, strip_neighbour};
use pagewise_model::{Clock, Program, TrialArm, TrialSetting, TrialSwap};
use serde::{Deserialize, Serialize};

use crate::clock::explain_not_judged;
use crate::metric::{Metric, NotAMetric};
use crate::swap_kinds::{INSTEAD, explain_not_comparable};

/// Default number of pairs. With fewer than six there is no confidence interval; with seven, its
/// coverage is 95 %.
pub const USUAL_PAIRS: u32 = 7;
/// Maximum number of pairs of an experiment.
pub const MOST_PAIRS: u32 = 100;
/// Maximum length in bytes of the output line after which a run is measured.
const LONGEST_LINE: usize = 200;

/// The description of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The program that is measured.
    #[serde(flatten)]
    pub program: Program,
    /// The arms (variants), at least two. All others are compared with the first one.
    pub arms: Vec<TrialArm>,
    /// Metrics, at least one; the first decides the verdict.
    pub metrics: Vec<Metric>,
    /// Maximum number of pairs to run.
    pub pairs: u32,
    /// Largest effect that does not matter, as a fraction; 0.02 means 2 %.
    pub min_effect: f64,
    /// Number of warm-up rounds. They are discarded, and so is the run before them, which is the
    /// first.
    pub warm_up: u32,
    /// Seed of the order of the runs.
    pub seed: u64,
    /// Memory limit of the command's cgroup in bytes; `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Time limit of a single run.
    pub deadline: Duration,
    /// The kind of clock of the machine that runs the experiment: a real clock, or that of an
    /// emulator.
    #[serde(default)]
    pub clock: Clock,
    /// Whether to sample where the kernel's reclaim thread spends its time.
    #[serde(default)]
    pub profile: bool,
    /// The line of the command's output after which events, CPU time and stalls are counted; `None`
    /// to count from the start of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_from: Option<String>,
    /// A program that runs beside the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Neighbour>,
}

/// A program that runs beside the measured program, in a cgroup of its own, until the measured
/// program ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The program that runs beside the measured program.
    #[serde(flatten)]
    pub program: Program,
    /// Memory limit of the neighbour's cgroup.
    pub memory_limit_bytes: Option<u64>,
    /// The line that this program prints when the measured program may start; `None` if it may
    /// start at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

impl Experiment {
    /// Returns the metric that decides the verdict: the first one, or elapsed time if none is
    /// listed.
    #[must_use]
    pub fn primary(&self) -> &Metric {
        static TIME: std::sync::LazyLock<Metric> = std::sync::LazyLock::new(Metric::new_time);
        self.metrics.first().unwrap_or(&TIME)
    }

    /// Checks that the description is consistent.
    ///
    /// # Errors
    /// If the description is inconsistent; the error is the first problem that was found.
    pub fn check(&self) -> Result<(), Unsound> {
        if self.program.argv().is_empty() || self.arms.len() < 2 {
            return Err(Unsound::Empty);
        }
        if let Some((arm, knob)) =
            self.arms.iter().find_map(|arm| Some((arm, find_setting_set_twice(arm)?)))
        {
            return Err(Unsound::SetTwice { arm: arm.name.clone(), knob: knob.to_owned() });
        }
        for metric in &self.metrics {
            let again = Metric::parse(&metric.name)?;
            let requested = again.standard_row().map(|known| known.higher_is_better);
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
        self.arms.iter().try_for_each(check_arm)?;
        self.check_neighbour()?;
        self.check_swap()?;
        self.check_clock()
    }

    /// Returns the program that the runs of this arm execute.
    #[must_use]
    pub fn program_of<'a>(&'a self, arm: &'a TrialArm) -> &'a Program {
        arm.program.as_ref().unwrap_or(&self.program)
    }

    /// Returns the maximum number of runs of the experiment: the first run and the warm-up rounds,
    /// which are discarded, and the runs of all pairs.
    #[must_use]
    pub fn runs(&self) -> u32 {
        let arms = u32::try_from(self.arms.len()).unwrap_or(u32::MAX);
        let rounds = self.warm_up.saturating_add(self.pairs);
        arms.saturating_mul(rounds).saturating_add(1)
    }

    /// Whether an arm has swap of its own. If so, the host's swap must be off, or the user must
    /// allow it in addition.
    #[must_use]
    pub fn has_own_swap(&self) -> bool {
        self.arms.iter().any(|arm| arm.swap.as_ref().is_some_and(|areas| !areas.is_empty()))
    }

    /// Whether the experiment needs a lender: for settings, for swap or for a memory limit.
    #[must_use]
    pub fn needs_lender(&self) -> bool {
        let of_arm = |arm: &TrialArm| !arm.settings.is_empty() || arm.swap.is_some();
        let is_limited = self.memory_limit_bytes.is_some() || self.neighbour.is_some();
        is_limited || self.arms.iter().any(of_arm)
    }

    fn check_neighbour(&self) -> Result<(), Unsound> {
        match &self.neighbour {
            Some(neighbour) if neighbour.program.argv().is_empty() => Err(Unsound::Empty),
            Some(_) => Ok(()),
            None => {
                let is_of_it = |set: &TrialSetting| strip_neighbour(&set.knob).is_some();
                let arm = self.arms.iter().find(|arm| arm.settings.iter().any(is_of_it));
                let what = "a setting of a neighbour, and the experiment has none";
                let lacking = |arm: &TrialArm| Unsound::Lacking { arm: arm.name.clone(), what };
                arm.map_or(Ok(()), |arm| Err(lacking(arm)))
            }
        }
    }

    fn check_swap(&self) -> Result<(), Unsound> {
        let primary = &self.primary().name;
        let others = self.arms.iter().skip(1);
        let why =
            others.filter_map(|arm| explain_not_comparable(primary, &self.arms[0], arm)).next();
        why.map_or(Ok(()), |why| {
            Err(Unsound::CannotDecide { metric: primary.clone(), why, instead: INSTEAD })
        })
    }

    fn check_clock(&self) -> Result<(), Unsound> {
        let primary = self.primary();
        let Some(why) = explain_not_judged(primary.kind(), self.clock) else { return Ok(()) };
        let instead = match self.clock {
            Clock::Counted => "cpu (which counts instructions there), refaults or scanned",
            _ => "refaults, scanned or major-faults",
        };
        Err(Unsound::CannotDecide { metric: primary.name.clone(), why, instead })
    }
}

/// Whether a text can be one line of output.
fn is_line(text: &str) -> bool {
    (1..=LONGEST_LINE).contains(&text.len()) && !text.contains('\n')
}

/// Why an experiment is inconsistent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unsound {
    /// The experiment has no command, or fewer than two arms.
    #[error("expected a command and two arms")]
    Empty,
    /// An arm has a setting twice.
    #[error("arm {arm} sets {knob} twice")]
    SetTwice {
        /// Name of the arm.
        arm: String,
        /// Name of the setting.
        knob: String,
    },
    /// The metric is listed with the wrong direction: more (or less) of it is never better.
    #[error("{less} of {metric} is never wanted")]
    NeverWanted {
        /// The unwanted direction: `more` or `less`.
        less: &'static str,
        /// Name of the metric.
        metric: String,
    },
    /// A metric is listed twice.
    #[error("{0} is asked for twice")]
    MetricTwice(String),
    /// A metric is invalid.
    #[error(transparent)]
    Metric(#[from] NotAMetric),
    /// The number of pairs or warm-up rounds is too small or too large.
    #[error("expected 1 to {MOST_PAIRS} pairs, found {0}")]
    Pairs(u32),
    /// The line after which a run is measured, or the line that the neighbour prints, cannot be a
    /// line of output.
    #[error("expected a line of 1 to {LONGEST_LINE} bytes to wait for, found {0:?}")]
    Line(String),
    /// The smallest effect that matters is not in the range from 0 to less than 1.
    #[error("expected a least effect below 1, found {0}")]
    Effect(f64),
    /// An arm is incomplete.
    #[error("arm {arm} has {what}")]
    Lacking {
        /// Name of the arm.
        arm: String,
        /// What the arm lacks, in words for the user.
        what: &'static str,
    },
    /// The priority of a swap area is negative, which swapon cannot set.
    #[error("arm {arm}: expected a swap priority from 0 on, found {found}")]
    Priority {
        /// Name of the arm.
        arm: String,
        /// The priority that was found.
        found: i16,
    },
    /// An arm has a setting of zram but no zram device.
    #[error("arm {arm} sets {knob} and has no zram device of its own")]
    NoZram {
        /// Name of the arm.
        arm: String,
        /// Name of the setting.
        knob: String,
    },
    /// The primary metric cannot be judged with the machine's clock.
    #[error("{metric} cannot decide: {why}; let a count decide, as {instead}")]
    CannotDecide {
        /// Name of the primary metric.
        metric: String,
        /// Why the metric cannot be judged.
        why: &'static str,
        /// Name of a metric that can be judged.
        instead: &'static str,
    },
}

/// The error text for an arm with zswap but without a swap area after it. zswap needs one, because
/// each page in its pool has a slot in a swap area.
const ZSWAP_ALONE: &str =
    "zswap in the wrong place: expected it first, with a swap area after it, as zswap:lz4+file:1G";

fn check_arm(arm: &TrialArm) -> Result<(), Unsound> {
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
