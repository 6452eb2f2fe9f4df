// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise schema` and `pagewise names`.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Noun {
    Report,
    Status,
    Doctor,
    Capabilities,
    Explain,
    Compare,
    Limits,
    Why,
    Scan,
    Bench,
    Trial,
    /// The JSON output of `trial --list-knobs`
    Knobs,
    /// The JSON output of `lab run`
    Lab,
    Thp,
    Collapse,
    Restrain,
    Age,
    /// The JSON output of `agent status`
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

/// Kinds of names that can only be read on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameKind {
    /// Processes that have memory
    Pid,
    /// Settings that an arm of a trial may set, or the values of one
    Knob,
    /// Experiments, built in and the user's own
    Experiment,
}
