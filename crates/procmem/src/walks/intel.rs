// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event numbers for cycles of page walks on Intel CPUs, by CPU model.
//!
//! The kernel has no names for these events. Source: Intel's event lists for each model
//! (`DTLB_LOAD_MISSES.WALK_ACTIVE` and `DTLB_STORE_MISSES.WALK_ACTIVE` of Skylake, Ice Lake and
//! Sapphire Rapids). They were not tested on any of these CPUs, because only virtual machines were
//! available.

use super::event::{Event, EventSource, Role, event};

/// CPU models of Intel's client and server CPUs of family 6, from Skylake to Rocket Lake.
const SKYLAKE_ON: [u32; 14] =
    [0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7];
/// CPU models of Intel's Sapphire Rapids and Emerald Rapids.
const SAPPHIRE_RAPIDS_ON: [u32; 2] = [0x8F, 0xCF];

/// Returns the event that counts cycles in which at least one page walk is active.
const fn walks(number: u64) -> EventSource {
    const UMASK: u64 = 0x10 << 8;
    const AT_LEAST_ONE: u64 = 1 << 24;
    EventSource::Raw(number | UMASK | AT_LEAST_ONE)
}

const LOADS: &str = "dtlb_load_misses.walk_active";
const STORES: &str = "dtlb_store_misses.walk_active";

/// Returns the events that count page walks for loads and for stores on an Intel CPU of family 6
/// with this model; empty if the model is not known.
pub(super) fn events_of_model(model: Option<u32>) -> Vec<Event> {
    let pair = |load, store| {
        vec![event(LOADS, Role::Walking, walks(load)), event(STORES, Role::Walking, walks(store))]
    };
    match model {
        Some(model) if SKYLAKE_ON.contains(&model) => pair(0x08, 0x49),
        Some(model) if SAPPHIRE_RAPIDS_ON.contains(&model) => pair(0x12, 0x13),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_own_numbers() {
        let numbers = |model: Option<u32>| -> Vec<u64> {
            let number = |event: Event| match event.what {
                EventSource::Raw(number) => number,
                _ => 0,
            };
            events_of_model(model).into_iter().map(number).collect()
        };
        assert_eq!(numbers(Some(85)), [0x0100_1008, 0x0100_1049]);
        assert_eq!(numbers(Some(143)), [0x0100_1012, 0x0100_1013]);
        assert!(numbers(Some(1)).is_empty());
        assert!(numbers(None).is_empty());
    }
}
