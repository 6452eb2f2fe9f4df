// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: swapon and swapoff.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "two system calls have no safe wrapper")]

use std::ffi::CString;
use std::io;

/// `SWAP_FLAG_PREFER`: the lower bits are a priority.
const PREFER: libc::c_int = 0x8000;

/// Switches a swap area on.
pub(crate) fn swap_on(area: &str, priority: Option<i16>) -> io::Result<()> {
    let area = CString::new(area)?;
    let flags = match priority {
        Some(priority) if priority >= 0 => PREFER | libc::c_int::from(priority),
        Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        None => 0,
    };
    // SAFETY: `area` is a string that ends in a zero and lives until the call is over; swapon only
    // reads it.
    answered(unsafe { libc::swapon(area.as_ptr(), flags) })
}

/// Switches a swap area off: all that is in it comes back into memory first.
pub(crate) fn swap_off(area: &str) -> io::Result<()> {
    let area = CString::new(area)?;
    // SAFETY: as for swapon.
    answered(unsafe { libc::swapoff(area.as_ptr()) })
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
