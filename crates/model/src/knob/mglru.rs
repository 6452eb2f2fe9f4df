// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the multi-generational LRU (multi-gen LRU).

use super::row::{COUNT, sysfs, trigger};
use super::{Domain, Knob};

pub(super) const ROWS: &[Knob] = &[
    sysfs(
        "mglru.enabled",
        "sys/kernel/mm/lru_gen/enabled",
        Domain::Bits { all: 7 },
        "0x1 the generations, 0x2 and 0x4 cheaper ageing; reads back fewer bits where CPUs lack some.",
    ),
    sysfs(
        "mglru.min_ttl_ms",
        "sys/kernel/mm/lru_gen/min_ttl_ms",
        COUNT,
        "Protects what was used in the last N ms, 0 for off; kills processes when it cannot.",
    )
    .with_default("0"),
    trigger(
        "mglru.command",
        "sys/kernel/debug/lru_gen",
        Domain::Text,
        "pages have been aged or evicted already",
        "'+ memcg node max_gen' ages, '- memcg node min_gen' evicts; reading lists every generation.",
    ),
];
