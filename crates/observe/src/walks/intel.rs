// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/cpuinfo` → the events that count cycles of page walks, on Intel's processors.
//!
//! The kernel has no name for them. Source: Intel's lists of events for each model (`DTLB_LOAD_MISSES.WALK_ACTIVE`
//! and `DTLB_STORE_MISSES.WALK_ACTIVE` of Skylake, Ice Lake and Sapphire Rapids). Not tried on any of them: we had
//! virtual machines only.

use super::event::{Event, EventSource, Role, event};
use crate::root::HostRoot;
use crate::text::{lines, number};

/// Client and server processors of family 6 from Skylake to Rocket Lake.
const SKYLAKE_ON: [u32; 14] =
    [0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7];
/// Sapphire Rapids and Emerald Rapids.
const SAPPHIRE_RAPIDS_ON: [u32; 2] = [0x8F, 0xCF];

/// Counted while at least one walk is under way.
const fn walks(number: u64) -> EventSource {
    const UMASK: u64 = 0x10 << 8;
    const AT_LEAST_ONE: u64 = 1 << 24;
    EventSource::Raw(number | UMASK | AT_LEAST_ONE)
}

const LOADS: &str = "dtlb_load_misses.walk_active";
const STORES: &str = "dtlb_store_misses.walk_active";

/// For loads and for stores; none where the processor is not known.
pub(super) fn walking(host: &HostRoot) -> Vec<Event> {
    let listed = host.bytes("proc/cpuinfo").unwrap_or_default();
    let pair = |load, store| {
        vec![event(LOADS, Role::Walking, walks(load)), event(STORES, Role::Walking, walks(store))]
    };
    match model(&listed) {
        Some(model) if SKYLAKE_ON.contains(&model) => pair(0x08, 0x49),
        Some(model) if SAPPHIRE_RAPIDS_ON.contains(&model) => pair(0x12, 0x13),
        _ => Vec::new(),
    }
}

/// The model of the first processor, where it is Intel's of family 6.
fn model(bytes: &[u8]) -> Option<u32> {
    let value = |key: &[u8]| {
        lines(bytes).find_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            (line[..at].trim_ascii() == key).then(|| line[at + 1..].trim_ascii())
        })
    };
    let ours = value(b"vendor_id")? == b"GenuineIntel" && value(b"cpu family")? == b"6";
    number(value(b"model")?).filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::host;

    #[test]
    fn a_model_has_its_own_numbers() {
        let named = |vendor: &str, model: u32| {
            let listed = format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: X 7\n\n"
            );
            let text: &'static str = listed.leak();
            walking(&host([("proc/cpuinfo", text)]))
        };
        let numbers = |events: Vec<Event>| -> Vec<u64> {
            let number = |event: Event| match event.what {
                EventSource::Raw(number) => number,
                _ => 0,
            };
            events.into_iter().map(number).collect()
        };
        assert_eq!(numbers(named("GenuineIntel", 85)), [0x0100_1008, 0x0100_1049]);
        assert_eq!(numbers(named("GenuineIntel", 143)), [0x0100_1012, 0x0100_1013]);
        assert!(named("GenuineIntel", 1).is_empty());
        assert!(named("AuthenticAMD", 85).is_empty());
        assert!(walking(&host([("proc/version", "")])).is_empty());
    }
}
