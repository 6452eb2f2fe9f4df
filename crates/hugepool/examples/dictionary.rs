// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A dictionary in memory that is built once and then read at random; one access in a hundred
//! replaces a value.
//!
//!     dictionary [store=hugepool|malloc] [mib=1024] [lookups=5000000] [seed=1] [thp=never] [hold=yes]
//!
//! Each entry is a block of 16 to 240 bytes (a key of 8 bytes, its length, a value); the index is one large block of
//! pointers. A lookup reads the index, follows the pointer, compares the key and reads the value. It prints the CPU
//! time of a lookup, memory, and how much of it is in huge pages; the last line is for `compare`.

#![expect(unsafe_code, reason = "an index of pointers to blocks")]

#[path = "shared/clock.rs"]
mod clock;
#[path = "shared/hold.rs"]
mod hold;
#[path = "shared/store.rs"]
mod store;

use std::alloc::Layout;
use std::error::Error;
use std::ptr::NonNull;

use hugepool::{Options, Process};
use store::{Store, hash};

/// Bytes before the value: the key and the length of the value.
const HEAD: usize = 16;
/// Bytes of an average entry, including its two slots in the index.
const MEAN: usize = 144;

struct Dictionary {
    store: Store,
    index: NonNull<*mut u64>,
    mask: u64,
    entries: u64,
    /// The sum of requested bytes.
    bytes: u64,
}

/// Lengths of values: 0 to 224 bytes.
fn length(number: u64) -> u64 {
    hash(number) % 225
}

fn entry_layout(length: u64) -> Result<Layout, Box<dyn Error>> {
    Ok(Layout::from_size_align(HEAD + usize_of(length), 8)?)
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Dictionary {
    fn build(store: Store, bytes: usize) -> Result<Self, Box<dyn Error>> {
        let entries = (bytes / MEAN) as u64;
        let slots = usize_of(entries * 3 / 2).next_power_of_two();
        let layout = Layout::array::<*mut u64>(slots)?;
        let index = store.allocate(layout)?.cast::<*mut u64>();
        // SAFETY: the block has room for the slots; zeros are null pointers.
        unsafe { index.write_bytes(0, slots) };
        let bytes = layout.size() as u64;
        let mut dictionary = Self { store, index, mask: slots as u64 - 1, entries, bytes };
        (0..entries).try_for_each(|number| dictionary.insert(key(number), length(number)))?;
        Ok(dictionary)
    }

    fn insert(&mut self, key: u64, length: u64) -> Result<(), Box<dyn Error>> {
        let layout = entry_layout(length)?;
        let block = self.store.allocate(layout)?;
        self.bytes += layout.size() as u64;
        // SAFETY: the block has room for head and value, and is this dictionary's alone.
        unsafe {
            block.cast::<[u64; 2]>().write([key, length]);
            block.add(HEAD).write_bytes(key.to_le_bytes()[0], usize_of(length));
            self.slot(key).write(block.as_ptr().cast());
        }
        Ok(())
    }

    /// Replaces the value of a key that has one by a longer or shorter one.
    fn update(&mut self, key: u64, length: u64) -> Result<(), Box<dyn Error>> {
        let slot = self.slot(key);
        // SAFETY: the slot holds an entry; `insert` puts another one there before it is released.
        unsafe {
            let old = slot.read();
            let layout = entry_layout(old.add(1).read())?;
            let old = NonNull::new(old.cast()).ok_or("no entry")?;
            self.insert(key, length)?;
            self.store.release(old, layout);
            self.bytes -= layout.size() as u64;
        }
        Ok(())
    }

    fn updates(&mut self, count: u64, seed: u64) -> Result<(), Box<dyn Error>> {
        let numbers = (0..count).map(|at| hash(at ^ seed << 40));
        numbers.into_iter().try_for_each(|random| {
            let number = random % self.entries;
            self.update(key(number), length(random))
        })
    }

    /// The slot that contains the key, or the empty slot for it.
    #[inline]
    fn slot(&self, key: u64) -> NonNull<*mut u64> {
        let mut at = hash(key) & self.mask;
        loop {
            // SAFETY: the mask keeps it inside of the index, and each pointer in it is null or an entry.
            unsafe {
                let slot = self.index.add(usize_of(at));
                let entry = slot.read();
                if entry.is_null() || entry.read() == key {
                    return slot;
                }
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Reads the first and the last byte of a key's value; `None` if there is none.
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        // SAFETY: the slot holds null or an entry, whose value has the length that is in its head.
        unsafe {
            let entry = self.slot(key).read();
            if entry.is_null() {
                return None;
            }
            let length = entry.add(1).read();
            let value = entry.cast::<u8>().add(HEAD);
            let last = length.checked_sub(1)?;
            Some(u64::from(value.read()) + u64::from(value.add(usize_of(last)).read()))
        }
    }

    fn lookups(&self, count: u64, seed: u64) -> u64 {
        let numbers = (0..count).map(|at| hash(at ^ seed << 40) % self.entries);
        numbers.filter_map(|number| self.get(key(number))).sum()
    }
}

/// Keys are hashed, so their order is independent of the order in memory.
fn key(number: u64) -> u64 {
    hash(number.wrapping_mul(0xa076_1d64_78bd_642f) | 1) | 1 << 63
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "store=hugepool|malloc, mib=N, lookups=N, seed=N or hold=yes";
    clock::check_options(&["store", "mib", "lookups", "seed", "hold"], usage)?;
    clock::apply_thp_option()?;
    let name = clock::option("store", "hugepool".to_owned())?;
    let mib: usize = clock::option("mib", 1024)?;
    let lookups: u64 = clock::option("lookups", 5_000_000)?;
    let seed: u64 = clock::option("seed", 1)?;
    let before = store::resident()?;
    let options = Options { checks: false, ..Options::long_lived() };
    let mut dictionary = Dictionary::build(Store::named(&name, &options)?, mib << 20)?;
    // The first lookups warm the caches and are not counted.
    let mut sum = dictionary.lookups(lookups / 10, seed + 1);
    let started = clock::cpu_time();
    sum = sum.wrapping_add(dictionary.lookups(lookups, seed));
    let time = clock::cpu_time() - started;
    let updates = (lookups / 100).max(1);
    let started = clock::cpu_time();
    dictionary.updates(updates, seed)?;
    let per_update = (clock::cpu_time() - started) as f64 / updates as f64;
    let resident = store::resident()?.saturating_sub(before);
    let process = Process::read(256)?;
    let total = process.total();
    let per_lookup = time as f64 / lookups as f64;
    let per_live = resident as f64 / dictionary.bytes as f64;
    println!(
        "{} entries, {} MiB requested (sum {sum})",
        dictionary.entries,
        dictionary.bytes >> 20
    );
    println!("{per_lookup:.1} ns of CPU for a lookup, {per_update:.1} for an update");
    println!("{} MiB resident", resident >> 20);
    if let Store::Pool(pool) = &dictionary.store {
        println!("{}", pool.statistics());
    }
    let share = total.share().unwrap_or(0.0);
    println!("result ns={per_lookup:.2} resident_per_live={per_live:.4} coverage={share:.4}");
    hold::hold_if_asked()
}
