// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: limits, prctl, capset, seccomp, Landlock, dropping root,
//! and a private mapping with its madvise flags.
//!
//! All calls except those of the mapping only reduce privileges. This is the only module of the
//! crate with `unsafe`.

#![expect(unsafe_code, reason = "none of these calls has a safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use seccompiler::sock_filter;

use crate::landlock::Ruleset;

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Lowers a resource limit of this process permanently. A limit that is lower already is kept.
pub(crate) fn lower_limit(resource: Resource, most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and has the type that both calls expect.
    unsafe {
        if libc::getrlimit(resource, &raw mut limit) == 0 {
            limit.rlim_max = limit.rlim_max.min(most);
            limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
            libc::setrlimit(resource, &raw const limit);
        }
    }
}

/// Forbids core dumps of this process, and tracing by other programs of the same user.
pub(crate) fn forbid_dumps() {
    prctl(libc::PR_SET_DUMPABLE, 0);
}

/// Makes sure that programs which we start gain no privileges; seccomp and Landlock require this.
pub(crate) fn forbid_new_privileges() {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
}

/// Sets an option of this process. Only for options that take numbers and only reduce privileges.
fn prctl(option: libc::c_int, value: libc::c_ulong) {
    // SAFETY: the options that this module uses take one number, followed by zeros.
    unsafe {
        libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong)
    };
}

/// The user id of nobody on every Linux.
const NOBODY: libc::uid_t = 65_534;

/// If this process is root, changes its user to nobody and keeps its capabilities; a process of
/// another user is not changed. If the kernel refuses (a user namespace without this user), the
/// process remains root but without capabilities.
pub(crate) fn leave_root() {
    // SAFETY: geteuid takes no arguments, and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    prctl(libc::PR_SET_KEEPCAPS, 1);
    // SAFETY: setgroups gets a list length of zero, so it reads none; the others take numbers.
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setresgid(NOBODY, NOBODY, NOBODY);
        libc::setresuid(NOBODY, NOBODY, NOBODY);
    }
}

/// `struct __user_cap_header_struct` of `linux/capability.h`: the header of capset.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct` of `linux/capability.h`: one half of the capabilities. capset
/// takes two of them, the low 32 bits first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Version 3 of capset's interface, whose capability sets have 64 bits.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Drops the capabilities of the calling thread that are not in `bits`, all of which are in the
/// lower 32 bits.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn keep_capabilities(bits: u64) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut data = [CapabilityData::default(); 2];
    // SAFETY: header and data are ours and have the layout of the kernel's structures; version 3
    // reads and writes two elements.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    let kept = data[0].permitted & u32::try_from(bits).unwrap_or(0);
    let first = CapabilityData { effective: kept, permitted: kept, inheritable: 0 };
    let data = [first, CapabilityData::default()];
    // SAFETY: as for capget above; capset only reads `header` and `data`.
    check_result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) })
        .map(drop)
}

/// Applies a filter of system calls to all threads of this process. seccompiler's own function for
/// this cannot switch off the Spectre mitigations, which kernels before 5.16 switch on with each
/// filter.
///
/// # Errors
/// If the kernel has no seccomp, or the filter cannot be applied to a thread.
pub(crate) fn apply_filter(program: &[sock_filter]) -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_ulong = 1;
    /// The filter applies to all threads, and without the Spectre mitigations that slow down
    /// branches.
    const FLAGS: libc::c_ulong = 0b101;
    let length = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies `length` instructions from `program`, which have the layout of its
    // struct sock_filter, and checks them; it writes nothing.
    let result = check_result(unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, FLAGS, &raw const filter)
    })?;
    match result {
        0 => Ok(()),
        thread => Err(io::Error::other(format!("thread {thread} cannot follow"))),
    }
}

/// The version of the Landlock interface that the kernel has.
///
/// # Errors
/// If it has none, or it is disabled.
pub(crate) fn landlock_version() -> io::Result<u32> {
    const VERSION: libc::c_ulong = 1;
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: with this flag, no ruleset and a size of 0, the kernel reads nothing.
    let version = check_result(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION)
    })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// Applies a ruleset to the calling thread, and to those that it starts. All access that the
/// ruleset handles is refused.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn apply_ruleset(rules: &Ruleset) -> io::Result<()> {
    // SAFETY: the kernel reads the given number of bytes. A kernel with an older interface requires
    // the rest to be zero, which it is: only fields of its version are set.
    let made = check_result(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(rules),
            size_of::<Ruleset>(),
            0 as libc::c_ulong,
        )
    })?;
    let made = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the call has just returned a new descriptor, which has no other owner.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: the call takes only numbers.
    let entered = unsafe {
        libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0 as libc::c_ulong)
    };
    check_result(entered).map(drop)
}

fn check_result(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A private mapping of this process, unmapped when this is dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to this value alone and is accessed only through it; like a Vec it may
// be moved to another thread, and read by several.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; writing requires a unique reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A private mapping of `length` bytes, filled with zeros.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        if isize::try_from(length).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: without an address and MAP_FIXED the kernel chooses unused addresses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Excludes the mapping from core dumps and from forked children, and locks its pages into RAM
    /// once they are touched. Older kernels cannot exclude it from children; beyond the limit on
    /// locked memory it is not locked.
    pub(crate) fn keep_private(&self) {
        const ON_FAULT: libc::c_ulong = 1;
        let start = self.start.as_ptr();
        // SAFETY: the range is exactly our mapping, and none of the three changes its contents.
        unsafe {
            libc::madvise(start.cast(), self.length, libc::MADV_DONTDUMP);
            libc::madvise(start.cast(), self.length, libc::MADV_WIPEONFORK);
            libc::syscall(libc::SYS_mlock2, start, self.length, ON_FAULT);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this length, contains zeros or what was written, and is not
        // written while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, and nothing can use it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
