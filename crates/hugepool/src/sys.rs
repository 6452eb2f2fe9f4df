// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: mappings, madvise, PAGEMAP_SCAN, and a mutex that survives
//! fork().
//!
//! No argument that safe callers can form makes one of these calls unsound: only this crate knows a
//! [`Mapping`]'s memory, and nobody else accesses it until a pool hands out a block of it. Only
//! this module and `ffi` contain `unsafe`.
//!
//! Miri supports neither trimmed mappings nor madvise() nor pthread_atfork(). Under Miri a mapping
//! is a block of the system's allocator, and advice fails as on a kernel that does not know it.

#![expect(unsafe_code, reason = "mmap, madvise, ioctl and pthread calls have no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

#[cfg(feature = "pool")]
pub(crate) use memory::{Advice, Mapping, register_fork_handlers};
#[cfg(feature = "pool")]
pub(crate) use mutex::{Guard, Lock};

/// `struct page_region` of linux/fs.h: consecutive pages with the same properties.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

pub(crate) const PAGE_IS_PRESENT: u64 = 1 << 3;
pub(crate) const PAGE_IS_PFNZERO: u64 = 1 << 5;
pub(crate) const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of linux/fs.h: the argument of PAGEMAP_SCAN.
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

/// Finds the present pages in `start..end`. Returns the number of regions found, and the address
/// where it stopped.
///
/// # Errors
/// ENOTTY if the kernel has no PAGEMAP_SCAN (before 6.7).
pub(crate) fn scan_present(
    pagemap: &File,
    start: u64,
    end: u64,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        start,
        end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_HUGE | PAGE_IS_PFNZERO,
        ..ScanArgument::default()
    };
    let request = libc::_IOWR::<ScanArgument>(u32::from(b'f'), 16);
    // SAFETY: the request number holds the size of `argument`, which has the kernel's layout (repr(C), twelve 64-bit
    // numbers). The kernel writes at most `vec_len` regions to `vec`, which is the slice that we borrow mutably, and
    // any bits are a PageRegion. Without flags it changes nothing. Any other file than a pagemap refuses the number.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), request, &raw mut argument) };
    match usize::try_from(found) {
        Ok(found) => Ok((found.min(regions.len()), argument.walk_end)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Copies memory of this process that another thread may unmap at any time. Returns the number of
/// bytes that were read.
pub(crate) fn copy_own_memory(from: u64, to: &mut [u8]) -> usize {
    let Ok(from) = usize::try_from(from) else { return 0 };
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(from), iov_len: to.len() };
    // SAFETY: the kernel writes at most `to.len()` bytes to `to`, which is borrowed mutably. It checks the other
    // address itself and copies nothing if it is not mapped; reading there changes no Rust value.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

/// Whether huge pages are disabled for this process.
pub(crate) fn are_huge_pages_disabled_for_process() -> bool {
    if cfg!(miri) {
        return false;
    }
    // SAFETY: PR_GET_THP_DISABLE takes no pointer; the unused arguments must be 0.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0 }
}

/// The size of a small page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(feature = "pool")]
mod memory {
    use std::io;
    use std::ptr::NonNull;

    /// Advice to the kernel about memory (madvise).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Advice {
        /// Use huge pages at page faults (MADV_HUGEPAGE).
        Huge,
        /// Use no huge pages (MADV_NOHUGEPAGE).
        Small,
        /// A child by fork() does not get the memory (MADV_DONTFORK).
        Exclude,
        /// Populate the whole mapping with writable pages.
        Populate,
        /// Collapse the mapping into huge pages now.
        Collapse,
    }

    /// Private memory of this process, aligned to a huge page; unmapped when this is dropped.
    #[derive(Debug)]
    pub(crate) struct Mapping {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: a mapping belongs to the process, not to a thread; this owns it alone, and none of its methods reads or
    // writes what is in it.
    unsafe impl Send for Mapping {}

    impl Mapping {
        /// First address of the mapping.
        pub(crate) fn base(&self) -> NonNull<u8> {
            self.base
        }

        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        pub(crate) fn address(&self) -> usize {
            self.base.as_ptr().addr()
        }

        /// The address of the byte at an offset, which must be inside.
        pub(crate) fn pointer_at(&self, offset: usize) -> NonNull<u8> {
            assert!(offset < self.bytes, "offset {offset} of {}", self.bytes);
            // SAFETY: the offset was checked, and the mapping is smaller than isize::MAX.
            unsafe { self.base.add(offset) }
        }

        /// Drops the mapping without unmapping it: for a child process that does not have the
        /// memory.
        pub(crate) fn forget(self) {
            std::mem::forget(self);
        }
    }

    #[cfg(not(miri))]
    impl Mapping {
        /// Maps `bytes` at an address aligned to `alignment` (a power of two); at or near `hint` if
        /// that is free.
        ///
        /// # Errors
        /// ENOMEM because of limits, overcommit or too many mappings; EOVERFLOW for a size above
        /// any address space.
        pub(crate) fn new(bytes: usize, alignment: usize, hint: usize) -> io::Result<Self> {
            let first = Self::map(bytes, hint)?;
            if first.address() % alignment == 0 {
                return Ok(first);
            }
            drop(first);
            let larger = bytes.checked_add(alignment).ok_or_else(too_large)?;
            Ok(Self::map(larger, 0)?.trim_to_alignment(bytes, alignment))
        }

        fn map(bytes: usize, hint: usize) -> io::Result<Self> {
            if isize::try_from(bytes).is_err() {
                return Err(too_large());
            }
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let hint = std::ptr::without_provenance_mut(hint);
            // SAFETY: without MAP_FIXED the address is a hint, and the kernel chooses one where nothing is mapped, so
            // no memory of anybody changes.
            let base = unsafe { libc::mmap(hint, bytes, writable, private, -1, 0) };
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { base, bytes })
        }

        /// Keeps the first aligned `bytes` of the mapping and unmaps the rest.
        fn trim_to_alignment(self, bytes: usize, alignment: usize) -> Self {
            let start = self.address();
            let front = start.next_multiple_of(alignment) - start;
            let base = self.pointer_at(front);
            let behind = self.bytes - front - bytes;
            // SAFETY: both ranges are inside of our mapping, which nobody else knows, and outside of what is kept; an
            // empty range is refused by the kernel and changes nothing.
            unsafe {
                libc::munmap(self.base.as_ptr().cast(), front);
                libc::munmap(base.as_ptr().add(bytes).cast(), behind);
            }
            self.forget();
            Self { base, bytes }
        }

        /// Gives the kernel advice about the whole mapping.
        ///
        /// # Errors
        /// EINVAL if the kernel does not know the advice or cannot follow it; EAGAIN or ENOMEM if
        /// it has no huge page.
        pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
            let advice = match advice {
                Advice::Huge => libc::MADV_HUGEPAGE,
                Advice::Small => libc::MADV_NOHUGEPAGE,
                Advice::Exclude => libc::MADV_DONTFORK,
                Advice::Populate => libc::MADV_POPULATE_WRITE,
                Advice::Collapse => libc::MADV_COLLAPSE,
            };
            // SAFETY: the range is our mapping; none of the five kinds of advice changes its contents in this
            // process.
            let done = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
    }

    #[cfg(not(miri))]
    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the range is our mapping. No block in it is in use when it is dropped, as the contracts of
            // `Pool` and `Table` demand.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }

    #[cfg(miri)]
    impl Mapping {
        pub(crate) fn new(bytes: usize, alignment: usize, _: usize) -> io::Result<Self> {
            let layout = Self::layout(bytes, alignment)?;
            // SAFETY: the layout is not empty: pools map whole huge pages.
            let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
            Ok(Self { base: base.ok_or(io::ErrorKind::OutOfMemory)?, bytes })
        }

        fn layout(bytes: usize, alignment: usize) -> io::Result<std::alloc::Layout> {
            std::alloc::Layout::from_size_align(bytes, alignment).map_err(|_| too_large())
        }

        pub(crate) fn advise(&self, _: Advice) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }

    #[cfg(miri)]
    impl Drop for Mapping {
        fn drop(&mut self) {
            if let Ok(layout) = Self::layout(self.bytes, crate::machine::USUAL_SIZE) {
                // SAFETY: `new` allocated it with this layout: under Miri sysfs cannot be read, so each alignment is
                // the usual size.
                unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
            }
        }
    }

    fn too_large() -> io::Error {
        io::Error::from_raw_os_error(libc::EOVERFLOW)
    }

    /// Registers functions to be called before each fork(), and after it in the parent and in the
    /// child.
    pub(crate) fn register_fork_handlers(
        before: unsafe extern "C" fn(),
        parent: unsafe extern "C" fn(),
        child: unsafe extern "C" fn(),
    ) -> io::Result<()> {
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: the three functions take nothing and return nothing, as pthread_atfork() demands, and are never
        // unloaded: the C library is linked so that it stays (`-z nodelete`), or is part of the program.
        match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

#[cfg(feature = "pool")]
mod mutex {
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};

    /// A mutex that may be held across fork() and released on both sides, which std's guards do not allow.
    ///
    /// A lock must not be moved after it was locked for the first time: pools keep theirs in an `Arc` or a
    /// `static`.
    pub(crate) struct Lock<T> {
        raw: UnsafeCell<libc::pthread_mutex_t>,
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is only reached through a Guard, which exists once at a time.
    unsafe impl<T: Send> Sync for Lock<T> {}
    // SAFETY: nobody holds a lock that is moved to another thread: a Guard borrows it.
    unsafe impl<T: Send> Send for Lock<T> {}

    impl<T> std::fmt::Debug for Lock<T> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Lock").finish_non_exhaustive()
        }
    }

    impl<T> Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            let raw = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
            Self { raw, value: UnsafeCell::new(value) }
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.hold();
            Guard { lock: self }
        }

        /// Takes the lock and holds it until `release_held` is called.
        pub(crate) fn hold(&self) {
            // SAFETY: the mutex is initialised statically and not moved once it is in use (see the type).
            unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        }

        /// Releases the lock that `hold` took: in the parent, or in the child as the copy of this
        /// thread.
        pub(crate) fn release_held(&self) {
            // SAFETY: as for `hold`. Only the handlers of fork() call this, after `hold`.
            unsafe { libc::pthread_mutex_unlock(self.raw.get()) };
        }

        /// Reads the locked value in a thread that has called `hold`.
        pub(crate) fn with_held<R>(&self, read: impl FnOnce(&T) -> R) -> R {
            // SAFETY: this thread holds the lock (only the handlers of fork() call this), so there is no Guard.
            read(unsafe { &*self.value.get() })
        }
    }

    pub(crate) struct Guard<'a, T> {
        lock: &'a Lock<T>,
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            // SAFETY: this thread holds the lock.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: this thread holds the lock, and the guard is borrowed mutably.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.lock.release_held();
        }
    }
}
