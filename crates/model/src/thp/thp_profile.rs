// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of values for the settings of huge pages.

use serde::Serialize;

/// A set of values that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThpProfile {
    /// Short name.
    pub name: &'static str,
    /// For whom it is, in a sentence.
    pub purpose: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// The settings and their values.
    pub knobs: &'static [(&'static str, &'static str)],
}
