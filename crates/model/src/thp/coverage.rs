// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory of a process is in huge pages, and what the rest looks like.
//!
//! Memory is cut into *blocks*: pieces of address space as large and as aligned as a huge page. Only
//! a block that lies in one mapping of private anonymous memory as a whole can be collapsed from
//! outside; the others are counted with the sizes and not here.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// What pages of an address range are, by size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Anonymous memory in RAM, the page of zeros left out.
    pub anon: Bytes,
    /// Of that, mapped as huge pages.
    pub anon_huge: Bytes,
    /// Pages of files and shmem in RAM.
    pub file: Bytes,
    /// Of that, mapped as huge pages.
    pub file_huge: Bytes,
    /// In swap.
    pub swapped: Bytes,
    /// Where only the page of zeros is mapped: read, never written.
    pub zero: Bytes,
}

impl Coverage {
    /// Both together.
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

/// Blocks of private anonymous memory by how full they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocks {
    /// Huge pages already.
    pub huge: u64,
    /// Every page is there.
    pub full: u64,
    /// At least half of the pages are there.
    pub half: u64,
    /// At least an eighth is there.
    pub eighth: u64,
    /// Less than that, but some.
    pub sparse: u64,
    /// Pages that would be made if all that are at least half full were collapsed.
    pub growth_of_half: Bytes,
    /// The same for all that hold anything: what khugepaged does with `max_ptes_none` 511.
    pub growth_of_all: Bytes,
}

impl Blocks {
    /// Both together.
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

/// What a mapping is, as far as huge pages care.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MappingKind {
    /// Private memory without a file.
    #[default]
    Anonymous,
    /// A private mapping of a file: what was written to is anonymous.
    PrivateFile,
    /// Shared, or a file: shmem and file pages.
    Shared,
    /// The kernel's own, as `[vdso]`, and devices.
    Special,
}

/// One mapping of a process. Live only: a recording holds no addresses.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MappingCoverage {
    /// Where it begins.
    pub start: u64,
    /// Address space.
    pub size: Bytes,
    /// Its name, as `[heap]` or the path of a file; may be empty.
    pub name: Name,
    /// What it is.
    pub kind: MappingKind,
    /// Whether the kernel would give it huge pages, by settings, advice and alignment.
    pub eligible: Reading<bool>,
    /// What the program asked for: `true` for MADV_HUGEPAGE, `false` for MADV_NOHUGEPAGE; absent
    /// where it asked for nothing.
    pub advised: Reading<bool>,
    /// Its memory.
    pub coverage: Coverage,
    /// Its blocks.
    pub blocks: Blocks,
}

/// A process that was looked at mapping by mapping.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ProcessCoverage {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// How large a block is.
    pub block: Bytes,
    /// All its memory.
    pub coverage: Coverage,
    /// All its blocks.
    pub blocks: Blocks,
    /// How many mappings it has.
    pub mappings: u64,
    /// Mappings with memory that huge pages could hold, most memory outside them first; the largest.
    pub largest: Vec<MappingCoverage>,
    /// How the pages were found: by PAGEMAP_SCAN, or by reading smaps and pagemap.
    pub method: ScanMethod,
    /// Time that looking took.
    pub seconds: f64,
}

/// How pages were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanMethod {
    /// PAGEMAP_SCAN tells runs of pages, and which are huge.
    #[default]
    PagemapScan,
    /// Older kernels: pagemap entry by entry; which are huge is told per mapping, by smaps.
    Pagemap,
}
