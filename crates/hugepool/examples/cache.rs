// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cache with expiring entries and long-lived sessions: how much memory is resident after bursts
//! of requests.
//!
//!     cache [store=hugepool|malloc] [bursts=20] [burst-mib=64] [keep-kib=350] [retain-mib=4] [seed=1] [thp=never]
//!           [hold=yes]
//!
//! In each burst, entries of 32 to 2000 bytes are added up to `burst-mib`; in between, a few
//! long-lived objects are made (`keep-kib` in each burst, 7 MB in all with the default options).
//! Entries expire one burst after they were added, in a different order. When all entries have
//! expired, only the long-lived objects are in use. An ordinary program has both in one heap; with
//! `hugepool` each has its own pool, and the pool of entries retains `retain-mib` of empty huge
//! pages. At the end the pool is trimmed, as a service does when it is idle. For malloc(), the
//! memory after malloc_trim(), which programs hardly ever call, is printed as well.

#![expect(unsafe_code, reason = "blocks are written and released")]

#[path = "shared/clock.rs"]
mod clock;
#[path = "shared/hold.rs"]
mod hold;
#[path = "shared/store.rs"]
mod store;

use std::alloc::Layout;
use std::error::Error;
use std::ptr::NonNull;

use hugepool::Options;
use store::{Store, hash};

type Block = (NonNull<u8>, Layout);

struct Cache {
    entries: Store,
    sessions: Store,
    /// Entries added in this burst, and in the previous one.
    young: Vec<Block>,
    old: Vec<Block>,
    kept: Vec<Block>,
    random: u64,
    operations: u64,
}

impl Cache {
    fn below(&mut self, most: u64) -> usize {
        self.random += 1;
        usize::try_from(hash(self.random) % most).unwrap_or(0)
    }

    fn add(&mut self) -> Result<usize, Box<dyn Error>> {
        let layout = Layout::from_size_align(32 + self.below(1969), 8)?;
        let block = self.entries.allocate(layout)?;
        fill(block, layout);
        self.young.push((block, layout));
        self.operations += 1;
        Ok(layout.size())
    }

    fn keep(&mut self) -> Result<usize, Box<dyn Error>> {
        let layout = Layout::from_size_align(64 + self.below(193), 8)?;
        let block = self.sessions.allocate(layout)?;
        fill(block, layout);
        self.kept.push((block, layout));
        self.operations += 1;
        Ok(layout.size())
    }

    /// Adds entries, and long-lived objects between them; then all entries of the previous burst
    /// expire.
    fn burst(&mut self, bytes: usize, keep: usize) -> Result<(), Box<dyn Error>> {
        let (mut added, mut kept) = (0, 0);
        while added < bytes {
            added += self.add()?;
            if kept * bytes < keep * added {
                kept += self.keep()?;
            }
        }
        self.expire();
        std::mem::swap(&mut self.young, &mut self.old);
        Ok(())
    }

    fn expire(&mut self) {
        while !self.old.is_empty() {
            let at = self.below(self.old.len() as u64);
            let (block, layout) = self.old.swap_remove(at);
            // SAFETY: it is removed from the cache.
            unsafe { self.entries.release(block, layout) };
            self.operations += 1;
        }
    }
}

fn fill(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the block has this size and is the cache's alone.
    unsafe { block.write_bytes(1, layout.size()) };
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "store=hugepool|malloc, bursts=N, burst-mib=N, keep-kib=N, retain-mib=N, seed=N or hold=yes";
    clock::check_options(
        &["store", "bursts", "burst-mib", "keep-kib", "retain-mib", "seed", "hold"],
        usage,
    )?;
    clock::apply_thp_option()?;
    let name = clock::option("store", "hugepool".to_owned())?;
    let bursts: usize = clock::option("bursts", 20)?;
    let burst: usize = clock::option("burst-mib", 64)?;
    let keep: usize = clock::option("keep-kib", 350)?;
    let retain: usize = clock::option("retain-mib", 4)?;
    let before = store::resident()?;
    let brief = Options { checks: false, retain: retain << 20, ..Options::short_lived() };
    let long = Options { checks: false, ..Options::long_lived() };
    let mut cache = Cache {
        entries: Store::named(&name, &brief)?,
        sessions: Store::named(&name, &long)?,
        young: Vec::new(),
        old: Vec::new(),
        kept: Vec::new(),
        random: clock::option("seed", 1u64)? << 40,
        operations: 0,
    };
    let started = clock::cpu_time();
    for _ in 0..bursts {
        cache.burst(burst << 20, keep << 10)?;
    }
    cache.expire();
    let time = clock::cpu_time() - started;
    // The program's own lists of blocks do not belong to the comparison.
    (cache.young, cache.old) = (Vec::new(), Vec::new());
    if let Store::Pool(pool) = &cache.entries {
        pool.trim();
    }
    let live: usize = cache.kept.iter().map(|(_, layout)| layout.size()).sum();
    let resident = store::resident()?.saturating_sub(before);
    let lists = cache.kept.capacity() * size_of::<Block>();
    let per_live = (resident as f64 - lists as f64) / live as f64;
    let per_operation = time as f64 / cache.operations as f64;
    println!("{} KiB live, {} KiB resident after {bursts} bursts", live >> 10, resident >> 10);
    for store in [&cache.entries, &cache.sessions] {
        if let Store::Pool(pool) = store {
            println!("{}", pool.statistics());
        }
    }
    hold::hold_if_asked()?;
    if let Store::Malloc = cache.entries {
        // SAFETY: the call takes a number.
        unsafe { libc::malloc_trim(0) };
        println!(
            "{} KiB resident after malloc_trim()",
            store::resident()?.saturating_sub(before) >> 10
        );
    }
    println!("result ns={per_operation:.2} resident_per_live={per_live:.4} coverage=0");
    Ok(())
}
