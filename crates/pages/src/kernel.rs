// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel whose zram is imitated: how it stores pages, how it calls zstd, how large a slot is.
//!
//! The rows are those of Debian's kernels, whose slot sizes were measured with `VmallocUsed`; each
//! is named after the release in which its behaviour was measured. For a machine's own kernel the
//! row is chosen by the features it has, never by its version: see [`Kernel::from_traits`].

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

/// One entry for each kernel that behaves differently, oldest first.
pub const KERNELS: [Kernel; 3] = [
    Kernel { name: "6.1", rule: Rule::UsedPercent, zstd: ZstdCall::ForAnyLength, slot_bytes: 24 },
    Kernel { name: "6.12", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 24 },
    Kernel { name: "7.2", rule: LEAST_WASTE, zstd: ZstdCall::ForPage, slot_bytes: 16 },
];

const LEAST_WASTE: Rule = Rule::LeastWaste { longest: 8 };

/// Features of a running kernel, from which its row of [`KERNELS`] is found.
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
    /// The row of [`KERNELS`] with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        KERNELS.into_iter().find(|kernel| kernel.name == name)
    }

    /// The row for a kernel with these features. Unknown features are taken from the newest row.
    #[must_use]
    pub fn from_traits(shown: &KernelTraits) -> Self {
        let [old, .., new] = KERNELS;
        let kernel = if shown.algorithm_params == Some(false) { old } else { new };
        let rule = shown.chain_size.map_or(kernel.rule, |longest| Rule::LeastWaste { longest });
        let slot_bytes = shown.slot_bytes.unwrap_or(kernel.slot_bytes);
        Self { name: "this kernel", rule, slot_bytes, ..kernel }
    }

    /// The kernel's zsmalloc pool for pages with this size in bytes.
    #[must_use]
    pub fn pool(&self, page: usize) -> Zsmalloc {
        Zsmalloc::new(page, self.rule)
    }
}
