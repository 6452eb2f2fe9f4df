// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C interface from several threads, called as C would. Without a C compiler, so that Miri can
//! run it.

#![cfg(feature = "pool")]
#![expect(unsafe_code, reason = "functions of the C interface are called")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::thread;

use hugepool::ffi::{
    COptions, CPool, CStatistics, hugepool_allocate, hugepool_create, hugepool_destroy,
    hugepool_release, hugepool_release_sized, hugepool_statistics, hugepool_table_acquire,
    hugepool_table_create, hugepool_table_destroy, hugepool_table_release, hugepool_trim,
};

const THREADS: usize = 3;
const ROUNDS: usize = if cfg!(miri) { 10 } else { 50_000 };

/// A pointer that C would pass to a thread.
struct Shared<T>(*const T);

impl<T> Copy for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

// SAFETY: the headers say that any thread may call each function on the same pool or table.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    fn pointer(self) -> *const T {
        self.0
    }
}

fn create() -> Shared<CPool> {
    let options =
        COptions { size: size_of::<COptions>(), limit: 0, retain: 0, thp: 0, fork: 0, checks: 0 };
    let mut pool = null();
    // SAFETY: both pointers are to variables of this function.
    assert_eq!(unsafe { hugepool_create(&raw const options, &raw mut pool) }, 0);
    Shared(pool)
}

/// Allocates and releases blocks, two at a time, so that they are not always the same ones.
fn use_pool(pool: *const CPool) {
    for round in 0..ROUNDS {
        let size = [16, 100, 1000, 20_000][round % 4];
        let mut blocks: [*mut c_void; 2] = [null_mut(); 2];
        for block in &mut blocks {
            // SAFETY: the pool is destroyed when all threads have ended; the block is written within its size.
            unsafe {
                assert_eq!(hugepool_allocate(pool, size, 0, block), 0);
                block.cast::<usize>().write(round);
            }
        }
        // SAFETY: the blocks are this thread's and not used any more.
        unsafe {
            assert_eq!(blocks[0].cast::<usize>().read(), round);
            assert_eq!(hugepool_release(pool, blocks[0]), 0);
            assert_eq!(hugepool_release_sized(pool, blocks[1], size, 0), 0);
        }
    }
}

#[test]
fn threads_share_a_pool() {
    let pool = create();
    let start = |_| thread::spawn(move || use_pool(pool.pointer()));
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    let all_well = threads.into_iter().all(|thread| thread.join().is_ok());
    assert!(all_well);
    let mut statistics = MaybeUninit::<CStatistics>::uninit();
    // SAFETY: no other thread uses the pool any more, and the statistics were written if the answer is 0.
    unsafe {
        hugepool_trim(pool.pointer());
        assert_eq!(hugepool_statistics(pool.pointer(), statistics.as_mut_ptr()), 0);
        let statistics = statistics.assume_init();
        assert_eq!(statistics.allocations, (2 * THREADS * ROUNDS) as u64);
        assert_eq!((statistics.live_blocks, statistics.mapped), (0, 0));
        assert_eq!(statistics.wrong_releases, 0);
        hugepool_destroy(pool.pointer());
    }
}

#[test]
fn threads_share_a_table() {
    let mut table = null_mut();
    // SAFETY: the pointer is to a variable of this function.
    assert_eq!(unsafe { hugepool_table_create(4096, THREADS, 0, &raw mut table) }, 0);
    let shared = Shared(table.cast_const());
    let start = |_| {
        thread::spawn(move || {
            for round in 0..ROUNDS {
                let mut block = null_mut();
                // SAFETY: the table is destroyed when all threads have ended; it has a block for each of them.
                unsafe {
                    assert_eq!(hugepool_table_acquire(shared.pointer(), &raw mut block), 0);
                    block.cast::<usize>().write(round);
                    assert_eq!(block.cast::<usize>().read(), round);
                    assert_eq!(hugepool_table_release(shared.pointer(), block), 0);
                }
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    let all_well = threads.into_iter().all(|thread| thread.join().is_ok());
    assert!(all_well);
    // SAFETY: no thread uses it any more.
    unsafe { hugepool_table_destroy(table) };
}
