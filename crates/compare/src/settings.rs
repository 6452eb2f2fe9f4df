// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares settings: kernel settings of the table, boot parameters, swap areas and zram devices.

use std::collections::BTreeMap;

use pagewise_model::knob::{Access, KnobReading};
use pagewise_model::{
    Mechanism, Name, Outcome, Quantity, Reading, SettingChange, Snapshot, Tier, Zram,
};

use crate::names::Matching;
use crate::relation::different_kernels;

pub(crate) fn setting_changes(
    before: &Snapshot,
    after: &Snapshot,
    matching: &Matching,
) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    if let Some((from, to)) = different_kernels(before, after) {
        push(&mut changes, "kernel", None, Some(from.clone()), Some(to.clone()));
    }
    list_changes(&mut changes, "boot parameter", &parameters(before), &parameters(after));
    list_changes(&mut changes, "swap area", &swap_areas(before), &swap_areas(after));
    list_changes(&mut changes, "zram device", &devices(before), &devices(after));
    compare_knobs(&mut changes, before, after, matching);
    changes
}

fn push(
    changes: &mut Vec<SettingChange>,
    name: &str,
    instance: Option<Name>,
    from: Option<Name>,
    to: Option<Name>,
) {
    if from != to {
        changes.push(SettingChange { name: name.to_owned(), instance, from, to });
    }
}

/// Compares two lists of entries by their names.
fn list_changes(
    changes: &mut Vec<SettingChange>,
    name: &str,
    before: &BTreeMap<String, Name>,
    after: &BTreeMap<String, Name>,
) {
    let new = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(new) {
        let instance = Some(Name::from(key.as_str()));
        push(changes, name, instance, before.get(key).cloned(), after.get(key).cloned());
    }
}

/// Returns the boot parameters that concern memory, with their values.
fn parameters(host: &Snapshot) -> BTreeMap<String, Name> {
    let all = host.configuration.by(Mechanism::CommandLine);
    all.map(|it| (it.target.to_string(), Name::from(it.wanted()))).collect()
}

fn swap_areas(host: &Snapshot) -> BTreeMap<String, Name> {
    host.tiers.iter().map(|tier| (tier.path.to_string(), describe_tier(tier))).collect()
}

fn describe_tier(tier: &Tier) -> Name {
    let size = tier.size.value().map_or("of unknown size".to_owned(), Quantity::shown);
    let priority = tier.priority.value().map(|it| format!(", priority {it}")).unwrap_or_default();
    Name::from(format!("{size}{priority}").as_str())
}

fn devices(host: &Snapshot) -> BTreeMap<String, Name> {
    let ready = host.compressed_devices().filter(|device| device.initialised.get() == Some(true));
    ready.map(|device| (device.name(), describe_device(device))).collect()
}

fn describe_device(device: &Zram) -> Name {
    let size = device.disksize.value().map_or("of unknown size".to_owned(), Quantity::shown);
    let algorithm = device.algorithm.value().map(|it| format!(", {it}")).unwrap_or_default();
    Name::from(format!("{size}{algorithm}").as_str())
}

/// Settings that are already compared as part of a device.
const SHOWN_ELSEWHERE: [&str; 2] = ["zram.disksize", "zram.comp_algorithm"];

/// Compares writable settings. If a setting has several instances (such as one per device), only
/// instances that exist in both readings are compared: a new device is one change, and not one
/// change for each of its settings.
fn compare_knobs(
    changes: &mut Vec<SettingChange>,
    before: &Snapshot,
    after: &Snapshot,
    matching: &Matching,
) {
    let mut later: BTreeMap<(&str, Option<Name>), &KnobReading> = BTreeMap::new();
    for reading in &after.knobs {
        later.insert((reading.knob.name, reading.instance.clone()), reading);
    }
    let is_setting = |it: &&KnobReading| {
        it.knob.access == Access::ReadWrite
            && !it.knob.changes_by_itself()
            && !SHOWN_ELSEWHERE.contains(&it.knob.name)
    };
    for then in before.knobs.iter().filter(is_setting) {
        let is_there = |path: &Name| later.contains_key(&(then.knob.name, Some(path.clone())));
        let Some(instance) = instance_after(then, matching, is_there) else { continue };
        let Some(now) = later.get(&(then.knob.name, instance.clone())) else { continue };
        if let (Some(from), Some(to)) = (value(then), value(now)) {
            push(changes, then.knob.name, instance, from, to);
        }
    }
}

/// Returns the name of a setting's instance in the second reading; `None` if this cannot be
/// determined.
fn instance_after(
    then: &KnobReading,
    matching: &Matching,
    is_there: impl Fn(&Name) -> bool,
) -> Option<Option<Name>> {
    match &then.instance {
        Some(group) if then.knob.path.contains("{cgroup}") => {
            matching.path_after(group, is_there).map(Some)
        }
        instance => Some(instance.clone()),
    }
}

/// Returns the value of a setting, or `Some(None)` if the setting does not exist; `None` if it is
/// unknown.
fn value(reading: &KnobReading) -> Option<Option<Name>> {
    match &reading.live.outcome {
        Outcome::Value(_) => Some(reading.active_word().map(Name::from)),
        Outcome::Absent(_) if was_asked(&reading.live) && reading.instance.is_none() => Some(None),
        Outcome::Absent(_) | Outcome::Denied(_) => None,
    }
}

fn was_asked<T>(reading: &Reading<T>) -> bool {
    !reading.source.path().is_empty()
}
