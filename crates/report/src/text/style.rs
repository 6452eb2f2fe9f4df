// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the terminal allows: [`TextStyle`].

/// How text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns; prose never uses more than 100, tables what they need.
    pub width: usize,
    /// Whether colours may be used; nothing may depend on them.
    pub colour: bool,
}
