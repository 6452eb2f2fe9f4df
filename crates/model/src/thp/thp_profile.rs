// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of huge pages that belong together.

use serde::Serialize;

/// Values that were chosen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThpProfile {
    /// Short name.
    pub name: &'static str,
    /// Who it is for, in a sentence.
    pub purpose: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// Knob and value.
    pub knobs: &'static [(&'static str, &'static str)],
}
