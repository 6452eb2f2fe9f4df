// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools and tables for C. A `hugepool *` is the pointer inside a [`Pool`]; a `hugepool_table *` is
//! a [`Table`].

use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::coverage::CCoverage;
use super::result::{Code, INVALID, run_for_code, store, to_code};
use crate::shared::Core;
use crate::{Error, Fork, Options, Pool, Statistics, Switch, Table};

/// The C type `hugepool`: the target of a pool's handles. C knows only its address.
#[derive(Debug)]
#[repr(transparent)]
pub struct CPool(Core);

/// Alignment of blocks in bytes if the caller passes 0, as for malloc().
const USUAL_ALIGNMENT: usize = 16;

/// The C structure `hugepool_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct COptions {
    /// Size of the structure as the caller knows it: `sizeof(hugepool_options)`.
    pub size: usize,
    /// Maximum bytes that the pool may map, 0 without a limit; see [`Options::limit`].
    pub limit: usize,
    /// Bytes of empty huge pages that the pool keeps; see [`Options::retain`].
    pub retain: usize,
    /// How huge pages are requested: -1: `PAGEWISE_THP` and the machine decide; 0: off; 1: on; 2:
    /// advised.
    pub thp: c_int,
    /// What a child by fork() gets: 0: a copy of the pool's memory; 1: nothing.
    pub fork: c_int,
    /// Whether each release is checked: 1: yes; 0: no; -1: only in debug builds of the library.
    pub checks: c_int,
}

impl COptions {
    fn parse_options(&self) -> Result<Options, Code> {
        if self.size != size_of::<Self>() {
            return Err(INVALID);
        }
        let usual = Options::default();
        Ok(Options {
            limit: if self.limit == 0 { usize::MAX } else { self.limit },
            retain: self.retain,
            fork: match self.fork {
                0 => Fork::Copy,
                1 => Fork::Exclude,
                _ => return Err(INVALID),
            },
            switch: to_switch(self.thp)?,
            checks: match self.checks {
                -1 => usual.checks,
                0 => false,
                1 => true,
                _ => return Err(INVALID),
            },
        })
    }
}

fn to_switch(number: c_int) -> Result<Option<Switch>, Code> {
    match number {
        -1 => Ok(None),
        0 => Ok(Some(Switch::Off)),
        1 => Ok(Some(Switch::On)),
        2 => Ok(Some(Switch::Advised)),
        _ => Err(INVALID),
    }
}

fn to_layout(size: usize, alignment: usize) -> Result<Layout, Code> {
    let alignment = if alignment == 0 { USUAL_ALIGNMENT } else { alignment };
    if !alignment.is_power_of_two() {
        return Err(to_code(&Error::Alignment { requested: alignment, largest: 0 }));
    }
    Layout::from_size_align(size, alignment).map_err(|_| to_code(&Error::TooLarge))
}

/// Calls a function with the pool to which a pointer from C refers.
///
/// # Safety
/// The pointer is NULL or from `hugepool_create`, and `hugepool_destroy` was not called for it.
#[inline]
unsafe fn with_pool<R>(
    pool: *const CPool,
    run: impl FnOnce(&Pool) -> Result<R, Error>,
) -> Result<R, Code> {
    if pool.is_null() {
        return Err(INVALID);
    }
    // SAFETY: the pointer is from `Pool::into_raw`; this handle is not dropped.
    let pool = ManuallyDrop::new(unsafe { Pool::from_raw(pool.cast()) });
    run(&pool).map_err(|error| to_code(&error))
}

/// Creates a pool; if `options` is NULL, with the default options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_create(options: *const COptions, out: *mut *const CPool) -> Code {
    run_for_code(|| {
        if out.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller promises NULL or its options, whose size is checked before anything else is used.
        let options = unsafe { options.as_ref() };
        let options = options.map_or_else(|| Ok(Options::default()), COptions::parse_options)?;
        let pool = Pool::new(&options).map_err(|error| to_code(&error))?;
        // SAFETY: the caller promises that `out` may be written.
        unsafe { store(out, pool.into_raw().cast()) }
    })
}

/// Returns all memory of a pool to the kernel, including blocks in use. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_destroy(pool: *const CPool) {
    if !pool.is_null() {
        let _ = run_for_code(|| {
            // SAFETY: the caller promises that the pointer is from hugepool_create and not used any more.
            drop(unsafe { Pool::from_raw(pool.cast()) });
            Ok(())
        });
    }
}

/// Allocates a block from a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_allocate(
    pool: *const CPool,
    size: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> Code {
    run_for_code(|| {
        if out.is_null() {
            return Err(INVALID);
        }
        let layout = to_layout(size, alignment)?;
        // SAFETY: the caller promises a pool, and that `out` may be written.
        unsafe {
            let block = with_pool(pool, |pool| pool.allocate(layout))?;
            store(out, block.as_ptr().cast())
        }
    })
}

/// Releases a block of any size to its pool. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_release(pool: *const CPool, block: *mut c_void) -> Code {
    let Some(block) = NonNull::new(block.cast()) else { return 0 };
    // SAFETY: the caller promises a pool and one of its blocks that is not used any more.
    run_for_code(|| unsafe { with_pool(pool, |pool| pool.release_any(block)) })
}

/// Releases a block to its pool, with the size and alignment of its allocation. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_release_sized(
    pool: *const CPool,
    block: *mut c_void,
    size: usize,
    alignment: usize,
) -> Code {
    let Some(block) = NonNull::new(block.cast()) else { return 0 };
    run_for_code(|| {
        let layout = to_layout(size, alignment)?;
        // SAFETY: the caller promises a pool and one of its blocks that is not used any more.
        unsafe { with_pool(pool, |pool| pool.release(block, layout)) }
    })
}

/// The usable size in bytes of the block that begins at an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_usable_size(
    pool: *const CPool,
    block: *const c_void,
    out: *mut usize,
) -> Code {
    run_for_code(|| {
        let block = NonNull::new(block.cast_mut().cast()).ok_or(INVALID)?;
        // SAFETY: the caller promises a pool, and that `out` may be written.
        unsafe {
            let size = with_pool(pool, |pool| pool.usable_size(block))?;
            store(out, size)
        }
    })
}

/// Returns the empty huge pages of a pool to the kernel; the result is their size in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_trim(pool: *const CPool) -> usize {
    // SAFETY: the caller promises a pool.
    unsafe { with_pool(pool, |pool| Ok(pool.trim())).unwrap_or(0) }
}

/// Asks the kernel to collapse a pool into huge pages; returns the number of bytes that the kernel did not
/// collapse.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_collapse(pool: *const CPool) -> usize {
    // SAFETY: the caller promises a pool.
    unsafe { with_pool(pool, |pool| Ok(pool.collapse())).unwrap_or(0) }
}

/// The C structure `hugepool_stats`: the state and counters of a pool. Sizes are in bytes, the other counters are
/// numbers of blocks or calls.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CStatistics {
    /// Size of a huge page in bytes.
    pub huge_page: u64,
    /// Bytes of address space of the pool; see [`Statistics::mapped`].
    pub mapped: u64,
    /// Bytes of empty huge pages that the pool keeps; see [`Statistics::retained`].
    pub retained: u64,
    /// Mapped bytes in huge pages; see [`Statistics::huge`].
    pub huge: u64,
    /// Mapped bytes in small pages; see [`Statistics::small`].
    pub small: u64,
    /// Mapped bytes whose backing was not checked; see [`Statistics::unchecked`].
    pub unchecked: u64,
    /// Bytes of blocks in use; see [`Statistics::live`].
    pub live: u64,
    /// Number of blocks in use; see [`Statistics::live_blocks`].
    pub live_blocks: u64,
    /// Number of allocations; see [`Statistics::allocations`].
    pub allocations: u64,
    /// Number of releases; see [`Statistics::releases`].
    pub releases: u64,
    /// How often the kernel refused memory; see [`Statistics::out_of_memory`].
    pub out_of_memory: u64,
    /// Number of wrong releases; see [`Statistics::wrong_releases`].
    pub wrong_releases: u64,
    /// Error number of the last refused huge page, 0 if the kernel never refused; see
    /// [`Statistics::huge_errno`].
    pub huge_errno: c_int,
    /// How the pool requests huge pages: 0: off; 1: on; 2: advised.
    pub thp: c_int,
}

impl CStatistics {
    fn new(of: &Statistics) -> Self {
        Self {
            huge_page: of.huge_page as u64,
            mapped: of.mapped as u64,
            retained: of.retained as u64,
            huge: of.huge as u64,
            small: of.small as u64,
            unchecked: of.unchecked as u64,
            live: of.live,
            live_blocks: of.live_blocks,
            allocations: of.allocations,
            releases: of.releases,
            out_of_memory: of.out_of_memory,
            wrong_releases: of.wrong_releases,
            huge_errno: of.huge_errno.unwrap_or(0),
            thp: match of.switch {
                Switch::Off => 0,
                Switch::On => 1,
                Switch::Advised => 2,
            },
        }
    }
}

/// Stores the state and counters of a pool in `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_statistics(pool: *const CPool, out: *mut CStatistics) -> Code {
    // SAFETY: the caller promises a pool, and that `out` may be written.
    run_for_code(|| unsafe {
        let statistics = with_pool(pool, |pool| Ok(pool.statistics()))?;
        store(out, CStatistics::new(&statistics))
    })
}

/// Stores how much of a pool is resident and in huge pages in `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_pool_coverage(pool: *const CPool, out: *mut CCoverage) -> Code {
    // SAFETY: the caller promises a pool, and that `out` may be written.
    run_for_code(|| unsafe {
        let (coverage, method) = with_pool(pool, Pool::coverage_and_method)?;
        store(out, CCoverage::new(&coverage, method))
    })
}

/// Creates a table of `count` blocks; `thp` has the values of the field in `hugepool_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_table_create(
    block: usize,
    count: usize,
    thp: c_int,
    out: *mut *mut Table,
) -> Code {
    run_for_code(|| {
        if out.is_null() {
            return Err(INVALID);
        }
        let table = Table::new(block, count, to_switch(thp)?).map_err(|error| to_code(&error))?;
        // SAFETY: the caller promises that `out` may be written.
        unsafe { store(out, Box::into_raw(Box::new(table))) }
    })
}

/// Returns all memory of a table to the kernel. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_table_destroy(table: *mut Table) {
    if !table.is_null() {
        let _ = run_for_code(|| {
            // SAFETY: the caller promises that the pointer is from hugepool_table_create and not used any more.
            drop(unsafe { Box::from_raw(table) });
            Ok(())
        });
    }
}

/// Takes a free block from a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_table_acquire(
    table: *const Table,
    out: *mut *mut c_void,
) -> Code {
    run_for_code(|| {
        if out.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller promises NULL or a table, and that `out` may be written.
        unsafe {
            let table = table.as_ref().ok_or(INVALID)?;
            let block = table.acquire().map_err(|error| to_code(&error))?;
            store(out, block.as_ptr().cast())
        }
    })
}

/// Releases a block to its table. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_table_release(table: *const Table, block: *mut c_void) -> Code {
    let Some(block) = NonNull::new(block.cast()) else { return 0 };
    run_for_code(|| {
        // SAFETY: the caller promises NULL or a table, and a block that is not used any more.
        unsafe {
            let table = table.as_ref().ok_or(INVALID)?;
            table.release(block).map_err(|error| to_code(&error))
        }
    })
}

/// Stores how much of a table is resident and in huge pages in `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_table_coverage(table: *const Table, out: *mut CCoverage) -> Code {
    run_for_code(|| {
        // SAFETY: the caller promises NULL or a table, and that `out` may be written.
        unsafe {
            let table = table.as_ref().ok_or(INVALID)?;
            let (coverage, method) =
                table.coverage_and_method().map_err(|error| to_code(&error))?;
            store(out, CCoverage::new(&coverage, method))
        }
    })
}
