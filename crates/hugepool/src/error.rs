// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the library: why a call was refused.

use std::fmt;

/// Why a call was refused. A refused call changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A block of 0 bytes was requested. Such a block would have no address of its own.
    ZeroSize,
    /// The alignment is larger than a huge page, or no power of two (only C can ask for that).
    Alignment {
        /// The requested alignment in bytes.
        requested: usize,
        /// The largest possible alignment in bytes.
        largest: usize,
    },
    /// No address space can hold this many bytes.
    TooLarge,
    /// The pool would become larger than its limit (`Options::limit`).
    Limit {
        /// The limit of the pool in bytes.
        limit: usize,
    },
    /// All blocks of a table are in use.
    Full,
    /// The kernel refused memory because of RLIMIT_AS, RLIMIT_DATA, overcommit or too many
    /// mappings.
    OutOfMemory {
        /// The error number of the system call, as in `errno.h`.
        errno: i32,
    },
    /// This process is a child by fork(), and the pool was created with `Fork::Exclude`.
    Forked,
    /// The block is not from this pool, or its memory was returned to the kernel since.
    Foreign,
    /// The block that was to be released is free already.
    DoubleRelease,
    /// The address is inside of a block, or the block has another size class than the layout.
    WrongBlock,
    /// `PAGEWISE_THP` is none of `on`, `off` and `advised`.
    Switch {
        /// The value of the variable, cut after 40 characters.
        found: Box<str>,
    },
    /// The files in /proc that show how memory is mapped cannot be read.
    Unreadable {
        /// The error number of the system call, as in `errno.h`.
        errno: i32,
    },
}

impl Error {
    pub(crate) fn unreadable(error: &std::io::Error) -> Self {
        Self::Unreadable { errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// Memory for the pool's own records was refused.
    #[cfg(feature = "pool")]
    pub(crate) const RECORDS: Self = Self::OutOfMemory { errno: libc::ENOMEM };
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("a block of 0 bytes was requested; request at least 1"),
            Self::Alignment { requested, largest } => write!(
                f,
                "alignment {requested}: expected a power of two of at most {largest} bytes"
            ),
            Self::TooLarge => f.write_str("the size does not fit into an address space"),
            Self::Limit { limit } => write!(f, "the pool is limited to {limit} bytes"),
            Self::Full => f.write_str("all blocks of the table are in use"),
            Self::OutOfMemory { errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "the kernel gave no memory: {error}; see RLIMIT_AS, RLIMIT_DATA, overcommit"
                )
            }
            Self::Forked => f.write_str(
                "this process is a child by fork(), and the pool excludes children (Fork::Exclude)",
            ),
            Self::Foreign => f.write_str("the block is not from this pool"),
            Self::DoubleRelease => f.write_str("the block is free already"),
            Self::WrongBlock => f.write_str("the address or the size is not that of a block"),
            Self::Switch { found } => {
                write!(f, "PAGEWISE_THP is {found:?}: expected on, off or advised")
            }
            Self::Unreadable { errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "how the memory is mapped cannot be read: {error}")
            }
        }
    }
}

impl std::error::Error for Error {}
