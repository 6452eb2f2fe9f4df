// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of a piece of text: [`Role`].

/// The kind of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "severities, and kinds of memory")]
pub enum Role {
    #[default]
    Plain,
    /// Headings and important names.
    Strong,
    /// Explanations that an experienced reader can skip.
    Quiet,
    /// A command for a shell.
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
