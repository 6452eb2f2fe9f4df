// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vm.swappiness=60` as typed → a setting of an arm, checked against the knob table.
//!
//! Whether this host has the setting is not looked up here: who lends it says so.

use pagewise_model::knob::{Access, Domain, KNOBS, Knob};
use pagewise_model::{TrialArm, TrialSetting};

/// Reads `KNOB=VALUE`.
///
/// # Errors
/// What is wrong, and what was expected.
pub fn setting(text: &str) -> Result<TrialSetting, String> {
    let (name, value) = text
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or_else(|| format!("expected KNOB=VALUE as vm.swappiness=60, found {text:?}"))?;
    let knob = KNOBS.iter().find(|knob| knob.name == name).ok_or_else(|| unknown(name))?;
    match knob.access {
        Access::ReadWrite => {}
        Access::ReadOnly => return Err(format!("{name} only informs: it cannot be set")),
        Access::WriteOnly | Access::ReadActs => {
            return Err(format!("{name} cannot be read, and so it cannot be given back"));
        }
    }
    match taken(knob.domain, value) {
        Some(expected) => Err(format!("{name}: expected {expected}, found {value:?}")),
        None => Ok(TrialSetting { knob: name.to_owned(), value: value.to_owned() }),
    }
}

/// What a domain takes, where it does not take `value`. What only the host knows is left to it.
fn taken(domain: Domain, value: &str) -> Option<String> {
    let is_good = match domain {
        _ if value.is_empty() => false,
        Domain::Int { min, max } => value
            .parse::<i128>()
            .is_ok_and(|number| (i128::from(min)..=i128::from(max)).contains(&number)),
        Domain::Bool => matches!(value, "0" | "1" | "Y" | "N" | "y" | "n" | "true" | "false"),
        Domain::Word { words } => words.contains(&value),
        Domain::Trigger => false,
        _ => true,
    };
    (!is_good).then(|| match domain {
        Domain::Int { min, max } => format!("a whole number from {min} to {max}"),
        Domain::Bool => "0 or 1".to_owned(),
        Domain::Word { words } => format!("one of {}", words.join(", ")),
        Domain::Trigger => {
            "a setting that keeps its value: this one acts and keeps none".to_owned()
        }
        _ => "a value".to_owned(),
    })
}

fn unknown(name: &str) -> String {
    let near = KNOBS.iter().min_by_key(|knob| distance(knob.name, name));
    let hint = |knob: &Knob| format!("; did you mean {}?", knob.name);
    let is_near = |knob: &&Knob| distance(knob.name, name) <= name.len() / 3 + 1;
    format!("no setting {name:?} is known{}", near.filter(is_near).map(hint).unwrap_or_default())
}

/// How many letters must be changed, added or taken.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, one) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(one != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// Whether two arms are the same: settings in whatever order, swap, and what they run.
#[must_use]
pub fn alike(one: &TrialArm, other: &TrialArm) -> bool {
    let sorted = |arm: &TrialArm| {
        let mut all: Vec<_> =
            arm.settings.iter().map(|set| (set.knob.clone(), set.value.clone())).collect();
        all.sort();
        all
    };
    let (swap, command) = (one.swap == other.swap, one.command == other.command);
    sorted(one) == sorted(other) && swap && command
}

/// A setting that an arm sets twice.
#[must_use]
pub fn twice(arm: &TrialArm) -> Option<&str> {
    let mut all = arm.settings.iter().enumerate();
    let seen = |(at, set): (usize, &TrialSetting)| {
        arm.settings[..at].iter().any(|before| before.knob == set.knob)
    };
    all.find(|&(at, set)| seen((at, set))).map(|(_, set)| set.knob.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(settings: &[&str]) -> TrialArm {
        let settings = settings.iter().map(|text| setting(text).unwrap()).collect();
        TrialArm { name: "a".to_owned(), settings, ..TrialArm::default() }
    }

    #[test]
    fn settings_are_those_of_the_table() {
        assert_eq!(setting(" vm.swappiness = 60").unwrap().value, "60");
        for (bad, says) in [
            ("vm.swappiness", "KNOB=VALUE"),
            ("vm.swapiness=60", "did you mean vm.swappiness?"),
            ("colour=blue", "no setting"),
            ("vm.swappiness=201", "from 0 to 200"),
            ("vm.swappiness=", "from 0 to 200"),
            ("vm.swappiness=6O", "whole number"),
        ] {
            let why = setting(bad).unwrap_err();
            assert!(why.contains(says), "{bad}: {why}");
        }
    }

    /// A loan must be given back, so it must be one that can be read.
    #[test]
    fn what_acts_or_only_informs_is_refused() {
        let refused = KNOBS.iter().filter(|knob| knob.access != Access::ReadWrite);
        let all: Vec<&Knob> = refused.collect();
        assert!(!all.is_empty());
        for knob in all {
            assert!(setting(&format!("{}=1", knob.name)).is_err(), "{}", knob.name);
        }
    }

    #[test]
    fn arms_that_differ_in_swap_or_command_are_not_alike() {
        let plain = arm(&["vm.swappiness=60"]);
        let swapless = TrialArm { swap: Some(Vec::new()), ..plain.clone() };
        let other = TrialArm { command: Some(vec!["true".to_owned()]), ..plain.clone() };
        assert!(!alike(&plain, &swapless) && !alike(&plain, &other));
        assert!(alike(&swapless, &swapless.clone()));
    }

    #[test]
    fn arms_are_alike_in_any_order() {
        let (one, other) = (["vm.swappiness=60", "vm.page-cluster=0"], ["vm.page-cluster=0"]);
        let turned = [one[1], one[0]];
        assert!(alike(&arm(&one), &arm(&turned)));
        assert!(!alike(&arm(&one), &arm(&other)));
        assert_eq!(twice(&arm(&["vm.swappiness=60", "vm.swappiness=1"])), Some("vm.swappiness"));
        assert_eq!(twice(&arm(&one)), None);
    }
}
