// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a person reads in a terminal.

use crate::Answer;

/// How text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns; never more than 100 are used.
    pub width: usize,
    /// Whether colours may be used; nothing may depend on them.
    pub colour: bool,
}

/// Everything, on one page.
pub fn report(answer: &Answer<'_>, look: Look) -> String {
    format!("{answer:?} {look:?}")
}

/// Facts at a glance.
pub fn status(answer: &Answer<'_>, look: Look) -> String {
    format!("{answer:?} {look:?}")
}

/// Findings in full.
pub fn doctor(answer: &Answer<'_>, look: Look) -> String {
    format!("{answer:?} {look:?}")
}
