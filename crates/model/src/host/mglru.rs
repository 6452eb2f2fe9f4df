// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multi-gen LRU.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Reading};

/// `/sys/kernel/mm/lru_gen`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Mglru {
    /// Bits: 1 the core, 2 accessed bits of leaf entries in batches, 4 of non-leaf entries.
    pub enabled: Reading<u32>,
    /// Working set of this age is protected, if need be by killing; 0 is off.
    pub min_ttl: Reading<Millis>,
}

impl Mglru {
    /// Whether pages are chosen by generations; `None` where the kernel does not say.
    pub fn is_on(&self) -> Option<bool> {
        self.enabled.get().map(|bits| bits & 1 == 1)
    }
}
