// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools of huge pages from which programs allocate blocks.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::coverage::{self, Coverage};
use crate::machine::Switch;
use crate::options::Options;
use crate::shared::Core;
use crate::size_class::SizeClass;
use crate::stats::Statistics;
use crate::{Error, cache, index};

/// A pool of memory in huge pages, for objects with similar lifetimes.
///
/// A `Pool` is a handle: clones refer to the same pool. When the last handle is dropped, all memory
/// of the pool is returned to the kernel, including blocks in use. Any thread may call any method.
///
/// ```
/// use std::alloc::Layout;
///
/// let pool = hugepool::Pool::new(&hugepool::Options::long_lived())?;
/// let layout = Layout::from_size_align(100, 8)?;
/// let block = pool.allocate(layout)?;
/// assert!(block.len() >= 100);
/// // SAFETY: the block is from this pool and this layout, and is not used any more.
/// unsafe { pool.release(block.cast(), layout)? };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    core: Arc<Core>,
}

impl Pool {
    /// Creates a pool. Memory is mapped only by the first allocation.
    ///
    /// # Errors
    /// [`Error::Switch`] if `PAGEWISE_THP` is invalid and the options do not override it;
    /// [`Error::OutOfMemory`].
    pub fn new(options: &Options) -> Result<Self, Error> {
        let core = Core::open(options)?;
        Ok(Self { core })
    }

    /// Allocates a block of at least the layout's size. The returned slice covers the whole usable
    /// size of the block.
    ///
    /// The block contains old data of an earlier block, or zeros.
    ///
    /// # Errors
    /// [`Error::ZeroSize`]; [`Error::Alignment`] above a huge page; [`Error::Limit`];
    /// [`Error::OutOfMemory`]; [`Error::Forked`].
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, Error> {
        let found = SizeClass::for_layout(layout.size(), layout.align());
        let kept = found.filter(|class| class.is_cached_by_threads() && self.core.can_use_caches());
        match kept.and_then(|class| cache::take(&self.core, class)) {
            Some(block) => block,
            None => self.allocate_locked(layout, found),
        }
    }

    #[cold]
    fn allocate_locked(
        &self,
        layout: Layout,
        class: Option<SizeClass>,
    ) -> Result<NonNull<[u8]>, Error> {
        self.core.check_open()?;
        let size = layout.size();
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        let chunk = self.core.chunk;
        if layout.align() > chunk {
            return Err(Error::Alignment { requested: layout.align(), largest: chunk });
        }
        let mut locked = self.core.locked.lock();
        let is_small = layout.align() <= chunk / crate::chunk::SPANS;
        let (block, size) = match class.filter(|_| is_small) {
            Some(class) => {
                let mut taken = None;
                locked.arena.take(class, 1, |block| taken = Some(block))?;
                (taken.ok_or(Error::RECORDS)?, class.size())
            }
            None if is_small && size <= chunk => locked.arena.take_run(size)?,
            None => locked.arena.take_large(size)?,
        };
        locked.tallied.allocate(size);
        Ok(NonNull::slice_from_raw_parts(block, size))
    }

    /// Releases a block.
    ///
    /// # Errors
    /// With checks (debug builds), [`Error::Foreign`], [`Error::DoubleRelease`] and
    /// [`Error::WrongBlock`]: the block is refused, and nothing changes. Without checks, these
    /// errors are returned only for blocks above 16 KiB; smaller ones are checked when the thread's
    /// free blocks are returned to the pool, and are then counted as
    /// [`Statistics::wrong_releases`]; until then a block that was released twice can be allocated
    /// twice.
    ///
    /// # Safety
    /// The block is from `allocate` of this pool with a layout of the same size and alignment, has
    /// not been released since, and is not used any more. (With checks a wrong block is refused,
    /// but a block that is still in use is released.)
    #[inline]
    #[expect(unsafe_code, reason = "who releases a block promises not to use it any more")]
    pub unsafe fn release(&self, block: NonNull<u8>, layout: Layout) -> Result<(), Error> {
        let found = SizeClass::for_layout(layout.size(), layout.align());
        let kept = found.filter(|class| class.is_cached_by_threads() && self.core.can_use_caches());
        match kept.and_then(|class| cache::put(&self.core, block, class)) {
            Some(done) => done,
            None => self.release_locked(block, Some(layout)),
        }
    }

    /// Releases a block of unknown size, which is looked up by its address.
    ///
    /// # Errors
    /// The errors of [`Pool::release`]; [`Error::Foreign`] is detected also without checks.
    ///
    /// # Safety
    /// The requirements of [`Pool::release`].
    #[inline]
    #[expect(unsafe_code, reason = "who releases a block promises not to use it any more")]
    pub unsafe fn release_any(&self, block: NonNull<u8>) -> Result<(), Error> {
        if !self.core.can_use_caches() {
            return self.release_locked(block, None);
        }
        match index::find_class(block.addr().get()) {
            Some((pool, class)) if pool == self.core.number && class.is_cached_by_threads() => {
                cache::put(&self.core, block, class)
                    .unwrap_or_else(|| self.release_locked(block, None))
            }
            _ => self.release_locked(block, None),
        }
    }

    #[cold]
    fn release_locked(&self, block: NonNull<u8>, layout: Option<Layout>) -> Result<(), Error> {
        self.core.check_open()?;
        let mut locked = self.core.locked.lock();
        let address = block.addr().get();
        let size = locked.arena.size_at(address);
        // If no block begins at the address, `size` is an error; `put` below returns the one that
        // applies.
        if let (Ok(size), Some(layout)) = (&size, layout) {
            if *size < layout.size()
                || self.usable_size_for(layout).is_some_and(|usable| usable != *size)
            {
                return Err(Error::WrongBlock);
            }
        }
        let size = locked.arena.put(address)?;
        locked.tallied.release(size);
        Ok(())
    }

    /// The usable size in bytes of a block for this layout; `None` if the layout has no size class.
    fn usable_size_for(&self, layout: Layout) -> Option<usize> {
        let is_small = layout.align() <= self.core.chunk / crate::chunk::SPANS;
        let class = SizeClass::for_layout(layout.size(), layout.align());
        class.filter(|_| is_small).map(SizeClass::size)
    }

    /// Whether the address is in memory that this pool has mapped.
    pub fn owns(&self, block: NonNull<u8>) -> bool {
        index::find_owner(block.addr().get()).is_some_and(|owner| owner.pool == self.core.number)
    }

    /// The usable size of the block that begins at an address, in bytes.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::WrongBlock`], [`Error::Forked`].
    pub fn usable_size(&self, block: NonNull<u8>) -> Result<usize, Error> {
        self.core.check_open()?;
        self.core.arena().size_at(block.addr().get())
    }

    /// Returns the retained empty huge pages to the kernel; the result is their size in bytes.
    ///
    /// Free blocks of the calling thread are returned to the pool first; those of other threads
    /// stay.
    pub fn trim(&self) -> usize {
        if !self.core.is_open() {
            return 0;
        }
        cache::return_all(&self.core);
        self.core.arena().trim()
    }

    /// Asks the kernel to collapse the whole pool into huge pages now (`MADV_COLLAPSE`, Linux 6.1):
    /// after a fork(), or if the kernel had no huge pages before. Returns the number of bytes that
    /// the kernel did not collapse; [`Statistics::huge_errno`] says why.
    ///
    /// Calls that need the pool's lock wait meanwhile. With [`Switch::Off`] nothing is done.
    pub fn collapse(&self) -> usize {
        if !self.core.is_open() || self.core.switch == Switch::Off {
            return 0;
        }
        self.core.arena().collapse()
    }

    /// The present state and counters of the pool.
    pub fn statistics(&self) -> Statistics {
        let locked = self.core.locked.lock();
        let mut tallied = locked.tallied;
        for tally in &locked.tallies {
            tallied.add(tally.read());
        }
        Statistics::new(
            (self.core.switch, self.core.machine, self.core.chunk),
            &locked.arena.counts,
            tallied,
        )
    }

    /// How much of the pool's memory is resident and in huge pages, according to the kernel.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if /proc is not mounted; [`Error::Forked`].
    pub fn coverage(&self) -> Result<Coverage, Error> {
        self.coverage_and_method().map(|(coverage, _)| coverage)
    }

    pub(crate) fn coverage_and_method(&self) -> Result<(Coverage, coverage::Method), Error> {
        self.core.check_open()?;
        let ranges = self.core.arena().ranges()?;
        coverage::measure_ranges(ranges).map_err(|error| Error::unreadable(&error))
    }
}

/// Conversions for C, where a handle of a pool is the pointer inside the [`Arc`], so that a handle
/// needs no memory of its own.
impl Pool {
    /// Turns the handle of a pool into a pointer without dropping it.
    pub(crate) fn into_raw(self) -> *const Core {
        let pool = std::mem::ManuallyDrop::new(self);
        Arc::as_ptr(&pool.core)
    }

    /// Turns a pointer from `into_raw` into a handle again.
    ///
    /// # Safety
    /// The pointer is from `into_raw`. Only one of the handles that are made from it may be
    /// dropped.
    #[expect(unsafe_code, reason = "the pointer comes back from C")]
    pub(crate) unsafe fn from_raw(core: *const Core) -> Self {
        // SAFETY: `into_raw` kept the reference that this takes over.
        Self { core: unsafe { Arc::from_raw(core) } }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        self.core.handles.fetch_add(1, Ordering::Relaxed);
        Self { core: Arc::clone(&self.core) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.core.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.core.close();
        }
    }
}
