// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kill for lack of memory, as sizes from which it can be done again in a guest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::oom::{WhatIfEffect, WhatIfKind};
use crate::{Bytes, Name};

/// What held the memory when something was killed, and the changes to try.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rebuild {
    /// Whether a cgroup reached its limit, and not the machine the end of its memory.
    pub of_group: bool,
    /// The limit, or the memory of the machine that programs held.
    pub capacity: Bytes,
    /// What the process that grew held, in RAM and swap.
    pub grower: Bytes,
    /// What it may take in addition; `null` if it takes all that it gets.
    pub mapped: Option<Bytes>,
    /// What the other processes held.
    pub others: Bytes,
    /// Shared memory that no process gives back when it ends.
    pub shmem: Bytes,
    /// Swap in use, all of which is taken to have been full.
    pub swap: Bytes,
    /// The changes to try, each alone.
    pub changes: Vec<RebuildChange>,
}

/// A change to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildChange {
    /// The change in words.
    pub change: String,
    /// What is changed.
    pub kind: WhatIfKind,
    /// Its new size.
    pub size: Bytes,
    /// What the numbers of the log say that it would have done.
    pub effect: WhatIfEffect,
}

/// One run of a rebuilt kill in a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RebuiltRun {
    /// Index of the change; `null` for the kill as it was.
    pub change: Option<u32>,
    /// Whether something was killed.
    pub is_killed: bool,
    /// What the process that grew held at the end, in the sizes of the guest.
    pub held: Bytes,
    /// The capacity in the guest, which all sizes are scaled to.
    pub capacity: Bytes,
    /// Why the run could not be done, in words; its other values say nothing then.
    pub trouble: Option<String>,
}

/// A kill that was done again in a guest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomProof {
    /// The guest's kernel.
    pub kernel: Name,
    /// The sizes of the log.
    pub rebuild: Rebuild,
    /// The runs: the kill as it was, then each change.
    pub runs: Vec<RebuiltRun>,
    /// For each run, whether it bears out what was said of the change; `null` if nothing was said
    /// of it, or if the kill as it was did not happen again.
    pub agrees: Vec<Option<bool>>,
}

impl RebuiltRun {
    /// A size of the guest in the size of the machine that the log is from.
    #[must_use]
    pub fn scaled_back(&self, rebuild: &Rebuild, size: Bytes) -> Bytes {
        scale(size, rebuild.capacity, self.capacity)
    }
}

/// `size * to / from`; 0 if `from` is 0.
#[must_use]
pub fn scale(size: Bytes, to: Bytes, from: Bytes) -> Bytes {
    let scaled = u128::from(size.get()) * u128::from(to.get()) / u128::from(from.get().max(1));
    Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_scaled_without_overflow() {
        let bytes = Bytes::new;
        assert_eq!(scale(bytes(3 << 30), bytes(64 << 20), bytes(6 << 30)), bytes(32 << 20));
        assert_eq!(scale(bytes(u64::MAX), bytes(u64::MAX), bytes(1)), bytes(u64::MAX));
        assert_eq!(scale(bytes(7), bytes(7), bytes(0)), bytes(49));
    }
}
