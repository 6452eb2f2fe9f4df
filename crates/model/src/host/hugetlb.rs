// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools of preallocated huge pages.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Reading};

/// One pool: a page size, on all nodes or on one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugePool {
    /// The size of one page of it.
    pub page_bytes: Bytes,
    /// The node; `null` for the sum over all nodes.
    pub node: Option<u32>,
    /// Huge pages in the pool.
    pub total: Reading<u64>,
    /// Not used by anybody.
    pub free: Reading<u64>,
    /// Promised to mappings and not touched yet; the kernel says so for all nodes only.
    pub reserved: Reading<u64>,
    /// Over the configured number, given back when freed.
    pub surplus: Reading<u64>,
}
