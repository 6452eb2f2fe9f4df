// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The missing features of this kernel, grouped by what would provide them.

use pagewise_model::{Capability, FeatureState, Snapshot};

use super::header::machine;
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use super::words::plural;

/// Prints the features of the kernel on a page of their own: those that exist, and those that are
/// missing.
pub(super) fn print_all(page: &mut Page, snapshot: &Snapshot) {
    let start = Line::default().span(Role::Strong, "pagewise capabilities");
    page.hang_items(start, 2, &machine(snapshot));
    print_features(page, snapshot);
}

/// Prints which features the kernel has, and which are missing.
pub(super) fn print_features(page: &mut Page, snapshot: &Snapshot) {
    let is_there = |it: &&Capability| it.state == FeatureState::Present;
    let there: Vec<&Capability> = snapshot.capabilities.iter().filter(is_there).collect();
    if !there.is_empty() {
        page.heading("Present", "features of this kernel");
        let mut table = Table::new(2, vec![Column::left(""), Column::words("")]);
        for it in there {
            table.row([it.feature, it.doc].map(Cell::from).into());
        }
        table.print(page);
    }
    print(page, &snapshot.capabilities);
}

pub(super) fn print(page: &mut Page, capabilities: &[Capability]) {
    if capabilities.is_empty() {
        return;
    }
    page.gap();
    let missing: Vec<(&'static str, Vec<String>)> =
        GROUPS.iter().map(|(label, pick)| (*label, group_by_remedy(capabilities, *pick))).collect();
    if missing.iter().all(|(_, features)| features.is_empty()) {
        let all = plural(capabilities.len() as u64, "feature");
        return page.fact("Kernel", &format!("has all {all} that were probed"));
    }
    page.heading("Missing here", "features that would help, by what provides them");
    for (label, features) in missing.iter().filter(|(_, features)| !features.is_empty()) {
        page.fact_items(&format!("  {label}"), features);
    }
}

/// A function that returns what would provide a missing feature, beyond what the heading of the
/// group says; `None` if the feature belongs to another group.
type Pick = fn(&Capability) -> Option<String>;

const GROUPS: [(&str, Pick); 6] = [
    ("module", |capability| match capability.state {
        FeatureState::Loadable { module } => Some(format!("modprobe {module}")),
        _ => None,
    }),
    ("kernel build", |capability| match capability.state {
        FeatureState::NotBuilt { option } => Some(option.to_owned()),
        _ => None,
    }),
    ("switched off", |capability| match capability.state {
        FeatureState::Off { switch } => Some(switch.to_owned()),
        _ => None,
    }),
    ("host outside", |capability| {
        no_remedy_if_in_state(capability, &FeatureState::OutsideContainer)
    }),
    ("needs root", |capability| no_remedy_if_in_state(capability, &FeatureState::Denied)),
    ("unknown why", |capability| no_remedy_if_in_state(capability, &FeatureState::Missing)),
];

fn no_remedy_if_in_state(capability: &Capability, state: &FeatureState) -> Option<String> {
    (capability.state == *state).then(String::new)
}

/// Lists missing features with what would provide them: `zram.writeback, zram.compressed_writeback
/// (CONFIG_ZRAM_WRITEBACK)`. Features that the same option or module would provide are listed
/// together.
fn group_by_remedy(capabilities: &[Capability], pick: Pick) -> Vec<String> {
    let mut remedies: Vec<(String, Vec<&'static str>)> = Vec::new();
    for capability in capabilities {
        let Some(remedy) = pick(capability) else { continue };
        match remedies.iter_mut().find(|(known, _)| *known == remedy && !remedy.is_empty()) {
            Some((_, features)) => features.push(capability.feature),
            None => remedies.push((remedy, vec![capability.feature])),
        }
    }
    let describe = |(remedy, features): (String, Vec<&str>)| match remedy.as_str() {
        "" => features.join(", "),
        remedy => format!("{} ({remedy})", features.join(", ")),
    };
    remedies.into_iter().map(describe).collect()
}
