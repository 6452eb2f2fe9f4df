// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where an example's objects are: a pool, or malloc() (which LD_PRELOAD may replace).

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ptr::NonNull;

use hugepool::{Options, Pool};

/// An allocator.
#[derive(Debug)]
pub(crate) enum Store {
    Pool(Pool),
    Malloc,
}

impl Store {
    /// `hugepool` or `malloc`.
    pub(crate) fn named(name: &str, options: &Options) -> Result<Self, Box<dyn Error>> {
        match name {
            "hugepool" => Ok(Self::Pool(Pool::new(options)?)),
            "malloc" => Ok(Self::Malloc),
            _ => Err(format!("{name}: expected hugepool or malloc").into()),
        }
    }

    /// A block whose contents are anything.
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, Box<dyn Error>> {
        match self {
            Self::Pool(pool) => Ok(pool.allocate(layout)?.cast()),
            // SAFETY: no example asks for 0 bytes.
            Self::Malloc => NonNull::new(unsafe { System.alloc(layout) })
                .ok_or_else(|| "malloc() gave no memory".into()),
        }
    }

    /// # Safety
    /// The block is from `allocate` with this layout and not used any more.
    #[inline]
    pub(crate) unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        match self {
            // SAFETY: as the caller promises.
            Self::Pool(pool) => match unsafe { pool.release(block, layout) } {
                Ok(()) => {}
                Err(error) => eprintln!("a block was not released: {error}"),
            },
            // SAFETY: as the caller promises.
            Self::Malloc => unsafe { System.dealloc(block.as_ptr(), layout) },
        }
    }
}

/// A multiply and fold: spreads the bits of a number.
#[inline]
pub(crate) fn hash(number: u64) -> u64 {
    let wide = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are folded")]
    let folded = (wide >> 64) as u64 ^ wide as u64;
    folded
}

/// The CPU time of this thread in nanoseconds.
pub(crate) fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Resident memory of this process in bytes.
#[expect(clippy::disallowed_methods, reason = "statm of this process")]
pub(crate) fn resident() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("statm")?.parse()?;
    Ok(pages * 4096)
}

/// The value of an option `NAME=VALUE` on the command line.
pub(crate) fn option<T: std::str::FromStr>(name: &str, usual: T) -> Result<T, Box<dyn Error>> {
    let found = std::env::args().skip(1).find_map(|text| {
        let (key, value) = text.split_once('=')?;
        (key == name).then(|| value.to_owned())
    });
    match found {
        None => Ok(usual),
        Some(text) => {
            text.parse().map_err(|_| format!("{name}={text}: a number is expected").into())
        }
    }
}

/// With `thp=never` no memory of this process is in huge pages, whatever the machine says.
pub(crate) fn apply_thp_option() -> Result<(), Box<dyn Error>> {
    match option("thp", String::new())?.as_str() {
        "" => Ok(()),
        // SAFETY: the call takes numbers.
        "never" if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } == 0 => Ok(()),
        text => Err(format!("thp={text}: expected never").into()),
    }
}

/// Refuses options that the example does not have.
pub(crate) fn check_options(known: &[&str], usage: &str) -> Result<(), Box<dyn Error>> {
    let unknown = std::env::args().skip(1).find(|text| {
        !text.split_once('=').is_some_and(|(key, _)| key == "thp" || known.contains(&key))
    });
    unknown.map_or(Ok(()), |text| Err(format!("{text}: expected {usage}").into()))
}
