// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of huge pages that belong together, as data: shown by `thp profiles`, and what a plan may propose.
//!
//! Names and values are those of the knob table; a test compares them with it.

use pagewise_model::ThpProfile;

/// Every profile.
pub static PROFILES: &[ThpProfile] = &[
    ThpProfile {
        name: "kernel",
        purpose: "what an untouched kernel does, but for enabled, which distributions choose",
        source: "the kernel's own defaults, as in the table of knobs",
        knobs: &[
            ("thp.defrag", "madvise"),
            ("thp.khugepaged.pages_to_scan", "4096"),
            ("thp.khugepaged.scan_sleep_millisecs", "10000"),
            ("thp.khugepaged.alloc_sleep_millisecs", "60000"),
            ("thp.khugepaged.max_ptes_none", "511"),
        ],
    },
    ThpProfile {
        name: "operator",
        purpose: "one large operator's fleet of services with large heaps: programs opt in, and \
                  memory grows by about 10 %",
        source: "Baidu's published account of its clusters; its pacing of khugepaged is not in \
                 what we could read, so it is left out rather than guessed",
        knobs: &[("thp.enabled", "madvise"), ("thp.khugepaged.max_ptes_none", "511")],
    },
    ThpProfile {
        name: "guarded",
        purpose: "programs opt in, and huge pages that are mostly zeros are split again: \
                  max_ptes_none below 511 is what switches that guard on",
        source: "ours: with max_ptes_none 64 a limited group went from 263 to 34 MB, where 511 \
                 kept all of it",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.defrag", "defer+madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
        ],
    },
    ThpProfile {
        name: "collapse",
        purpose: "khugepaged rests, and thp collapse --watch makes huge pages within a budget: it \
                  waits for no processor at nice 19, and looks how full memory is before it fills it",
        source: "ours: khugepaged waited 16 of 30 s for a processor on a busy machine",
        knobs: &[
            ("thp.enabled", "madvise"),
            ("thp.khugepaged.max_ptes_none", "64"),
            ("thp.shrink_underused", "1"),
            ("thp.khugepaged.scan_sleep_millisecs", "60000"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
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
}
