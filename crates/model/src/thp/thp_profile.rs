// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named sets of values for the settings of huge pages.

use serde::Serialize;

/// A named set of values for the settings of huge pages, to be set together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThpProfile {
    /// Short name of the profile.
    pub name: &'static str,
    /// Which programs or users the profile is for, in a sentence.
    pub purpose: &'static str,
    /// Where the values come from, such as the defaults in the kernel's source.
    pub source: &'static str,
    /// The settings of the profile and their values.
    pub knobs: &'static [(&'static str, &'static str)],
}
