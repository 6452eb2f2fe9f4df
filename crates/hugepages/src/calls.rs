// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: advice about the memory of another process, and disabling
//! huge pages for this one.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "madvise, process_madvise and prctl have no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether this kernel has MADV_COLLAPSE. Advice for an empty range fails only if the kernel does
/// not know the advice.
pub(crate) fn has_collapse_advice() -> bool {
    // SAFETY: a range of length zero contains no memory of ours; the kernel checks the advice first
    // and then returns, because there is nothing to do.
    unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_COLLAPSE) == 0 }
}

/// Collapses memory of the process of `pidfd` into huge pages; with a length of zero it only checks
/// whether we may.
///
/// # Errors
/// The kernel's error; memory that was not collapsed is unchanged.
pub(crate) fn collapse_range(pidfd: &OwnedFd, address: u64, length: u64) -> io::Result<()> {
    advise(pidfd, address, length, libc::MADV_COLLAPSE)
}

/// Advises the kernel that a range of memory of another process is not needed soon (MADV_COLD). If
/// the range is part of a huge page, the kernel splits that page.
///
/// # Errors
/// The kernel's error.
pub(crate) fn cool_range(pidfd: &OwnedFd, address: u64, length: u64) -> io::Result<()> {
    advise(pidfd, address, length, libc::MADV_COLD)
}

/// Gives the kernel advice about memory of another process. Private, because only advice that
/// changes no contents may be passed.
fn advise(pidfd: &OwnedFd, address: u64, length: u64, advice: libc::c_int) -> io::Result<()> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let start = usize::try_from(address).map_err(|_| wrong())?;
    let length = usize::try_from(length).map_err(|_| wrong())?;
    let range = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length };
    let count = usize::from(length > 0);
    // SAFETY: `range` is one iovec that lives until the call returns and is only read. The address
    // refers to the other process. Neither advice changes contents, even if that process is this
    // one.
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

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of prctl, since Linux 6.18.
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Limits huge pages of this process, and of all it starts, to memory for which a program requests
/// them with MADV_HUGEPAGE, or disables them; this stays in force across exec.
///
/// # Errors
/// EINVAL if the kernel does not know the distinction.
pub(crate) fn disable_thp(except_advised: bool) -> io::Result<()> {
    let flags = if except_advised { EXCEPT_ADVISED } else { 0 };
    let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this prctl takes four numbers and no pointer; it affects only memory that this
    // process gets later.
    to_result(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, none, none) })
}

fn to_result(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
