// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit that caused a kill, and the maximum number of kills that are explained.

use pagewise_model::{Bytes, OomKill};

/// Maximum number of kills that are explained; the newest are chosen.
pub(super) const SHOWN: usize = 10;

/// Returns the size of the limit that was reached when the kernel killed.
pub(crate) fn limit(kill: &OomKill) -> Option<Bytes> {
    let group = kill.group_memory.as_ref()?;
    let full = |usage: Option<pagewise_model::OomUsage>| {
        let usage = usage?;
        let limit = usage.limit.bytes()?;
        (usage.usage >= limit).then_some(limit)
    };
    full(group.memory)
        .or_else(|| full(group.memory_and_swap))
        .or_else(|| group.memory?.limit.bytes())
}
