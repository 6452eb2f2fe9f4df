// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernels whose zram is imitated: how they store pages, how they call zstd, and how large a
//! slot of the slot table is.
//!
//! The rows of the table describe Debian's kernels, whose slot sizes were measured with
//! `VmallocUsed`. Each row is named after the release in which its behaviour was measured. For the
//! kernel of a machine, the row is chosen by the features that this kernel has, and never by its
//! version: see [`Kernel::from_traits`].

use crate::library::ZstdCall;
use crate::zsmalloc::{Rule, Zsmalloc};

/// How a kernel version implements zram: a row of [`KERNELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel release in which this behaviour was measured.
    pub name: &'static str,
    /// How the kernel chooses the number of pages in a zspage.
    pub rule: Rule,
    /// How the kernel's zram calls zstd.
    pub zstd: ZstdCall,
    /// Bytes of zram's slot table for each page of disksize.
    pub slot_bytes: u64,
}

/// One row for each group of kernels with the same behaviour, oldest first.
pub const KERNELS: [Kernel; 3] = [
    Kernel { name: "6.1", rule: Rule::UsedPercent, zstd: ZstdCall::ForAnyLength, slot_bytes: 24 },
    Kernel { name: "6.12", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 24 },
    Kernel { name: "7.2", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 16 },
];

const LEAST_WASTE: Rule = Rule::LeastWaste { longest: 8 };

/// Features of a running kernel, by which its row of [`KERNELS`] is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTraits {
    /// The value of `CONFIG_ZSMALLOC_CHAIN_SIZE`; `None` if the configuration does not have it or
    /// cannot be read.
    pub chain_size: Option<usize>,
    /// Whether the kernel's zram devices have the file `algorithm_params`; `None` if no zram device
    /// exists.
    pub algorithm_params: Option<bool>,
    /// Size of a slot of zram's slot table in bytes, measured on an initialised device; `None` if
    /// there is none.
    pub slot_bytes: Option<u64>,
}

impl Kernel {
    /// Returns the row of [`KERNELS`] with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        KERNELS.into_iter().find(|kernel| kernel.name == name)
    }

    /// Returns the row for a kernel with these features. Features that are not known are assumed to
    /// be those of the newest row.
    #[must_use]
    pub fn from_traits(shown: &KernelTraits) -> Self {
        let [old, .., new] = KERNELS;
        let kernel = if shown.algorithm_params == Some(false) { old } else { new };
        let rule = shown.chain_size.map_or(kernel.rule, |longest| Rule::LeastWaste { longest });
        let slot_bytes = shown.slot_bytes.unwrap_or(kernel.slot_bytes);
        Self { name: "this kernel", rule, slot_bytes, ..kernel }
    }

    /// Returns the kernel's zsmalloc pool for pages of this size in bytes.
    #[must_use]
    pub fn pool_for_page_size(&self, page: usize) -> Zsmalloc {
        Zsmalloc::new(page, self.rule)
    }
}
