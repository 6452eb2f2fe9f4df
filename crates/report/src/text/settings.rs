// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that differ from the kernel's default, one line each.
//!
//! The same difference in several places (every zram device, every cgroup) is one line with a
//! count. Settings without a known default are left out. The settings of a configured DAMON are
//! only counted, because all of them differ from an unconfigured one.

use pagewise_model::knob::{Domain, KnobReading};
use pagewise_model::{Bytes, Name, Reading};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{count, plural};

const SHOWN: usize = 15;

/// One setting with one value, and the instances that have it.
#[derive(Debug)]
struct Difference<'a> {
    name: &'static str,
    live: &'a str,
    default: &'static str,
    domain: &'static Domain,
    instances: Vec<&'a str>,
}

pub(super) fn print(page: &mut Page, knobs: &[KnobReading]) {
    let known = knobs.iter().filter(|knob| knob.default.is_some() && knob.live.value().is_some());
    let (of_damon, all): (Vec<_>, Vec<_>) =
        differences(knobs).into_iter().partition(|difference| difference.name.starts_with(DAMON));
    if all.is_empty() {
        return print_unchanged(page, known.count() as u64 - of_damon.len() as u64, of_damon.len());
    }
    page.heading("Settings", "that differ from the kernel's default");
    let columns = vec![
        Column::name("setting"),
        Column::path("of").spare(1),
        Column::name("is"),
        Column::name("default"),
    ];
    let mut table = Table::new(4, columns);
    all.iter().take(SHOWN).for_each(|difference| table.row(row(difference)));
    table.print(page);
    if all.len() > SHOWN {
        let rest = count((all.len() - SHOWN) as u64);
        page.prose(4, Role::Quiet, &format!("and {rest} more: {LISTED}"));
    }
    if !of_damon.is_empty() {
        page.prose(4, Role::Quiet, &format!("and {}: {LISTED}", describe_set_up(of_damon.len())));
    }
}

/// Prefix of the settings of a DAMON configured through sysfs; those of its modules begin with
/// `damon_`.
const DAMON: &str = "damon.";

const LISTED: &str = "pagewise report --json lists all";

fn describe_set_up(number: usize) -> String {
    format!("{} of the DAMON that somebody set up", count(number as u64))
}

fn print_unchanged(page: &mut Page, known: u64, of_damon: usize) {
    let mut parts = Vec::new();
    parts.extend((known > 0).then(|| format!("{} have the kernel's default", count(known))));
    parts.extend(
        (of_damon > 0).then(|| format!("but not {} ({LISTED})", describe_set_up(of_damon))),
    );
    if !parts.is_empty() {
        page.gap();
        page.fact("Settings", &parts.join(", "));
    }
}

fn differences(knobs: &[KnobReading]) -> Vec<Difference<'_>> {
    let mut all: Vec<Difference<'_>> = Vec::new();
    for knob in knobs {
        let Some((live, default)) = difference(knob) else { continue };
        let name = knob.knob.name;
        let instance = knob.instance.as_ref().map(Name::as_str);
        match all.iter_mut().find(|known| known.name == name && known.live == live) {
            Some(known) => known.instances.extend(instance),
            None => all.push(Difference {
                name,
                live,
                default,
                domain: &knob.knob.domain,
                instances: instance.into_iter().collect(),
            }),
        }
    }
    let listed = all.iter().any(|difference| difference.name == POOLS);
    all.retain(|difference| !(listed && AGAIN.contains(&difference.name)));
    all
}

/// The pools of each page size, and settings that show the same pools again.
const POOLS: &str = "hugetlb.nr_hugepages";
const AGAIN: [&str; 4] = [
    "vm.nr_hugepages",
    "vm.nr_hugepages_mempolicy",
    "hugetlb.nr_hugepages_mempolicy",
    "hugetlb.node.nr_hugepages",
];

/// The setting's live value and its default, if both are known and differ.
fn difference(knob: &KnobReading) -> Option<(&str, &'static str)> {
    let live = active_value(&knob.live)?;
    let default = knob.default?;
    let (one, other) = match knob.knob.domain {
        Domain::Bool => (normalize_switch(live), normalize_switch(default)),
        _ => (live, default),
    };
    (one != other).then_some((live, default))
}

/// The active value of a setting: the word in brackets if there are several choices.
fn active_value(live: &Reading<Name>) -> Option<&str> {
    let text = live.value()?.as_str();
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Some(bracketed.map_or(text, |(inside, _)| inside))
}

/// Spells the value of a switch as 1 or 0, so that equal values compare as equal.
fn normalize_switch(word: &str) -> &str {
    match word {
        "Y" | "y" | "true" => "1",
        "N" | "n" | "false" => "0",
        other => other,
    }
}

fn row(difference: &Difference<'_>) -> Vec<Cell> {
    let place = match difference.instances.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        several => plural(several.len() as u64, "place"),
    };
    vec![
        Cell::new(Role::Strong, difference.name),
        Cell::new(Role::Quiet, place),
        spell(difference.domain, difference.live).into(),
        Cell::new(Role::Quiet, spell(difference.domain, difference.default)),
    ]
}

/// Formats a setting's value; sizes with their unit.
fn spell(domain: &Domain, value: &str) -> String {
    let is_size = matches!(domain, Domain::Size | Domain::Limit);
    let bytes = value.parse().ok().filter(|_| is_size).map(Bytes::new);
    bytes.map_or_else(|| value.to_owned(), |bytes| bytes.to_string())
}
