// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the outcome of a guest from its events and its log.

use serde::Serialize;

use super::accelerator::Accelerator;
use crate::wire::JobExit;

/// How the job or its guest ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The job ended by itself, with this status.
    Exited {
        /// The exit status of the job.
        status: i32,
    },
    /// A signal ended the job.
    Crashed {
        /// Number of the signal.
        signal: i32,
    },
    /// The job could not be started.
    NotStarted {
        /// Why the job could not be started.
        why: String,
    },
    /// The OOM killer ended the job, or the kernel panicked because it had no process left to kill.
    OutOfMemory {
        /// Number of OOM kills while the job ran; 0 if the kernel panicked.
        kills: u64,
    },
    /// The kernel panicked.
    Panicked {
        /// The kernel's message about the panic.
        message: String,
    },
    /// The guest exceeded a time limit: the one for the start, or the one for the command once it
    /// runs.
    TimedOut {
        /// How far the guest had got when the time was up.
        phase: Phase,
    },
    /// QEMU ended before the job did, without a panic.
    Failed {
        /// The error output of QEMU.
        message: String,
    },
    /// The command restarted the guest or powered it off; only in a guest that reboots.
    Restarted,
    /// The command requested a power loss, and QEMU was killed.
    PowerLost,
    /// The user stopped the run.
    Stopped,
}

/// How far a guest got on its way from boot to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The kernel boots; PID 1 has not started.
    Kernel,
    /// PID 1 prepares the system.
    System,
    /// The job runs.
    Job,
    /// The job has ended.
    End,
}

/// One run of a guest, with its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// How the job or its guest ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Release of the kernel, as PID 1 read it.
    pub release: Option<String>,
    /// The accelerator that ran the guest.
    pub accelerator: Accelerator,
    /// Why KVM was not used although it was preferred.
    pub why_emulated: Option<String>,
    /// CPU time of QEMU from its start to the first event of PID 1, in seconds.
    pub boot_cpu_seconds: Option<f64>,
    /// Elapsed time from QEMU's start to the first event of PID 1, in seconds.
    pub boot_seconds: Option<f64>,
    /// CPU time of QEMU in seconds when it was last read, at most 0.1 s before QEMU's end.
    pub cpu_seconds: f64,
    /// Time from QEMU's start to its end, in seconds.
    pub seconds: f64,
    /// Time from the command's start to QEMU's end, in seconds; `None` if the command was not
    /// started.
    pub command_seconds: Option<f64>,
    /// Number of processes that the job left behind and that were killed.
    pub left: u64,
    /// The instruction count of the job, with `--count`.
    pub counted: Option<InstructionClock>,
    /// Size of the initramfs in bytes.
    pub initramfs_bytes: u64,
    /// What PID 1 could not do, one line for each failure.
    pub troubles: Vec<String>,
    /// The last lines of the kernel's log.
    pub log: Vec<String>,
    /// The root disk after this boot; only for a guest that reboots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskAfter>,
    /// The whole kernel log, if requested.
    #[serde(skip)]
    pub whole_log: Option<Vec<u8>>,
}

/// The root disk of a guest that reboots, after one of its boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiskAfter {
    /// Number of the boot, counted from 0.
    pub boot: u32,
    /// Messages of the kernel about repairs when this boot mounted the disk.
    pub repairs: Vec<String>,
    /// State of the file system after this boot.
    pub state: DiskState,
}

/// State of an ext4 file system by its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// The file system was unmounted, or was mounted read-only.
    Clean,
    /// The file system was still mounted when the guest ended: the next mount replays its journal.
    InUse,
    /// The superblock records an error.
    Damaged,
    /// The disk has no ext4 file system.
    Unknown,
}

/// The guest's clock under `-icount`: one instruction is one nanosecond, and it continues while the
/// processor is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InstructionClock {
    /// Number of instructions plus idle nanoseconds, from the job's start to its end.
    pub ticks: u64,
    /// Idle time as the kernel accounts it, in steps of 10 ms.
    pub idle_milliseconds: u64,
}

/// The last event about the job, which reports its end; `None` if PID 1 did not send it.
#[derive(Debug, Clone)]
pub(super) struct JobEnd {
    pub(super) how: JobExit,
    pub(super) oom_kills: u64,
}

/// Determines the outcome of a guest that ended by itself.
pub(super) fn determine_outcome(
    ended: Option<&JobEnd>,
    log: &[String],
    qemu_said: &str,
    reboots: bool,
) -> Outcome {
    if let Some(JobEnd { how, oom_kills }) = ended {
        return match how {
            JobExit::Signalled(9) if *oom_kills > 0 => Outcome::OutOfMemory { kills: *oom_kills },
            // A shell reports the death of its child by signal 9 as status 137.
            JobExit::Exited(137) if *oom_kills > 0 => Outcome::OutOfMemory { kills: *oom_kills },
            JobExit::Exited(status) => Outcome::Exited { status: *status },
            JobExit::Signalled(signal) => Outcome::Crashed { signal: *signal },
            JobExit::NotStarted(why) => Outcome::NotStarted { why: why.clone() },
        };
    }
    let panic = log.iter().find_map(|line| line.split_once("Kernel panic - not syncing: "));
    match panic {
        Some((_, said)) if said.contains("memory") => Outcome::OutOfMemory { kills: 0 },
        Some((_, said)) => Outcome::Panicked { message: said.to_owned() },
        None if reboots && was_restarted(log) => Outcome::Restarted,
        None if qemu_said.is_empty() => Outcome::Failed { message: why_it_ended(log).to_owned() },
        None => Outcome::Failed { message: qemu_said.to_owned() },
    }
}

/// Why a guest ended without a reported outcome, judged by the end of the kernel's log.
fn why_it_ended(log: &[String]) -> &'static str {
    if was_restarted(log) {
        "the command restarted it or switched it off"
    } else {
        "neither kernel nor QEMU said why"
    }
}

fn was_restarted(log: &[String]) -> bool {
    log.last().is_some_and(|line| line.contains("reboot: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_exit(how: JobExit, oom_kills: u64) -> Outcome {
        determine_outcome(Some(&JobEnd { how, oom_kills }), &[], "", false)
    }

    #[test]
    fn lack_of_memory_is_told_from_a_kill() {
        assert_eq!(from_exit(JobExit::Signalled(9), 0), Outcome::Crashed { signal: 9 });
        assert_eq!(from_exit(JobExit::Signalled(9), 2), Outcome::OutOfMemory { kills: 2 });
        assert_eq!(from_exit(JobExit::Exited(137), 1), Outcome::OutOfMemory { kills: 1 });
        assert_eq!(from_exit(JobExit::Exited(0), 1), Outcome::Exited { status: 0 });
    }

    #[test]
    fn the_log_says_why_a_machine_ended() {
        let line = |text: &str| vec!["[ 1.0] boot".to_owned(), format!("[    1.7] {text}")];
        let panic = line("Kernel panic - not syncing: sysrq triggered crash");
        assert_eq!(
            determine_outcome(None, &panic, "x", true),
            Outcome::Panicked { message: "sysrq triggered crash".to_owned() }
        );
        let deadlock = line("Kernel panic - not syncing: System is deadlocked on memory");
        assert_eq!(determine_outcome(None, &deadlock, "", true), Outcome::OutOfMemory { kills: 0 });
        let left = |log: &[String]| match determine_outcome(None, log, "", false) {
            Outcome::Failed { message: said } => said,
            other => panic!("{other:?}"),
        };
        assert!(left(&line("reboot: Restarting system")).contains("restarted"));
        assert!(left(&[]).contains("neither"));
        let failed = Outcome::Failed { message: "no kvm".to_owned() };
        assert_eq!(determine_outcome(None, &[], "no kvm", true), failed);
        let restarted = line("reboot: Restarting system");
        assert_eq!(determine_outcome(None, &restarted, "", true), Outcome::Restarted);
    }
}
