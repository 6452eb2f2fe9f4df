// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools of preallocated huge pages.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Reading};

/// One hugetlb pool: a page size, on all nodes or on one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugePool {
    /// Size of its pages.
    pub page_bytes: Bytes,
    /// The node; `null` for the sum over all nodes.
    pub node: Option<u32>,
    /// Huge pages in the pool.
    pub total: Reading<u64>,
    /// Huge pages that are not in use.
    pub free: Reading<u64>,
    /// Huge pages reserved for mappings that have not touched them yet; the kernel counts them for
    /// all nodes together only.
    pub reserved: Reading<u64>,
    /// Huge pages beyond the configured number; they are released when they are freed.
    pub surplus: Reading<u64>,
}
