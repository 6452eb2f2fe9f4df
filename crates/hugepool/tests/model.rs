// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool compared with a naive model: blocks do not overlap, are aligned, keep their contents, and
//! are counted.
//!
//! `HUGEPOOL_OPERATIONS=10000000 cargo test --release -p hugepool --test model` sets the number of
//! operations.

#![cfg(feature = "pool")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "blocks are written and released")]

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use hugepool::{Error, Options, Pool, Switch};
use proptest::prelude::*;

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }

    /// Mostly small sizes, some large ones, few of whole huge pages.
    fn layout(&mut self) -> Layout {
        let most = [64, 512, 4096, 40_000, 700_000, 5 << 20];
        let most = most[[0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5][self.below(12)].min(largest())];
        let alignment =
            [1, 8, 16, 16, 64, 4096, 65_536][self.below(7).min(if most > 4096 { 6 } else { 4 })];
        Layout::from_size_align(1 + self.below(most), alignment).unwrap()
    }
}

/// The index of the largest size: Miri is too slow for large blocks.
fn largest() -> usize {
    if cfg!(miri) { 2 } else { 5 }
}

/// A block in use, and the byte that its ends contain.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
    layout: Layout,
    mark: u8,
}

impl Block {
    /// The ends of the block: in a long block only these are written, because the pages between
    /// them take time and show nothing new.
    fn ends(&self) -> [(usize, usize); 2] {
        let length = self.bytes.min(256);
        [(0, length), (self.bytes - length, length)]
    }

    fn fill(&mut self) {
        for (offset, length) in self.ends() {
            // SAFETY: inside of the block, which is in use by this test alone.
            unsafe { self.start.add(offset).write_bytes(self.mark, length) };
        }
    }

    fn is_unchanged(&self) -> bool {
        self.ends().iter().all(|(offset, length)| {
            // SAFETY: as for `fill`; these bytes were written.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.start.add(*offset).as_ptr(), *length) };
            bytes.iter().all(|byte| *byte == self.mark)
        })
    }
}

/// The blocks in use, by address.
struct Model {
    pool: Pool,
    blocks: BTreeMap<usize, Block>,
    live: usize,
    random: Random,
}

impl Model {
    fn new(options: &Options, seed: u64) -> Self {
        let pool = Pool::new(options).unwrap();
        Self { pool, blocks: BTreeMap::new(), live: 0, random: Random(seed | 1) }
    }

    fn allocate(&mut self) {
        let layout = self.random.layout();
        let block = self.pool.allocate(layout).unwrap();
        let start = block.cast::<u8>();
        let address = start.addr().get();
        assert_eq!(address % layout.align(), 0, "{layout:?}");
        assert!(block.len() >= layout.size());
        if let Some((before, other)) = self.blocks.range(..=address).next_back() {
            assert!(before + other.bytes <= address, "overlaps the block before it");
        }
        if let Some((after, _)) = self.blocks.range(address..).next() {
            assert!(address + block.len() <= *after, "overlaps the block behind it");
        }
        let mark = u8::try_from(self.random.below(256)).unwrap();
        let mut block = Block { start, bytes: block.len(), layout, mark };
        block.fill();
        self.live += block.bytes;
        self.blocks.insert(address, block);
    }

    fn release(&mut self) {
        let from = self.random.below(1 << 47);
        let near = self.blocks.range(from..).next().or_else(|| self.blocks.iter().next());
        let Some(address) = near.map(|(address, _)| *address) else { return };
        let block = self.blocks.remove(&address).unwrap();
        assert!(block.is_unchanged(), "{:?} was changed", block.layout);
        self.live -= block.bytes;
        // SAFETY: it is removed from the model, so it is not used any more.
        unsafe {
            if self.random.below(2) == 0 {
                self.pool.release(block.start, block.layout).unwrap();
            } else {
                self.pool.release_any(block.start).unwrap();
            }
        }
    }

    fn step(&mut self) {
        // The number of blocks grows to about a thousand and shrinks again.
        let wanted = 1000 + self.random.below(500);
        match self.random.below(10_000) {
            0 => drop(self.pool.trim()),
            _ if self.random.below(wanted) > self.blocks.len() => self.allocate(),
            _ => self.release(),
        }
    }

    fn check(&self) {
        let statistics = self.pool.statistics();
        assert_eq!(statistics.live_blocks, self.blocks.len() as u64);
        assert_eq!(statistics.live, self.live as u64);
        assert!(statistics.mapped >= self.live);
        assert_eq!(statistics.mapped, statistics.huge + statistics.small + statistics.unchecked);
        assert_eq!(statistics.wrong_releases, 0);
    }

    fn empty(mut self) {
        while !self.blocks.is_empty() {
            self.release();
        }
        self.check();
        self.pool.trim();
        assert_eq!(self.pool.statistics().mapped, 0);
    }
}

fn operations(usual: u64) -> u64 {
    let asked = std::env::var("HUGEPOOL_OPERATIONS");
    asked.map_or(usual, |text| text.parse().expect("HUGEPOOL_OPERATIONS: a number"))
}

fn run(options: &Options, operations: u64) {
    let mut model = Model::new(options, 0x9e37_79b9_7f4a_7c15);
    for operation in 0..operations {
        model.step();
        if operation % 5000 == 0 {
            model.check();
        }
    }
    model.check();
    model.empty();
}

#[test]
fn a_pool_without_checks_is_as_the_model() {
    let options = Options { checks: false, switch: Some(Switch::Off), ..Options::short_lived() };
    run(&options, operations(if cfg!(miri) { 1500 } else { 50_000 }));
}

#[test]
fn a_pool_with_checks_is_as_the_model() {
    let options = Options { checks: true, switch: Some(Switch::Off), ..Options::long_lived() };
    run(&options, operations(if cfg!(miri) { 1500 } else { 50_000 }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }) })]

    /// For any size and alignment, the result is a block with both, or an error that says what is
    /// wrong with them.
    #[test]
    fn any_layout_gets_a_block_or_a_reason(size in 0usize..(6 << 20), shift in 0u32..24) {
        let options = Options { checks: true, switch: Some(Switch::Off), ..Options::default() };
        let pool = Pool::new(&options)?;
        let layout = Layout::from_size_align(size, 1 << shift)?;
        match pool.allocate(layout) {
            Ok(block) => {
                prop_assert!(block.len() >= size);
                prop_assert_eq!(block.cast::<u8>().addr().get() % layout.align(), 0);
                prop_assert_eq!(pool.usable_size(block.cast())?, block.len());
                // SAFETY: it is not used any more.
                unsafe { pool.release(block.cast(), layout)? };
                prop_assert_eq!(pool.statistics().mapped, 0);
            }
            Err(Error::ZeroSize) => prop_assert_eq!(size, 0),
            Err(Error::Alignment { largest, .. }) => prop_assert!(layout.align() > largest),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
