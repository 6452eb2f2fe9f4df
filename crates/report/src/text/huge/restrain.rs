// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp restrain`: the share of zeros in huge pages, and what was done about it.

use pagewise_model::Restrain;

use crate::Restrained;
use crate::text::kit::{Line, Page, Role};
use crate::text::words::{count, plural};

pub(in crate::text) fn print(page: &mut Page, done: &Restrained<'_>) {
    let restrain = done.restrain;
    let targets = match restrain.processes.as_slice() {
        [one] => format!("{} (pid {})", one.name, one.pid),
        many => plural(many.len() as u64, "process"),
    };
    let start = Line::default().span(Role::Strong, format!("huge pages of {targets}"));
    page.hang_items(start, 2, &describe_found(restrain));
    let split = split(restrain);
    if !split.is_empty() {
        page.fact_items("  split", &split);
    }
    for process in &restrain.processes {
        if let Some(why) = &process.left_out {
            page.prose(2, Role::Warning, why);
        }
    }
    if let Some(why) = &restrain.partial {
        page.prose(2, Role::Warning, &format!("partial: {why}"));
    }
    if restrain.bloated > 0 {
        print_advice(page, done);
    }
}

fn describe_found(restrain: &Restrain) -> Vec<String> {
    vec![
        format!("{} read", count(restrain.huge_pages)),
        format!("{} are zeros for more than half", count(restrain.bloated)),
        format!("{} of zeros in those", restrain.zeros_in_bloated),
        format!("{} in all", restrain.zeros),
    ]
}

fn split(restrain: &Restrain) -> Vec<String> {
    let Some(split) = restrain.split else { return Vec::new() };
    let mut items = vec![plural(split, "huge page")];
    if let Some((before, after)) = restrain.memory_before.zip(restrain.memory_after) {
        items.push(format!("proportional size {before} → {after}"));
        if split > 0 && after >= before {
            items.push("nothing was freed: this kernel keeps pages of zeros when it splits".into());
        }
    }
    items
}

/// Prints whether the kernel itself splits huge pages that are mostly zeros, and the two settings
/// for it.
fn print_advice(page: &mut Page, done: &Restrained<'_>) {
    let thp = &done.snapshot.thp;
    let none = thp.khugepaged.max_ptes_none.get();
    let text = match (thp.shrink_underused.get(), none) {
        (None, _) => {
            "This kernel has no shrink_underused: it never splits such pages by itself.".to_owned()
        }
        (Some(true), Some(none)) if none < 511 => format!(
            "The kernel splits pages with more than {none} small pages of zeros by itself, when \
             memory is short."
        ),
        _ => {
            "The kernel would split them by itself when memory is short, with max_ptes_none below \
              511 and shrink_underused on; khugepaged then leaves such memory alone, too:"
                .to_owned()
        }
    };
    page.prose(2, Role::Plain, &text);
    if text.ends_with(':') {
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let none = format!("echo 64 | sudo tee {folder}/khugepaged/max_ptes_none");
        let shrink = format!("echo 1 | sudo tee {folder}/shrink_underused");
        page.command(Line::indent(4), 4, &none);
        page.command(Line::indent(4), 4, &shrink);
    }
}
