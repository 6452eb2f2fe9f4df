// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: limits, prctl, capset, seccomp, Landlock, leaving root, and a
//! mapping of our own with what the kernel is told about it.
//!
//! All but the mapping only take rights away. This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "none of these calls has a safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::filter::Instruction;
use crate::landlock::Ruleset;

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Lowers a limit of this process for good. One that is lower already stays.
pub(crate) fn limit(resource: Resource, most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and of the type that both calls expect.
    unsafe {
        if libc::getrlimit(resource, &raw mut limit) == 0 {
            limit.rlim_max = limit.rlim_max.min(most);
            limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
            libc::setrlimit(resource, &raw const limit);
        }
    }
}

/// No core dump, no tracing by another program of the same user.
pub(crate) fn forbid_dumps() {
    prctl(libc::PR_SET_DUMPABLE, 0);
}

/// A program that we start gains no rights; seccomp and Landlock ask for this.
pub(crate) fn no_new_privileges() {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
}

/// With arguments that are numbers, and with options that only take rights away.
fn prctl(option: libc::c_int, value: libc::c_ulong) {
    // SAFETY: the options that this module names take one number, and zeros behind it.
    unsafe {
        libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong)
    };
}

/// Who is nobody on every Linux.
const NOBODY: libc::uid_t = 65_534;

/// Root becomes nobody, with its capabilities left as they are; others stay who they are. Where the
/// kernel refuses (a user namespace that has no such user), it is still root without capabilities.
pub(crate) fn leave_root() {
    // SAFETY: no arguments, and it cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    prctl(libc::PR_SET_KEEPCAPS, 1);
    // SAFETY: setgroups is told that its list is empty, so it reads none; the others take numbers.
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setresgid(NOBODY, NOBODY, NOBODY);
        libc::setresuid(NOBODY, NOBODY, NOBODY);
    }
}

/// `struct __user_cap_header_struct` of `linux/capability.h`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`; two of them, the low 32 bits first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Version 3: 64 bits.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Keeps those of the calling thread's capabilities that are among `bits`, which lie in the low half.
///
/// # Errors
/// Where the kernel refuses.
pub(crate) fn keep_capabilities(bits: u64) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut data = [CapabilityData::default(); 2];
    // SAFETY: header and data are ours, laid out as the kernel's structures; version 3 reads and writes
    // two elements.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    let kept = data[0].permitted & u32::try_from(bits).unwrap_or(0);
    let first = CapabilityData { effective: kept, permitted: kept, inheritable: 0 };
    let data = [first, CapabilityData::default()];
    // SAFETY: as above; it only reads.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) }).map(drop)
}

/// Puts all threads of this process under a filter of system calls.
///
/// # Errors
/// Where the kernel has no seccomp, or a thread cannot follow.
pub(crate) fn filter(program: &[Instruction]) -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_ulong = 1;
    /// All threads; and no slower branches for it.
    const FLAGS: libc::c_ulong = 0b101;
    let length = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies `length` instructions from `program`, which are laid out as its struct
    // sock_filter, and checks them; it writes nothing.
    let result = done(unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, FLAGS, &raw const filter)
    })?;
    match result {
        0 => Ok(()),
        thread => Err(io::Error::other(format!("thread {thread} cannot follow"))),
    }
}

/// Which version of Landlock's interface the kernel has.
///
/// # Errors
/// Where it has none, or it is switched off.
pub(crate) fn landlock_version() -> io::Result<u32> {
    const VERSION: libc::c_ulong = 1;
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: with this flag, no ruleset and a size of 0 the kernel reads nothing.
    let version =
        done(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// Puts the calling thread, and those that it begins, under rules that allow nothing of what they
/// handle.
///
/// # Errors
/// Where the kernel refuses.
pub(crate) fn landlock(rules: &Ruleset) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as it is told; a kernel that knows less wants the rest to
    // be zero, which it is: only what its version has is set.
    let made = done(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(rules),
            size_of::<Ruleset>(),
            0 as libc::c_ulong,
        )
    })?;
    let made = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the call has just answered with a new descriptor, which nobody else owns.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: numbers only.
    let entered = unsafe {
        libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0 as libc::c_ulong)
    };
    done(entered).map(drop)
}

fn done(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Private memory of our own, unmapped with this.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to this value alone and is reached through it alone; like a Vec it may go
// to another thread, and be read by several.
unsafe impl Send for Mapping {}
// SAFETY: as above; to write takes a unique reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeros.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        if isize::try_from(length).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: without an address and MAP_FIXED the kernel chooses a place where nothing is mapped.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// In no core dump, in no child, and in RAM once it is touched. Older kernels do without the second;
    /// beyond the limit on locked memory there is no third.
    pub(crate) fn keep_private(&self) {
        const ON_FAULT: libc::c_ulong = 1;
        let start = self.start.as_ptr();
        // SAFETY: exactly our mapping is named, and none of the three changes what it holds for us.
        unsafe {
            libc::madvise(start.cast(), self.length, libc::MADV_DONTDUMP);
            libc::madvise(start.cast(), self.length, libc::MADV_WIPEONFORK);
            libc::syscall(libc::SYS_mlock2, start, self.length, ON_FAULT);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long, holds zeros or what was written, and nobody writes while
        // it is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and it is borrowed for this alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly our mapping is named, and nobody can use it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
