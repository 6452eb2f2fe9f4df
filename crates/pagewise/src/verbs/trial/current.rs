// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the settings of the arms with those of this machine, because an arm may change nothing.
//!
//! On a machine whose swappiness is 60, `--b vm.swappiness=60` would compare identical settings,
//! possibly for an hour. The values of a cgroup are not compared (each cgroup of v1 has a
//! swappiness of its own), because a trial sets those, too.

use pagewise_model::knob::{Domain, KnobReading};
use pagewise_model::{TrialArm, TrialSetting};

/// Whether both arms are equivalent on this machine: each setting of one arm is also set by the
/// other, or is already the current value.
pub(super) fn are_equivalent_here(a: &TrialArm, b: &TrialArm, knobs: &[KnobReading]) -> bool {
    let is_met = |set: &TrialSetting, by: &TrialArm| match setting_of(by, &set.knob) {
        Some(other) => other.value == set.value,
        None => is_current(set, knobs),
    };
    a.swap == b.swap
        && a.settings.iter().all(|set| is_met(set, b))
        && b.settings.iter().all(|set| is_met(set, a))
}

/// A text such as `vm.swappiness is 60 already`, if the machine already has every setting of the
/// arm; `None` if the arm changes something.
pub(super) fn why_unchanged(arm: &TrialArm, knobs: &[KnobReading]) -> Option<String> {
    let describe =
        || arm.settings.iter().map(|set| format!("{} is {} already", set.knob, set.value));
    let same = arm.swap.is_none() && arm.settings.iter().all(|set| is_current(set, knobs));
    (same && !arm.settings.is_empty()).then(|| describe().collect::<Vec<_>>().join(", "))
}

fn setting_of<'a>(arm: &'a TrialArm, knob: &str) -> Option<&'a TrialSetting> {
    arm.settings.iter().find(|set| set.knob == knob)
}

fn is_current(set: &TrialSetting, knobs: &[KnobReading]) -> bool {
    let named = |reading: &&KnobReading| match &reading.instance {
        None => reading.knob.name == set.knob,
        Some(instance) => format!("{}[{instance}]", reading.knob.name) == set.knob,
    };
    knobs.iter().find(named).is_some_and(|reading| {
        let is_switch = reading.knob.domain == Domain::Bool;
        reading.active_word().is_some_and(|live| {
            normalize_value(live, is_switch) == normalize_value(&set.value, is_switch)
        })
    })
}

/// Maps the spellings of a boolean value to "1" or "0", so that equal values compare as equal.
fn normalize_value(value: &str, is_switch: bool) -> &str {
    match value {
        "1" | "Y" | "y" | "true" if is_switch => "1",
        "0" | "N" | "n" | "false" if is_switch => "0",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::knob::KNOBS;
    use pagewise_model::{Name, Reading, Source};

    use super::*;

    fn current_value(name: &str, value: &str) -> KnobReading {
        let knob = KNOBS.iter().find(|knob| knob.name == name).unwrap();
        let live = Reading::found(Name::from(value), Source::file("/proc/sys/x"));
        KnobReading { knob, instance: None, live, default: None }
    }

    fn arm(settings: &[(&str, &str)]) -> TrialArm {
        let set = |(knob, value): &(&str, &str)| TrialSetting {
            knob: (*knob).to_owned(),
            value: (*value).to_owned(),
        };
        TrialArm { settings: settings.iter().map(set).collect(), ..TrialArm::default() }
    }

    #[test]
    fn an_arm_that_sets_what_there_is_changes_nothing() {
        let knobs = [current_value("vm.swappiness", "60"), current_value("zswap.enabled", "N")];
        let same =
            |a: &[(&str, &str)], b: &[(&str, &str)]| are_equivalent_here(&arm(a), &arm(b), &knobs);
        assert!(same(&[], &[("vm.swappiness", "60")]));
        assert!(same(&[("zswap.enabled", "0")], &[("vm.swappiness", "60")]));
        assert!(!same(&[], &[("vm.swappiness", "61")]));
        assert!(!same(&[("vm.swappiness", "60")], &[("vm.swappiness", "100")]));
        assert!(!same(&[], &[("vm.page-cluster", "3")]), "what is not known may differ");
        let swap = TrialArm { swap: Some(Vec::new()), ..arm(&[]) };
        assert!(!are_equivalent_here(&arm(&[]), &swap, &knobs));
    }

    #[test]
    fn what_is_so_already_is_said_of_the_whole_arm() {
        let knobs = [current_value("vm.swappiness", "60")];
        let listed = why_unchanged(&arm(&[("vm.swappiness", "60")]), &knobs);
        assert_eq!(listed.as_deref(), Some("vm.swappiness is 60 already"));
        assert_eq!(why_unchanged(&arm(&[]), &knobs), None);
        assert_eq!(why_unchanged(&arm(&[("vm.swappiness", "1")]), &knobs), None);
    }
}
