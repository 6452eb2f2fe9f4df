// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts [`Block`]s of a section to headings, paragraphs, lists and tables.

use pagewise_report::text::{Block, Role, TextCell, TextTable};

use crate::figure;
use crate::page::{escape, wrap_wide_table};
use crate::svg::{Svg, length};

/// A section that is being written. Its title is the label of its tables for screen readers, and
/// its note is the caption of the first table.
#[derive(Default)]
pub(crate) struct Writer {
    out: String,
    title: String,
    note: String,
    in_list: bool,
    /// Whether a chart was added last. A table after it needs no caption, because the chart has
    /// one.
    follows_chart: bool,
    /// Whether the document is a complete page, on which the level of headings depends.
    is_whole: bool,
}

impl Writer {
    /// Creates a writer for a section whose title was already written.
    pub(crate) fn with_title(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Creates a writer for a page whose title was already written.
    pub(crate) fn of_page(title: &str) -> Self {
        Self { is_whole: true, ..Self::with_title(title) }
    }

    pub(crate) fn write_blocks(&mut self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.write_block(block));
    }

    pub(crate) fn write_block(&mut self, block: &Block) {
        match block {
            Block::Heading { title, note } => self.write_heading(title, note),
            Block::Prose(text) => self.push(&paragraph(text)),
            Block::Items(items) => self.push(&list(items)),
            Block::Memory { parts, total } => {
                // the caption contains the note
                self.note.clear();
                self.push(&figure::draw_memory(parts, *total));
            }
            Block::Command(command) => self.push(&format_command(command)),
            Block::Fact { label, items } => self.write_fact(label, items),
            Block::Table(table) => self.write_table(table),
        }
    }

    fn push(&mut self, html: &str) {
        self.flush();
        self.out += html;
    }

    /// Adds a chart before the content that follows.
    pub(crate) fn write_figure(&mut self, svg: &str) {
        self.end_list();
        self.out += svg;
        self.follows_chart |= !svg.is_empty();
    }

    /// Returns all HTML that was written.
    pub(crate) fn finish(mut self) -> String {
        self.flush();
        self.out
    }

    fn write_heading(&mut self, title: &str, note: &str) {
        self.flush();
        if !title.is_empty() && self.title != title {
            let element = if self.is_whole { "h2" } else { "h3" };
            self.out += &format!("<{element}>{}</{element}>\n", escape(title));
            title.clone_into(&mut self.title);
        }
        note.clone_into(&mut self.note);
    }

    fn write_fact(&mut self, label: &str, items: &[TextCell]) {
        self.write_note();
        if !self.in_list {
            self.out += "<dl>\n";
            self.in_list = true;
        }
        let shown = match items {
            [one] => format_cell(one),
            several => list(several.iter().map(|item| &item.text)),
        };
        let label = if label.is_empty() { &self.title } else { label };
        self.out += &format!("<dt>{}</dt><dd>{shown}</dd>\n", escape(label));
    }

    fn write_table(&mut self, table: &TextTable) {
        self.end_list();
        let caption = std::mem::take(&mut self.note);
        let caption = if caption.is_empty() { self.title.clone() } else { caption };
        let class = if self.follows_chart { " class=\"unseen\"" } else { "" };
        self.follows_chart = false;
        self.out += &wrap_wide_table(&self.title, &format_table(table, &caption, class));
    }

    fn flush(&mut self) {
        self.end_list();
        self.write_note();
    }

    fn end_list(&mut self) {
        if self.in_list {
            self.out += "</dl>\n";
            self.in_list = false;
        }
    }

    /// Writes the note as a paragraph if no table used it as its caption.
    fn write_note(&mut self) {
        let note = std::mem::take(&mut self.note);
        if !note.is_empty() {
            self.out += &format!("<p class=\"quiet\">{}</p>\n", escape(&note));
        }
    }
}

fn paragraph(text: &TextCell) -> String {
    format_element("p", class(text.role), &escape(&text.text)) + "\n"
}

/// Formats an HTML element with a class; the class may be empty.
pub(crate) fn format_element(element: &str, class: &str, html: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<{element}{class}>{html}</{element}>")
}

fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let item = |item| format!("<li>{}</li>", escape(AsRef::as_ref(&item)));
    let items: String = items.into_iter().map(item).collect();
    format!("<ul class=\"items\">{items}</ul>\n")
}

/// Formats a command that can be pasted, with its comment.
pub(crate) fn format_command(command: &str) -> String {
    format!("<pre><code>{}</code></pre>\n", escape(command))
}

/// Formats a table. A caption with the `class` `unseen` is for screen readers only.
fn format_table(table: &TextTable, caption: &str, class: &str) -> String {
    let mut text = format!("<table><caption{class}>{}</caption>\n", escape(caption));
    if table.columns.iter().any(|(title, _)| !title.is_empty()) {
        text += "<thead><tr>";
        table.columns.iter().for_each(|(title, number)| text += &format_head_cell(title, *number));
        text += "</tr></thead>\n";
    }
    text += "<tbody>\n";
    let name = table.columns.iter().position(|(_, number)| !number).unwrap_or(0);
    for row in &table.rows {
        text += "<tr>";
        for (at, (content, (_, number))) in row.iter().zip(&table.columns).enumerate() {
            text += &format_data_cell(content, *number, at == name);
        }
        text += "</tr>\n";
    }
    text + "</tbody></table>"
}

fn format_head_cell(title: &str, number: bool) -> String {
    let class = if number { " class=\"number\"" } else { "" };
    if title.is_empty() {
        "<td></td>".to_owned()
    } else {
        format!("<th scope=\"col\"{class}>{}</th>", escape(title))
    }
}

fn format_data_cell(content: &TextCell, number: bool, is_name: bool) -> String {
    let class = if number { " class=\"number\"" } else { "" };
    let shown = format_cell(content);
    if is_name && !content.text.is_empty() {
        format!("<th scope=\"row\"{class}>{shown}</th>")
    } else {
        format!("<td{class}>{shown}</td>")
    }
}

/// Formats the content of a cell: text in the colour of its role, or a meter.
fn format_cell(content: &TextCell) -> String {
    if let Some([used, whole]) = content.fill {
        return format_meter(used, whole);
    }
    let text = escape(content.text.trim());
    match class(content.role) {
        "" => text,
        class => format_element("span", class, &text),
    }
}

fn format_meter(used: u64, whole: u64) -> String {
    const SIZE: [f64; 2] = [120.0, 12.0];
    let mut svg = Svg::new(SIZE[0] + 2.0);
    svg.draw_track([1.0, 1.0], SIZE);
    if used > 0 {
        svg.draw_area("f-anon", [1.0, 1.0], [length(used, whole, SIZE[0]), SIZE[1]]);
    }
    let percent = length(used, whole, 100.0);
    svg.finish(SIZE[1] + 2.0, &format!("{percent:.0} % used"), "")
}

/// Returns the CSS class of a role; empty for plain text.
pub(crate) fn class(role: Role) -> &'static str {
    match role {
        Role::Plain | Role::Anon | Role::Shmem | Role::File | Role::Kernel | Role::Compressed => "",
        Role::Strong => "strong",
        Role::Quiet => "quiet",
        Role::Command => "strong",
        Role::Critical => "critical",
        Role::Warning => "warning",
        Role::Info => "info",
        Role::Good => "good",
    }
}
