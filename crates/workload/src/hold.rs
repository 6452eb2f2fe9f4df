// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes memory step by step and keeps it, to stand for a process of a host whose OOM kill is
//! reproduced (`lab hold`).
//!
//! All pages have the same contents, so that zram stores them in almost no memory: swap on zram
//! then behaves like swap on a disk, of which only the size counts.

use std::io::Write;

use pagewise_model::Bytes;

use super::error::{Error, ErrorContext};

/// The value of every byte. It is not 0, because some kernels drop pages of zeros instead of
/// swapping them.
const FILLING: u8 = 0xa5;
/// Number of bytes that are taken in a step.
const STEP: usize = 1 << 20;

/// How much memory a process takes and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// How much to take.
    pub take: Bytes,
    /// How much of it is mapped at the start; the rest is mapped as it is taken.
    pub map: Bytes,
}

/// The memory that is held, until the value is dropped.
#[derive(Debug)]
pub struct Held {
    _mapped: Vec<u8>,
    _pieces: Vec<Vec<u8>>,
}

/// Takes the memory; calls `on_held` after each step with the number of bytes that are held.
///
/// # Errors
/// If `on_held` fails, or a size is larger than an address.
pub fn hold(
    holding: &Holding,
    on_held: &mut dyn FnMut(Bytes) -> std::io::Result<()>,
) -> Result<Held, Error> {
    let length = |size: Bytes| {
        usize::try_from(size.get())
            .map_err(|_| Error::Unsound(format!("{size} are more than this machine can address")))
    };
    let (take, map) = (length(holding.take)?, length(holding.map)?);
    let mut mapped: Vec<u8> = Vec::new();
    mapped.try_reserve_exact(map).map_err(|_| map_error(holding.map))?;
    let mut pieces = Vec::new();
    let mut held = 0;
    while held < take {
        let step = STEP.min(take - held);
        if mapped.len() + step <= map {
            mapped.resize(mapped.len() + step, FILLING);
        } else {
            let mut piece = Vec::new();
            piece.try_reserve_exact(step).map_err(|_| map_error(Bytes::new(step as u64)))?;
            piece.resize(step, FILLING);
            pieces.push(piece);
        }
        held += step;
        on_held(Bytes::new(held as u64)).about(|| "saying how much is held".to_owned())?;
    }
    Ok(Held { _mapped: mapped, _pieces: pieces })
}

/// Writes `take` bytes to a file, which may be on a tmpfs.
///
/// # Errors
/// If the file cannot be written, or `on_held` fails.
pub fn fill_file(
    file: &mut impl Write,
    take: Bytes,
    on_held: &mut dyn FnMut(Bytes) -> std::io::Result<()>,
) -> Result<(), Error> {
    let piece = vec![FILLING; STEP];
    let mut held = 0;
    while held < take.get() {
        let step = (STEP as u64).min(take.get() - held);
        #[expect(clippy::cast_possible_truncation, reason = "at most STEP")]
        file.write_all(&piece[..step as usize]).about(|| "writing shared memory".to_owned())?;
        held += step;
        on_held(Bytes::new(held)).about(|| "saying how much is held".to_owned())?;
    }
    Ok(())
}

fn map_error(size: Bytes) -> Error {
    Error::Ended(format!("the kernel did not map {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_what_is_asked_for_is_held_in_steps() {
        for (take, map) in [(0, 0), (5 << 20, 0), ((5 << 20) + 7, 3 << 20), (1, 9 << 20)] {
            let mut seen = Vec::new();
            let holding = Holding { take: Bytes::new(take), map: Bytes::new(map) };
            let held = hold(&holding, &mut |now| {
                seen.push(now.get());
                Ok(())
            })
            .unwrap();
            let pieces: usize = held._pieces.iter().map(Vec::len).sum();
            assert_eq!((held._mapped.len() + pieces) as u64, take);
            assert_eq!(seen.last().copied().unwrap_or(0), take);
            assert!(seen.is_sorted());
            assert!(held._mapped.iter().all(|byte| *byte == FILLING));
        }
    }

    #[test]
    fn a_file_gets_exactly_as_much() {
        let mut file = Vec::new();
        fill_file(&mut file, Bytes::new((3 << 20) + 5), &mut |_| Ok(())).unwrap();
        assert_eq!(file.len(), (3 << 20) + 5);
    }

    #[test]
    fn what_cannot_be_addressed_is_an_error() {
        let holding = Holding { take: Bytes::new(1), map: Bytes::new(u64::MAX) };
        assert!(hold(&holding, &mut |_| Ok(())).is_err());
    }
}
