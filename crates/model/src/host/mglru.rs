// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multi-gen LRU.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Reading};

/// `/sys/kernel/mm/lru_gen`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Mglru {
    /// Bits: 1: multi-gen LRU; 2: clear accessed bits of leaf page table entries in batches; 4: use
    /// accessed bits of non-leaf entries.
    pub enabled: Reading<u32>,
    /// Pages that were used within this time are not evicted, even if the OOM killer has to be
    /// called instead; 0 is off.
    pub min_ttl: Reading<Millis>,
}

impl Mglru {
    /// Whether multi-gen LRU is enabled; `None` if the kernel does not say.
    pub fn is_on(&self) -> Option<bool> {
        self.enabled.get().map(|bits| bits & 1 == 1)
    }
}
