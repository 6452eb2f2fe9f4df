// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a piece of text stands for: [`Role`].

/// What a piece of text is, from which its colour follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "severities, and kinds of memory")]
pub enum Role {
    #[default]
    Plain,
    /// Headings and names that the eye looks for.
    Strong,
    /// Explanations that a second reading can skip.
    Quiet,
    /// Something to paste into a shell.
    Command,
    Critical,
    Warning,
    Info,
    Good,
    Anon,
    Shmem,
    File,
    Kernel,
    Compressed,
}
