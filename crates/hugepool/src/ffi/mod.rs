// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C interface: `include/hugepool.h` and `include/hugepool_coverage.h`, which document it.
//!
//! Each function returns a result; values are returned through pointers, which are written only on
//! success. No panic leaves a function: it becomes [`INTERNAL`] if the library is built to unwind
//! (the profile `library` is).

#![expect(unsafe_code, reason = "pointers come from C")]
#![expect(clippy::missing_safety_doc, reason = "the headers say what callers promise")]

mod coverage;
#[cfg(feature = "pool")]
mod pool;
mod result;

pub use coverage::*;
#[cfg(feature = "pool")]
pub use pool::*;
pub use result::{Code, INTERNAL, INVALID, hugepool_message};
