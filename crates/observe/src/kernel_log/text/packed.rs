// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unpacks a log, within a budget that grows with what is read of the packed text.
//!
//! A text of a gigabyte may be packed into a file of a hundred kilobytes. Real logs pack to a
//! twentieth, very uniform ones to a hundredth of their size.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::rc::Rc;

use pagewise_hostfs::CountedStream;

/// Number of bytes that may be unpacked whatever the size of the packed text.
const ALWAYS: u64 = 64 << 20;
/// Number of further bytes that may be unpacked for each byte of the packed text.
const PER_PACKED: u64 = 200;
/// The kind of the error if the budget is exceeded.
pub(super) const TOO_MUCH: ErrorKind = ErrorKind::FileTooLarge;

/// The contents of a log, packed or not.
///
/// # Errors
/// If reading its first bytes fails, or unpacking would take too much memory. Reading it ends with
/// an error of its own beyond the budget.
pub fn unpack_text<'a>(stream: impl Read + 'a) -> Result<impl BufRead + 'a> {
    let packed = Rc::default();
    let stream = pagewise_hostfs::unpack(CountedStream::new(stream, Rc::clone(&packed)))?;
    Ok(BufReader::with_capacity(64 << 10, Budget { stream, packed, read: 0 }))
}

struct Budget<R> {
    stream: R,
    packed: Rc<Cell<u64>>,
    read: u64,
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = ALWAYS.saturating_add(self.packed.get().saturating_mul(PER_PACKED));
        if self.read >= most {
            return Err(Error::new(
                TOO_MUCH,
                "a packed text that unpacks to more than 200 times its size",
            ));
        }
        let length = self.stream.read(buffer)?;
        self.read += length as u64;
        Ok(length)
    }
}
