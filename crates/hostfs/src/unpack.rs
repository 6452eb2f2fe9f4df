// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unpacks a stream that may be packed with gzip, xz or zstd, distinguished by its first bytes.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Error, Read};
use std::rc::Rc;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Largest window of a zstd stream, which we must hold in memory, as the power of two: 16 MiB.
/// `zstd -19` uses 8 MiB.
const MAX_WINDOW_LOG: u32 = 24;

/// Largest dictionary of an xz stream, which we must hold in memory, as xz codes it: 64 MiB, which
/// `xz -9` uses.
const MAX_DICTIONARY: u8 = 28;

/// Size of the buffers, in bytes.
const PIECE: usize = 64 << 10;

/// Whether a stream with this beginning is packed in a way that can be unpacked.
pub(crate) fn is_packed(first: &[u8]) -> bool {
    [GZIP, XZ, ZSTD].iter().any(|mark| first.starts_with(mark))
}

/// The contents of a stream, packed or not.
///
/// # Errors
///
/// If reading its first bytes fails, or unpacking would take too much memory.
pub fn unpack<'a>(stream: impl Read + 'a) -> std::io::Result<Box<dyn BufRead + 'a>> {
    let mut stream = BufReader::with_capacity(PIECE, stream);
    let begin = stream.fill_buf()?;
    Ok(if begin.starts_with(GZIP) {
        Box::new(BufReader::with_capacity(PIECE, flate2::bufread::MultiGzDecoder::new(stream)))
    } else if begin.starts_with(XZ) {
        if dictionary_code(begin).is_some_and(|coded| coded > MAX_DICTIONARY) {
            return Err(Error::other("an xz file that needs more than 64 MiB to be unpacked"));
        }
        Box::new(BufReader::with_capacity(PIECE, lzma_rust2::XzReader::new(stream, true)))
    } else if begin.starts_with(ZSTD) {
        let mut unpacked = zstd::Decoder::with_buffer(stream)?;
        unpacked.window_log_max(MAX_WINDOW_LOG)?;
        Box::new(BufReader::with_capacity(PIECE, unpacked))
    } else {
        Box::new(stream)
    })
}

/// The size of the dictionary of an xz stream as it is coded in the header of its first block: a
/// filter's id, one byte of properties, the size.
fn dictionary_code(begin: &[u8]) -> Option<u8> {
    const STREAM_HEADER: usize = 12;
    const LZMA2: [u8; 2] = [0x21, 1];
    let header = begin.get(STREAM_HEADER..)?;
    let size = (usize::from(*header.first()?) + 1) * 4;
    let header = header.get(2..size.min(header.len()))?;
    let at = header.windows(2).position(|two| two == LZMA2)?;
    header.get(at + 2).copied()
}

/// A stream, and how many bytes were read from it: what was unpacked is compared with what was
/// packed.
#[derive(Debug)]
pub struct CountedStream<R> {
    stream: R,
    count: Rc<Cell<u64>>,
}

impl<R> CountedStream<R> {
    /// Adds the bytes that are read to `count`.
    pub fn new(stream: R, count: Rc<Cell<u64>>) -> Self {
        Self { stream, count }
    }
}

impl<R: Read> Read for CountedStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.count.set(self.count.get() + length as u64);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `xz -9` of one byte, and the same with a dictionary of 4 GiB stated.
    #[test]
    fn an_xz_stream_that_needs_much_memory_is_refused() {
        let head = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01";
        let with = |coded: u8| [head.as_slice(), &[coded, 0, 0, 0]].concat();
        assert!(unpack(with(28).as_slice()).is_ok());
        let refused = unpack(with(40).as_slice()).map(drop).unwrap_err();
        assert!(refused.to_string().contains("64 MiB"), "{refused}");
    }
}
