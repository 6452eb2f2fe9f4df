// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: process_vm_readv, and the number of page faults of the
//! calling thread.
//!
//! Each wrapper checks its arguments, so that no argument of a caller can make the call unsound.
//! This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "process_vm_readv and getrusage have no safe wrapper")]

use std::io;
use std::mem::MaybeUninit;

/// A range of another process's memory that is copied, and its place in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) at: usize,
    pub(crate) length: usize,
}

/// Maximum number of pieces in one call (Linux's IOV_MAX).
pub(crate) const MOST_PIECES: usize = 1024;

/// What [`process_vm_readv`] copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyResult {
    /// Number of bytes read, over all pieces in their order.
    pub(crate) bytes: usize,
    /// Number of page faults that the call caused.
    pub(crate) faults: u64,
}

/// Reads pieces of a process's memory, up to the first page that the kernel refuses.
///
/// # Errors
/// If a piece is outside the buffer; then the call is not made.
pub(crate) fn process_vm_readv(
    pid: u32,
    buffer: &mut [u8],
    pieces: &[Piece],
) -> io::Result<CopyResult> {
    let outside = || io::Error::from(io::ErrorKind::InvalidInput);
    let pid = libc::pid_t::try_from(pid).map_err(|_| outside())?;
    let pieces = pieces.get(..MOST_PIECES).unwrap_or(pieces);
    let mut local = Vec::with_capacity(pieces.len());
    let mut remote = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let end = piece.at.checked_add(piece.length).ok_or_else(outside)?;
        let to = buffer.get_mut(piece.at..end).ok_or_else(outside)?;
        local.push(libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() });
        let from = usize::try_from(piece.address).map_err(|_| outside())?;
        let from = std::ptr::without_provenance_mut(from);
        remote.push(libc::iovec { iov_base: from, iov_len: piece.length });
    }
    let count = pieces.len() as libc::c_ulong;
    let before = faults();
    // SAFETY: both lists have `count` elements. The kernel writes only to the local ranges: each is
    // a checked part of `buffer`, which is borrowed here, so nobody else uses it; any byte is a
    // valid u8. The remote addresses are addresses of the other process: the kernel checks them,
    // and this call only reads there.
    let read =
        unsafe { libc::process_vm_readv(pid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    Ok(CopyResult { bytes: usize::try_from(read).unwrap_or(0), faults: faults() - before })
}

/// Page faults of this thread so far, minor and major, including those in the memory of other
/// processes.
pub(crate) fn faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a local value of the size that the call expects. It was zeroed, and zeros
    // are a valid rusage, so it may be read even if the call failed (which it cannot with this
    // argument).
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_minflt, usage.ru_majflt].iter().map(|&count| u64::try_from(count).unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_page(byte: u8) -> Vec<u8> {
        vec![byte; 3 * 4096]
    }

    #[test]
    fn pieces_arrive_where_they_belong() {
        let (ones, twos) = (own_page(1), own_page(2));
        let mut buffer = vec![0; 100];
        let pieces = [
            Piece { address: twos.as_ptr() as u64, at: 50, length: 50 },
            Piece { address: ones.as_ptr() as u64, at: 10, length: 20 },
        ];
        let copied = process_vm_readv(std::process::id(), &mut buffer, &pieces).unwrap();
        assert_eq!(copied.bytes, 70);
        assert_eq!(buffer[..10], [0; 10]);
        assert_eq!(buffer[10..30], [1; 20]);
        assert_eq!(buffer[30..50], [0; 20]);
        assert_eq!(buffer[50..], [2; 50]);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_the_kernel_sees_it() {
        let page = own_page(1);
        let address = page.as_ptr() as u64;
        let mut buffer = vec![0; 100];
        for (at, length) in [(90, 20), (usize::MAX, 20), (101, 0)] {
            let piece = Piece { address, at, length };
            let refused = process_vm_readv(std::process::id(), &mut buffer, &[piece]);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(buffer, [0; 100]);
    }

    #[test]
    fn faults_only_rise() {
        let before = faults();
        let touched = vec![7u8; 1 << 20];
        assert!(faults() >= before + 16, "memory of {}", touched[4096]);
    }
}
