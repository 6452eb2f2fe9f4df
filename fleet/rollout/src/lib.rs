// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what a roll-out does next. Pure: no I/O, no clock; the controller calls [`step`] with what it
//! read, and carries out what it returns.
//!
//! The first nodes are a canary, then at most 1 % of all, then waves that grow up to all nodes. In each
//! wave some nodes are changed, and others are measured in the same time. Each changed node is compared
//! with itself before the change, relative to a node of its kind that was not changed ([`judge`]). If the
//! comparison shows harm, all nodes undo the change.
//!
//! Which node has which request is stored at the nodes, not here, and which nodes are next follows from a
//! hash of their names. A controller that is killed between any two writes therefore goes on where it
//! was, and two controllers ask the same nodes.

mod judge;
mod order;
mod step;

pub use judge::{Comparison, Judgement, Measured, Verdict, judge};
pub use order::{next_target, revision_of};
pub use step::step;

/// Seconds since 1970, by the clock of the controller.
pub type Seconds = i64;

/// What is to be rolled out, and how carefully.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Differs between a profile and a later one of the same name.
    pub uid: String,
    /// What to change.
    pub want: Vec<String>,
    /// Number of nodes that are changed first.
    pub canary: u32,
    /// Percent of the nodes that are changed at the end of each wave, ascending; the last is 100.
    pub waves: Vec<u32>,
    /// Most nodes of one wave; fewer than 10 count as 10, because smaller waves could not be judged.
    pub max_concurrent: u32,
    /// Seconds after which a node that does not answer counts as silent.
    pub answer: Seconds,
    /// How much worse changed nodes may do.
    pub guards: Vec<Guard>,
    /// Whether to go on if a comparison is not decided.
    pub continue_if_undecided: bool,
    /// Whether nodes undo the change if the profile is deleted.
    pub undo_if_deleted: bool,
    /// Whether no further node may be changed.
    pub paused: bool,
    /// Whether the profile is being deleted.
    pub deleted: bool,
}

/// A limit to how much worse changed nodes may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guard {
    /// What is compared.
    pub metric: Metric,
    /// Largest accepted increase; 0.25 is 25 %.
    pub max_increase: f64,
}

/// What is compared. Less is better for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Percent of the time in which all tasks waited for memory.
    MemoryFull,
    /// Percent of the time in which some task waited for memory.
    MemorySome,
    /// Refaults per second.
    Refaults,
    /// Pages that kswapd scanned per second.
    KswapdScans,
}

/// A node, as the controller reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Nodes are only compared with nodes of the same kind (architecture, size, kernel).
    pub kind: String,
    /// Whether the profile selects the node.
    pub is_selected: bool,
    /// Who else sets up the node, so that it is left alone.
    pub other_owner: Option<String>,
    /// What the node is asked for.
    pub request: Option<Request>,
    /// What the node did.
    pub report: Option<Report>,
}

/// What a node is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Name of the profile that asks.
    pub profile: String,
    /// Revision of the profile.
    pub revision: String,
    /// The wave in which the node was asked first.
    pub wave: u32,
    /// Whether the node is changed or only measured.
    pub role: Role,
    /// What the node is to do.
    pub action: Action,
    /// When this action was asked for.
    pub at: Seconds,
}

/// Whether a node is changed or only measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is changed.
    Change,
    /// It is only measured.
    Compare,
}

/// What a node is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Measure, change with a timer, measure again.
    Try,
    /// Keep the change.
    Keep,
    /// Undo the change.
    Undo,
}

/// What a node did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Revision of the request that this is about.
    pub revision: String,
    /// Wave of the request that this is about.
    pub wave: u32,
    /// How far the node is.
    pub phase: Phase,
    /// Values before.
    pub before: Option<Values>,
    /// Values after.
    pub after: Option<Values>,
    /// Why, in the words of the node.
    pub message: Option<String>,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It measures, before or after the change.
    Measuring,
    /// It has measured, and its timer runs.
    Measured,
    /// It keeps the change.
    Kept,
    /// It has undone the change, or never made it.
    Undone,
    /// It refused the change before it changed anything.
    Refused,
    /// It failed; what is left is in its message.
    Failed,
}

/// Values of one window. A value that could not be read is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Values {
    /// Percent of the time in which all tasks waited for memory.
    pub memory_full: Option<f64>,
    /// Percent of the time in which some task waited for memory.
    pub memory_some: Option<f64>,
    /// Refaults per second.
    pub refaults: Option<f64>,
    /// Pages that kswapd scanned per second.
    pub kswapd_scans: Option<f64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: Option<f64>,
}

/// What the profile's status keeps between two calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The revision that the rest is about; empty before the first call.
    pub revision: String,
    /// How far the roll-out is.
    pub stage: Stage,
    /// The wave that is under way or was the last.
    pub wave: u32,
    /// Number of nodes that are changed in this wave; 0 before the first.
    pub size: u32,
}

/// How far a roll-out is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// Between two waves.
    #[default]
    Ready,
    /// Nodes of the wave are being asked, or measure.
    Trying,
    /// Nodes of the wave are asked to keep the change.
    Keeping,
    /// Paused: nodes on trial undo the change.
    Paused,
    /// All nodes that can be changed keep the change.
    Complete,
    /// All nodes undo the change.
    Stopping,
    /// All nodes have undone the change, or are named.
    Stopped,
    /// Nodes undo the change of a former revision.
    Replacing,
    /// The profile is being deleted.
    Deleting,
}

/// What to do next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Must be stored before the requests are written.
    pub state: State,
    /// New requests by the names of nodes; `None` removes the request.
    pub requests: Vec<(String, Option<Request>)>,
    /// What happened, for the time line.
    pub events: Vec<String>,
    /// Why the roll-out is where it is.
    pub message: String,
    /// The comparison, if one was made in this step.
    pub judgement: Option<Judgement>,
    /// Numbers of nodes.
    pub counts: Counts,
    /// The profile may go: no node needs it any longer.
    pub may_go: bool,
}

/// Numbers of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Selected, and not left alone.
    pub nodes: u32,
    /// Keep the change.
    pub kept: u32,
    /// Were asked to try, keep or undo, and have not finished.
    pub trying: u32,
    /// Have undone or refused the change.
    pub undone: u32,
    /// Failed, or do not answer.
    pub unknown: u32,
    /// Selected, and left alone.
    pub left_alone: u32,
}
