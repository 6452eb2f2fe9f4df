// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of documents ([`Noun`]), and the keys with which each begins.

use pagewise_model::{Cost, HostSummary, Name, Reading, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Answer, time};

/// A kind of document that `--json` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the verb of the same name; collapse and restrain are those of thp, knobs is of trial"
)]
pub enum Noun {
    Report,
    Status,
    Doctor,
    Capabilities,
    Explain,
    Compare,
    Limits,
    Fleet,
    Why,
    Scan,
    Bench,
    Trial,
    Knobs,
    Lab,
    Thp,
    Collapse,
    Restrain,
    Age,
    Agent,
    Merge,
    Oom,
    Pin,
    Plan,
    Apply,
    Verify,
    Ledger,
    Tune,
    Undo,
}

impl Noun {
    /// Every document.
    pub const ALL: [Self; 28] = [
        Self::Report,
        Self::Status,
        Self::Doctor,
        Self::Capabilities,
        Self::Explain,
        Self::Compare,
        Self::Limits,
        Self::Fleet,
        Self::Why,
        Self::Scan,
        Self::Bench,
        Self::Trial,
        Self::Knobs,
        Self::Lab,
        Self::Thp,
        Self::Collapse,
        Self::Restrain,
        Self::Age,
        Self::Agent,
        Self::Merge,
        Self::Oom,
        Self::Pin,
        Self::Plan,
        Self::Apply,
        Self::Verify,
        Self::Ledger,
        Self::Tune,
        Self::Undo,
    ];

    /// The name of the document: that of its verb.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Status => "status",
            Self::Doctor => "doctor",
            Self::Capabilities => "capabilities",
            Self::Explain => "explain",
            Self::Compare => "comparison",
            Self::Limits => "limits",
            Self::Fleet => "fleet",
            Self::Why => "why",
            Self::Scan => "scan",
            Self::Bench => "bench",
            Self::Trial => "trial",
            Self::Knobs => "knobs",
            Self::Lab => "lab",
            Self::Thp => "thp",
            Self::Collapse => "collapse",
            Self::Restrain => "restrain",
            Self::Age => "age",
            Self::Agent => "agent",
            Self::Merge => "merge",
            Self::Oom => "oom",
            Self::Pin => "pin",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Verify => "verify",
            Self::Ledger => "ledger",
            Self::Tune => "tune",
            Self::Undo => "undo",
        }
    }

    /// The command line that prints the document.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::Knobs => "trial --list-knobs",
            Self::Oom => "oom FILE",
            Self::Lab => "lab run",
            Self::Compare => "compare",
            Self::Agent => "agent status",
            Self::Fleet => "fleet report",
            Self::Collapse => "thp collapse",
            Self::Restrain => "thp restrain",
            other => other.name(),
        }
    }

    /// The value of the document's key `schema`; the number in it is raised if a key changes its
    /// meaning.
    pub(super) const fn version(self) -> &'static str {
        match self {
            Self::Report => "pagewise/report/1",
            Self::Status => "pagewise/status/1",
            Self::Doctor => "pagewise/doctor/1",
            Self::Capabilities => "pagewise/capabilities/1",
            Self::Explain => "pagewise/explain/1",
            Self::Compare => "pagewise/comparison/1",
            Self::Limits => "pagewise/limits/1",
            Self::Fleet => "pagewise/fleet/1",
            Self::Why => "pagewise/why/1",
            Self::Scan => "pagewise/scan/1",
            Self::Bench => "pagewise/bench/1",
            Self::Trial => "pagewise/trial/1",
            Self::Knobs => "pagewise/knobs/1",
            Self::Lab => "pagewise/lab/1",
            Self::Thp => "pagewise/thp/1",
            Self::Collapse => "pagewise/collapse/1",
            Self::Restrain => "pagewise/restrain/1",
            Self::Age => "pagewise/age/1",
            Self::Agent => "pagewise/agent/1",
            Self::Merge => "pagewise/merge/1",
            Self::Oom => "pagewise/oom/1",
            Self::Pin => "pagewise/pin/1",
            Self::Plan => "pagewise/plan/1",
            Self::Apply => "pagewise/apply/1",
            Self::Verify => "pagewise/verify/1",
            Self::Ledger => "pagewise/ledger/1",
            Self::Tune => "pagewise/tune/1",
            Self::Undo => "pagewise/undo/1",
        }
    }
}

/// The keys with which every document begins.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Head<'a> {
    /// The kind of the document, and the version of its keys.
    schema: &'static str,
    /// When the host was read: RFC 3339 in UTC; `null` if its clock is unknown.
    time: Option<String>,
    /// A random id that is new at every boot.
    boot_id: &'a Reading<Name>,
    /// The version of the program.
    pagewise: &'static str,
    /// The kernel's release.
    kernel: &'a Reading<Name>,
    host: &'a HostSummary,
    cost: Cost,
}

impl<'a> Head<'a> {
    pub(super) fn of_answer(noun: Noun, answer: &Answer<'a>) -> Self {
        Self::new(noun, &answer.interval.end, answer.cost)
    }

    pub(super) fn new(noun: Noun, snapshot: &'a Snapshot, cost: Cost) -> Self {
        Self {
            schema: noun.version(),
            time: time::time_of(snapshot).map(|time| time.to_string()),
            boot_id: &snapshot.taken.boot_id,
            pagewise: env!("CARGO_PKG_VERSION"),
            kernel: &snapshot.taken.kernel,
            host: &snapshot.host,
            cost,
        }
    }
}

/// Serializes a document, with a trailing newline.
pub(super) fn print_document(document: &impl Serialize) -> String {
    match serde_json::to_string_pretty(document) {
        Ok(text) => text + "\n",
        // serialization can only fail for a map with keys that are not text, and no document has
        // one
        Err(error) => format!("{}\n", serde_json::json!({ "error": error.to_string() })),
    }
}
