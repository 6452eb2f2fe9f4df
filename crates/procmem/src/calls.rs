// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system call without a safe wrapper: PAGEMAP_SCAN.
//!
//! The wrapper is sound for any arguments. This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "an ioctl has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::scan::{Region, Search};

/// `struct pm_scan_arg` of the kernel: the arguments of PAGEMAP_SCAN.
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

/// Calls PAGEMAP_SCAN, which writes to `regions`. Returns the number of regions, and the address at
/// which the kernel stopped.
///
/// # Errors
/// ENOTTY if the kernel does not have this call, EINVAL if it does not know a category.
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
    // SAFETY: the request number contains the size of `argument`, which the kernel reads and writes
    // as this struct (layout repr(C), twelve 64-bit numbers, as in linux/fs.h). It writes at most
    // `vec_len` regions to `vec`, which is exactly the slice that we borrow mutably; any bit
    // pattern is a valid Region. With `flags` zero it changes nothing in the target. On a file that
    // is not a pagemap the request number ('f' 16) is unused and refused.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
    match usize::try_from(found) {
        Ok(found) => Ok((found.min(regions.len()), argument.walk_end)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
