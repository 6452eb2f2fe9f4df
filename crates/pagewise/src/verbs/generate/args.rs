// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise schema`.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Noun {
    Report,
    Status,
    Doctor,
    Capabilities,
    Explain,
    Compare,
    Scan,
    Bench,
    Trial,
    /// The JSON output of `lab run`
    Lab,
    Thp,
    Collapse,
    Restrain,
    Merge,
    Pin,
    Plan,
    Apply,
    Verify,
    Ledger,
    Tune,
    Undo,
}
