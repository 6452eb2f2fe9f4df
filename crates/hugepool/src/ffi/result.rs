// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of the functions of the C interface.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Error;

/// The C type `hugepool_result`, which every function returns: 0 is success.
pub type Code = c_int;

const OK: Code = 0;
/// The result of a call with a NULL pointer, or with a structure of a size that this version does
/// not know.
pub const INVALID: Code = 13;
/// The result of a call that met a bug in this library.
pub const INTERNAL: Code = 14;

/// The messages of all result codes, in the order of the header.
const MESSAGES: &[&CStr] = &[
    c"success",
    c"a block of 0 bytes was requested",
    c"the alignment is no power of two or larger than a huge page",
    c"the size does not fit into an address space",
    c"the pool has reached its limit",
    c"all blocks of the table are in use",
    c"the kernel gave no memory",
    c"this process is a child by fork(), which the pool excludes",
    c"the block is not from this pool",
    c"the block is free already",
    c"the address or the size is not that of a block",
    c"PAGEWISE_THP is none of on, off and advised",
    c"how the memory is mapped cannot be read",
    c"an argument is NULL, out of range, or a structure of unknown size",
    c"a mistake in hugepool: please report it",
];

pub(super) fn to_code(error: &Error) -> Code {
    match error {
        Error::ZeroSize => 1,
        Error::Alignment { .. } => 2,
        Error::TooLarge => 3,
        Error::Limit { .. } => 4,
        Error::Full => 5,
        Error::OutOfMemory { .. } => 6,
        Error::Forked => 7,
        Error::Foreign => 8,
        Error::DoubleRelease => 9,
        Error::WrongBlock => 10,
        Error::Switch { .. } => 11,
        Error::Unreadable { .. } => 12,
    }
}

/// Runs the body of a C function, and returns the code of its result.
#[inline]
pub(super) fn run_for_code(run: impl FnOnce() -> Result<(), Code>) -> Code {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => OK,
        Ok(Err(code)) => code,
        Err(_) => INTERNAL,
    }
}

/// Stores a result through a pointer.
///
/// # Safety
/// The pointer is NULL or may be written.
pub(super) unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID);
    }
    // SAFETY: the caller of the C function promises that `to` may be written; see the headers.
    unsafe { to.write(value) };
    Ok(())
}

/// A sentence that describes a result code: never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn hugepool_message(code: Code) -> *const c_char {
    let message = usize::try_from(code).ok().and_then(|code| MESSAGES.get(code));
    message.map_or(c"an unknown result".as_ptr(), |message| message.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_each_code_in_order() {
        let header = include_str!("../../include/hugepool_coverage.h");
        for number in 0..MESSAGES.len() {
            assert!(header.contains(&format!(" = {number},")), "{number}");
        }
        assert_eq!(to_code(&Error::Unreadable { errno: 1 }), INVALID - 1);
        assert_eq!(MESSAGES.len(), usize::try_from(INTERNAL).unwrap() + 1);
        assert!(!hugepool_message(-1).is_null() && !hugepool_message(99).is_null());
    }
}
