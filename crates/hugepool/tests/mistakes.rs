// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong use, and limits of the kernel: each gives an error and damages nothing.

#![cfg(all(feature = "pool", not(miri)))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "blocks are released, limits of this process are set, it forks")]

use std::alloc::Layout;
use std::ptr::NonNull;

use hugepool::{Error, Fork, Options, Pool, Switch, Table};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn pool(checks: bool) -> Pool {
    Pool::new(&Options { checks, switch: Some(Switch::Off), ..Options::default() }).unwrap()
}

/// Releases a block; the test says whether that is allowed.
fn release(pool: &Pool, block: NonNull<u8>, size: usize) -> Result<(), Error> {
    // SAFETY: no test uses a block that it has released; the wrong ones are refused by the check.
    unsafe { pool.release(block, layout(size)) }
}

fn release_any(pool: &Pool, block: NonNull<u8>) -> Result<(), Error> {
    // SAFETY: as above.
    unsafe { pool.release_any(block) }
}

#[test]
fn a_release_that_is_wrong_is_refused_with_checks() {
    let (pool, other) = (pool(true), pool(true));
    let block = pool.allocate(layout(100)).unwrap().cast::<u8>();
    let mut foreign = 0u64;
    let foreign = NonNull::from(&mut foreign).cast::<u8>();
    assert_eq!(release(&pool, foreign, 8), Err(Error::Foreign));
    assert_eq!(release(&other, block, 100), Err(Error::Foreign));
    assert_eq!(release(&pool, block, 200), Err(Error::WrongBlock));
    let inside = NonNull::new(block.as_ptr().wrapping_add(16)).unwrap();
    assert_eq!(release_any(&pool, inside), Err(Error::WrongBlock));
    let another = pool.allocate(layout(100)).unwrap().cast::<u8>();
    release(&pool, block, 100).unwrap();
    assert_eq!(release(&pool, block, 100), Err(Error::DoubleRelease));
    release(&pool, another, 100).unwrap();
    // Its huge page has been returned to the kernel, so the address belongs to no pool.
    assert_eq!(release(&pool, block, 100), Err(Error::Foreign));
    assert_eq!(pool.statistics().live_blocks, 0);
}

#[test]
fn without_checks_foreign_addresses_are_refused_and_double_releases_counted() {
    let (pool, other) = (pool(false), pool(false));
    let keep = pool.allocate(layout(100)).unwrap().cast::<u8>();
    let block = pool.allocate(layout(100)).unwrap().cast::<u8>();
    let theirs = other.allocate(layout(100)).unwrap().cast::<u8>();
    assert_eq!(release_any(&pool, theirs), Err(Error::Foreign));
    let mut foreign = 0u64;
    assert_eq!(release_any(&pool, NonNull::from(&mut foreign).cast()), Err(Error::Foreign));
    release_any(&pool, block).unwrap();
    release_any(&pool, block).unwrap();
    pool.trim();
    assert_eq!(pool.statistics().wrong_releases, 1);
    assert!(pool.owns(keep) && !pool.owns(theirs));
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let pool = pool(false);
    assert_eq!(pool.allocate(layout(0)), Err(Error::ZeroSize));
    let most = isize::MAX as usize;
    for size in [most - 7, most / 2, 1 << 46] {
        let error = pool.allocate(layout(size)).unwrap_err();
        assert!(matches!(error, Error::TooLarge | Error::OutOfMemory { .. }), "{error}");
    }
    let wide = Layout::from_size_align(8, 1 << 40).unwrap();
    assert!(matches!(pool.allocate(wide), Err(Error::Alignment { .. })));
    assert_eq!(pool.statistics().mapped, 0);
}

#[test]
fn a_pool_stays_within_its_limit() {
    let options = Options { limit: 6 << 20, switch: Some(Switch::Off), ..Options::default() };
    let pool = Pool::new(&options).unwrap();
    let blocks = std::iter::from_fn(|| pool.allocate(layout(1 << 20)).ok()).count();
    assert_eq!(blocks, 6);
    assert_eq!(pool.allocate(layout(1 << 20)), Err(Error::Limit { limit: 6 << 20 }));
    assert_eq!(pool.allocate(layout(100 << 20)), Err(Error::Limit { limit: 6 << 20 }));
}

#[test]
fn a_table_has_its_blocks_and_no_more() {
    let table = Table::new(100_000, 50, Some(Switch::Off)).unwrap();
    assert_eq!((table.block_size(), table.count()), (102_400, 50));
    let blocks: Vec<_> = std::iter::from_fn(|| table.acquire().ok()).collect();
    assert_eq!((blocks.len(), table.free()), (50, 0));
    assert_eq!(table.acquire(), Err(Error::Full));
    let first = blocks[7].cast::<u8>();
    let inside = NonNull::new(first.as_ptr().wrapping_add(1)).unwrap();
    // SAFETY: the block is not used.
    unsafe {
        assert_eq!(table.release(inside), Err(Error::WrongBlock));
        table.release(first).unwrap();
        assert_eq!(table.release(first), Err(Error::DoubleRelease));
        assert_eq!(table.release(NonNull::dangling()), Err(Error::Foreign));
    }
    assert_eq!(table.acquire().map(NonNull::cast), Ok(first));
    assert_eq!(Table::new(0, 5, None).err(), Some(Error::ZeroSize));
    assert_eq!(Table::new(usize::MAX, 5, None).err(), Some(Error::TooLarge));
    let on = Table::new(1 << 30, 1 << 12, Some(Switch::On)).err();
    assert_eq!(on, Some(Error::OutOfMemory { errno: libc::ENOMEM }));
}

/// Runs a function in a child by fork() and returns its exit status; 99 if a signal ended it.
fn in_child(run: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child does what `run` does and exits at once, without running handlers of this process.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork");
        if child == 0 {
            libc::_exit(if run() { 0 } else { 1 });
        }
        // A child that waits for ever ends itself by SIGALRM.
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 99 }
    }
}

fn alarm(seconds: u32) {
    // SAFETY: a number is passed.
    unsafe { libc::alarm(seconds) };
}

fn set_limit(limit: libc::__rlimit_resource_t, bytes: u64) {
    let value = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the struct is read.
    assert_eq!(unsafe { libc::setrlimit(limit, &raw const value) }, 0);
}

#[test]
fn limits_of_the_kernel_are_errors_and_the_pool_goes_on() {
    for limit in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
        let status = in_child(|| {
            alarm(20);
            let pool = pool(false);
            // Above what the test program uses: some huge pages.
            let used = 1 << 30;
            set_limit(limit, used + (64 << 20));
            let mut blocks = Vec::with_capacity(1 << 16);
            let error = loop {
                match pool.allocate(layout(100_000)) {
                    Ok(block) => blocks.push(block.cast::<u8>()),
                    Err(error) => break error,
                }
            };
            let refused = matches!(error, Error::OutOfMemory { errno: libc::ENOMEM });
            let some = !blocks.is_empty();
            let last = blocks.pop();
            let released = last.is_some_and(|block| release(&pool, block, 100_000).is_ok());
            let again = pool.allocate(layout(100_000)).is_ok();
            refused && some && released && again && pool.statistics().out_of_memory > 0
        });
        assert_eq!(status, 0, "limit {limit}");
    }
}

#[test]
fn a_child_of_a_program_with_threads_can_allocate() {
    let pool = pool(false);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // Large blocks take the lock each time, so that forks happen while it is held.
                    let block = pool.allocate(layout(40_000)).unwrap();
                    release(&pool, block.cast(), 40_000).unwrap();
                }
            });
        }
        for _ in 0..100 {
            let status = in_child(|| {
                alarm(20);
                let block = pool.allocate(layout(40_000)).and_then(|block| {
                    release(&pool, block.cast(), 40_000)?;
                    pool.allocate(layout(64))
                });
                block.is_ok()
            });
            assert_eq!(status, 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(pool.statistics().live_blocks, 0);
}

#[test]
fn a_child_has_a_copy_or_nothing_as_chosen() {
    for (fork, expected) in [(Fork::Copy, true), (Fork::Exclude, false)] {
        let options =
            Options { fork, checks: false, switch: Some(Switch::Off), ..Options::default() };
        let pool = Pool::new(&options).unwrap();
        let block = pool.allocate(layout(64)).unwrap().cast::<u8>();
        // SAFETY: the block is in use by this test alone.
        unsafe { block.write(17) };
        let status = in_child(|| {
            alarm(20);
            let allocated = pool.allocate(layout(64)).is_ok();
            let refused = pool.allocate(layout(64)) == Err(Error::Forked)
                && release(&pool, block, 64) == Err(Error::Forked)
                && pool.coverage() == Err(Error::Forked);
            drop(pool.clone());
            allocated == expected && refused != expected
        });
        assert_eq!(status, 0, "{fork:?}");
        let touched = in_child(|| {
            alarm(20);
            // SAFETY: it is read in a child that may have it; if it has not, the signal is the result.
            unsafe { block.read_volatile() == 17 }
        });
        assert_eq!(touched == 0, expected, "{fork:?}");
        release(&pool, block, 64).unwrap();
    }
}
