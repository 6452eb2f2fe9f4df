// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits a Markdown file into passages of text, and finds its lines outside tables and code.
//!
//! A passage is a paragraph, a list item, a heading or a table cell. Code blocks, HTML and link
//! targets belong to no passage.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The kind of a passage of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The passage is a paragraph or a list item.
    Prose,
    Heading,
    /// The passage is a table cell.
    Cell,
}

/// A part of a passage: text of one line, or code in backticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Line number in the file, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) is_code: bool,
}

impl Piece {
    pub(crate) fn text(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into(), is_code: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) kind: Kind,
    pub(crate) pieces: Vec<Piece>,
}

/// The text of pieces joined by single spaces, and the line of each position in it.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) text: String,
    /// Positions in the text where pieces begin, and the line number of each piece.
    lines: Vec<(usize, usize)>,
}

impl Joined {
    /// Joins the results of `show` for each piece.
    pub(crate) fn new(pieces: &[Piece], show: impl Fn(&Piece) -> String) -> Self {
        let (mut text, mut lines) = (String::new(), Vec::new());
        for piece in pieces {
            lines.push((text.len(), piece.line));
            for c in show(piece).chars() {
                if !c.is_whitespace() {
                    text.push(c);
                } else if !text.ends_with(' ') {
                    text.push(' ');
                }
            }
        }
        Self { text, lines }
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let at = self.lines.partition_point(|&(start, _)| start <= offset);
        self.lines.get(at.saturating_sub(1)).map_or(0, |&(_, line)| line)
    }
}

fn events(markdown: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter()
}

/// Finds the passages of a Markdown file, in the order of the file.
pub(crate) fn passages(markdown: &str) -> Vec<Passage> {
    let starts = line_starts(markdown);
    let mut passages = Vec::new();
    let mut kinds = vec![Kind::Prose];
    let mut hidden = 0_usize;
    let mut pieces: Vec<Piece> = Vec::new();
    for (event, range) in events(markdown) {
        let line = line_at(&starts, range.start);
        match event {
            Event::Text(text) if hidden == 0 => pieces.push(Piece::text(line, text.as_ref())),
            Event::SoftBreak | Event::HardBreak => pieces.push(Piece::text(line, " ")),
            Event::Code(text) if hidden == 0 => {
                pieces.push(Piece { line, text: format!("`{text}`"), is_code: true });
            }
            Event::Start(tag) if is_block(tag.to_end()) => {
                finish_passage(&mut passages, &mut pieces, &kinds);
                kinds.push(kind_within(&tag, &kinds));
                hidden += usize::from(is_hidden(tag.to_end()));
            }
            Event::End(end) if is_block(end) => {
                finish_passage(&mut passages, &mut pieces, &kinds);
                kinds.pop();
                hidden -= usize::from(is_hidden(end));
            }
            _ => {}
        }
    }
    passages
}

fn finish_passage(passages: &mut Vec<Passage>, pieces: &mut Vec<Piece>, kinds: &[Kind]) {
    let kind = kinds.last().copied().unwrap_or(Kind::Prose);
    let pieces = std::mem::take(pieces);
    if pieces.iter().any(|piece| !piece.text.trim().is_empty()) {
        passages.push(Passage { kind, pieces });
    }
}

/// Whether an end tag separates passages; tags within a line, such as for emphasis, do not.
fn is_block(tag: TagEnd) -> bool {
    use TagEnd::{Emphasis, Image, Link, Strikethrough, Strong, Subscript, Superscript};
    !matches!(tag, Emphasis | Strong | Strikethrough | Superscript | Subscript | Link | Image)
}

fn is_hidden(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::CodeBlock | TagEnd::HtmlBlock)
}

fn kind_within(tag: &Tag<'_>, kinds: &[Kind]) -> Kind {
    match tag {
        Tag::Heading { .. } => Kind::Heading,
        Tag::Table(_) => Kind::Cell,
        _ => kinds.last().copied().unwrap_or(Kind::Prose),
    }
}

/// Lines wider than `columns`, except in tables, code blocks and HTML. The targets of links do not
/// count for the width.
pub(crate) fn long_lines(markdown: &str, columns: usize) -> Vec<(usize, usize)> {
    let starts = line_starts(markdown);
    let mut exempt: Vec<Range<usize>> = Vec::new();
    let mut targets: Vec<Range<usize>> = Vec::new();
    for (event, range) in events(markdown) {
        match event {
            Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::HtmlBlock) => exempt.push(range),
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => {
                let text = &markdown[range.clone()];
                let begin = text.rfind("](").map_or(range.end, |at| range.start + at);
                targets.push(begin..range.end);
            }
            _ => {}
        }
    }
    let mut long = Vec::new();
    for (start, line) in starts.iter().zip(markdown.lines()) {
        if exempt.iter().any(|exempt| exempt.contains(start)) {
            continue;
        }
        let columns_of = |text: &str| text.trim_end().chars().count();
        let range = *start..start + line.len();
        let within =
            targets.iter().filter(|target| range.start <= target.start && target.end <= range.end);
        let hidden: usize = within.map(|target| columns_of(&markdown[target.clone()])).sum();
        let width = columns_of(line).saturating_sub(hidden);
        if width > columns {
            long.push((line_at(&starts, *start), width));
        }
    }
    long
}

/// The targets of the links and images of a Markdown file, with their lines.
pub(crate) fn links(markdown: &str) -> Vec<(usize, String)> {
    let starts = line_starts(markdown);
    let mut links = Vec::new();
    for (event, range) in events(markdown) {
        let line = line_at(&starts, range.start);
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push((line, dest_url.to_string()));
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let sources =
                    html.split(" src=\"").skip(1).filter_map(|rest| rest.split('"').next());
                links.extend(sources.map(|source| (line, source.to_owned())));
            }
            _ => {}
        }
    }
    links
}

/// The headings of a Markdown file, as text without marks.
pub(crate) fn headings(markdown: &str) -> Vec<String> {
    let mut headings: Vec<String> = Vec::new();
    let mut is_heading = false;
    for (event, _) in events(markdown) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                headings.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Text(text) | Event::Code(text) if is_heading => {
                headings.iter_mut().next_back().into_iter().for_each(|it| it.push_str(&text));
            }
            _ => {}
        }
    }
    headings
}

/// A table in a Markdown file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Number of the table's first line in the file, from 1.
    pub(crate) line: usize,
    /// The trimmed cells of each row below the heading.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Finds the tables of a Markdown file.
pub(crate) fn tables(markdown: &str) -> Vec<Table> {
    let starts = line_starts(markdown);
    let mut tables: Vec<Table> = Vec::new();
    let mut in_body = false;
    for (event, range) in events(markdown) {
        match event {
            Event::Start(Tag::Table(_)) => {
                tables.push(Table { line: line_at(&starts, range.start), rows: Vec::new() });
            }
            Event::Start(Tag::TableHead) => in_body = false,
            Event::Start(Tag::TableRow) => {
                in_body = true;
                if let Some(table) = tables.last_mut() {
                    table.rows.push(Vec::new());
                }
            }
            Event::Start(Tag::TableCell) if in_body => {
                let cell = markdown[range].trim().trim_matches('|').trim().to_owned();
                if let Some(row) = tables.last_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            _ => {}
        }
    }
    tables
}

/// Byte offsets at which the lines of a text begin.
fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// The line number of an offset, from 1.
fn line_at(starts: &[usize], offset: usize) -> usize {
    starts.partition_point(|&start| start <= offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(markdown: &str) -> Vec<(Kind, usize, String)> {
        let joined = |passage: &Passage| {
            passage.pieces.iter().map(|piece| piece.text.as_str()).collect::<String>()
        };
        let passages = passages(markdown);
        passages
            .iter()
            .map(|passage| (passage.kind, passage.pieces[0].line, joined(passage)))
            .collect()
    }

    #[test]
    fn passages_are_paragraphs_items_headings_and_cells() {
        let markdown = "# A head\n\nOne line\nand `code`.\n\n- an item\n  goes on\n  - inside\n\n\
                        ```\nnot this\n```\n<!-- nor this -->\n\n| a | b |\n|---|---|\n| c | [d](e) |\n";
        let expected = [
            (Kind::Heading, 1, "A head"),
            (Kind::Prose, 3, "One line and `code`."),
            (Kind::Prose, 6, "an item goes on"),
            (Kind::Prose, 8, "inside"),
            (Kind::Cell, 15, "a"),
            (Kind::Cell, 15, "b"),
            (Kind::Cell, 17, "c"),
            (Kind::Cell, 17, "d"),
        ];
        assert_eq!(
            texts(markdown),
            expected.map(|(kind, line, text)| (kind, line, text.to_owned()))
        );
    }

    #[test]
    fn code_in_a_sentence_is_marked() {
        let passages = passages("Run `is told` now.\n");
        let code: Vec<bool> = passages[0].pieces.iter().map(|piece| piece.is_code).collect();
        assert_eq!(code, [false, true, false]);
    }

    #[test]
    fn long_lines_are_counted_without_tables_code_and_targets() {
        let wide = "x".repeat(21);
        let markdown = format!(
            "{wide}\n\n`{wide}`\n\n```\n{wide}\n```\n\n| {wide} |\n|---|\n| {wide} |\n\n\
             short [here](https://{wide})\n\nshort [{wide}](a)\n"
        );
        assert_eq!(long_lines(&markdown, 20), [(1, 21), (3, 23), (15, 28)]);
        assert_eq!(long_lines(&"ä".repeat(20), 20), []);
    }

    #[test]
    fn tables_have_a_place_and_rows() {
        let tables = tables("Text.\n\n| a | b |\n|---|--:|\n| c | 5 % |\n| d | |\n");
        let rows =
            vec![vec!["c".to_owned(), "5 %".to_owned()], vec!["d".to_owned(), String::new()]];
        assert_eq!(tables, [Table { line: 3, rows }]);
    }
}
