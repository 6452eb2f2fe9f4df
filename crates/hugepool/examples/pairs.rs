// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU time of allocating and releasing a block, with and without other blocks in use.
//!
//!     pairs [store=hugepool|malloc] [pairs=5000000] [held=0] [thp=never]
//!
//! Sizes are 16 to 512 bytes. One random block of `held` blocks is replaced each time; with 0, each
//! block is released at once. The first byte of each block is written.

#![expect(unsafe_code, reason = "blocks are written and released")]

#[path = "shared/clock.rs"]
mod clock;
#[path = "shared/store.rs"]
mod store;

use std::alloc::Layout;
use std::error::Error;
use std::ptr::NonNull;

use hugepool::Options;
use store::{Store, hash};

fn layout(random: u64) -> Result<Layout, Box<dyn Error>> {
    let size = 16 + usize::try_from(random % 497)?;
    Ok(Layout::from_size_align(size, 8)?)
}

fn allocate(store: &Store, random: u64) -> Result<(NonNull<u8>, Layout), Box<dyn Error>> {
    let layout = layout(random)?;
    let block = store.allocate(layout)?;
    // SAFETY: the block has at least 16 bytes, and is this program's alone.
    unsafe { block.write_volatile(1) };
    Ok((block, layout))
}

/// The CPU time of computing the random numbers in the loops, without an allocator.
fn cost_of_loop(pairs: u64) -> Result<u64, Box<dyn Error>> {
    let started = clock::cpu_time();
    for pair in 0..pairs {
        std::hint::black_box(layout(hash(pair))?);
    }
    Ok(clock::cpu_time() - started)
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "store=hugepool|malloc, pairs=N or held=N";
    clock::check_options(&["store", "pairs", "held"], usage)?;
    clock::apply_thp_option()?;
    let name = clock::option("store", "hugepool".to_owned())?;
    let pairs: u64 = clock::option("pairs", 5_000_000)?;
    let held: u64 = clock::option("held", 0)?;
    let options = Options { checks: false, ..Options::short_lived() };
    let before = store::resident()?;
    let store = Store::named(&name, &options)?;
    let mut blocks = Vec::new();
    for number in 0..held.max(1) {
        blocks.push(allocate(&store, hash(number))?);
    }
    let started = clock::cpu_time();
    for pair in 0..pairs {
        let random = hash(pair);
        let at = usize::try_from((random >> 32) % held.max(1))?;
        let (block, layout) = blocks[at];
        // SAFETY: the block is replaced, so that it is not used any more.
        unsafe { store.release(block, layout) };
        blocks[at] = allocate(&store, random)?;
    }
    let time = (clock::cpu_time() - started).saturating_sub(cost_of_loop(pairs)?);
    let per_pair = time as f64 / pairs as f64;
    let coverage = hugepool::Process::read(0)?.total().share().unwrap_or(0.0);
    let live: usize = blocks.iter().map(|(_, layout)| layout.size()).sum();
    let per_live = store::resident()?.saturating_sub(before) as f64 / live as f64;
    println!("{per_pair:.1} ns of CPU for a block, without the loop around it");
    println!("result ns={per_pair:.2} resident_per_live={per_live:.4} coverage={coverage:.4}");
    Ok(())
}
