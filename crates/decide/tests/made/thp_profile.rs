// SPDX-License-Identifier: Apache-2.0 OR MIT
use pagewise_decide::thp_profile::PROFILES;
use pagewise_model::knob::{Domain, KNOBS};

fn takes(domain: Domain, value: &str) -> bool {
    match domain {
        Domain::Word { words } => words.contains(&value),
        Domain::Bool => ["0", "1"].contains(&value),
        Domain::Int { min, max } => {
            value.parse().is_ok_and(|number: i64| number >= min && number.unsigned_abs() <= max)
        }
        _ => false,
    }
}

#[test]
fn every_value_is_one_that_its_knob_takes() {
    for profile in PROFILES {
        for (name, value) in profile.knobs {
            let knob = KNOBS.iter().find(|knob| knob.name == *name);
            let knob = knob.unwrap_or_else(|| panic!("{}: {name}", profile.name));
            assert!(takes(knob.domain, value), "{}: {name} = {value}", profile.name);
        }
    }
}

#[test]
fn the_kernel_profile_is_what_the_knob_table_calls_default() {
    let kernel = PROFILES.iter().find(|profile| profile.name == "kernel").unwrap();
    for (name, value) in kernel.knobs {
        let knob = KNOBS.iter().find(|knob| knob.name == *name).unwrap();
        assert_eq!(knob.default, Some(*value), "{name}");
    }
}

#[test]
fn names_are_unique_and_each_has_a_source() {
    for (at, profile) in PROFILES.iter().enumerate() {
        assert!(PROFILES[..at].iter().all(|other| other.name != profile.name));
        assert!(!profile.purpose.is_empty() && !profile.source.is_empty());
    }
}
