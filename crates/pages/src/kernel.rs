// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which kernel is imitated: how it stores, how it calls zstd, what a slot takes.
//!
//! Rows are those of Debian's kernels, whose slots were measured by `VmallocUsed`; rows are named after the release in which their behaviour was measured. For a machine's own
//! kernel the row is chosen by what it offers, never by its version: see [`Kernel::from_traits`].

use crate::library::ZstdCall;
use crate::zsmalloc::{Rule, Zsmalloc};

/// A row of [`KERNELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The release in which it was measured.
    pub name: &'static str,
    /// How zspages are cut.
    pub rule: Rule,
    /// How zstd is called.
    pub zstd: ZstdCall,
    /// Bytes of zram's table for each page of disksize.
    pub slot_bytes: u64,
}

/// What differs between kernels, oldest first.
pub const KERNELS: [Kernel; 3] = [
    Kernel { name: "6.1", rule: Rule::UsedPercent, zstd: ZstdCall::ForAnyLength, slot_bytes: 24 },
    Kernel { name: "6.12", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 24 },
    Kernel { name: "7.2", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 16 },
];

const LEAST_WASTE: Rule = Rule::LeastWaste { longest: 8 };

/// What a kernel shows of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTraits {
    /// `CONFIG_ZSMALLOC_CHAIN_SIZE`; `None` where its configuration lacks it or cannot be read.
    pub chain_size: Option<usize>,
    /// Whether a zram device has `algorithm_params`; `None` where there is no device.
    pub algorithm_params: Option<bool>,
    /// Bytes of a slot, as a device that is set up shows.
    pub slot_bytes: Option<u64>,
}

impl Kernel {
    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        KERNELS.into_iter().find(|kernel| kernel.name == name)
    }

    /// A kernel that shows this. What it does not show is taken from the newest row.
    #[must_use]
    pub fn from_traits(shown: &KernelTraits) -> Self {
        let [old, .., new] = KERNELS;
        let kernel = if shown.algorithm_params == Some(false) { old } else { new };
        let rule = shown.chain_size.map_or(kernel.rule, |longest| Rule::LeastWaste { longest });
        let slot_bytes = shown.slot_bytes.unwrap_or(kernel.slot_bytes);
        Self { name: "this kernel", rule, slot_bytes, ..kernel }
    }

    /// Its pool for pages of so many bytes.
    #[must_use]
    pub fn pool(&self, page: usize) -> Zsmalloc {
        Zsmalloc::new(page, self.rule)
    }
}
