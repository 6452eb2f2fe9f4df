// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory of a process is in huge pages, and how full the remaining blocks are.
//!
//! Memory is divided into *blocks*: aligned pieces of address space of the size of a huge page.
//! Only a block that lies entirely in one mapping of private anonymous memory can be collapsed from
//! outside the process. Other memory is counted by size only.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// Size of the memory in an address range by type, in base pages and in huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Anonymous memory in RAM, without the zero page.
    pub anon: Bytes,
    /// How much of the anonymous memory is mapped as huge pages.
    pub anon_huge: Bytes,
    /// Pages of files and shmem in RAM.
    pub file: Bytes,
    /// How much of the file pages and shmem is mapped as huge pages.
    pub file_huge: Bytes,
    /// Memory of the range that is in swap.
    pub swapped: Bytes,
    /// Address space that maps only the zero page: read, but never written.
    pub zero: Bytes,
}

impl Coverage {
    /// Adds the sizes of `other` to these, type by type.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            anon: self.anon.saturating_add(other.anon),
            anon_huge: self.anon_huge.saturating_add(other.anon_huge),
            file: self.file.saturating_add(other.file),
            file_huge: self.file_huge.saturating_add(other.file_huge),
            swapped: self.swapped.saturating_add(other.swapped),
            zero: self.zero.saturating_add(other.zero),
        }
    }
}

/// Numbers of blocks of private anonymous memory, by how many of their pages are present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocks {
    /// Blocks that are mapped as a huge page.
    pub huge: u64,
    /// Blocks of which every page is present.
    pub full: u64,
    /// Blocks of which at least half of the pages are present, but not all.
    pub half: u64,
    /// Blocks of which at least an eighth of the pages is present, but less than half of them.
    pub eighth: u64,
    /// Blocks of which less than an eighth of the pages is present, but at least one page.
    pub sparse: u64,
    /// Memory that would be added if every block that is at least half full were collapsed.
    pub growth_of_half: Bytes,
    /// Memory that would be added if every block with any page present were collapsed, as
    /// khugepaged does with `max_ptes_none` 511.
    pub growth_of_all: Bytes,
}

impl Blocks {
    /// Adds the numbers of `other` to these, field by field.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            huge: self.huge + other.huge,
            full: self.full + other.full,
            half: self.half + other.half,
            eighth: self.eighth + other.eighth,
            sparse: self.sparse + other.sparse,
            growth_of_half: self.growth_of_half.saturating_add(other.growth_of_half),
            growth_of_all: self.growth_of_all.saturating_add(other.growth_of_all),
        }
    }
}

/// The type of a mapping, as far as it matters for huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MappingKind {
    /// Private memory without a file.
    #[default]
    Anonymous,
    /// A private mapping of a file: pages that were written are anonymous.
    PrivateFile,
    /// A shared mapping, or a mapping of a file: its pages are shmem or file pages.
    Shared,
    /// A mapping of the kernel, such as `[vdso]`, or of a device.
    Special,
}

/// One mapping of a process and its memory. It is known only for a live host, because recordings do
/// not contain addresses.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MappingCoverage {
    /// First address of the mapping.
    pub start: u64,
    /// Size of the mapping's address space.
    pub size: Bytes,
    /// Name of the mapping, such as `[heap]` or the path of a file; may be empty.
    pub name: Name,
    /// Type of the mapping, as far as it matters for huge pages.
    pub kind: MappingKind,
    /// Whether the kernel would use huge pages for the mapping, by settings, advice and alignment.
    pub eligible: Reading<bool>,
    /// What the program requested for the mapping: `true` for MADV_HUGEPAGE, `false` for
    /// MADV_NOHUGEPAGE; absent if it requested nothing.
    pub advised: Reading<bool>,
    /// Memory of the mapping by type.
    pub coverage: Coverage,
    /// Blocks of the mapping by how full they are.
    pub blocks: Blocks,
}

/// A process whose mappings were examined one by one.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ProcessCoverage {
    /// Process id.
    pub pid: u32,
    /// Name of the process's command.
    pub name: Name,
    /// Size of a block: that of a huge page.
    pub block: Bytes,
    /// All memory of the process by type.
    pub coverage: Coverage,
    /// All blocks of the process by how full they are.
    pub blocks: Blocks,
    /// Number of the process's mappings.
    pub mappings: u64,
    /// The mappings that have the most memory outside of huge pages, largest first.
    pub largest: Vec<MappingCoverage>,
    /// How the pages of the process were found.
    pub method: ScanMethod,
    /// Time in seconds that examining the process took.
    pub seconds: f64,
}

/// How the pages of a process were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanMethod {
    /// The ioctl PAGEMAP_SCAN, which returns runs of pages and reports which are huge.
    #[default]
    PagemapScan,
    /// On older kernels, pagemap was read entry by entry. How much of each mapping is huge comes
    /// from smaps.
    Pagemap,
}
