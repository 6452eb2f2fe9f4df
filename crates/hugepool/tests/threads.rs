// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many threads using one pool.

#![cfg(feature = "pool")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "blocks are written and released")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use hugepool::{Options, Pool, Switch};

const ROUNDS: usize = if cfg!(miri) { 30 } else { 20_000 };

/// A block that is passed to another thread.
struct Sent(NonNull<u64>, Layout);

// SAFETY: the receiver is the only one that uses the block from then on.
unsafe impl Send for Sent {}

fn layout(round: usize) -> Layout {
    Layout::from_size_align([8, 40, 100, 900, 3000, 20_000][round % 6], 8).unwrap()
}

fn pool() -> Pool {
    let options = Options { checks: false, switch: Some(Switch::Off), ..Options::default() };
    Pool::new(&options).unwrap()
}

#[test]
fn blocks_that_another_thread_releases_are_whole() {
    let pool = pool();
    thread::scope(|scope| {
        let (to, from) = mpsc::sync_channel::<Sent>(100);
        let start = |thread: usize| {
            let (pool, to) = (&pool, to.clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let block = pool.allocate(layout(round)).unwrap().cast::<u64>();
                    let value = (thread * ROUNDS + round) as u64;
                    // SAFETY: the block has at least 8 bytes, is aligned, and is this thread's.
                    unsafe { block.write(value) };
                    assert!(to.send(Sent(block, layout(round))).is_ok());
                }
            })
        };
        let senders = [start(0), start(1), start(2)];
        drop(to);
        let mut sum = 0;
        for Sent(block, layout) in from {
            // SAFETY: the sender has given the block away.
            unsafe {
                sum += block.read();
                pool.release(block.cast(), layout).unwrap();
            }
        }
        // scope() ends before the threads' free blocks are released; joining waits for that
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let all = (3 * ROUNDS) as u64;
        assert_eq!(sum, all * (all - 1) / 2);
    });
    let statistics = pool.statistics();
    assert_eq!((statistics.live_blocks, statistics.live), (0, 0));
    assert_eq!(statistics.allocations, (3 * ROUNDS) as u64);
    pool.trim();
    assert_eq!(pool.statistics().mapped, 0);
}

#[test]
fn a_thread_that_ends_gives_its_free_blocks_back() {
    let pool = pool();
    for _ in 0..10 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let block = pool.allocate(layout(0)).unwrap();
                // SAFETY: the block is not used any more.
                unsafe { pool.release(block.cast(), layout(0)).unwrap() };
            });
        });
    }
    // scope() ends before the thread's free blocks are released; joining would wait for that.
    while pool.statistics().mapped != 0 {
        thread::yield_now();
    }
    assert_eq!(pool.statistics().allocations, 10);
}

#[test]
fn a_pool_that_is_dropped_while_threads_keep_its_free_blocks_harms_nobody() {
    let (old_done, told) = mpsc::channel();
    let old = pool();
    let keeper = thread::spawn({
        let old = old.clone();
        move || {
            let block = old.allocate(layout(1)).unwrap();
            // SAFETY: the block is not used any more.
            unsafe { old.release(block.cast(), layout(1)).unwrap() };
            drop(old);
            let _: Result<(), _> = told.recv();
            // The new pool reuses the slot of the old one.
            let new = pool();
            let block = new.allocate(layout(1)).unwrap();
            assert!(new.owns(block.cast()));
        }
    });
    drop(old);
    old_done.send(()).unwrap();
    keeper.join().unwrap();
}
