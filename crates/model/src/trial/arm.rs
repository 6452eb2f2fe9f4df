// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses `vm.swappiness=60`, as a user types it, into a setting of an arm and checks it against
//! the knob table.
//!
//! Whether this host has the setting is not checked here; if it does not, the
//! [`crate::lend::Lender`] refuses the setting. If a setting exists several times, the instance is
//! named in brackets, as in `thp.size.enabled[64kB]`. Settings of zram apply to all devices that
//! the arm itself adds. `cgroup.memory.zswap.max[neighbour]` applies to the cgroup of the program
//! that runs beside the command.

use crate::knob::{Access, Domain, KNOBS, Knob, Undo};
use crate::{TrialArm, TrialSetting, most_similar};

/// Parses `KNOB=VALUE` into a setting of an arm.
///
/// # Errors
/// A sentence that says what is wrong with `text`, and what was expected.
pub fn parse_setting(text: &str) -> Result<TrialSetting, String> {
    let (name, value) = text
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or_else(|| format!("expected KNOB=VALUE as vm.swappiness=60, found {text:?}"))?;
    let (bare, which) = split_instance(name);
    let knob =
        KNOBS.iter().find(|knob| knob.name == bare).ok_or_else(|| explain_unknown_setting(bare))?;
    match (knob.path.contains('{') && !is_of_zram(bare), which) {
        (true, None) => {
            return Err(format!(
                "{name} is there several times: say which in brackets, /{}",
                knob.path
            ));
        }
        (false, Some(_)) => {
            return Err(format!("{bare} is there once, or is of the arm's own zram devices"));
        }
        _ => {}
    }
    if let Some(why) = refusal(knob) {
        return Err(format!("{name} {why}"));
    }
    match explain_rejection(knob.domain, value) {
        Some(expected) => Err(format!("{name}: expected {expected}, found {value:?}")),
        None => Ok(TrialSetting { knob: name.to_owned(), value: value.to_owned() }),
    }
}

/// Why an arm must not set this setting; `None` if the setting can be read, changed and restored.
#[must_use]
pub fn refusal(knob: &Knob) -> Option<String> {
    match (knob.access, knob.undo) {
        (Access::ReadOnly, _) => Some("only informs: it cannot be set".to_owned()),
        (Access::WriteOnly | Access::ReadActs, _) => {
            Some("cannot be read, and so it cannot be given back".to_owned())
        }
        (_, Undo::Never { because }) => Some(format!("cannot be given back: {because}")),
        _ => None,
    }
}

/// Splits `name[instance]` into the name and the text in brackets, if there is any.
#[must_use]
pub fn split_instance(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, instance)) => (name, Some(instance)),
        None => (name, None),
    }
}

/// Whether `name` is the name of a setting of zram devices.
#[must_use]
pub fn is_of_zram(name: &str) -> bool {
    KNOBS.iter().any(|knob| knob.name == name && knob.path.starts_with("sys/block/zram{"))
}

/// The instance name for the cgroup of the program that runs beside the command.
const NEIGHBOUR: &str = "neighbour";

/// Returns the setting's name without `[neighbour]`, if the setting applies to the cgroup of the
/// program that runs beside the command.
#[must_use]
pub fn strip_neighbour(name: &str) -> Option<&str> {
    match split_instance(name) {
        (knob, Some(NEIGHBOUR)) => Some(knob),
        _ => None,
    }
}

/// If `domain` does not accept `value`, returns a description of what it accepts; `None` if it
/// accepts the value. Words that only the host's file lists are not checked here.
fn explain_rejection(domain: Domain, value: &str) -> Option<String> {
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
        Domain::Int { max: u64::MAX, .. } => {
            format!("a whole number, {}", domain.accepted_values())
        }
        Domain::Int { .. } => format!("a whole number from {}", domain.accepted_values()),
        Domain::Bool => domain.accepted_values(),
        Domain::Word { words } => format!("one of {}", words.join(", ")),
        Domain::Trigger => {
            "a setting that keeps its value: this one acts and keeps none".to_owned()
        }
        _ => "a value".to_owned(),
    })
}

fn explain_unknown_setting(name: &str) -> String {
    let near = most_similar(name, KNOBS.iter().map(|knob| knob.name));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("no setting {name:?} is known{hint}")
}

/// Whether two arms are equivalent: the same settings in any order, the same swap and the same
/// command.
#[must_use]
pub fn are_equivalent(one: &TrialArm, other: &TrialArm) -> bool {
    let sorted = |arm: &TrialArm| {
        let mut all: Vec<_> =
            arm.settings.iter().map(|set| (set.knob.clone(), set.value.clone())).collect();
        all.sort();
        all
    };
    sorted(one) == sorted(other) && one.swap == other.swap && one.program == other.program
}

/// Name of the first setting that the arm sets twice; `None` if it sets none twice.
#[must_use]
pub fn find_setting_set_twice(arm: &TrialArm) -> Option<&str> {
    let mut all = arm.settings.iter().enumerate();
    let seen = |(at, set): (usize, &TrialSetting)| {
        arm.settings[..at].iter().any(|before| before.knob == set.knob)
    };
    all.find(|&(at, set)| seen((at, set))).map(|(_, set)| set.knob.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    fn arm(settings: &[&str]) -> TrialArm {
        let settings = settings.iter().map(|text| parse_setting(text).unwrap()).collect();
        TrialArm { name: "a".to_owned(), settings, ..TrialArm::default() }
    }

    #[test]
    fn settings_are_those_of_the_table() {
        assert_eq!(parse_setting(" vm.swappiness = 60").unwrap().value, "60");
        for (bad, says) in [
            ("vm.swappiness", "KNOB=VALUE"),
            ("vm.swapiness=60", "did you mean vm.swappiness?"),
            ("colour=blue", "no setting"),
            ("vm.swappiness=201", "from 0 to 200"),
            ("vm.swappiness=", "from 0 to 200"),
            ("vm.swappiness=6O", "whole number"),
        ] {
            let why = parse_setting(bad).unwrap_err();
            assert!(why.contains(says), "{bad}: {why}");
        }
    }

    #[test]
    fn of_several_one_is_named_and_those_of_zram_are_of_all() {
        let several =
            KNOBS.iter().find(|knob| knob.path.contains("hugepages-{size}/enabled")).unwrap();
        let set = parse_setting(&format!("{}[64kB]=always", several.name)).unwrap();
        assert_eq!(split_instance(&set.knob), (several.name, Some("64kB")));
        let why = parse_setting(&format!("{}=always", several.name)).unwrap_err();
        assert!(why.contains("in brackets"), "{why}");
        assert!(parse_setting("vm.swappiness[1]=60").unwrap_err().contains("there once"));
        let of_zram = KNOBS.iter().filter(|knob| is_of_zram(knob.name));
        let settable = of_zram.filter(|knob| knob.access == Access::ReadWrite).count();
        assert!(settable > 0);
        assert!(parse_setting("zram.writeback_limit_enable[1]=1").is_err());
    }

    #[test]
    fn arms_that_differ_in_swap_or_command_differ() {
        let one = arm(&["vm.swappiness=60"]);
        let without = TrialArm { swap: Some(Vec::new()), ..one.clone() };
        let other = TrialArm { program: Some(Program::from_words(&["true"])), ..one.clone() };
        assert!(
            !are_equivalent(&one, &without)
                && !are_equivalent(&one, &other)
                && are_equivalent(&without, &without)
        );
    }

    #[test]
    fn a_setting_may_be_of_the_neighbour() {
        let set = parse_setting("cgroup.memory.zswap.max[neighbour]=8M").unwrap();
        assert_eq!(strip_neighbour(&set.knob), Some("cgroup.memory.zswap.max"));
        assert_eq!(strip_neighbour("cgroup.memory.zswap.max[web.service]"), None);
        assert_eq!(strip_neighbour("vm.swappiness"), None);
    }

    /// A setting whose old value cannot be read is refused, because an arm's settings are restored
    /// after the run.
    #[test]
    fn what_acts_or_only_informs_is_refused() {
        let refused = KNOBS.iter().filter(|knob| knob.access != Access::ReadWrite);
        let all: Vec<&crate::knob::Knob> = refused.collect();
        assert!(!all.is_empty());
        for knob in all {
            assert!(parse_setting(&format!("{}=1", knob.name)).is_err(), "{}", knob.name);
        }
    }

    /// A setting that cannot be restored is refused here. The lender would refuse it as well, but
    /// only when the first run starts.
    #[test]
    fn what_cannot_be_given_back_is_refused_with_the_reason() {
        let why = parse_setting("zram.disksize=1073741824").unwrap_err();
        assert!(why.contains("cannot be given back: changing it needs a reset"), "{why}");
    }

    #[test]
    fn arms_are_alike_in_any_order() {
        let (one, other) = (["vm.swappiness=60", "vm.page-cluster=0"], ["vm.page-cluster=0"]);
        let turned = [one[1], one[0]];
        assert!(are_equivalent(&arm(&one), &arm(&turned)));
        assert!(!are_equivalent(&arm(&one), &arm(&other)));
        assert_eq!(
            find_setting_set_twice(&arm(&["vm.swappiness=60", "vm.swappiness=1"])),
            Some("vm.swappiness")
        );
        assert_eq!(find_setting_set_twice(&arm(&one)), None);
    }
}
