// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duplicate pages: how many there are, what merging them would save in compressed RAM and with
//! KSM, and which contents occur most.

use pagewise_model::{Bytes, Contents, Ends, Estimate, MemoryKind, Outcome, Repeated};

use super::kit::{Page, Role};
use super::words::{plural, share};

/// Describes duplicates in a few words, for the line about kinds of pages.
pub(super) fn describe_in_short(whole: &Estimate) -> String {
    let pages = match &whole.duplicate_pages.outcome {
        Outcome::Value(0) => return "duplicates none".to_owned(),
        Outcome::Value(pages) => *pages,
        Outcome::Absent(why) | Outcome::Denied(why) => return format!("duplicates unknown: {why}"),
    };
    let of_all = |pages| share(pages, whole.pages).unwrap_or_default();
    let ends = whole.duplicate_pages_interval.filter(|[low, high]| low < high);
    let between = ends.map(|ends| {
        let [low, high] = ends.map(|pages| pages as f64 * 100.0 / whole.pages.max(1) as f64);
        format!(" ({low:.1} to {high:.1} %)")
    });
    let within = whole.duplicate_pages_within.get().filter(|within| *within < pages);
    let within = within.map(|within| format!(", {} within one process", of_all(within)));
    format!(
        "duplicates {} of pages{}{}",
        of_all(pages),
        between.unwrap_or_default(),
        within.unwrap_or_default()
    )
}

/// Prints the savings by merging, and the most frequent contents.
pub(super) fn print(page: &mut Page, whole: &Estimate) {
    if let Some(saved) = whole.duplicate_saved_bytes.get() {
        page.items(2, &merging(whole, saved));
    }
    let repeated = whole.most_repeated.as_deref().unwrap_or_default();
    if !repeated.is_empty() {
        let named: Vec<String> = repeated.iter().map(|one| name_contents(whole, one)).collect();
        page.prose(2, Role::Plain, &format!("most repeated: {}", named.join("; ")));
    }
}

fn merging(whole: &Estimate, saved: Bytes) -> Vec<String> {
    let mut items = Vec::new();
    let any = whole.duplicate_pages.get().is_some_and(|pages| pages > 0);
    if let Some(first) = whole.algorithms.first().filter(|_| any) {
        let all = first.compressed_bytes;
        let of_all = share(saved.get(), all.get()).unwrap_or_else(|| "0 %".to_owned());
        items.push(format!(
            "merging them in compressed RAM would save {saved}{} of the {all} with {} ({of_all})",
            whole.duplicate_saved_bytes_interval.map(format_range).unwrap_or_default(),
            first.name
        ));
    }
    if let Some(bytes) = whole.ksm_saved_bytes.get().filter(|bytes| *bytes > Bytes::new(0)) {
        items.push(format!(
            "KSM would save {bytes} of RAM: it merges only anonymous pages, including same-filled pages"
        ));
    }
    items
}

fn format_range([low, high]: Ends<Bytes>) -> String {
    if low < high { format!(" ({low} to {high})") } else { String::new() }
}

/// Describes contents that occur often: `zeros 20 times in 2 processes (anonymous)`.
fn name_contents(whole: &Estimate, repeated: &Repeated) -> String {
    let what = match repeated.contents {
        Contents::Zeros => "zeros",
        Contents::SameFilled => "a same-filled page",
        Contents::Other => "a page",
    };
    let of_processes = !matches!(whole.source.kind.as_str(), "file" | "device" | "core");
    let in_many = (of_processes && repeated.sources > 1)
        .then(|| format!(" in {}", plural(repeated.sources, "process")));
    let kinds: Vec<&str> = repeated.kinds.iter().map(|kind| kind_word(*kind)).collect();
    let kinds = of_processes.then(|| format!(" ({})", kinds.join(", ")));
    format!(
        "{what} {} times{}{}",
        pagewise_model::group_digits(repeated.copies),
        in_many.unwrap_or_default(),
        kinds.unwrap_or_default()
    )
}

fn kind_word(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Anonymous => "anonymous",
        MemoryKind::Shmem => "shmem",
        MemoryKind::File => "file",
        MemoryKind::Stored => "stored",
    }
}
