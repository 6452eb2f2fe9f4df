// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment as typed or read from a file, its runs, and what two of its arms compare to.

pub mod arm;
mod comparison;
mod periods;
mod program;
mod runs;
mod score;

pub use comparison::{
    ActivityChange, ActivityUnit, ComparedHost, Comparison, GroupChange, ObservedEffect, Presence,
    PressureChange, ProgramChange, Relation, SettingChange, SizeChange, ThreadChange,
};
pub use periods::{Difference, MeasuredPeriods, PeriodsVerdict};
pub use program::Program;
pub use runs::{
    Agreement, Clock, Course, MetricKind, Replicated, RunEnd, SelfTest, SelfTestMetric, Trial,
    TrialArm, TrialComparison, TrialDropped, TrialForecast, TrialLook, TrialMetric, TrialNoise,
    TrialRun, TrialSetting, TrialSwap, Verdict,
};
pub use score::{NORMAL_95, score_interval};
