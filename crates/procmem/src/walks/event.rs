// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a processor, as the kernel names them.

use perf_event::Builder;
#[cfg(test)]
use perf_event::events::Software;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

/// What a count is good for: its place among the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Cycles,
    Instructions,
    LoadMisses,
    StoreMisses,
    FetchMisses,
    Walking,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// As `perf list` has it.
    pub(super) name: &'static str,
    pub(super) role: Role,
    pub(super) what: EventSource,
}

/// How the kernel is asked for it.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventSource {
    Hardware(Hardware),
    /// A miss of a TLB: the kernel knows what each kind of processor calls that.
    Miss(CacheId, CacheOp),
    /// By number, which means something on one kind of processor only.
    Raw(u64),
    #[cfg(test)]
    Software(Software),
}

/// Those that the kernel has a name for.
pub(super) const EVENTS: [Event; 5] = [
    event("cycles", Role::Cycles, EventSource::Hardware(Hardware::CPU_CYCLES)),
    event("instructions", Role::Instructions, EventSource::Hardware(Hardware::INSTRUCTIONS)),
    event("dTLB-load-misses", Role::LoadMisses, EventSource::Miss(CacheId::DTLB, CacheOp::READ)),
    event("dTLB-store-misses", Role::StoreMisses, EventSource::Miss(CacheId::DTLB, CacheOp::WRITE)),
    event("iTLB-load-misses", Role::FetchMisses, EventSource::Miss(CacheId::ITLB, CacheOp::READ)),
];

pub(super) const fn event(name: &'static str, role: Role, what: EventSource) -> Event {
    Event { name, role, what }
}

impl EventSource {
    /// A counter of it, to be told whom to count.
    pub(super) fn counter<'a>(self) -> Builder<'a> {
        match self {
            Self::Hardware(hardware) => Builder::new(hardware),
            Self::Raw(config) => Builder::new(Raw::new(config)),
            Self::Miss(which, operation) => {
                Builder::new(Cache { which, operation, result: CacheResult::MISS })
            }
            #[cfg(test)]
            Self::Software(software) => Builder::new(software),
        }
    }
}
