// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first and the last line of a page: the machine, the time, and the cost of reading.

use jiff::Timestamp;
use pagewise_model::{Bytes, Copies, CopiesKind, Name, Snapshot};

use super::kit::{Line, Page, Role};
use super::limits;
use super::words::{join_words, plural, seconds};
use crate::{Answer, time};

/// Prints the first line: `pagewise report · web-07 · Linux 6.12.107 · 62.8 GiB RAM · …`.
pub(super) fn print(page: &mut Page, verb: &str, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    let mut items = machine(snapshot);
    items.extend(describe_time_and_cost(answer));
    let start = Line::default().span(Role::Strong, format!("pagewise {verb}"));
    page.hang_items(start, 2, &items);
    let missing: Vec<String> = limits::missing(snapshot).into_iter().map(str::to_owned).collect();
    let copies = snapshot.host.copies.as_ref().map(copies);
    let missing = match missing.as_slice() {
        [] => String::new(),
        missing => format!(", without: {}", join_words(missing)),
    };
    if copies.is_some() || !missing.is_empty() {
        let source = copies.unwrap_or_default();
        let text = format!("These are copies of some files of a machine{source}{missing}.");
        page.prose(2, Role::Quiet, &text);
    }
}

/// Says which tool collected the files of a recording, and when: ` in an sosreport of Fri Nov 27
/// 09:12:44 UTC 2026`.
fn copies(copies: &Copies) -> String {
    let kind = match copies.kind {
        CopiesKind::Sosreport => " in an sosreport",
        CopiesKind::Supportconfig => " in a supportconfig",
        CopiesKind::Folder => "",
    };
    match (kind, copies.date.value()) {
        (kind, None) => kind.to_owned(),
        ("", Some(date)) => format!(", made {date}"),
        (kind, Some(date)) => format!("{kind} of {date}"),
    }
}

/// The machine in a few words.
pub fn machine(snapshot: &Snapshot) -> Vec<String> {
    let host = &snapshot.host;
    let mut items = Vec::new();
    items.extend(host.name.value().map(ToString::to_string));
    items.extend(snapshot.taken.kernel.value().map(|kernel| format!("Linux {kernel}")));
    items.extend(snapshot.memory.total.get().map(|total| format!("{total} RAM")));
    items.extend(host.cpus.get().map(|cpus| plural(cpus.into(), "CPU")));
    items.extend(host.virtualization.value().map(virtualization_label));
    items.extend(host.container.value().map(|kind| format!("in a container ({kind})")));
    items
}

fn virtualization_label(kind: &Name) -> String {
    match kind.as_str() {
        "vm-other" => "a virtual machine".to_owned(),
        kind => format!("{kind} guest"),
    }
}

fn describe_time_and_cost(answer: &Answer<'_>) -> Vec<String> {
    let snapshot = &answer.interval.end;
    let mut items = Vec::new();
    items.extend(recording(snapshot).map(|path| format!("recording {path}")));
    items.extend(taken(snapshot));
    let (wall, cpu) = (answer.cost.wall_seconds, answer.cost.cpu_seconds);
    items.push(format!("took {}, {} CPU", seconds(wall), seconds(cpu)));
    items
}

/// The recording's path; `None` for the machine itself.
fn recording(snapshot: &Snapshot) -> Option<&str> {
    Some(snapshot.host.root.as_str()).filter(|root| !matches!(*root, "" | "live"))
}

/// When the snapshot was taken, in UTC.
pub fn taken(snapshot: &Snapshot) -> Option<String> {
    time::time_of(snapshot).map(minute)
}

fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Prints what reading cost pagewise itself; with the peak memory if that is known.
pub(super) fn print_cost(page: &mut Page, answer: &Answer<'_>) {
    let cost = answer.cost;
    let from = if recording(&answer.interval.end).is_some() { "recording" } else { "kernel" };
    let mut parts = vec![
        format!("{} of CPU time", seconds(cost.cpu_seconds)),
        format!("{} read from the {from}", Bytes::new(cost.bytes_read)),
    ];
    let peak = cost.peak_memory_bytes;
    parts.extend((peak.get() > 0).then(|| format!("{peak} of memory at most")));
    page.gap();
    page.prose(2, Role::Quiet, &format!("This look cost {}.", join_words(&parts)));
}
