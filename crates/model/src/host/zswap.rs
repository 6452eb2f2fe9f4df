// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap: compressed RAM in front of disk swap.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Percent, Reading};

/// `/sys/module/zswap/parameters` and what it holds.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the parameter of the same name")]
pub struct Zswap {
    pub enabled: Reading<bool>,
    pub compressor: Reading<Name>,
    /// The allocator; kernels that have only zsmalloc lack the parameter.
    pub zpool: Reading<Name>,
    pub max_pool_percent: Reading<Percent>,
    pub accept_threshold_percent: Reading<Percent>,
    pub shrinker_enabled: Reading<bool>,
    /// Memory that the pool takes (`Zswap:` of meminfo).
    pub pool: Reading<Bytes>,
    /// What is in it, uncompressed (`Zswapped:` of meminfo).
    pub stored: Reading<Bytes>,
    /// Pages written to disk because the pool was full or cold (`zswpwb`).
    pub written_back: Reading<u64>,
}
