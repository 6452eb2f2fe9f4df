// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that differ from the kernel's default, one line each.
//!
//! The same difference in many places (every zram device, every cgroup) is one line that counts
//! them. Settings without a known default are left out: nothing can be said about them.

use pagewise_model::knob::{Domain, KnobReading};
use pagewise_model::{Name, Reading};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{count, plural};

const SHOWN: usize = 15;

/// One setting with one value, and where.
#[derive(Debug)]
struct Difference<'a> {
    name: &'static str,
    live: &'a str,
    default: &'static str,
    instances: Vec<&'a str>,
}

pub(super) fn print(page: &mut Page, knobs: &[KnobReading]) {
    let known = knobs.iter().filter(|knob| knob.default.is_some() && knob.live.value().is_some());
    let all = differences(knobs);
    if all.is_empty() {
        return unchanged(page, known.count() as u64);
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
        page.prose(4, Role::Quiet, &format!("and {rest} more: pagewise report --json lists all"));
    }
}

fn unchanged(page: &mut Page, known: u64) {
    if known > 0 {
        page.gap();
        page.fact("Settings", &format!("all {} with a known default have it", count(known)));
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
                instances: instance.into_iter().collect(),
            }),
        }
    }
    all
}

/// The live value and the default, where both are known and differ.
fn difference(knob: &KnobReading) -> Option<(&str, &'static str)> {
    let live = active(&knob.live)?;
    let default = knob.default?;
    let (one, other) = match knob.knob.domain {
        Domain::Bool => (switch(live), switch(default)),
        _ => (live, default),
    };
    (one != other).then_some((live, default))
}

/// The word in brackets where there are several to choose from.
fn active(live: &Reading<Name>) -> Option<&str> {
    let text = live.value()?.as_str();
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Some(bracketed.map_or(text, |(inside, _)| inside))
}

/// One spelling for switches.
fn switch(word: &str) -> &str {
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
        difference.live.into(),
        Cell::new(Role::Quiet, difference.default),
    ]
}
