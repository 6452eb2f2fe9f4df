// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise merge`: the devices before and after a pass.
//!
//! Data written meanwhile is in the second number, so a device in use may hold more afterwards.

use pagewise_model::{Bytes, MergedDevice, Merging, Zram};

use super::kit::{Line, Page, Role};
use super::words::{format_reading, plural, seconds};
use crate::Merged;

pub(super) fn print(page: &mut Page, merged: &Merged<'_>) {
    let merge = merged.merge;
    if let Some(waited) = merge.waited_seconds {
        let text = format!("waited {} for a calm moment", seconds(waited));
        page.prose(0, Role::Quiet, &text);
    }
    for device in &merge.devices {
        let start = Line::default().span(Role::Strong, format!("merge of {}", device.name));
        page.hang_items(start, 2, &[outcome(device)]);
        if let Some(after) = &device.after {
            page.fact_items("  memory", &memory(&device.before, after));
            page.fact_items("  merged", &describe_totals(after));
        }
        if let Some(pages) = device.predicted_pages {
            page.fact("  predicted", &describe_prediction(pages, device));
        }
    }
    for left in &merge.left_out {
        page.fact("  left out", &format!("{}: {}", left.name, left.why));
    }
}

fn merged_pages(device: &Zram) -> Option<u64> {
    Some(device.merging.as_ref()?.merged_pages.get()?.get())
}

/// Describes how many pages the merge pass merged.
fn outcome(device: &MergedDevice) -> String {
    let Some(after) = &device.after else {
        return match device.seconds {
            Some(_) => "done, and the device is gone since".to_owned(),
            None => "started; `pagewise status` says how far it is".to_owned(),
        };
    };
    let more = merged_pages(&device.before).zip(merged_pages(after));
    let more = more.map_or(0, |(before, after)| after.saturating_sub(before));
    let took = device.seconds.map(|took| format!(" in {}", seconds(took))).unwrap_or_default();
    match more {
        0 if device.stopped => "stopped before it merged a page".to_owned(),
        some if device.stopped => format!("stopped after it merged {}", plural(some, "page")),
        0 => format!("no identical pages beyond those merged before{took}"),
        some => format!("{} merged{took}", plural(some, "page")),
    }
}

fn memory(before: &Zram, after: &Zram) -> Vec<String> {
    let mut items = Vec::new();
    if let Some((was, is)) = before.mm_stat.memory_used.get().zip(after.mm_stat.memory_used.get()) {
        items.push(describe_freed(was, is));
        items.push(format!("{was} → {is} for {} stored", format_reading(&after.mm_stat.original)));
    }
    let compacted = before.mm_stat.compacted_pages.get().zip(after.mm_stat.compacted_pages.get());
    let compacted = compacted.map(|(before, after)| after.get().saturating_sub(before.get()));
    items.extend(
        compacted
            .filter(|&pages| pages > 0)
            .map(|pages| format!("{} given back by compaction", plural(pages, "page"))),
    );
    items
}

fn describe_freed(was: Bytes, is: Bytes) -> String {
    if is > was {
        format!("{} more, written meanwhile", is.saturating_sub(was))
    } else {
        format!("{} freed", was.saturating_sub(is))
    }
}

/// Describes the total of what is shared now, and the memory that the index of merged pages needs.
fn describe_totals(after: &Zram) -> Vec<String> {
    let of = |merging: &Merging| {
        let (pages, bytes) = merging.merged_pages.get().zip(merging.merged_bytes.get())?;
        let pages = plural(pages.get(), "page");
        Some(vec![
            format!("{pages} in all share an object, which saves {bytes}"),
            format!("{} to count them", format_reading(&merging.index_bytes)),
        ])
    };
    after.merging.as_ref().and_then(of).unwrap_or_default()
}

/// Describes the number of duplicates counted before the merge pass, next to the number merged now.
fn describe_prediction(pages: u64, device: &MergedDevice) -> String {
    let mut counted =
        format!("{} with a copy, counted on the device before", plural(pages, "page"));
    if device.before.merging.as_ref().is_some_and(Merging::is_within_cgroups) {
        counted += " in all cgroups together";
    }
    match device.after.as_ref().and_then(merged_pages) {
        Some(merged) => {
            format!("{counted}; {} are merged now", pagewise_model::group_digits(merged))
        }
        None => counted,
    }
}
