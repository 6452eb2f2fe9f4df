// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of page walks, as counted by the CPU.

use pagewise_model::{Outcome, PageWalks, Reading};

use crate::text::kit::{Page, Role};
use crate::text::words::{plural, seconds};

/// Prints the cost of page walks: for single processes if they were `named`, otherwise for the
/// machine.
pub(super) fn print(page: &mut Page, walks: &PageWalks, named: bool) {
    if walks.is_blank() {
        page.heading("Page walks", "not counted");
        page.prose(4, Role::Warning, describe_reason(&walks.cycles));
        page.prose(4, Role::Quiet, CANARY);
        return;
    }
    let of = plural(walks.counted, if named { "thread" } else { "processor" });
    page.heading("Page walks", &format!("counted for {} on {of}", seconds(walks.seconds)));
    for (label, items) in [("  TLB misses", misses(walks)), ("  cycles", cycles(walks))] {
        if !items.is_empty() {
            page.fact_items(label, &items);
        }
    }
    describe_missing(walks).iter().for_each(|told| page.prose(4, Role::Quiet, told));
}

const CANARY: &str =
    "pagewise thp --canary measures an example of what huge pages save on this machine";

fn misses(walks: &PageWalks) -> Vec<String> {
    let kinds = [
        (&walks.load_misses, "loads"),
        (&walks.store_misses, "stores"),
        (&walks.fetch_misses, "fetches"),
    ];
    let describe = |(count, kind): &(&Reading<u64>, &str)| match walks.per_thousand(count) {
        Some(rate) => Some(format!("{rate:.2} {kind} of 1,000 instructions")),
        None => count.get().map(|count| format!("{count} {kind}")),
    };
    kinds.iter().filter_map(describe).collect()
}

fn cycles(walks: &PageWalks) -> Vec<String> {
    let walking = walks.walking_share().map(|share| {
        format!("{:.1} % spent walking, the most that huge pages could save", share.get())
    });
    let each = walks.per_thousand(&walks.cycles);
    let each = each.map(|cycles| format!("{:.2} for an instruction", cycles / 1000.0));
    walking.into_iter().chain(each).collect()
}

/// Describes what the numbers of page walks do not include.
fn describe_missing(walks: &PageWalks) -> Vec<String> {
    let left_out = (walks.left_out > 0)
        .then(|| format!("{} more were not counted: too many files would be open", walks.left_out));
    let user =
        walks.user_only.then(|| "without the kernel's work for them: root may count that".into());
    let turns = walks.counting.filter(|share| share.get() < 99.0);
    let turns = turns.map(|share| {
        format!(
            "counters took turns: each counted {:.0} % of the time, and was scaled",
            share.get()
        )
    });
    let walking = (walks.walking.get().is_none())
        .then(|| format!("time spent walking: {}", describe_reason(&walks.walking)));
    [left_out, user, turns, walking].into_iter().flatten().collect()
}

fn describe_reason(count: &Reading<u64>) -> &str {
    match &count.outcome {
        Outcome::Value(_) => "",
        Outcome::Absent(why) | Outcome::Denied(why) => why,
    }
}
