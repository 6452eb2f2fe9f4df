// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints rows of cells as aligned lines that fit the width.
//!
//! If they do not fit, columns that may be cut shrink first, then optional columns are left out,
//! the least important first. A column without any content is never shown.

use unicode_width::UnicodeWidthStr;

use super::bars;
use super::block::{Block, TextCell, TextTable};
use super::elide::{NamePart, elide};
use super::kit::{Line, Page, Role, clip, make_printable_line, wrap};

/// Minimum width in columns of a column that is cut.
const SHRUNK: usize = 14;
/// Minimum width in columns of a text column that wraps.
const WRAPPED: usize = 24;
/// Minimum width in columns of both kinds of column if nothing else can shrink.
const FLOOR: usize = 10;
const BETWEEN: usize = 2;
/// The text for a value that this kernel does not have.
pub(super) const NONE: &str = "–";

/// A cell of a table: a text and its role.
pub(super) type Cell = TextCell;

impl TextCell {
    pub(super) fn new(role: Role, text: impl Into<String>) -> Self {
        Self { text: make_printable_line(text.into()), role, fill: None }
    }

    /// A cell with a bar of this many block characters.
    pub(super) fn bar(role: Role, part: u64, whole: u64, cells: usize) -> Self {
        let text = bars::draw_bar(part, whole, cells);
        Self { text, role, fill: Some([part, whole]) }
    }

    /// Whether the cell is neither empty nor [`NONE`].
    pub(super) fn has_content(&self) -> bool {
        !matches!(self.text.as_str(), "" | NONE)
    }
}

impl From<String> for TextCell {
    fn from(text: String) -> Self {
        Self::new(Role::Plain, text)
    }
}

impl From<&str> for TextCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// How a column shrinks if the table is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Give {
    /// The column does not shrink.
    Stiff,
    /// The end of each cell is cut.
    End,
    /// The start of each cell is cut.
    Start,
    /// The cell wraps to the next line; for the last column only.
    Wrap,
}

/// A column of a table: its title and how it behaves.
#[derive(Debug, Clone)]
pub(super) struct Column {
    title: String,
    right: bool,
    give: Give,
    /// Columns with the highest rank are left out first if there is no room; 0 always stays.
    rank: u8,
}

impl Column {
    /// A column of words, aligned left.
    pub(super) fn left(title: impl Into<String>) -> Self {
        Self { title: title.into(), right: false, give: Give::Stiff, rank: 0 }
    }

    /// A column of numbers, aligned right.
    pub(super) fn right(title: impl Into<String>) -> Self {
        Self { right: true, ..Self::left(title) }
    }

    /// A column of names; they are cut at the end if there is no room, in a way that keeps
    /// different names different.
    pub(super) fn name(title: impl Into<String>) -> Self {
        Self { give: Give::End, ..Self::left(title) }
    }

    /// A column of paths; they are cut at the start if there is no room, in a way that keeps
    /// different paths different.
    pub(super) fn path(title: impl Into<String>) -> Self {
        Self { give: Give::Start, ..Self::left(title) }
    }

    /// A column of sentences; for the last column only.
    pub(super) fn words(title: impl Into<String>) -> Self {
        Self { give: Give::Wrap, ..Self::left(title) }
    }

    /// Makes the column optional: if there is no room, columns with a higher rank are left out
    /// first.
    pub(super) fn spare(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The column's width below which other columns are left out instead.
    fn least_width(&self, natural: usize) -> usize {
        match self.give {
            Give::Stiff => natural,
            Give::End => natural.min(SHRUNK),
            Give::Start => natural.min(2 * SHRUNK),
            Give::Wrap => natural.min(WRAPPED),
        }
    }
}

/// A table: rows under titles.
#[derive(Debug)]
pub(super) struct Table {
    indent: usize,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(indent: usize, columns: Vec<Column>) -> Self {
        Self { indent, columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table; with titles only if at least one column has a title.
    pub(super) fn print(self, page: &mut Page) {
        if page.keeps_blocks() {
            return page.keep(Block::Table(self.into_text_table()));
        }
        let plan = self.plan(page.table_width().saturating_sub(self.indent));
        let rows = self.shorten(&plan);
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let titles: Vec<Cell> = self.columns.iter().map(title).collect();
            self.print_row(page, &plan, &titles);
        }
        for row in &rows {
            self.print_row(page, &plan, row);
        }
    }

    /// The table as all its columns that have any content, without widths.
    fn into_text_table(self) -> TextTable {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|&at| self.has_content(at)).collect();
        let column =
            |&at: &usize| (self.columns[at].title.trim().to_owned(), self.columns[at].right);
        let row = |row: &Vec<Cell>| {
            shown.iter().map(|&at| row.get(at).cloned().unwrap_or_default()).collect()
        };
        TextTable {
            columns: shown.iter().map(column).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// The rows with their names shortened to the widths in `plan`; column by column, because the
    /// result for a name depends on the other names.
    fn shorten(&self, plan: &[(usize, usize)]) -> Vec<Vec<Cell>> {
        let mut rows = self.rows.clone();
        for &(at, width) in plan {
            let Some(keep) = self.columns[at].keep() else { continue };
            let cells = rows.iter().filter_map(|row| row.get(at));
            let names: Vec<&str> = cells.map(|cell| cell.text.as_str()).collect();
            let short = elide(&names, width, keep);
            let cells = rows.iter_mut().filter_map(|row| row.get_mut(at));
            cells.zip(short).for_each(|(cell, text)| cell.text = text);
        }
        rows
    }

    /// Computes which columns are shown, by index, and their widths.
    fn plan(&self, room: usize) -> Vec<(usize, usize)> {
        let natural: Vec<usize> =
            (0..self.columns.len()).map(|at| self.natural_width(at)).collect();
        let mut shown: Vec<usize> = (0..natural.len()).filter(|&at| self.has_content(at)).collect();
        let least = |shown: &[usize]| {
            total(shown.iter().map(|&at| self.columns[at].least_width(natural[at])))
        };
        while least(&shown) > room {
            let sparest = shown.iter().copied().max_by_key(|&at| self.columns[at].rank);
            match sparest.filter(|&at| self.columns[at].rank > 0) {
                Some(at) => shown.retain(|&other| other != at),
                None => break,
            }
        }
        let mut widths: Vec<(usize, usize)> = shown.iter().map(|&at| (at, natural[at])).collect();
        self.shrink(&mut widths, room);
        widths
    }

    /// Reduces the widths of columns to `room` in total: first of names and paths, then of
    /// sentences, then of all of these.
    fn shrink(&self, widths: &mut [(usize, usize)], room: usize) {
        let cut = |give: Give| matches!(give, Give::End | Give::Start);
        self.shrink_columns(widths, room, cut, SHRUNK);
        self.shrink_columns(widths, room, |give| give == Give::Wrap, WRAPPED);
        self.shrink_columns(widths, room, |give| give != Give::Stiff, FLOOR);
    }

    /// Shrinks the widest of the matching columns, until they are `floor` wide.
    fn shrink_columns(
        &self,
        widths: &mut [(usize, usize)],
        room: usize,
        gives: impl Fn(Give) -> bool,
        floor: usize,
    ) {
        let mut excess = total(widths.iter().map(|&(_, width)| width)).saturating_sub(room);
        while excess > 0 {
            let wide = |&&mut (at, width): &&mut (usize, usize)| {
                gives(self.columns[at].give) && width > floor
            };
            let widest = widths.iter_mut().filter(wide).max_by_key(|(_, width)| *width);
            let Some((_, width)) = widest else { break };
            *width -= 1;
            excess -= 1;
        }
    }

    fn natural_width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.width());
        cells.max().unwrap_or(0).max(self.columns[at].title.width())
    }

    fn has_content(&self, at: usize) -> bool {
        self.rows.iter().filter_map(|row| row.get(at)).any(Cell::has_content)
    }

    fn print_row(&self, page: &mut Page, plan: &[(usize, usize)], row: &[Cell]) {
        let mut line = Line::indent(self.indent);
        let mut edge = self.indent;
        let mut more = Vec::new();
        for &(at, width) in plan {
            let Some(cell) = row.get(at) else { continue };
            let column = &self.columns[at];
            let (text, rest) = column.fit_cell(&cell.text, width);
            let missing = width.saturating_sub(text.width());
            let start = edge + if column.right { missing } else { 0 };
            line = line.pad_to(start).span(cell.role, text);
            more = rest.into_iter().map(|text| (edge, cell.role, text)).collect();
            edge += width + BETWEEN;
        }
        page.line(&line);
        for (edge, role, text) in more {
            page.line(&Line::indent(edge).span(role, text));
        }
    }
}

impl Column {
    /// The part of a long name that the column keeps; `None` if this is no column of names.
    fn keep(&self) -> Option<NamePart> {
        match self.give {
            Give::End => Some(NamePart::Start),
            Give::Start => Some(NamePart::End),
            Give::Stiff | Give::Wrap => None,
        }
    }

    /// A cell's text cut to the column's width, and the lines that follow below it.
    fn fit_cell(&self, text: &str, width: usize) -> (String, Vec<String>) {
        match self.give {
            Give::Stiff => (text.to_owned(), Vec::new()),
            Give::End | Give::Start => (clip(text, width).into_owned(), Vec::new()),
            Give::Wrap => {
                let mut lines = wrap(text, width).into_iter();
                (lines.next().unwrap_or_default(), lines.collect())
            }
        }
    }
}

fn title(column: &Column) -> Cell {
    Cell::new(Role::Quiet, column.title.clone())
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + BETWEEN).sum::<usize>().saturating_sub(BETWEEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextStyle;

    fn render(width: usize, table: Table) -> String {
        let mut page = Page::new(TextStyle { width, colour: false });
        table.print(&mut page);
        page.finish()
    }

    fn table(columns: Vec<Column>, rows: &[&[&str]]) -> Table {
        let mut table = Table::new(2, columns);
        rows.iter().for_each(|row| table.row(row.iter().map(|text| Cell::from(*text)).collect()));
        table
    }

    #[test]
    fn numbers_stand_at_the_right_and_wide_characters_count_twice() {
        let columns = vec![Column::left("name"), Column::right("size")];
        let text = render(80, table(columns, &[&["漢字", "1"], &["abcdef", "1000"]]));
        assert_eq!(text, "  name    size\n  漢字       1\n  abcdef  1000\n");
    }

    #[test]
    fn names_shrink_first_and_then_spare_columns_go() {
        let columns =
            || vec![Column::path("path"), Column::right("a").spare(1), Column::right("b").spare(2)];
        let path = "/one/two/three/four/five/six/payload";
        let row: &[&str] = &[path, "11111111", "22222222"];
        let text = render(52, table(columns(), &[row]));
        assert!(text.ends_with("  …o/three/four/five/six/payload  11111111  22222222\n"), "{text}");
        let text = render(44, table(columns(), &[row]));
        assert!(text.contains("11111111") && !text.contains("22222222"), "{text}");
    }

    #[test]
    fn a_column_without_content_is_not_shown() {
        let columns = vec![Column::left("name"), Column::right("node"), Column::right("size")];
        let text = render(80, table(columns, &[&["a", "–", "1"], &["b", "", "2"]]));
        assert_eq!(text, "  name  size\n  a        1\n  b        2\n");
    }

    #[test]
    fn words_go_on_below_themselves() {
        let columns = vec![Column::left(""), Column::words("")];
        let words = "a sentence that has to go on in the next line";
        let text = render(40, table(columns, &[&["x", words]]));
        assert_eq!(text, "  x  a sentence that has to go on in the\n     next line\n");
    }
}
