// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The capabilities of the terminal: [`TextStyle`].

/// How text may be formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Width of the page in columns; prose uses at most 100, tables what they need.
    pub width: usize,
    /// Whether colours may be used; no information depends on them.
    pub colour: bool,
}
