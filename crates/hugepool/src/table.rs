// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fixed number of large blocks of one size, all mapped when the table is created.

use std::ptr::NonNull;

use crate::Error;
use crate::bits::BitSet;
use crate::coverage::{self, Coverage, Method};
use crate::machine::{self, Availability, Switch};
use crate::sys::{Advice, Lock, Mapping};

/// Alignment of the blocks of a table in bytes.
const ALIGNMENT: usize = 4096;

/// A table with a fixed number of blocks of one size: buffers of a cache, segments of a dictionary.
///
/// All of it is mapped, and with [`Switch::On`] populated, when it is created: a shortage of memory
/// is reported then, and no later call fails for that reason. It never grows. Any thread may call
/// any method; a lock is held for some nanoseconds. A child by fork() has a copy, but if the parent
/// had several threads, the child must not acquire or release blocks (as with every lock without a
/// fork handler).
#[derive(Debug)]
pub struct Table {
    mapping: Mapping,
    block: usize,
    count: usize,
    free: Lock<BitSet>,
}

impl Table {
    /// Maps `count` blocks of at least `block` bytes (rounded up to 4096).
    ///
    /// # Errors
    /// [`Error::ZeroSize`] if either is 0; [`Error::TooLarge`]; [`Error::OutOfMemory`], also if the
    /// table needs more than the available memory (`MemAvailable`); [`Error::Switch`].
    pub fn new(block: usize, count: usize, switch: Option<Switch>) -> Result<Self, Error> {
        if block == 0 || count == 0 {
            return Err(Error::ZeroSize);
        }
        let switch = switch.map_or_else(|| Switch::from_environment(Availability::read()), Ok)?;
        let chunk = machine::chunk_size();
        let block = block.checked_next_multiple_of(ALIGNMENT).ok_or(Error::TooLarge)?;
        let bytes = block.checked_mul(count).and_then(|all| all.checked_next_multiple_of(chunk));
        let bytes = bytes.ok_or(Error::TooLarge)?;
        if switch == Switch::On && machine::available_memory().is_some_and(|most| bytes > most) {
            return Err(Error::OutOfMemory { errno: libc::ENOMEM });
        }
        let free = Lock::new(BitSet::new_full(count)?);
        let mapping = Mapping::new(bytes, chunk, 0).map_err(|error| to_error(&error))?;
        advise(&mapping, switch)?;
        Ok(Self { mapping, block, count, free })
    }

    /// Takes a free block from the table.
    ///
    /// # Errors
    /// [`Error::Full`] if there is none.
    pub fn acquire(&self) -> Result<NonNull<[u8]>, Error> {
        let mut free = self.free.lock();
        let number = free.smallest().ok_or(Error::Full)?;
        free.remove(number);
        drop(free);
        let start = self.mapping.pointer_at(number * self.block);
        Ok(NonNull::slice_from_raw_parts(start, self.block))
    }

    /// Releases a block to the table.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::WrongBlock`] for an address inside a block,
    /// [`Error::DoubleRelease`]: also in release builds.
    ///
    /// # Safety
    /// The block is not used any more.
    #[expect(unsafe_code, reason = "who releases a block promises not to use it any more")]
    pub unsafe fn release(&self, block: NonNull<u8>) -> Result<(), Error> {
        let number = self.number(block)?;
        let mut free = self.free.lock();
        if free.contains(number) {
            return Err(Error::DoubleRelease);
        }
        free.insert(number);
        Ok(())
    }

    /// The number of the block that begins at an address, counted from 0.
    ///
    /// # Errors
    /// [`Error::Foreign`]; [`Error::WrongBlock`] inside of a block.
    pub fn number(&self, block: NonNull<u8>) -> Result<usize, Error> {
        let offset =
            block.addr().get().checked_sub(self.mapping.address()).ok_or(Error::Foreign)?;
        let number = offset / self.block;
        match (number < self.count, offset % self.block) {
            (false, _) => Err(Error::Foreign),
            (true, 0) => Ok(number),
            (true, _) => Err(Error::WrongBlock),
        }
    }

    /// The size of each block in bytes.
    pub fn block_size(&self) -> usize {
        self.block
    }

    /// Number of blocks in the table, free or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of free blocks in the table.
    pub fn free(&self) -> usize {
        self.free.lock().iter().count()
    }

    /// How much of the table's memory is resident and in huge pages.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if /proc is not mounted.
    pub fn coverage(&self) -> Result<Coverage, Error> {
        self.coverage_and_method().map(|(coverage, _)| coverage)
    }

    pub(crate) fn coverage_and_method(&self) -> Result<(Coverage, Method), Error> {
        let range = (self.mapping.address() as u64, self.mapping.bytes() as u64);
        coverage::measure_ranges(vec![range]).map_err(|error| Error::unreadable(&error))
    }
}

fn advise(mapping: &Mapping, switch: Switch) -> Result<(), Error> {
    // If the kernel refuses the advice, the coverage still shows whether it used huge pages.
    let _ = mapping.advise(if switch == Switch::Off { Advice::Small } else { Advice::Huge });
    if switch != Switch::On {
        return Ok(());
    }
    match mapping.advise(Advice::Populate) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(to_error(&error)),
        _ => {}
    }
    let _ = mapping.advise(Advice::Collapse);
    Ok(())
}

fn to_error(error: &std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EOVERFLOW) => Error::TooLarge,
        errno => Error::OutOfMemory { errno: errno.unwrap_or(libc::ENOMEM) },
    }
}
