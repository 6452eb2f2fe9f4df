// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hardware events of a CPU, with the names that `perf list` prints.

use perf_event::Builder;
#[cfg(test)]
use perf_event::events::Software;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

/// The field of [`pagewise_model::PageWalks`] to which a count is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Cycles,
    Instructions,
    LoadMisses,
    StoreMisses,
    FetchMisses,
    Walking,
}

/// An event that a hardware counter of the CPU counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// Name of the event in `perf list`.
    pub(super) name: &'static str,
    pub(super) role: Role,
    pub(super) what: EventSource,
}

/// The way in which an event is requested from the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventSource {
    Hardware(Hardware),
    /// A TLB miss; the kernel knows its event number for each CPU model.
    Miss(CacheId, CacheOp),
    /// The raw number of an event, which is valid only for one CPU model.
    Raw(u64),
    #[cfg(test)]
    Software(Software),
}

/// The events that the kernel knows by name.
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
    /// Creates a counter for this event. The caller must set the thread or CPU to count.
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
