// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all handles of a pool share, and the list of all pools, whose locks fork() takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::Error;
use crate::arena::{Arena, Policy};
use crate::machine::{self, Availability, Switch};
use crate::options::{Fork, Options};
use crate::sys::{Guard, Lock};
use crate::tally::{Tallied, Tally};

/// State of a pool that is in use; calls take blocks from, and return them to, the caches of
/// threads.
const OPEN: u8 = 0;
/// State of a pool whose releases are checked: as [`OPEN`], but each call takes the lock.
const CHECKED: u8 = 3;
/// State of a pool whose last handle was dropped.
const CLOSED: u8 = 1;
/// State of a pool in a child process that does not have the pool's memory.
const FORKED: u8 = 2;

/// The state that all handles of a pool share.
#[derive(Debug)]
pub(crate) struct Core {
    /// The number of the pool, never reused.
    pub(crate) number: u32,
    /// Index of the pool in the caches of threads, reused after the pool is closed.
    slot: usize,
    state: AtomicU8,
    pub(crate) handles: AtomicUsize,
    pub(crate) switch: Switch,
    pub(crate) machine: Availability,
    fork: Fork,
    pub(crate) chunk: usize,
    pub(crate) locked: Lock<Locked>,
}

#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) arena: Arena,
    /// Counters of each thread that caches free blocks of the pool.
    pub(crate) tallies: Vec<Arc<Tally>>,
    /// Counters of all other threads, and of calls that bypass the thread caches.
    pub(crate) tallied: Tallied,
}

/// The arena of a pool, while it is locked.
pub(crate) struct LockedArena<'a>(Guard<'a, Locked>);

impl std::ops::Deref for LockedArena<'_> {
    type Target = Arena;
    fn deref(&self) -> &Arena {
        &self.0.arena
    }
}

impl std::ops::DerefMut for LockedArena<'_> {
    fn deref_mut(&mut self) -> &mut Arena {
        &mut self.0.arena
    }
}

impl Core {
    /// Creates a pool without memory, and registers it so that fork() takes its lock.
    pub(crate) fn open(options: &Options) -> Result<Arc<Self>, Error> {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        let machine = Availability::read();
        let switch = options.switch.map_or_else(|| Switch::from_environment(machine), Ok)?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let chunk = machine::chunk_size();
        let policy =
            Policy { switch, fork: options.fork, limit: options.limit, retain: options.retain };
        let locked = Locked {
            arena: Arena::new(number, chunk, policy)?,
            tallies: Vec::new(),
            tallied: Tallied::default(),
        };
        ensure_memory_for::<Self>()?;
        registry::add(|slot| Self {
            number,
            slot,
            state: AtomicU8::new(if options.checks { CHECKED } else { OPEN }),
            handles: AtomicUsize::new(1),
            switch,
            machine,
            fork: options.fork,
            chunk,
            locked: Lock::new(locked),
        })
    }

    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), OPEN | CHECKED)
    }

    /// Whether calls may use the free blocks that threads cache.
    #[inline]
    pub(crate) fn can_use_caches(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OPEN
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.is_open() { Ok(()) } else { Err(Error::Forked) }
    }

    pub(crate) fn arena(&self) -> LockedArena<'_> {
        LockedArena(self.locked.lock())
    }

    /// Creates the counters of a thread for this pool.
    pub(crate) fn add_tally(&self) -> Result<Arc<Tally>, Error> {
        ensure_memory_for::<Tally>()?;
        let tally = Arc::new(Tally::default());
        let mut locked = self.locked.lock();
        locked.tallies.try_reserve(1).map_err(|_| Error::RECORDS)?;
        locked.tallies.push(Arc::clone(&tally));
        Ok(tally)
    }

    /// Adds the counters of a thread that ends to `tallied`.
    pub(crate) fn remove_tally(&self, tally: &Arc<Tally>) {
        // A child without the pool's memory does not read the counters; a closed pool has no
        // statistics.
        if self.is_open() {
            let mut locked = self.locked.lock();
            locked.tallied.add(tally.read());
            locked.tallies.retain(|other| !Arc::ptr_eq(other, tally));
        }
    }

    /// Returns the memory of the pool to the kernel; threads drop the free blocks that they still
    /// cache.
    pub(crate) fn close(&self) {
        let was = self.state.swap(CLOSED, Ordering::SeqCst);
        registry::remove(self);
        let mut locked = self.locked.lock();
        if was != FORKED {
            locked.arena.clear();
        } else {
            locked.arena.forget();
        }
    }
}

/// `Arc` has no fallible constructor on the oldest supported compiler, so this checks first that
/// there is memory.
fn ensure_memory_for<T>() -> Result<(), Error> {
    Vec::<u8>::new().try_reserve_exact(size_of::<T>() + 64).map_err(|_| Error::RECORDS)
}

/// All open pools, so that fork() can hold their locks.
///
/// Another thread may hold a pool's lock while this thread forks; as it does not exist in the
/// child, the child would wait for ever. So the forking thread takes all locks before, first the
/// registry's, then the pools', and both processes release them.
mod registry {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use crate::Error;
    use crate::options::Fork;
    use crate::shared::{Core, FORKED};
    use crate::sys::{self, Lock};

    static POOLS: Lock<Vec<Option<Arc<Core>>>> = Lock::new(Vec::new());

    /// Registers a pool in the first free slot.
    pub(super) fn add(core: impl FnOnce(usize) -> Core) -> Result<Arc<Core>, Error> {
        register_handlers()?;
        let mut pools = POOLS.lock();
        let slot = pools.iter().position(Option::is_none).unwrap_or(pools.len());
        if slot == pools.len() {
            pools.try_reserve(1).map_err(|_| Error::RECORDS)?;
            pools.push(None);
        }
        let core = Arc::new(core(slot));
        pools[slot] = Some(Arc::clone(&core));
        Ok(core)
    }

    pub(super) fn remove(core: &Core) {
        let removed = POOLS.lock().get_mut(core.slot).and_then(Option::take);
        drop(removed);
    }

    fn register_handlers() -> Result<(), Error> {
        static DONE: Lock<bool> = Lock::new(false);
        let mut done = DONE.lock();
        if !*done {
            let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::ENOMEM);
            let registered =
                sys::register_fork_handlers(lock_all, unlock_in_parent, unlock_in_child);
            registered.map_err(|error| Error::OutOfMemory { errno: errno(error) })?;
            *done = true;
        }
        Ok(())
    }

    extern "C" fn lock_all() {
        POOLS.hold();
        POOLS.with_held(|pools| pools.iter().flatten().for_each(|core| core.locked.hold()));
    }

    extern "C" fn unlock_in_parent() {
        POOLS.with_held(|pools| {
            pools.iter().flatten().for_each(|core| core.locked.release_held());
        });
        POOLS.release_held();
    }

    extern "C" fn unlock_in_child() {
        POOLS.with_held(|pools| {
            for core in pools.iter().flatten() {
                if core.fork == Fork::Exclude {
                    core.state.store(FORKED, Ordering::SeqCst);
                }
                core.locked.release_held();
            }
        });
        POOLS.release_held();
    }
}
