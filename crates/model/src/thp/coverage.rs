// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory of a process is in huge pages, and what the rest looks like.
//!
//! Memory is divided into *blocks*: aligned pieces of address space of the size of a huge page.
//! Only a block that lies entirely in one mapping of private anonymous memory can be collapsed from
//! outside the process. Other memory is counted by size only.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// Memory of an address range by type, in base pages and in huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Anonymous memory in RAM, without the zero page.
    pub anon: Bytes,
    /// Of this, mapped as huge pages.
    pub anon_huge: Bytes,
    /// Pages of files and shmem in RAM.
    pub file: Bytes,
    /// Of this, mapped as huge pages.
    pub file_huge: Bytes,
    /// Memory in swap.
    pub swapped: Bytes,
    /// Address space that maps only the zero page: read, but never written.
    pub zero: Bytes,
}

impl Coverage {
    /// The sum of both.
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

/// Blocks of private anonymous memory by how many of their pages are present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocks {
    /// Mapped as a huge page.
    pub huge: u64,
    /// Every page is present.
    pub full: u64,
    /// At least half of the pages are present.
    pub half: u64,
    /// At least an eighth of the pages is present.
    pub eighth: u64,
    /// Fewer pages are present, but at least one.
    pub sparse: u64,
    /// Memory that would be added if all blocks that are at least half full were collapsed.
    pub growth_of_half: Bytes,
    /// Memory that would be added if all blocks with any page were collapsed, as khugepaged does
    /// with `max_ptes_none` 511.
    pub growth_of_all: Bytes,
}

impl Blocks {
    /// The sum of both.
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
    /// Shared, or a file: shmem and file pages.
    Shared,
    /// Mappings of the kernel, such as `[vdso]`, and devices.
    Special,
}

/// One mapping of a process. Only of a live host: a recording holds no addresses.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MappingCoverage {
    /// Its first address.
    pub start: u64,
    /// Size of its address space.
    pub size: Bytes,
    /// Its name, such as `[heap]` or the path of a file; may be empty.
    pub name: Name,
    /// Its type.
    pub kind: MappingKind,
    /// Whether the kernel would use huge pages for it, by settings, advice and alignment.
    pub eligible: Reading<bool>,
    /// What the program requested: `true` for MADV_HUGEPAGE, `false` for MADV_NOHUGEPAGE; absent if
    /// it requested nothing.
    pub advised: Reading<bool>,
    /// Its memory by type.
    pub coverage: Coverage,
    /// Its blocks by how full they are.
    pub blocks: Blocks,
}

/// A process whose mappings were examined one by one.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ProcessCoverage {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// Size of a block.
    pub block: Bytes,
    /// All its memory by type.
    pub coverage: Coverage,
    /// All its blocks by how full they are.
    pub blocks: Blocks,
    /// Number of its mappings.
    pub mappings: u64,
    /// The mappings with the most memory that huge pages could hold but do not, largest first.
    pub largest: Vec<MappingCoverage>,
    /// How its pages were found.
    pub method: ScanMethod,
    /// Time that examining it took.
    pub seconds: f64,
}

/// How the pages of a process were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanMethod {
    /// With PAGEMAP_SCAN, which returns runs of pages and says which are huge.
    #[default]
    PagemapScan,
    /// On older kernels, by reading pagemap entry by entry. smaps says for each mapping how much of
    /// it is huge.
    Pagemap,
}
