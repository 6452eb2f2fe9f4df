// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments that compare variants (*arms*) of settings: their description, their runs, and the
//! results.

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
