// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lays out lines, paragraphs and labelled facts as text that is never wider than the terminal.
//!
//! All text passes [`Span::new`], which replaces characters that a terminal would interpret, and
//! every line passes [`Page::line`], which cuts what is too wide. Sections therefore need not care
//! about either. Roles become colours only if the [`TextStyle`] allows it; the words alone contain
//! all information.
//!
//! A number and its unit stay on one line: they are joined by a no-break space while a paragraph is
//! wrapped, which becomes an ordinary space when it is printed.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use pagewise_model::{Name, make_printable};
use textwrap::{Options, WordSplitter};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::block::Block;
pub(super) use super::role::Role;
use super::style::TextStyle;
use crate::live::{LiveLine, LiveSpan};

/// Minimum width of a page in columns: on a narrower terminal nothing would be readable.
const NARROWEST: usize = 40;
/// Maximum width of prose in columns; longer lines are hard to read.
const WIDEST: usize = 100;
/// Maximum width of tables and bars in columns.
const WIDEST_TABLE: usize = 400;
const GLUE: char = '\u{a0}';

/// The escape sequences of the [`Role`]s; the command line parser (clap) also underlines.
const COLOURS: [&str; 10] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[4m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m",
    "\x1b[35m", "\x1b[36m",
];

/// Makes all characters visible that a terminal would interpret, except the colour sequences used
/// here, newlines and tabs. For text that is about to be written to a terminal with colours.
#[must_use]
pub fn escape_all_but_colours(text: &str) -> Cow<'_, str> {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from_escape)) = rest.find('\x1b').map(|at| rest.split_at(at)) {
        shown.push_str(&make_printable(before));
        let own = COLOURS.iter().find(|own| from_escape.starts_with(**own));
        let (escape, behind) = from_escape.split_at(own.map_or(1, |own| own.len()));
        shown.push_str(&if own.is_some() { Cow::Borrowed(escape) } else { make_printable(escape) });
        rest = behind;
    }
    if shown.is_empty() {
        return make_printable(rest);
    }
    shown.push_str(&make_printable(rest));
    Cow::Owned(shown)
}

/// The style in which a terminal shows a role: one of its 16 colours, bold or dim.
pub fn style(role: Role) -> Style {
    let colour = |colour: AnsiColor| colour.on_default();
    match role {
        Role::Plain => Style::new(),
        Role::Strong => Style::new().bold(),
        Role::Quiet => Style::new().dimmed(),
        Role::Command => colour(AnsiColor::Cyan),
        Role::Critical => colour(AnsiColor::Red).bold(),
        Role::Warning => colour(AnsiColor::Yellow).bold(),
        Role::Info => colour(AnsiColor::Blue).bold(),
        Role::Good => colour(AnsiColor::Green),
        Role::Anon => colour(AnsiColor::Blue),
        Role::Shmem => colour(AnsiColor::Magenta),
        Role::File => colour(AnsiColor::Green),
        Role::Kernel => colour(AnsiColor::Yellow),
        Role::Compressed => colour(AnsiColor::Cyan),
    }
}

/// A text with a role.
#[derive(Debug, Clone)]
pub(super) struct Span {
    text: String,
    role: Role,
}

impl Span {
    pub(super) fn new(role: Role, text: impl Into<String>) -> Self {
        Self { text: make_printable_line(text.into()), role }
    }
}

/// Makes characters of a text visible that a terminal would interpret; a newline becomes a space.
pub(super) fn make_printable_line(text: String) -> String {
    let text = if text.contains('\n') { text.replace('\n', " ") } else { text };
    Name::from(text.as_str()).as_str().replace(GLUE, " ")
}

/// One line of output.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Vec<Span>);

impl Line {
    /// A line that starts with this number of spaces.
    pub(super) fn indent(columns: usize) -> Self {
        Self::default().plain(" ".repeat(columns))
    }

    pub(super) fn span(mut self, role: Role, text: impl Into<String>) -> Self {
        self.0.push(Span::new(role, text));
        self
    }

    pub(super) fn plain(self, text: impl Into<String>) -> Self {
        self.span(Role::Plain, text)
    }

    pub(super) fn pad_to(self, column: usize) -> Self {
        let missing = column.saturating_sub(self.width());
        self.plain(" ".repeat(missing))
    }

    pub(super) fn width(&self) -> usize {
        self.text().width()
    }

    fn text(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    /// The pieces of the line, cut with `…` if it is wider than `width`, without trailing spaces.
    fn cut(&self, width: usize) -> Vec<LiveSpan> {
        let text = self.text();
        let kept = clip(&text, width);
        let (mut left, cut) = match kept.strip_suffix('…').filter(|_| kept != text) {
            Some(head) => (head.len(), Some("…")),
            None => (text.trim_end().len(), None),
        };
        let parts = self.0.iter().map(|span| {
            let part = &span.text[..left.min(span.text.len())];
            left -= part.len();
            let role = if part.trim().is_empty() { Role::Plain } else { span.role };
            LiveSpan { role, text: part.to_owned() }
        });
        let mut parts: Vec<LiveSpan> = parts.filter(|part| !part.text.is_empty()).collect();
        parts.extend(cut.map(|cut| LiveSpan { role: Role::Plain, text: cut.to_owned() }));
        parts
    }

    fn render(&self, width: usize, colour: bool) -> String {
        self.cut(width).iter().map(|part| add_style(part.role, &part.text, colour)).collect()
    }
}

fn add_style(role: Role, text: &str, colour: bool) -> String {
    let style = style(role);
    if colour && style != Style::new() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Cuts `text` to at most `width` columns; `…` at the end marks the cut.
pub(super) fn clip(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(1);
        used <= room
    };
    let mut end = text.chars().take_while(fits).map(char::len_utf8).sum::<usize>();
    // the width of a text may differ from the sum of its characters' widths
    while text[..end].width() > room {
        end = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    }
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Cuts `text` to at most `width` columns at its start, where `…` marks the cut: the end of a long path is the more
/// useful part.
pub(super) fn clip_start(text: &str, width: usize) -> Cow<'_, str> {
    let mut start = 0;
    while text[start..].width() > width.saturating_sub(usize::from(start > 0)) {
        start += text[start..].chars().next().map_or(1, char::len_utf8);
    }
    if start == 0 { Cow::Borrowed(text) } else { Cow::Owned(format!("…{}", &text[start..])) }
}

/// Wraps text to lines of at most `width` columns; numbers stay with their units.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width.max(1)).word_splitter(WordSplitter::NoHyphenation);
    let glued = glue_units(&make_printable_line(text.to_owned()));
    textwrap::wrap(&glued, options).iter().map(|line| line.replace(GLUE, " ")).collect()
}

/// Joins every unit in a text to its number, so that no line breaks between the two.
fn glue_units(text: &str) -> String {
    const UNITS: [&str; 19] = [
        "%", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ns", "µs", "ms", "s", "pages", "page",
        "B/s", "KiB/s", "MiB/s", "GiB/s", "MB/s",
    ];
    let mut glued = String::with_capacity(text.len());
    for word in text.split(' ') {
        let unit = UNITS.contains(&word.trim_end_matches(|c: char| ",.;:)".contains(c)));
        if !glued.is_empty() {
            let after_number = glued.ends_with(|c: char| c.is_ascii_digit());
            glued.push(if unit && after_number { GLUE } else { ' ' });
        }
        glued.push_str(word);
    }
    glued
}

/// Joins the words inside of single quotes in a shell command, so that no line breaks there.
fn glue_quoted(command: &str) -> String {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let glued = command.chars().map(|c| {
        let ends_quote = c == '\'' && !is_escaped;
        is_quoted ^= ends_quote;
        is_escaped = c == '\\' && !is_quoted && !is_escaped;
        if c == ' ' && is_quoted { GLUE } else { c }
    });
    glued.collect()
}

/// Joins the words of each step of a command if the step fits into one line.
fn glue_steps(command: &str, room: usize) -> String {
    let steps = command.split_inclusive(" && ").map(|step| match step.strip_suffix(" && ") {
        Some(step) if step.width() + 3 <= room => step.replace(' ', "\u{a0}") + "\u{a0}&& ",
        None if step.width() <= room => step.replace(' ', "\u{a0}"),
        _ => step.to_owned(),
    });
    steps.collect()
}

/// Column of the page at which the content of labelled facts starts.
pub(super) const FACTS: usize = 18;

/// A page that is being written.
#[derive(Debug)]
pub(super) struct Page {
    width: usize,
    table_width: usize,
    colour: bool,
    out: String,
    /// The blocks collected so far, if the page collects blocks instead of lines for a terminal.
    blocks: Option<Vec<Block>>,
    /// The lines collected so far, if the page collects lines of a screen instead of text.
    screen: Option<Vec<LiveLine>>,
}

impl Page {
    pub(super) fn new(look: TextStyle) -> Self {
        let table_width = look.width.clamp(NARROWEST, WIDEST_TABLE);
        Self {
            width: table_width.min(WIDEST),
            table_width,
            colour: look.colour,
            out: String::new(),
            blocks: None,
            screen: None,
        }
    }

    /// A page of lines for a screen, exactly as wide as its window, even if that is very narrow.
    pub(super) fn for_window(width: usize) -> Self {
        let look = TextStyle { width, colour: false };
        Self { width, table_width: width, screen: Some(Vec::new()), ..Self::new(look) }
    }

    pub(super) fn into_screen(self) -> Vec<LiveLine> {
        self.screen.unwrap_or_default()
    }

    /// A page that collects blocks, which have no width.
    pub(super) fn in_blocks() -> Self {
        let look = TextStyle { width: WIDEST_TABLE, colour: false };
        Self { blocks: Some(Vec::new()), ..Self::new(look) }
    }

    pub(super) fn into_blocks(self) -> Vec<Block> {
        self.blocks.unwrap_or_default()
    }

    /// Whether blocks are collected instead of lines.
    pub(super) fn keeps_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Stores a block. Does nothing if lines are printed, so callers check [`Page::keeps_blocks`]
    /// first.
    pub(super) fn keep(&mut self, block: Block) {
        if let Some(blocks) = &mut self.blocks {
            blocks.push(block);
        }
    }

    /// Maximum width of tables, which may be wider than prose.
    pub(super) fn table_width(&self) -> usize {
        self.table_width
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// An empty page of lines in the style of this one, to be appended to it.
    pub(super) fn part(&self) -> Self {
        let look = TextStyle { width: self.table_width, colour: self.colour };
        Self::new(look)
    }

    /// Adds the lines of a part.
    pub(super) fn append(&mut self, part: &Self) {
        self.out.push_str(&part.out);
    }

    /// Number of rows that a terminal needs for the page; a line that is wider than it takes several.
    pub(super) fn rows(&self) -> usize {
        let plain = COLOURS.iter().fold(self.out.clone(), |text, colour| text.replace(colour, ""));
        plain.lines().map(|line| line.width().div_ceil(self.table_width).max(1)).sum()
    }

    pub(super) fn line(&mut self, line: &Line) {
        if self.keeps_blocks() {
            return self.keep(Block::prose(Role::Plain, line.text().trim()));
        }
        if let Some(lines) = &mut self.screen {
            return lines.push(LiveLine { spans: line.cut(self.table_width) });
        }
        self.out.push_str(&line.render(self.table_width, self.colour));
        self.out.push('\n');
    }

    /// A line of a command, which is not cut if it is too wide: half of it would be another command.
    fn command_line(&mut self, line: &Line) {
        if self.keeps_blocks() || self.screen.is_some() {
            return self.line(line);
        }
        self.out.push_str(&line.render(usize::MAX, self.colour));
        self.out.push('\n');
    }

    /// Prints an empty line, unless there is one already or this is the beginning.
    pub(super) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Adds the title of a section, and a short remark about it.
    pub(super) fn heading(&mut self, title: &str, note: &str) {
        if self.keeps_blocks() {
            return self.keep(Block::Heading {
                title: title.to_owned(),
                note: make_printable_line(note.to_owned()),
            });
        }
        self.gap();
        let line = Line::indent(2).span(Role::Strong, title);
        if note.is_empty() {
            return self.line(&line);
        }
        self.hang(line.plain("   "), 4, Role::Quiet, note);
    }

    /// Adds a paragraph.
    pub(super) fn prose(&mut self, indent: usize, role: Role, text: &str) {
        self.hang(Line::indent(indent), indent, role, text);
    }

    /// Adds a bold label, with its content to the right.
    pub(super) fn fact(&mut self, label: &str, text: &str) {
        self.fact_in(label, Role::Plain, text);
    }

    /// Adds a label as [`Page::fact`] does, with the content in a colour.
    pub(super) fn fact_in(&mut self, label: &str, role: Role, text: &str) {
        if self.keeps_blocks() {
            return self.keep(Block::fact(label, role, [text]));
        }
        let start = Line::indent(2).span(Role::Strong, label).pad_to(FACTS - 1).plain(" ");
        self.hang(start, FACTS, role, text);
    }

    /// Adds short facts in a row, separated by dots; each stays on one line if possible.
    pub(super) fn items(&mut self, indent: usize, items: &[String]) {
        self.print_item_row(Line::indent(indent), indent, false, items);
    }

    /// Adds items as [`Page::items`] does, after `start`, which counts as one of the items.
    pub(super) fn hang_items(&mut self, start: Line, indent: usize, items: &[String]) {
        self.print_item_row(start, indent, true, items);
    }

    /// Adds a label, with a row of short facts to the right.
    pub(super) fn fact_items(&mut self, label: &str, items: &[String]) {
        if self.keeps_blocks() {
            return self.keep(Block::fact(label, Role::Plain, items));
        }
        let start = Line::indent(2).span(Role::Strong, label).pad_to(FACTS - 1).plain(" ");
        self.print_item_row(start, FACTS, false, items);
    }

    /// Adds items as [`Page::items`] does, after `start`, which is a label.
    pub(super) fn item_row(&mut self, start: Line, indent: usize, items: &[String]) {
        self.print_item_row(start, indent, false, items);
    }

    fn print_item_row(&mut self, start: Line, indent: usize, mut follows: bool, items: &[String]) {
        if self.keeps_blocks() {
            let first = Some(start.text().trim().to_owned()).filter(|text| !text.is_empty());
            let items =
                first.into_iter().chain(items.iter().map(|item| make_printable_line(item.clone())));
            return self.keep(Block::Items(items.collect()));
        }
        let mut line = start;
        for item in items.iter().map(|item| make_printable_line(item.clone())) {
            let dot = if follows { " · " } else { "" };
            if line.width() + dot.width() + item.width() <= self.width {
                line = line.plain(dot).plain(item);
            } else {
                if follows {
                    self.line(&line);
                    line = Line::indent(indent);
                }
                line = self.long_item(line, indent, &item);
            }
            follows = true;
        }
        self.line(&line);
    }

    /// Prints an item that may need several lines; the last line is returned, to continue it.
    fn long_item(&mut self, start: Line, indent: usize, item: &str) -> Line {
        let mut line = start;
        let mut parts = wrap(item, self.width.saturating_sub(line.width())).into_iter().peekable();
        while let Some(part) = parts.next() {
            line = line.plain(part);
            if parts.peek().is_some() {
                self.line(&line);
                line = Line::indent(indent);
            }
        }
        line
    }

    /// Adds `start`, then text whose further lines begin at column `indent`.
    pub(super) fn hang(&mut self, start: Line, indent: usize, role: Role, text: &str) {
        if self.keeps_blocks() {
            return self.keep(Block::prose(role, &format!("{}{text}", start.text().trim_start())));
        }
        let glued = glue_units(&make_printable_line(text.to_owned()));
        let first = " ".repeat(start.width());
        let rest = " ".repeat(indent);
        let options = Options::new(self.width)
            .initial_indent(&first)
            .subsequent_indent(&rest)
            .word_splitter(WordSplitter::NoHyphenation);
        let mut start = Some(start);
        for line in textwrap::wrap(&glued, options) {
            let (indent, head) = match start.take() {
                Some(start) => (first.len(), start),
                None => (rest.len(), Line::indent(rest.len())),
            };
            let text = line.get(indent..).unwrap_or_default();
            self.line(&head.span(role, text.replace(GLUE, " ")));
        }
    }

    /// Adds a command, continued with `\` if it is too long, so that it can be pasted. A comment
    /// that does not fit after it gets lines of its own, because a shell does not continue
    /// comments.
    pub(super) fn command(&mut self, start: Line, indent: usize, command: &str) {
        if self.keeps_blocks() {
            return self.keep(Block::Command(make_printable_line(command.to_owned())));
        }
        let whole = make_printable_line(command.to_owned());
        let (command, comment) = match (whole.strip_prefix("# "), whole.split_once("  # ")) {
            (Some(comment), _) => ("", Some(comment)),
            (None, Some((command, comment))) => (command, Some(comment)),
            (None, None) => (whole.as_str(), None),
        };
        let mut lines = self.command_lines(indent, command);
        lines.retain(|line| !line.is_empty());
        let beside = comment.map(|comment| format!("  # {comment}"));
        let fits = |end: &&mut String, beside: &String| {
            indent + end.width() + beside.width() <= self.width
        };
        let end = lines.last_mut().zip(beside).filter(|(end, beside)| fits(end, beside));
        let listed = end.map(|(end, beside)| end.push_str(&beside)).is_some();
        let mut head = start.pad_to(indent);
        for text in lines {
            self.command_line(&head.span(Role::Command, text));
            head = Line::indent(indent);
        }
        let comment = comment.filter(|_| !listed).unwrap_or_default();
        // the undo is a command, too, and stays whole
        let (comment, undo) = match comment.split_once("; undo with ") {
            Some((comment, undo)) => (comment, Some(format!("undo with {undo}"))),
            None => (comment, None),
        };
        let wrapped = wrap(comment, self.width.saturating_sub(indent + 2));
        for text in wrapped.into_iter().filter(|text| !text.is_empty()) {
            self.line(&head.span(Role::Quiet, format!("# {text}")));
            head = Line::indent(indent);
        }
        if let Some(undo) = undo {
            self.command_line(&Line::indent(indent).span(Role::Quiet, format!("# {undo}")));
        }
    }

    /// The command on lines that a shell reads as one. A word is never broken, however long: half a
    /// name may be the name of something else.
    fn command_lines(&self, indent: usize, command: &str) -> Vec<String> {
        if command.contains(GLUE) {
            return vec![command.to_owned()];
        }
        let room = self.width.saturating_sub(indent + 2).max(1);
        let options =
            Options::new(room).word_splitter(WordSplitter::NoHyphenation).break_words(false);
        let command = glue_steps(&glue_quoted(command), room);
        let mut lines: Vec<String> =
            textwrap::wrap(&command, options).iter().map(|line| line.replace(GLUE, " ")).collect();
        let last = lines.len().saturating_sub(1);
        lines[..last].iter_mut().for_each(|line| line.push_str(" \\"));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_pass() {
        use Role::{
            Anon, Command, Compressed, Critical, File, Good, Info, Kernel, Plain, Quiet, Shmem,
            Strong, Warning,
        };
        let all = [
            Plain, Strong, Quiet, Command, Critical, Warning, Info, Good, Anon, Shmem, File,
            Kernel, Compressed,
        ];
        for role in all {
            let text = format!("a\n{}\tb", add_style(role, "word", true));
            assert_eq!(escape_all_but_colours(&text), text);
        }
        let foreign = "\x1b[1mbold\x1b[8mhidden\x1b]0;title\x07\x1b[2J\x1b[31\u{202e}";
        assert_eq!(
            escape_all_but_colours(foreign),
            "\x1b[1mbold\\u{1b}[8mhidden\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{1b}[31\\u{202e}"
        );
    }

    fn render(width: usize, print: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::new(TextStyle { width, colour: false });
        print(&mut page);
        page.finish()
    }

    #[test]
    fn cutting_keeps_the_end_that_matters() {
        assert_eq!(clip("redis-server", 12), "redis-server");
        assert_eq!(clip("redis-server", 6), "redis…");
        assert_eq!(clip("漢字漢字", 6), "漢字…");
        assert_eq!(clip_start("/a/b/payload", 8), "…payload");
        assert_eq!(clip_start("/a", 8), "/a");
    }

    #[test]
    fn a_number_keeps_its_unit() {
        let wrapped = |text: &str| render(40, |page| page.prose(0, Role::Plain, text));
        assert_eq!(
            wrapped("this sentence breaks before 47.3 GiB, see"),
            "this sentence breaks before 47.3 GiB,\nsee\n"
        );
        assert_eq!(
            wrapped("this sentence must not break before 47.3 GiB"),
            "this sentence must not break before\n47.3 GiB\n"
        );
    }

    #[test]
    fn items_break_between_them_and_long_ones_inside() {
        let items = ["one fact of some length", "another fact", "third"].map(String::from);
        assert_eq!(
            render(40, |page| page.items(2, &items)),
            "  one fact of some length · another fact\n  third\n"
        );
        let long = ["a b ".repeat(15)];
        assert!(render(40, |page| page.items(2, &long)).lines().count() == 2);
    }

    #[test]
    fn a_long_command_can_be_pasted() {
        let command = "pagewise trial --a vm.swappiness=0 --b vm.swappiness=60";
        let text = render(40, |page| page.command(Line::indent(2), 2, command));
        assert_eq!(text, "  pagewise trial --a vm.swappiness=0 \\\n  --b vm.swappiness=60\n");
    }

    #[test]
    fn a_comment_that_does_not_fit_has_lines_that_begin_with_a_hash() {
        let command = "sudo systemctl set-property a.service X=1  # writes; lasts; undo with sudo systemctl \
             set-property a.service X=2";
        let text = render(46, |page| page.command(Line::indent(2), 2, command));
        assert_eq!(
            text,
            "  sudo systemctl set-property a.service X=1\n  # writes; lasts\n  \
             # undo with sudo systemctl set-property a.service X=2\n"
        );
        let text = render(40, |page| {
            page.command(Line::indent(2), 2, "true  # a b c d e f g h i j k l m n o p q r s t u");
        });
        assert_eq!(text, "  true\n  # a b c d e f g h i j k l m n o p q r\n  # s t u\n");
    }

    #[test]
    fn a_command_breaks_neither_in_a_word_nor_in_quotes() {
        let unit = format!("{}.service", "a-very-long-name-".repeat(8));
        let command = format!("sudo systemctl set-property {unit} MemoryMax=71M");
        let text = render(60, |page| page.command(Line::indent(2), 2, &command));
        assert!(text.contains(&unit), "{text}");
        for quoted in [
            "echo 71M | sudo tee '/sys/fs/cgroup/batch/some job with many spaces in it/memory.max'",
            r"grep -r . '/sys/fs/cgroup/it'\''s a job/with spaces' --include='memory.*' -s | head -60",
        ] {
            for width in 10..110 {
                let text = render(width, |page| page.command(Line::indent(2), 2, quoted));
                assert_eq!(text.trim().replace(" \\\n  ", " "), quoted, "{width}");
            }
        }
    }

    #[test]
    fn a_command_breaks_between_its_steps() {
        let command = "sudo mkswap /dev/zram0 && sudo swapon -p 100 /dev/zram0  # writes";
        let text = render(46, |page| page.command(Line::indent(2), 2, command));
        assert_eq!(
            text,
            "  sudo mkswap /dev/zram0 && \\\n  sudo swapon -p 100 /dev/zram0  # writes\n"
        );
    }

    #[test]
    fn a_line_never_shows_what_a_terminal_would_obey() {
        let text = render(40, |page| page.line(&Line::default().plain("a\x1b[2Jb\nc")));
        assert_eq!(text, "a\\u{1b}[2Jb c\n");
    }
}
