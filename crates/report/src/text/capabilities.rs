// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this kernel cannot do, grouped by what would bring it.

use pagewise_model::{Capability, FeatureState};

use super::kit::Page;
use super::words::plural;

pub(super) fn print(page: &mut Page, capabilities: &[Capability]) {
    if capabilities.is_empty() {
        return;
    }
    page.gap();
    let missing: Vec<(&'static str, Vec<String>)> =
        GROUPS.iter().map(|(label, pick)| (*label, picked(capabilities, *pick))).collect();
    if missing.iter().all(|(_, features)| features.is_empty()) {
        let all = plural(capabilities.len() as u64, "feature");
        return page.fact("Kernel", &format!("has all {all} that were looked for"));
    }
    page.heading("Not in this kernel", "features that would help, by what would bring them");
    for (label, features) in missing.iter().filter(|(_, features)| !features.is_empty()) {
        page.fact_items(&format!("  {label}"), features);
    }
}

/// How a feature is named in its group; `None` where it belongs to another.
type Pick = fn(&Capability) -> Option<String>;

const GROUPS: [(&str, Pick); 6] = [
    ("module", |capability| match capability.state {
        FeatureState::Loadable { module } => Some(with(capability, &format!("modprobe {module}"))),
        _ => None,
    }),
    ("kernel build", |capability| match capability.state {
        FeatureState::NotBuilt { option } => Some(with(capability, option)),
        _ => None,
    }),
    ("switched off", |capability| match capability.state {
        FeatureState::Off { switch } => Some(with(capability, switch)),
        _ => None,
    }),
    ("host outside", |capability| {
        (capability.state == FeatureState::OutsideContainer)
            .then(|| with(capability, "outside this container"))
    }),
    ("needs root", |capability| named(capability, &FeatureState::Denied)),
    ("unknown why", |capability| named(capability, &FeatureState::Missing)),
];

fn picked(capabilities: &[Capability], pick: Pick) -> Vec<String> {
    capabilities.iter().filter_map(pick).collect()
}

fn with(capability: &Capability, what: &str) -> String {
    format!("{} ({what})", capability.feature)
}

fn named(capability: &Capability, state: &FeatureState) -> Option<String> {
    (capability.state == *state).then(|| capability.feature.to_owned())
}
