// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Pagewise says about a host: the verdict, findings and the rules behind them, limits,
//! explanations, refusals.

mod actor;
mod explanation;
mod finding;
mod incident;
mod known_findings;
mod refusal;
mod rule;
mod service_state;
mod subject;
mod verdict;
mod working_set;

pub use actor::Actor;
pub use explanation::{Bar, Explanation, NamedValue, NextCommand, Section};
pub use finding::{Evidence, Finding, Severity};
pub use incident::{
    Grown, GrownArea, Incident, IncidentEvent, IncidentEventKind, SarHistory, SarTime, Trouble,
    UnreadFile,
};
pub use known_findings::{ChangedFinding, EndReason, FindingChange, KnownFinding, KnownFindings};
pub use refusal::{Advice, Refusal};
pub use rule::RuleExplanation;
pub use service_state::ServiceState;
pub use subject::Subject;
pub use verdict::{GroupVerdict, HostVerdict, Level};
pub use working_set::{
    Confidence, IdleMemory, IdleMethod, LimitAdvice, LimitSurvey, LimitVerdict, ProcessUse,
    WatchCost, WatchedMemory, WatchedProcess, WorkingSet,
};
