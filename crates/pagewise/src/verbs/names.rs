// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise names KIND [TYPED]`: names for completions, one per line, each with a tab and a short
//! description.
//!
//! What was typed so far matters only after the `=` of a setting: then the values of that setting
//! are printed, as whole words. The shell selects the names that begin with what was typed.

use std::fmt::Write as _;

use anyhow::Context;
use pagewise_model::{KnobValue, Name, SettableKnob, list_settable};
use pagewise_observe::{HostRoot, process_names};
use pagewise_terminal::{Outcome, output};

use crate::cli::NameKind;

/// Arguments of an arm besides settings.
const SWAP: &str = "swap=\tswap of the arm\n";
const SWAPS: &str = "swap=off\tno swap\nswap=zram:\tzram:SIZE:ALGORITHM\nswap=file:\tfile:SIZE\n\
    swap=zswap:\tzswap:ALGORITHM:PERCENT, then + and an area\n";

pub(super) fn run(kind: NameKind, typed: &str) -> anyhow::Result<Outcome> {
    let mut names = String::new();
    match kind {
        NameKind::Pid => {
            let host = HostRoot::live().context("/")?;
            process_names(&host)
                .iter()
                .for_each(|(pid, name)| add(&mut names, &pid.to_string(), name.as_str()));
        }
        NameKind::Knob => add_knobs(&mut names, typed)?,
        NameKind::Experiment => {
            for (name, about) in super::lab::list_experiments() {
                add(&mut names, Name::from(name.as_str()).as_str(), &about);
            }
        }
    }
    output::write_out(names.as_bytes())?;
    Ok(Outcome::Done)
}

fn add(names: &mut String, name: &str, about: &str) {
    _ = writeln!(names, "{name}\t{}", Name::from(about));
}

fn add_knobs(names: &mut String, typed: &str) -> anyhow::Result<()> {
    let host = HostRoot::live().context("/")?;
    let readings = pagewise_observe::knobs(&host);
    let knobs = list_settable(&readings);
    let here = knobs.iter().filter(|knob| knob.is_here());
    match typed.split_once('=') {
        None => {
            names.push_str(SWAP);
            here.for_each(|knob| add_knob(names, knob));
        }
        Some(("swap", _)) => names.push_str(SWAPS),
        Some((wanted, _)) => here.for_each(|knob| add_values(names, knob, wanted)),
    }
    Ok(())
}

/// Adds a setting to the names, once for each instance of it on this machine (such as each zram
/// device).
fn add_knob(names: &mut String, knob: &SettableKnob<'_>) {
    if knob.values.is_empty() {
        add(names, &format!("{}=", knob.name), knob.about);
    }
    for KnobValue { instance, .. } in knob.values.iter().filter(|value| value.now.value().is_some())
    {
        add(names, &format!("{}=", knob.format_typed(*instance)), knob.about);
    }
}

/// Adds the words that the setting accepts to the completions; for a number, its current value and
/// its default.
fn add_values(names: &mut String, knob: &SettableKnob<'_>, wanted: &str) {
    let is_wanted = |value: &&KnobValue<'_>| knob.format_typed(value.instance) == wanted;
    let of_place = knob.values.iter().find(is_wanted);
    if of_place.is_none() && knob.name != wanted {
        return;
    }
    for word in &knob.words {
        add(names, &format!("{wanted}={word}"), "");
    }
    if knob.words.is_empty() {
        let now = of_place.and_then(|value| value.active);
        now.into_iter().for_each(|now| add(names, &format!("{wanted}={now}"), "value now"));
        let default = knob.default.filter(|default| now != Some(*default));
        default.into_iter().for_each(|it| add(names, &format!("{wanted}={it}"), "default"));
    }
}
