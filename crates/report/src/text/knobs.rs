// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings that an arm of a trial may set: two lines each.

use pagewise_model::{KnobScope, KnobValue, Name, SettableKnob};

use super::kit::{Line, Page, Role};
use super::words::spell_reading;

/// The columns of the page at which a setting's value, its accepted values and its description
/// begin.
const VALUE: usize = 38;
const ACCEPTS: usize = 52;
const ABOUT: usize = 4;

pub(super) fn print_list(page: &mut Page, all: &[SettableKnob<'_>]) {
    let (here, lacking): (Vec<_>, Vec<_>) = all.iter().partition(|knob| knob.is_here());
    let sections: [(KnobScope, &str, &str); 3] = [
        (KnobScope::Host, "Settings of the host", "name, value now, values that it accepts"),
        (KnobScope::EachPlace, "Settings with several places", "name the place in brackets"),
        (
            KnobScope::ArmZram,
            "Settings of the zram devices that an arm creates",
            "for an arm with swap=zram:…; the devices exist only during its runs",
        ),
    ];
    for (scope, title, note) in sections {
        let mut knobs = here.iter().filter(|knob| knob.scope == scope).peekable();
        if knobs.peek().is_some() {
            page.heading(title, note);
            knobs.for_each(|knob| print_entry(page, knob));
        }
    }
    if !lacking.is_empty() {
        page.heading("Not on this machine", "this kernel has no file for them, or no such place");
        page.items(ABOUT, &lacking.iter().map(|knob| knob.format_typed(None)).collect::<Vec<_>>());
    }
    page.gap();
    let groups =
        "An arm cannot set limits of existing cgroups; --memory limits the memory of the command.";
    page.prose(2, Role::Quiet, groups);
}

fn print_entry(page: &mut Page, knob: &SettableKnob<'_>) {
    let default = knob.default.map(|default| format!("; default {default}")).unwrap_or_default();
    let accepts = format!("{}{default}", knob.accepts);
    let place = knob.place.map(Name::from);
    let start = Line::indent(2).span(Role::Strong, knob.format_typed(place.as_ref()));
    match knob.values.as_slice() {
        [] => page.hang(pad(start, ACCEPTS), ACCEPTS, Role::Quiet, &accepts),
        [only @ KnobValue { instance: None, .. }] => {
            let start = pad(start, VALUE).plain(format_value(only));
            page.hang(pad(start, ACCEPTS), ACCEPTS, Role::Quiet, &accepts);
        }
        several => {
            page.hang(pad(start, ACCEPTS), ACCEPTS, Role::Quiet, &accepts);
            page.items(ABOUT, &places(several));
        }
    }
    page.prose(ABOUT, Role::Quiet, knob.about);
}

/// Pads the line to the column, with at least two spaces.
fn pad(line: Line, column: usize) -> Line {
    let least = line.width() + 2;
    line.pad_to(column.max(least))
}

/// Formats the active word of a choice, or why there is no value.
fn format_value(value: &KnobValue<'_>) -> String {
    spell_reading(value.now, |text| value.active.unwrap_or(text.as_str()).to_owned())
}

/// Lists each value of a setting with the instances that have it: `never in 16kB, 32kB`.
fn places(values: &[KnobValue<'_>]) -> Vec<String> {
    let mut by_value: Vec<(String, Vec<&str>)> = Vec::new();
    for value in values {
        let text = format_value(value);
        let place = value.instance.map_or("", Name::as_str);
        match by_value.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.push(place),
            None => by_value.push((text, vec![place])),
        }
    }
    by_value.iter().map(|(value, places)| format!("{value} in {}", places.join(", "))).collect()
}
