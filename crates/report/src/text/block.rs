// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A section of the report as [`Block`]s, which have no width yet; HTML pages are made of them.
//!
//! Text in a block contains no escape sequences: characters that a terminal would interpret are
//! replaced by visible ones. Names and sentences are complete: nothing is cut, and only columns
//! without any content are left out.

use pagewise_model::Bytes;

use super::role::Role;

/// A piece of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// The title of a section, and a short remark about it, which may be empty.
    Heading {
        /// The section's title, as the terminal prints it.
        title: String,
        /// The remark after the title.
        note: String,
    },
    /// A paragraph.
    Prose(TextCell),
    /// A label with its content: a sentence, or several short facts.
    Fact {
        /// The label of the fact, such as `zswap`.
        label: String,
        /// The facts, at least one, each with its unit.
        items: Vec<TextCell>,
    },
    /// Short facts in one row.
    Items(Vec<String>),
    /// The uses of memory, and the size of RAM.
    Memory {
        /// The parts of memory, in the order of the bar.
        parts: Vec<MemoryPart>,
        /// The size of RAM.
        total: Bytes,
    },
    /// A table.
    Table(TextTable),
    /// A command for a shell.
    Command(String),
}

/// One use of memory. The parts need not add up to the total exactly, because the kernel counts
/// them at different times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPart {
    /// The name of the use, such as `anon`.
    pub name: &'static str,
    /// How much memory this use takes.
    pub bytes: Bytes,
    /// The meaning of the colour in which the part is drawn.
    pub role: Role,
    /// A short explanation of this use of memory.
    pub meaning: String,
    pub(super) glyph: &'static str,
}

/// Text with its role, which determines its colour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextCell {
    /// The text; may be empty.
    pub text: String,
    /// The role of the text.
    pub role: Role,
    /// The used part and the whole, if the text is a bar of block characters.
    pub fill: Option<[u64; 2]>,
}

/// A table whose columns have no widths yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextTable {
    /// For each column its title, which may be empty, and whether its cells are numbers, which are
    /// aligned right.
    pub columns: Vec<(String, bool)>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<TextCell>>,
}

impl Block {
    pub(super) fn prose(role: Role, text: &str) -> Self {
        Self::Prose(TextCell::new(role, text))
    }

    pub(super) fn fact(
        label: &str,
        role: Role,
        items: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let items = items.into_iter().map(|item| TextCell::new(role, item.as_ref())).collect();
        Self::Fact { label: label.trim().to_owned(), items }
    }
}
