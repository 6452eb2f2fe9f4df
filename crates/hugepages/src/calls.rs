// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: advice about the memory of another process, and the switch for huge pages of
//! this one.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "madvise, process_madvise and prctl have no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether this kernel knows MADV_COLLAPSE. Advice for no memory at all is refused only where the
/// kernel does not know it.
pub(crate) fn knows_collapse() -> bool {
    // SAFETY: a length of zero names no memory, so none of ours is touched; the kernel looks at the
    // advice first and then answers that there is nothing to do.
    unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_COLLAPSE) == 0 }
}

/// Collapses memory of the process that `pidfd` stands for into huge pages; a length of zero only
/// asks whether we may.
///
/// # Errors
/// What the kernel says; memory that it has done nothing to stays as it was.
pub(crate) fn collapse_range(pidfd: &OwnedFd, address: u64, length: u64) -> io::Result<()> {
    advise(pidfd, address, length, libc::MADV_COLLAPSE)
}

/// Tells the kernel that memory of that process is not needed soon. Where the range is a part of a
/// huge page, that page is split.
///
/// # Errors
/// What the kernel says.
pub(crate) fn cool_range(pidfd: &OwnedFd, address: u64, length: u64) -> io::Result<()> {
    advise(pidfd, address, length, libc::MADV_COLD)
}

/// Private: only advice that changes no contents may come here.
fn advise(pidfd: &OwnedFd, address: u64, length: u64, advice: libc::c_int) -> io::Result<()> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let start = usize::try_from(address).map_err(|_| wrong())?;
    let length = usize::try_from(length).map_err(|_| wrong())?;
    let range = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length };
    let count = usize::from(length > 0);
    // SAFETY: `range` is one iovec that lives until the call is over and is only read. The address
    // means something in the other process alone. Neither advice changes contents, also where that
    // process is ourselves.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            &raw const range,
            count,
            advice,
            0usize,
        )
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED`, of Linux 6.18.
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Lets this process, and all that it starts, have huge pages only where a program asks for them
/// with MADV_HUGEPAGE, or nowhere; goes on over exec.
///
/// # Errors
/// EINVAL where the kernel does not know the distinction.
pub(crate) fn disable_thp(except_advised: bool) -> io::Result<()> {
    let flags = if except_advised { EXCEPT_ADVISED } else { 0 };
    let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this prctl takes four numbers and no pointer; it changes how this process gets memory
    // from now on, and none that it has.
    answered(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, none, none) })
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
