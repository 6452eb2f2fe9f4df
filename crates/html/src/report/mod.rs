// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The HTML page of `pagewise report`: first the verdict and the findings, then all sections with
//! their charts.
//!
//! The sections are the same blocks as in the terminal; see [`pagewise_report::text::section`]. In
//! addition, the page has charts, the effective memory, processes and cgroups in several orders,
//! and OOM kills.

mod findings;

pub(crate) use findings::findings;

use pagewise_model::{EffectiveMemory, Outcome, Snapshot};
use pagewise_report::Answer;
use pagewise_report::text::{self, Block};
use pagewise_report::view::{Field, ProcessView, Section, Sort, View};

use crate::blocks::{Writer, class, format_element};
use crate::figure;
use crate::page::{escape, page};

/// Returns the complete report as a page. Only two things in `view` are used: the number of rows,
/// and the reason why no page contents were read.
pub fn report_page(answer: &Answer<'_>, view: &View) -> String {
    let snapshot = &answer.interval.end;
    let name = snapshot.host.name.value().map_or("this machine", |name| name.as_str());
    let title = format!("Memory of {name}");
    let chapters: Vec<Chapter> = chapters(answer, view);
    let mut body = head(&title, snapshot);
    body += &verdict(answer, &text::verdict(answer));
    body += &format_tiles(answer);
    let (first, others) = chapters.split_at(usize::from(!answer.findings.is_empty()));
    first.iter().for_each(|chapter| body += &chapter.html());
    body += &format_contents(&chapters);
    others.iter().for_each(|chapter| body += &chapter.html());
    body += &footer("report", answer);
    page(&title, &body)
}

/// A part of the page that has its own heading.
struct Chapter {
    id: &'static str,
    title: &'static str,
    body: String,
    /// Whether the chapter is collapsed until the reader opens it; used for long lists.
    closed: bool,
}

impl Chapter {
    fn html(&self) -> String {
        let Self { id, title, body, closed } = self;
        let body = if *closed {
            format!("<details><summary>Show: {title}</summary>\n{body}</details>\n")
        } else {
            body.clone()
        };
        format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{title}</h2>\n{body}</section>\n"
        )
    }
}

/// Formats the head of a page: its title, the machine, and when it was read.
pub(crate) fn head(title: &str, snapshot: &Snapshot) -> String {
    let mut items = text::machine(snapshot);
    items.extend(text::taken(snapshot));
    format!(
        "<header><h1>{}</h1>\n<p class=\"quiet\">{}</p></header>\n",
        escape(title),
        escape(&items.join(" · "))
    )
}

/// Formats the most important numbers as tiles, side by side.
fn format_tiles(answer: &Answer<'_>) -> String {
    let tile = |(value, meaning): &(String, String)| {
        format!("<li><strong>{}</strong><span>{}</span></li>\n", escape(value), escape(meaning))
    };
    let tiles: String = text::deciding_numbers(answer).iter().map(tile).collect();
    format!("<ul class=\"tiles\">\n{tiles}</ul>\n")
}

/// Formats the verdict: its level, its sentences in the colours of their levels, and then all
/// `blocks` except the first, which is the verdict as text.
pub(crate) fn verdict(answer: &Answer<'_>, blocks: &[Block]) -> String {
    let sentences = text::verdict_sentences(answer);
    let (label, role) = text::level(answer);
    let mut text = String::new();
    let mut rest = blocks;
    if !sentences.is_empty() && !label.is_empty() {
        let spans = sentences
            .iter()
            .map(|(role, text)| format_element("span", class(*role), &escape(text)));
        let spans: Vec<String> = spans.collect();
        let level = format_element("span", "tag", label);
        text = format_element(
            "p",
            &format!("verdict {}", class(role)),
            &format!("{level} {}", spans.join(" ")),
        );
        text.push('\n');
        rest = blocks.get(1..).unwrap_or_default();
    }
    for block in rest {
        let Block::Prose(line) = block else { continue };
        let class = match class(line.role) {
            "" => String::new(),
            role => format!("verdict {role}"),
        };
        text += &format_element("p", &class, &escape(&line.text));
    }
    text
}

/// Formats a table of contents with links to all chapters.
fn format_contents(chapters: &[Chapter]) -> String {
    let link =
        |chapter: &Chapter| format!("<li><a href=\"#{}\">{}</a></li>", chapter.id, chapter.title);
    let links: String = chapters.iter().map(link).collect();
    format!("<nav aria-label=\"Sections\"><ul>{links}</ul></nav>\n")
}

pub(crate) fn footer(verb: &str, answer: &Answer<'_>) -> String {
    let mut writer = Writer::with_title("");
    writer.write_blocks(&text::circumstances(verb, answer));
    format!("<footer class=\"quiet\">\n{}</footer>\n", writer.finish())
}

/// Returns the chapters in the order of the page.
fn chapters(answer: &Answer<'_>, view: &View) -> Vec<Chapter> {
    let snapshot = &answer.interval.end;
    let findings = Chapter {
        id: "findings",
        title: "Findings",
        body: findings(answer.findings),
        closed: false,
    };
    let effective = Chapter {
        id: "effective",
        title: "Effective memory",
        body: format_effective_memory(snapshot),
        closed: false,
    };
    let kills = Chapter { id: "oom", title: "OOM kills", body: kills(snapshot), closed: false };
    let part = |id, title, section, closed| {
        let body = section_with_charts(answer, view, section, title);
        Chapter { id, title, body, closed }
    };
    let all = [
        findings,
        part("memory", "Where memory is", Section::Memory, false),
        effective,
        part("swap", "Swap tiers", Section::Swap, false),
        part("contents", "What compressing would save", Section::Contents, false),
        part("movement", "Movement", Section::Movement, false),
        part("pressure", "Pressure", Section::Pressure, false),
        part("zones", "Zones", Section::Zones, false),
        part("zram", "zram", Section::Zram, false),
        part("thp", "Huge pages", Section::Thp, false),
        part("savers", "zswap, KSM, MGLRU and DAMON", Section::Savers, false),
        format_tables(answer, view, "cgroups", "Memory cgroups", Section::Cgroups),
        format_tables(answer, view, "processes", "Processes", Section::Processes),
        kills,
        part("settings", "Settings", Section::Settings, true),
        part("owners", "Settings that files set", Section::Owners, true),
        part("missing", "What could not be read", Section::Missing, true),
    ];
    let (told, empty): (Vec<Chapter>, Vec<Chapter>) =
        all.into_iter().partition(|chapter| !chapter.body.is_empty());
    told.into_iter().chain(chapter_of_empty(&empty)).collect()
}

/// Returns a chapter that lists the chapters without content; `None` if there are none.
fn chapter_of_empty(empty: &[Chapter]) -> Option<Chapter> {
    let names: Vec<&str> = empty.iter().map(|chapter| chapter.title).collect();
    let body =
        format!("<p>This host has nothing of these, or does not say: {}.</p>\n", names.join("; "));
    (!names.is_empty()).then_some(Chapter { id: "nothing", title: "Not shown", body, closed: true })
}

fn section_with_charts(
    answer: &Answer<'_>,
    view: &View,
    section: Section,
    title: &'static str,
) -> String {
    let mut writer = Writer::with_title(title);
    let blocks = text::section(answer, view, section);
    let (heading, rest) =
        blocks.split_at(usize::from(matches!(blocks.first(), Some(Block::Heading { .. }))));
    // the chapter's title may say more than the title in the terminal
    if let Some(Block::Heading { note, .. }) = heading.first() {
        writer.write_block(&Block::Heading { title: title.to_owned(), note: note.clone() });
    }
    let snapshot = &answer.interval.end;
    if let Some(svg) = chart(snapshot, section) {
        writer.write_figure(&svg);
    }
    if section == Section::Zram {
        let charts = figure::draw_size_classes(snapshot.compressed_devices(), snapshot.page_size());
        charts.iter().for_each(|svg| writer.write_figure(svg));
    }
    writer.write_blocks(rest);
    writer.finish()
}

fn chart(snapshot: &Snapshot, section: Section) -> Option<String> {
    match section {
        Section::Pressure => figure::draw_pressure(&snapshot.psi),
        Section::Zones => figure::draw_zones(snapshot),
        Section::Zram => figure::draw_zram(snapshot.compressed_devices()),
        Section::Thp => figure::draw_huge_pages(&snapshot.memory),
        _ => None,
    }
}

/// Formats the effective memory, in sentences and as a chart; if it is not known, says why.
fn format_effective_memory(snapshot: &Snapshot) -> String {
    let why = match snapshot.effective_memory().outcome {
        Outcome::Value(memory) => return format_known_effective_memory(&memory),
        Outcome::Absent(why) => why,
        Outcome::Denied(help) => help,
    };
    format!("<p>Not known: {}.</p>\n", escape(&why))
}

fn format_known_effective_memory(memory: &EffectiveMemory) -> String {
    let Some(ratio) = memory.stored_per_pool().filter(|_| memory.stored.get() > 0) else {
        return format!(
            "<p>Nothing is stored compressed: the {} in use are what programs and the kernel have.</p>\n",
            memory.in_use
        );
    };
    let percent =
        memory.of_ram().map(|share| format!(" ({} of RAM)", share.format_share_of_time()));
    format!(
        "{}<p>{} of memory are stored compressed in {} ({:.2} to 1). Without compression, {}{} would be in use \
         instead of {}.</p>\n<p class=\"quiet\">In use: what the kernel does not count as available \
         (MemTotal without MemAvailable).</p>\n",
        figure::draw_effective_memory(memory).unwrap_or_default(),
        memory.stored,
        memory.pool,
        ratio.get(),
        memory.uncompressed_size(),
        percent.unwrap_or_default(),
        memory.in_use
    )
}

fn kills(snapshot: &Snapshot) -> String {
    let mut writer = Writer::with_title("OOM kills");
    for block in text::oom_kills(snapshot) {
        if let (Block::Table(_), Some(svg)) = (&block, figure::draw_kills(&snapshot.kernel_log)) {
            writer.write_figure(&svg);
        }
        writer.write_block(&block);
    }
    writer.finish()
}

/// The orders of the process table, except for the order by size, with their names.
const ORDERS: [(Sort, &str); 4] = [
    (Sort::Swap, "by memory in swap"),
    (Sort::Growth, "by growth"),
    (Sort::Refaults, "by faults"),
    (Sort::Cpu, "by CPU time"),
];

/// Formats a table that is sorted by size, and another one for each further order for which any row
/// has a value.
fn format_tables(
    answer: &Answer<'_>,
    view: &View,
    id: &'static str,
    title: &'static str,
    section: Section,
) -> Chapter {
    let mut body = section_with_charts(answer, view, section, title);
    for (sort, order) in ORDERS {
        let view =
            View { rows: view.rows, processes: Some(view_sorted_by(sort)), ..View::default() };
        // for cgroups, the order by CPU time would be the same as the order by size
        let is_new = section == Section::Processes || sort != Sort::Cpu;
        let blocks = text::section(answer, &view, section);
        if is_new && blocks.iter().any(|block| matches!(block, Block::Table(_))) {
            let mut writer = Writer::with_title(&format!("{title} {order}"));
            writer.write_blocks(&move_note_to_caption(blocks, &body));
            body += &format!("<h3>{title} {order}</h3>\n{}", writer.finish());
        }
    }
    Chapter { id, title, body, closed: false }
}

/// Makes the note of the heading the caption of the table, and removes sentences that are already
/// on the page.
fn move_note_to_caption(mut blocks: Vec<Block>, before: &str) -> Vec<Block> {
    blocks.retain(|block| match block {
        Block::Prose(text) => !before.contains(&escape(&text.text)),
        _ => true,
    });
    for block in &mut blocks {
        if let Block::Heading { title, .. } = block {
            title.clear();
        }
    }
    blocks
}

fn view_sorted_by(sort: Sort) -> ProcessView {
    use Field::{Command, Cpu, Faults, Growth, Pid, Pss, Resident, Swap, Unit};
    let mut fields = vec![Pid, Command, Unit, Resident, Pss, Swap, Growth];
    match sort {
        Sort::Cpu => fields.push(Cpu),
        Sort::Refaults => fields.push(Faults),
        Sort::Size | Sort::Swap | Sort::Growth => {}
    }
    ProcessView { sort, fields, ..ProcessView::default() }
}
