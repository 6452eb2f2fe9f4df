// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `why`: what the terminal shows, and pictures of the same time.

use pagewise_model::{Incident, Snapshot};
use pagewise_report::course::{CoursePoint, MemoryCourse};
use pagewise_report::text::{self, Block, Role, TextCell, TextTable};

use crate::blocks::{Writer, class};
use crate::chart;
use crate::figure::class_of_use;
use crate::page::{escape, page};
use crate::report::head;

const TITLE: &str = "What happened to memory";

/// Returns the self-contained HTML page of `why`. `last` is the last reading that was examined.
pub fn why_page(incident: &Incident, course: &MemoryCourse, last: &Snapshot) -> String {
    let blocks = text::incident_blocks(incident);
    let is_heading = |block: &Block| matches!(block, Block::Heading { .. });
    let (first, rest) = blocks.split_at(blocks.iter().position(is_heading).unwrap_or(blocks.len()));
    let body = [
        head(TITLE, last),
        verdict(incident, first),
        pictures(incident, course),
        written(rest),
        written(&[uses_heading(incident), Block::Table(uses(incident, course))]),
    ];
    page(TITLE, &body.concat())
}

fn written(blocks: &[Block]) -> String {
    let mut writer = Writer::of_page(TITLE);
    writer.write_blocks(blocks);
    writer.finish()
}

/// Formats the verdict as on other pages, and what else stands before the first heading.
fn verdict(incident: &Incident, blocks: &[Block]) -> String {
    let Some(trouble) = &incident.trouble else { return written(blocks) };
    let (label, role) = text::level_label(trouble.level);
    let sentence = format!(
        "<p class=\"verdict {}\"><span class=\"tag\">{label}</span> {}</p>\n",
        class(role),
        escape(&trouble.line)
    );
    // the verdict is the first sentence of these blocks
    let mut is_first = true;
    let others = blocks.iter().filter(|block| {
        let is_verdict = matches!(block, Block::Prose(_)) && std::mem::take(&mut is_first);
        !is_verdict
    });
    sentence + &written(&others.cloned().collect::<Vec<Block>>())
}

fn pictures(incident: &Incident, course: &MemoryCourse) -> String {
    let charts = chart::draw_incident(incident, course);
    if charts.is_empty() {
        return String::new();
    }
    let legend: String = course.uses().into_iter().rev().map(legend_item).collect();
    let lines = chart::KILL_LINES;
    let caption = format!(
        "Thin lines from top to bottom: begin and end of the trouble. Red lines: kills, if there are at \
         most {lines}. Nothing is drawn for a time without readings. If there are more readings than fit, the \
         worst of each few seconds is drawn."
    );
    let missing = missing(course);
    let (memory, others) = charts.split_at(1);
    format!(
        "<figure>\n{}\n<figcaption><ul class=\"items\">{legend}</ul></figcaption>\n</figure>\n\
         <figure>\n{}\n<figcaption>{caption}{missing}</figcaption>\n</figure>\n",
        memory.concat(),
        others.join("\n"),
    )
}

fn legend_item((name, role): (&str, Role)) -> String {
    let class = class_of_use(name, role);
    format!("<li><span class=\"swatch {class}\"></span>{}</li>", escape(name))
}

/// Says which pictures are missing, and why.
fn missing(course: &MemoryCourse) -> String {
    let mut text = String::new();
    let has = |pick: fn(&CoursePoint) -> bool| course.points.iter().any(pick);
    if !has(|point| point.some_percent.is_some()) {
        text += " Pressure is not drawn, because fewer than two readings have it.";
    }
    if !has(|point| point.swap_size.is_some()) {
        text += " Swap is not drawn, because no reading has it.";
    } else if !has(|point| point.swap_size.is_some_and(|size| size.get() > 0)) {
        text += " There was no swap.";
    }
    text
}

fn uses_heading(incident: &Incident) -> Block {
    let note = match &incident.trouble {
        Some(trouble) if trouble.growth_to_unix_seconds < trouble.worst_unix_seconds => {
            "at a calm reading before the trouble, and at the last reading before the kill (UTC)"
        }
        Some(_) => "at a calm reading before the trouble, and at the worst reading (UTC)",
        None => "at the first and at the last reading (UTC)",
    };
    Block::Heading { title: "What RAM was used for".to_owned(), note: note.to_owned() }
}

/// The uses of memory at the two readings between which growth is computed; without a trouble, at
/// the first and the last reading.
fn uses(incident: &Incident, course: &MemoryCourse) -> TextTable {
    let ends = course.ends().unwrap_or_default();
    let [before, after] = match &incident.trouble {
        Some(trouble) => [trouble.growth_from_unix_seconds, trouble.growth_to_unix_seconds],
        None => ends,
    };
    let points = [before, after].map(|time| course.at(time));
    let time = |point: Option<&CoursePoint>| {
        point.map_or_else(String::new, |it| text::format_clock(it.unix_seconds))
    };
    let size = |point: Option<&CoursePoint>, name: &str| {
        let uses = point.map(|point| &point.uses[..]).unwrap_or_default();
        let size = uses.iter().find(|it| it.name == name).map(|it| it.bytes.to_string());
        TextCell { text: size.unwrap_or_else(|| "–".to_owned()), ..TextCell::default() }
    };
    let row = |(name, _): (&'static str, Role)| {
        let name_cell = TextCell { text: name.to_owned(), ..TextCell::default() };
        let [before, after] = points.map(|point| size(point, name));
        vec![name_cell, before, after]
    };
    let [before, after] = points.map(time);
    TextTable {
        columns: vec![("use".to_owned(), false), (before, true), (after, true)],
        rows: course.uses().into_iter().map(row).collect(),
    }
}
