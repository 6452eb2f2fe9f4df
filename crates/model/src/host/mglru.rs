// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the multi-generational LRU (multi-gen LRU).

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Reading};

/// Settings of multi-gen LRU in `/sys/kernel/mm/lru_gen`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Mglru {
    /// Bit mask of enabled parts. 1: multi-gen LRU itself; 2: clear accessed bits of leaf page
    /// table entries in batches; 4: use accessed bits of non-leaf entries.
    pub enabled: Reading<u32>,
    /// How long a page is protected from eviction after its last use, even if the kernel has to
    /// call the OOM killer instead; 0 means no protection.
    pub min_ttl: Reading<Millis>,
}

impl Mglru {
    /// Whether multi-gen LRU is enabled; `None` if the kernel does not say.
    pub fn is_on(&self) -> Option<bool> {
        self.enabled.get().map(|bits| bits & 1 == 1)
    }
}
