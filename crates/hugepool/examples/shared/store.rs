// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocator of an example's objects: a pool, or malloc() (which LD_PRELOAD may replace).

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ptr::NonNull;

use hugepool::{Options, Pool};

/// An allocator.
#[derive(Debug)]
pub(crate) enum Store {
    Pool(Pool),
    Malloc,
}

impl Store {
    /// `hugepool` or `malloc`.
    pub(crate) fn named(name: &str, options: &Options) -> Result<Self, Box<dyn Error>> {
        match name {
            "hugepool" => Ok(Self::Pool(Pool::new(options)?)),
            "malloc" => Ok(Self::Malloc),
            _ => Err(format!("{name}: expected hugepool or malloc").into()),
        }
    }

    /// Allocates a block with undefined contents.
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, Box<dyn Error>> {
        match self {
            Self::Pool(pool) => Ok(pool.allocate(layout)?.cast()),
            // SAFETY: no example asks for 0 bytes.
            Self::Malloc => NonNull::new(unsafe { System.alloc(layout) })
                .ok_or_else(|| "malloc() gave no memory".into()),
        }
    }

    /// # Safety
    /// The block is from `allocate` with this layout and not used any more.
    #[inline]
    pub(crate) unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        match self {
            // SAFETY: as the caller promises.
            Self::Pool(pool) => match unsafe { pool.release(block, layout) } {
                Ok(()) => {}
                Err(error) => eprintln!("a block was not released: {error}"),
            },
            // SAFETY: as the caller promises.
            Self::Malloc => unsafe { System.dealloc(block.as_ptr(), layout) },
        }
    }
}

/// Spreads the bits of a number (multiply and fold).
#[inline]
pub(crate) fn hash(number: u64) -> u64 {
    let wide = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are folded")]
    let folded = (wide >> 64) as u64 ^ wide as u64;
    folded
}

/// Resident memory of this process in bytes.
#[expect(clippy::disallowed_methods, reason = "statm of this process")]
pub(crate) fn resident() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("statm")?.parse()?;
    Ok(pages * 4096)
}
