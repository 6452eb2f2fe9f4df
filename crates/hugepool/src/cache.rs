// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free blocks that each thread caches, so that most calls take no lock.
//!
//! For each pool and size class, a thread caches at most 64 blocks and 32 KiB. If the thread has
//! none, it takes half as many from the pool under the pool's lock; if it has too many, it returns
//! half of them. When the thread ends, it returns all of them.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::Error;
use crate::shared::Core;
use crate::size_class::{KEPT, SizeClass};
use crate::tally::Tally;

const MOST_BLOCKS: usize = 64;
const MOST_BYTES: usize = 32 << 10;

/// A thread's free blocks of one size class.
struct Magazine {
    /// The free blocks; the capacity of the vector is zero or `most`.
    blocks: Vec<NonNull<u8>>,
    most: usize,
    /// Size of each block in bytes.
    size: usize,
}

impl Magazine {
    fn new(class: SizeClass) -> Self {
        let size = class.size();
        Self { blocks: Vec::new(), most: (MOST_BYTES / size).min(MOST_BLOCKS), size }
    }

    fn reserve(&mut self) -> Result<(), Error> {
        let more = self.most - self.blocks.len();
        self.blocks.try_reserve_exact(more).map_err(|_| Error::RECORDS)
    }
}

/// A thread's free blocks of one pool.
struct Cache {
    core: Arc<Core>,
    tally: Arc<Tally>,
    /// The free blocks of each size class, indexed by the class.
    magazines: Vec<Magazine>,
}

impl Cache {
    fn new(core: &Arc<Core>) -> Result<Self, Error> {
        let mut magazines = Vec::new();
        magazines.try_reserve_exact(KEPT).map_err(|_| Error::RECORDS)?;
        magazines.extend(SizeClass::all().take(KEPT).map(Magazine::new));
        Ok(Self { core: Arc::clone(core), tally: core.add_tally()?, magazines })
    }

    #[inline]
    fn take(&mut self, class: SizeClass) -> Result<NonNull<[u8]>, Error> {
        let magazine = &mut self.magazines[class.index()];
        let size = magazine.size;
        let block = match magazine.blocks.pop() {
            Some(block) => block,
            None => self.refill(class)?,
        };
        self.tally.allocate(class);
        Ok(NonNull::slice_from_raw_parts(block, size))
    }

    #[cold]
    fn refill(&mut self, class: SizeClass) -> Result<NonNull<u8>, Error> {
        let magazine = &mut self.magazines[class.index()];
        magazine.reserve()?;
        let blocks = &mut magazine.blocks;
        self.core.arena().take(class, magazine.most / 2, |block| blocks.push(block))?;
        // The arena returns success only if it provided a block.
        blocks.pop().ok_or(Error::RECORDS)
    }

    #[inline]
    fn put(&mut self, block: NonNull<u8>, class: SizeClass) -> Result<(), Error> {
        let magazine = &self.magazines[class.index()];
        if magazine.blocks.len() >= magazine.blocks.capacity().min(magazine.most) {
            self.make_room(class)?;
        }
        self.magazines[class.index()].blocks.push(block);
        self.tally.release(class);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self, class: SizeClass) -> Result<(), Error> {
        let magazine = &mut self.magazines[class.index()];
        if magazine.blocks.len() < magazine.most {
            return magazine.reserve();
        }
        let half = magazine.most / 2;
        self.return_oldest(class, half);
        Ok(())
    }

    /// Returns the oldest cached blocks of a size class to the pool.
    fn return_oldest(&mut self, class: SizeClass, count: usize) {
        let mut arena = self.core.arena();
        for block in self.magazines[class.index()].blocks.drain(..count) {
            if arena.put(block.addr().get()).is_err() {
                // The block was released twice or never allocated; see
                // `Statistics::wrong_releases`.
                arena.counts.wrong_releases += 1;
            }
        }
    }

    fn return_all(&mut self) {
        if self.core.is_open() {
            for class in SizeClass::all().take(KEPT) {
                self.return_oldest(class, self.magazines[class.index()].blocks.len());
            }
        }
        self.magazines.iter_mut().for_each(|magazine| magazine.blocks.clear());
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.return_all();
        self.core.remove_tally(&self.tally);
    }
}

/// All caches of a thread, indexed by the slots of the pools.
struct Caches(Vec<Option<Cache>>);

impl Caches {
    #[inline]
    fn cache_for(&mut self, core: &Arc<Core>) -> Result<&mut Cache, Error> {
        let slot = core.slot();
        let is_its = self
            .0
            .get(slot)
            .is_some_and(|cache| matches!(cache, Some(cache) if Arc::ptr_eq(&cache.core, core)));
        if !is_its {
            self.make_cache(slot, core)?;
        }
        self.0[slot].as_mut().ok_or(Error::RECORDS)
    }

    #[cold]
    fn make_cache(&mut self, slot: usize, core: &Arc<Core>) -> Result<(), Error> {
        let more = (slot + 1).saturating_sub(self.0.len());
        self.0.try_reserve(more).map_err(|_| Error::RECORDS)?;
        self.0.resize_with(self.0.len() + more, || None);
        // The slot's previous cache belonged to a pool that was closed.
        self.0[slot] = Some(Cache::new(core)?);
        Ok(())
    }
}

thread_local! {
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches(Vec::new())) };
}

/// Calls a function with this thread's cache of a pool; `None` if the thread is ending or is
/// already in this function.
#[inline]
fn with_cache<R>(
    core: &Arc<Core>,
    run: impl FnOnce(&mut Cache) -> Result<R, Error>,
) -> Option<Result<R, Error>> {
    let with = |caches: &RefCell<Caches>| {
        let mut caches = caches.try_borrow_mut().ok()?;
        Some(caches.cache_for(core).and_then(run))
    };
    CACHES.try_with(with).ok().flatten()
}

/// Takes a block from this thread's cache of free blocks; `None` if the thread has no cache.
#[inline]
pub(crate) fn take(core: &Arc<Core>, class: SizeClass) -> Option<Result<NonNull<[u8]>, Error>> {
    with_cache(core, |cache| cache.take(class))
}

/// Adds a block to this thread's cache of free blocks; `None` if the thread has no cache.
#[inline]
pub(crate) fn put(
    core: &Arc<Core>,
    block: NonNull<u8>,
    class: SizeClass,
) -> Option<Result<(), Error>> {
    with_cache(core, |cache| cache.put(block, class))
}

/// Returns all of this thread's free blocks to the pool.
pub(crate) fn return_all(core: &Arc<Core>) {
    let _ = with_cache(core, |cache| {
        cache.return_all();
        Ok(())
    });
}
