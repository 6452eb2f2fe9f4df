// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames: pieces of a file, each with its length and checksum.
//!
//! A file begins with [`MAGIC`]. A frame consists of the length of its data and their CRC-32, each
//! as a little-endian number of four bytes, and of the data. The checksum detects damage by a disk
//! or a crash. It does not detect that somebody changed the file on purpose.

/// The first bytes of a file, with the version of the format.
pub(crate) const MAGIC: &[u8; 8] = b"pwring1\n";
/// Maximum number of bytes in a frame; a complete reading of 5,000 processes is smaller.
pub(crate) const MAX_FRAME: usize = 16 << 20;
const HEAD: usize = 8;

/// Makes a frame that contains these bytes; `None` if there are too many.
pub(crate) fn make_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME)?;
    let mut all = Vec::with_capacity(HEAD + bytes.len());
    all.extend_from_slice(&length.to_le_bytes());
    all.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    all.extend_from_slice(bytes);
    Some(all)
}

/// Returns the checksum in the head of a frame.
pub(crate) fn checksum(frame: &[u8]) -> Option<u32> {
    let sum = frame.get(4..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*sum))
}

/// The reason why a file could be read only up to a certain position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwhole {
    /// The file does not begin like a file of a ring.
    NoMagic,
    /// The file ends within a frame.
    Cut,
    /// The checksum of a frame is wrong, or its length is impossible.
    Damaged,
}

/// Iterates over the frames in a file, up to the first one that is damaged or incomplete.
#[derive(Debug)]
pub struct FrameReader<'a> {
    rest: &'a [u8],
    unwhole: Option<Unwhole>,
}

impl<'a> FrameReader<'a> {
    /// Creates an iterator over the frames in the bytes of a file.
    #[must_use]
    pub fn new(file: &'a [u8]) -> Self {
        match file.strip_prefix(MAGIC) {
            Some(rest) => Self { rest, unwhole: None },
            None if MAGIC.starts_with(file) => Self { rest: &[], unwhole: Some(Unwhole::Cut) },
            None => Self { rest: &[], unwhole: Some(Unwhole::NoMagic) },
        }
    }

    /// Returns why the file could not be read to its end; `None` if all frames so far were correct.
    #[must_use]
    pub fn reason_if_incomplete(&self) -> Option<Unwhole> {
        self.unwhole
    }
}

impl<'a> Iterator for FrameReader<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let whole = split_first_frame(self.rest);
        let (bytes, rest) =
            whole.map_err(|unwhole| self.unwhole = Some(unwhole)).unwrap_or_default();
        self.rest = rest;
        self.unwhole.is_none().then_some(bytes)
    }
}

/// Splits off the first frame: returns its data, and the bytes after the frame.
fn split_first_frame(all: &[u8]) -> Result<(&[u8], &[u8]), Unwhole> {
    let (length, rest) = all.split_first_chunk::<4>().ok_or(Unwhole::Cut)?;
    let (sum, rest) = rest.split_first_chunk::<4>().ok_or(Unwhole::Cut)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_FRAME {
        return Err(Unwhole::Damaged);
    }
    let (bytes, rest) = rest.split_at_checked(length).ok_or(Unwhole::Cut)?;
    if crc32fast::hash(bytes) != u32::from_le_bytes(*sum) {
        return Err(Unwhole::Damaged);
    }
    Ok((bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut all = MAGIC.to_vec();
        frames.iter().for_each(|bytes| all.extend(make_frame(bytes).unwrap()));
        all
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Unwhole>) {
        let mut reader = FrameReader::new(bytes);
        let frames = reader.by_ref().map(<[u8]>::to_vec).collect();
        (frames, reader.reason_if_incomplete())
    }

    proptest! {
        /// If a file is cut at any byte, all frames that end before are read, and an incomplete
        /// frame is reported.
        #[test]
        fn what_was_cut_is_read_up_to_the_last_whole_frame(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
            at in any::<prop::sample::Index>(),
        ) {
            let whole = file(&frames);
            let cut = at.index(whole.len() + 1);
            let mut ends = vec![MAGIC.len()];
            ends.extend((1..=frames.len()).map(|count| file(&frames[..count]).len()));
            let expected = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            let (found, unwhole) = read(&whole[..cut]);
            prop_assert_eq!(&found[..], &frames[..expected]);
            prop_assert_eq!(unwhole.is_none(), ends.contains(&cut));
        }

        /// If any single bit is changed, no frame is read that was not written.
        #[test]
        fn a_changed_bit_is_found(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 1..5),
            at in any::<prop::sample::Index>(),
            bit in 0..8u8,
        ) {
            let mut bytes = file(&frames);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let (found, unwhole) = read(&bytes);
            prop_assert!(found.len() < frames.len() && unwhole.is_some());
            prop_assert_eq!(&found[..], &frames[..found.len()]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[&MAGIC[..], &bytes].concat());
        }
    }

    #[test]
    fn a_frame_that_no_reader_would_take_is_not_made() {
        assert!(make_frame(&vec![0; MAX_FRAME + 1]).is_none());
    }
}
