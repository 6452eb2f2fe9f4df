// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sizes that are needed to reproduce a kill for lack of memory in a guest, and the results of
//! doing so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::oom::{WhatIfEffect, WhatIfKind};
use crate::{Bytes, Name};

/// Memory use at the time of a kill, scaled down later to reproduce the kill in a guest, and the
/// changes to try.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rebuild {
    /// Whether the limit of a cgroup was reached; otherwise the machine ran out of memory.
    pub of_group: bool,
    /// The cgroup's limit; otherwise, the part of the machine's memory that programs held.
    pub capacity: Bytes,
    /// Memory of the process that grew, in RAM and in swap.
    pub grower: Bytes,
    /// How much more memory the process that grew may take: what it had mapped and not touched.
    /// `null` if it takes all that it can get.
    pub mapped: Option<Bytes>,
    /// Memory of the other processes.
    pub others: Bytes,
    /// Shared memory, which is not freed when a process ends.
    pub shmem: Bytes,
    /// Swap that was in use. It is assumed that all swap was full.
    pub swap: Bytes,
    /// The changes to try, each one alone.
    pub changes: Vec<RebuildChange>,
}

/// A change that could have prevented the kill, to be tried in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildChange {
    /// The change in words.
    pub change: String,
    /// The kind of thing that is changed.
    pub kind: WhatIfKind,
    /// The new size of the limit, of the swap or of the memory that is changed.
    pub size: Bytes,
    /// The effect on the kill that was predicted from the numbers of the log.
    pub effect: WhatIfEffect,
}

/// The result of one attempt to reproduce a kill in a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RebuiltRun {
    /// Index of the change that was tried; `null` if the kill was reproduced without a change.
    pub change: Option<u32>,
    /// Whether a process was killed in the guest.
    pub is_killed: bool,
    /// Memory of the growing process at the end of the run, in the scaled sizes of the guest.
    pub held: Bytes,
    /// The capacity in the guest. All sizes are multiplied by this divided by the original
    /// capacity.
    pub capacity: Bytes,
    /// Why the run failed, in words; the other values are then meaningless. `null` if the run
    /// succeeded.
    pub trouble: Option<String>,
}

/// The results of reproducing a kill in a guest, without and with changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomProof {
    /// Release of the guest's kernel.
    pub kernel: Name,
    /// The sizes from the log, before they were scaled.
    pub rebuild: Rebuild,
    /// The runs: first without a change, then one for each change.
    pub runs: Vec<RebuiltRun>,
    /// For each run, whether its result agrees with the predicted effect of its change; `null` if
    /// nothing was predicted, or if the kill could not be reproduced without a change.
    pub agrees: Vec<Option<bool>>,
}

impl RebuiltRun {
    /// Converts a size in the guest back to the scale of the machine that the log is from.
    #[must_use]
    pub fn scale_back(&self, rebuild: &Rebuild, size: Bytes) -> Bytes {
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
