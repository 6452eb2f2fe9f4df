// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools of preallocated huge pages.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Reading};

/// One hugetlb pool: huge pages of one size, either the sum over all NUMA nodes or those of one
/// node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugePool {
    /// Size of the pool's huge pages.
    pub page_bytes: Bytes,
    /// Number of the NUMA node; `null` for the sum over all nodes.
    pub node: Option<u32>,
    /// Number of huge pages in the pool.
    pub total: Reading<u64>,
    /// Number of huge pages in the pool that are not in use.
    pub free: Reading<u64>,
    /// Number of huge pages reserved for mappings that have not touched them yet; the kernel counts
    /// them for all nodes together only.
    pub reserved: Reading<u64>,
    /// Number of surplus huge pages: pages beyond the configured number, which leave the pool when
    /// they are freed.
    pub surplus: Reading<u64>,
}
