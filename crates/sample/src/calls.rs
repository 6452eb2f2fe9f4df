// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: PAGEMAP_SCAN, process_vm_readv, and the count of our own
//! thread's page faults.
//!
//! Each is wrapped so that no argument that its callers can form makes it unsound. This is the only
//! module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "two system calls and getrusage have no safe wrapper")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// What the kernel says of the pages of a region: bits of its PAGE_IS_… list.
pub(crate) mod category {
    pub(crate) const FILE: u64 = 1 << 2;
    pub(crate) const PRESENT: u64 = 1 << 3;
    pub(crate) const SWAPPED: u64 = 1 << 4;
    pub(crate) const ZERO_PAGE: u64 = 1 << 5;
    pub(crate) const HUGE: u64 = 1 << 6;
    /// Known to fewer kernels than the others.
    pub(crate) const GUARD: u64 = 1 << 8;
}

/// `struct page_region`: pages one after the other of which the same is true. Addresses in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Debug, Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: libc::Ioctl = libc::_IOWR::<ScanArgument>(b'f' as u32, 16);

/// What to look for, in bytes of address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Pages in any of these categories.
    pub(crate) any_of: u64,
    /// Which categories to tell of them.
    pub(crate) tell: u64,
    /// Pages after which to come back.
    pub(crate) most: u64,
}

/// Fills `regions`; answers how many, and the address where it stopped.
///
/// # Errors
/// ENOTTY where the kernel has no such call, EINVAL where it does not know a category.
pub(crate) fn pagemap_scan(
    pagemap: &File,
    search: Search,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        start: search.start,
        end: search.end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        max_pages: search.most,
        category_anyof_mask: search.any_of,
        return_mask: search.tell,
        ..ScanArgument::default()
    };
    // SAFETY: the request number holds the size of `argument`, which the kernel reads and writes
    // as this struct (layout repr(C), twelve 64-bit numbers, as in linux/fs.h). It writes at most
    // `vec_len` regions to `vec`, which is exactly the slice we borrow mutably; any bit pattern is
    // a Region. With `flags` zero it changes nothing in the target. On a file that is no pagemap
    // the number belongs to nobody ('f' 16) and is refused.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
    match usize::try_from(found) {
        Ok(found) => Ok((found.min(regions.len()), argument.walk_end)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// A piece of a process's memory, and where in our buffer it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) at: usize,
    pub(crate) length: usize,
}

/// The most pieces of one call (IOV_MAX of every Linux).
pub(crate) const MOST_PIECES: usize = 1024;

/// What [`process_vm_readv`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// How many bytes of the pieces, in their order, are there.
    pub(crate) bytes: usize,
    /// Page faults that this took.
    pub(crate) faults: u64,
}

/// Reads pieces of a process's memory, up to the first page that the kernel does not give.
///
/// # Errors
/// Where a piece is outside the buffer, before the kernel is asked.
pub(crate) fn process_vm_readv(
    pid: u32,
    buffer: &mut [u8],
    pieces: &[Piece],
) -> io::Result<Copied> {
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
    // SAFETY: both lists have `count` elements. The kernel writes only to the local ones: each is a
    // checked part of `buffer`, which nobody else can use while it is borrowed here; any byte is a
    // u8. The remote addresses mean something in the other process only: the kernel checks them,
    // and reading is all that this call does there.
    let read =
        unsafe { libc::process_vm_readv(pid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    Ok(Copied { bytes: usize::try_from(read).unwrap_or(0), faults: faults() - before })
}

/// Page faults that this thread has caused so far, minor and major, those in other processes'
/// memory included.
pub(crate) fn faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is ours and as large as the call expects; it was zeroed, and zeros are a
    // valid rusage, so it may be read even if the call failed (which it cannot with this
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
