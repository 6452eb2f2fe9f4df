// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper, made between fork and exec so that a child ends with this
//! process and has no privileges.
//!
//! This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "pre_exec, prctl and setresuid have no safe wrapper")]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

use crate::user::User;

/// Makes the kernel kill the child when the thread that starts it ends (PR_SET_PDEATHSIG). This
/// needs no helper program such as setpriv, which a guest does not have. If the parent ended before
/// the child asked for the signal, the child ends without starting the program.
pub fn kill_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let is_ours = rustix::process::getppid() == Some(parent);
        if is_ours { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: `ask` runs between fork and exec. It makes two system calls, allocates no memory,
    // takes no lock, and captures only a number.
    unsafe { command.pre_exec(ask) };
}

/// Like [`kill_with_parent`], for a program that must not have privileges either: the program runs as `user`,
/// with `group` as its only supplementary group, and inherits `files` under their present numbers.
pub(crate) fn confine(command: &mut Command, user: User, group: Option<u32>, files: Vec<OwnedFd>) {
    let groups: Vec<libc::gid_t> = group.into_iter().collect();
    let restrict = move || {
        for file in &files {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
        }
        match user {
            User::Ourselves => {}
            User::BareRoot => drop_capabilities()?,
            User::Stranger(number) => {
                // A failure is harmless: changing the user below clears the capabilities anyway.
                let _ = drop_capabilities();
                become_user(number, &groups)?;
            }
        }
        rustix::thread::set_no_new_privs(true).map_err(io::Error::from)
    };
    // SAFETY: `restrict` runs between fork and exec. It makes only system calls, allocates no
    // memory and takes no lock; what it captures was allocated before the fork.
    unsafe { command.pre_exec(restrict) };
    kill_with_parent(command);
}

/// Drops all capabilities from the bounding set, so that a program started by root gets none.
fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: takes numbers only.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        let error = io::Error::last_os_error();
        match (done, error.raw_os_error()) {
            (0, _) => {}
            // EINVAL: the number is above the last capability that the kernel knows.
            (_, Some(libc::EINVAL)) if capability > 0 => return Ok(()),
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Changes the user and groups of the calling thread. Call only between fork and exec: these raw
/// system calls change the calling thread alone.
fn become_user(number: u32, groups: &[libc::gid_t]) -> io::Result<()> {
    let checked = |done: libc::c_long| {
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the pointer and the length are those of `groups`; the other calls take numbers only.
    unsafe {
        checked(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        checked(libc::syscall(libc::SYS_setresgid, number, number, number))?;
        checked(libc::syscall(libc::SYS_setresuid, number, number, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leashed_program_runs_while_its_parent_does() {
        let mut command = Command::new("echo");
        kill_with_parent(&mut command);
        assert_eq!(command.arg("here").output().unwrap().stdout, b"here\n");
    }
}
