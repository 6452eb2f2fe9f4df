// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls that a confined process needs for its task.
//!
//! Files can be opened only for reading, and nothing else can be created, changed, started or
//! contacted. Files that are already open for writing (standard output, the file of `--dump`) can
//! be written. Threads can be started, processes cannot.

use libc::c_long;

use crate::filter::{Condition, Rule};

/// The task that a process is confined for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The process reads page contents and outputs numbers.
    Contents,
    /// The process reads page contents, and advises the kernel that pages of processes are not
    /// needed soon, which splits huge pages. No other advice is allowed, because some would
    /// discard contents.
    Splitting,
    /// The process parses a recording in one file.
    Recording,
    /// The process parses a recording in a folder. This needs `openat2`, whose flags a filter
    /// cannot see: opening files for writing is prevented only by Landlock and the user's
    /// permissions.
    Folder,
}

use Condition::{Always, Bits, OneOf, Refused, Zero};

/// Flags of open, any of which opens a file not only for reading.
const WRITING: u32 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | TMPFILE) as u32;
/// `O_TMPFILE` without `O_DIRECTORY`, which alone is harmless.
const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;
/// Flags of clone for a thread; a plain fork does not have them.
const THREAD: u32 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u32;
const EXECUTABLE: u32 = libc::PROT_EXEC as u32;
const NO_CALL: u32 = libc::ENOSYS as u32;
/// Options of prctl that a process may use: those that name a thread or a mapping.
const NAMES: &[u32] = &[15, 16, 0x5356_4d41];
/// Requests of ioctl that a process may make: PAGEMAP_SCAN; the type and width of a terminal;
/// close-on-exec.
const REQUESTS: &[u32] = &[0xc060_6610, 0x5401, 0x5413, 0x5451];
/// Requests of ioctl for a process with a terminal: those of [`REQUESTS`], and setting a terminal,
/// by the newer request (TCSETS2) or the older one.
const TERMINAL_REQUESTS: &[u32] =
    &[0xc060_6610, 0x5401, 0x5413, 0x5451, 0x802c_542a, 0x402c_542b, 0x5402];
/// The only allowed advice about other processes' memory.
const ADVICE: &[u32] = &[libc::MADV_COLD as u32];
/// Commands of fcntl that a process may use: reading and setting descriptor flags, and duplicating
/// a descriptor.
const DESCRIPTORS: &[u32] = &[0, 1, 2, 3, 1030];

const ALWAYS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_process_vm_readv,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_ppoll,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls that exist only on x86_64, beside the newer ones that replace them.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// The rules for a process with this id; with `terminal` it may configure the terminals that it has
/// open.
pub(crate) fn rules(purpose: Purpose, pid: u32, terminal: bool) -> Vec<Rule> {
    let reading = |argument| Bits { argument, mask: WRITING, value: 0 };
    let mut rules = vec![rule(libc::SYS_openat, reading(2))];
    if purpose == Purpose::Folder {
        rules.push(rule(libc::SYS_openat2, Always));
    }
    if purpose == Purpose::Splitting {
        rules.push(rule(libc::SYS_pidfd_open, Always));
        rules.push(rule(libc::SYS_process_madvise, OneOf { argument: 3, values: ADVICE }));
    }
    rules.extend(ALWAYS.iter().chain(OLD).map(|&number| rule(number, Always)));
    #[cfg(target_arch = "x86_64")]
    rules.push(rule(libc::SYS_open, reading(1)));
    if terminal {
        // the first thread raises signals at itself, one of which stops it; musl uses tkill for
        // that
        rules.push(rule(libc::SYS_tkill, Bits { argument: 0, mask: u32::MAX, value: pid }));
    }
    let requests = if terminal { TERMINAL_REQUESTS } else { REQUESTS };
    let not_executable = Bits { argument: 2, mask: EXECUTABLE, value: 0 };
    rules.extend([
        rule(libc::SYS_mmap, not_executable),
        rule(libc::SYS_mprotect, not_executable),
        rule(libc::SYS_clone, Bits { argument: 0, mask: THREAD, value: THREAD }),
        // the flags of clone3 are behind a pointer; after ENOSYS, libraries use clone instead
        rule(libc::SYS_clone3, Refused { errno: NO_CALL }),
        rule(libc::SYS_prctl, OneOf { argument: 0, values: NAMES }),
        rule(libc::SYS_ioctl, OneOf { argument: 1, values: requests }),
        rule(libc::SYS_fcntl, OneOf { argument: 1, values: DESCRIPTORS }),
        // this call is allowed for reading limits only, not for setting them
        rule(libc::SYS_prlimit64, Zero { argument: 2 }),
        // this call is allowed for terminating with a signal that the process sends to itself
        rule(libc::SYS_tgkill, Bits { argument: 0, mask: u32::MAX, value: pid }),
    ]);
    rules
}

fn rule(number: c_long, condition: Condition) -> Rule {
    Rule { number: u32::try_from(number).unwrap_or(u32::MAX), condition }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_has_two_rules_and_none_of_the_dangerous_has_one() {
        let numbers_on = |purpose, terminal| -> BTreeSet<u32> {
            let rules = rules(purpose, 1, terminal);
            let numbers: BTreeSet<u32> = rules.iter().map(|rule| rule.number).collect();
            assert_eq!(numbers.len(), rules.len());
            numbers
        };
        let numbers = |purpose| -> BTreeSet<u32> {
            let allowed = numbers_on(purpose, false);
            let raised = BTreeSet::from([u32::try_from(libc::SYS_tkill).unwrap()]);
            assert_eq!(&numbers_on(purpose, true) - &allowed, raised);
            allowed
        };
        let never = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_writev,
            libc::SYS_kill,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_mount,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_mkdirat,
            libc::SYS_fchmodat,
            libc::SYS_bpf,
            libc::SYS_init_module,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_io_uring_setup,
            libc::SYS_perf_event_open,
            libc::SYS_swapon,
            libc::SYS_reboot,
            libc::SYS_setuid,
            libc::SYS_capset,
            libc::SYS_pwrite64,
            libc::SYS_ftruncate,
        ];
        let purposes = [Purpose::Contents, Purpose::Splitting, Purpose::Recording, Purpose::Folder];
        let advice = u32::try_from(libc::SYS_process_madvise).unwrap();
        for purpose in purposes {
            let allowed = numbers(purpose);
            assert!(never.iter().all(|number| !allowed.contains(&u32::try_from(*number).unwrap())));
            assert_eq!(allowed.contains(&advice), purpose == Purpose::Splitting);
        }
        let openat2 = u32::try_from(libc::SYS_openat2).unwrap();
        assert!(!numbers(Purpose::Contents).contains(&openat2));
        assert!(numbers(Purpose::Folder).contains(&openat2));
    }
}
