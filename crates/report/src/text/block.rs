// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A section of the report in pieces that have no width yet: [`Block`]. A page for a browser is made of them.
//!
//! All text in a block is harmless to a terminal; what would act on it is visible. Names and sentences are whole:
//! nothing is cut, and no column is left out but one in which no cell has any content.

use pagewise_model::Bytes;

use super::role::Role;

/// A piece of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// The title of a section, and what is to know about it in a few words; the note may be empty.
    Heading {
        /// As the terminal prints it.
        title: String,
        /// What the section shows.
        note: String,
    },
    /// A paragraph.
    Prose(TextCell),
    /// A label, and what belongs to it: a sentence, or several short facts.
    Fact {
        /// As `zswap`.
        label: String,
        /// At least one, each with its unit.
        items: Vec<TextCell>,
    },
    /// Short facts in a row.
    Items(Vec<String>),
    /// What memory is used for, and how much RAM there is in all.
    Memory {
        /// In the order of a bar.
        parts: Vec<MemoryPart>,
        /// All RAM.
        total: Bytes,
    },
    /// Rows of cells under titles.
    Table(TextTable),
    /// Something to paste into a shell.
    Command(String),
}

/// One kind of memory. The parts need not add up to the total exactly: the kernel counts them at different times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPart {
    /// As `anon`.
    pub name: &'static str,
    /// How much of it there is.
    pub bytes: Bytes,
    /// What its colour stands for.
    pub role: Role,
    /// What it is, in a few words.
    pub meaning: String,
    pub(super) glyph: &'static str,
}

/// Text with its role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextCell {
    /// May be empty.
    pub text: String,
    /// What it is.
    pub role: Role,
    /// Used and whole, if the text is a bar of block characters.
    pub fill: Option<[u64; 2]>,
}

/// A table without a width.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextTable {
    /// Title, and whether the cells are numbers, which are aligned right. A title may be empty.
    pub columns: Vec<(String, bool)>,
    /// A cell for each column.
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
