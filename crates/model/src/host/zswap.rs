// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap: a pool of compressed pages in RAM in front of a swap device.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Percent, Reading};

/// Module parameters of zswap in `/sys/module/zswap/parameters`, and the contents of its pool.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the parameter of the same name")]
pub struct Zswap {
    pub enabled: Reading<bool>,
    pub compressor: Reading<Name>,
    /// The allocator of the pool; absent on kernels that have only zsmalloc.
    pub zpool: Reading<Name>,
    pub max_pool_percent: Reading<Percent>,
    pub accept_threshold_percent: Reading<Percent>,
    pub shrinker_enabled: Reading<bool>,
    /// RAM that the pool takes (`Zswap:` of meminfo).
    pub pool: Reading<Bytes>,
    /// Uncompressed size of the pages in the pool (`Zswapped:` of meminfo).
    pub stored: Reading<Bytes>,
    /// Number of pages written back from the pool to the swap device, because the pool was full or
    /// because they were cold (`zswpwb`).
    pub written_back: Reading<u64>,
}
