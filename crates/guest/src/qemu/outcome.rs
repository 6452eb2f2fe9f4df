// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was heard from a guest → what became of it.

use serde::Serialize;

use super::accelerator::Accelerator;
use crate::wire::JobExit;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The job ended by itself, with this status.
    Exited {
        /// The status.
        status: i32,
    },
    /// A signal ended the job.
    Crashed {
        /// The signal.
        signal: i32,
    },
    /// The job could not be started.
    NotStarted {
        /// Why.
        why: String,
    },
    /// The kernel killed for lack of memory, or gave up.
    OutOfMemory {
        /// Kills while the job ran; 0 where the kernel itself gave up.
        kills: u64,
    },
    /// The kernel panicked.
    Panicked {
        /// What it said.
        message: String,
    },
    /// One of the deadlines passed: that for the command once it runs, before that the one for the start.
    TimedOut {
        /// Where it was then.
        phase: Phase,
    },
    /// QEMU ended before the job did, without a panic.
    Failed {
        /// What QEMU said.
        message: String,
    },
    /// The command restarted the guest or switched it off; only of a guest that reboots.
    Restarted,
    /// The command asked for a loss of power, and QEMU was killed.
    PowerLost,
    /// The user stopped it.
    Stopped,
}

/// How far a guest came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The kernel has not started PID 1.
    Kernel,
    /// PID 1 makes the system ready.
    System,
    /// The job runs.
    Job,
    /// The job has ended.
    End,
}

/// A run, whatever became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// As PID 1 read it.
    pub release: Option<String>,
    /// What ran it.
    pub accelerator: Accelerator,
    /// Why that is not the processor itself, where that was wanted.
    pub why_emulated: Option<String>,
    /// CPU time of QEMU from its start to the first word of PID 1.
    pub boot_cpu_seconds: Option<f64>,
    /// Time until then.
    pub boot_seconds: Option<f64>,
    /// CPU time of QEMU until it was last looked at, at most 0.1 s before its end.
    pub cpu_seconds: f64,
    /// Time from QEMU's start to its end.
    pub seconds: f64,
    /// Time from the command's start to QEMU's end; none where the command was not started.
    pub command_seconds: Option<f64>,
    /// Processes that the job left and that were killed.
    pub left: u64,
    /// What was counted, with `--count`.
    pub counted: Option<InstructionClock>,
    /// Size of the initramfs in bytes.
    pub initramfs_bytes: u64,
    /// What PID 1 could not do.
    pub troubles: Vec<String>,
    /// The last lines of the kernel's log.
    pub log: Vec<String>,
    /// Which boot of its root disk this was, the first being 0, and the disk after it; only of a guest that
    /// reboots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskAfter>,
    /// All of it, where that was wanted.
    #[serde(skip)]
    pub whole_log: Option<Vec<u8>>,
}

/// The root disk of a guest that reboots, after one of its boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiskAfter {
    /// The first boot is 0.
    pub boot: u32,
    /// What the kernel printed of repairs when this boot mounted the disk.
    pub repairs: Vec<String>,
    /// Whether this boot unmounted it, or what its superblock says instead.
    pub state: DiskState,
}

/// What the superblock of an ext4 file system says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// It was unmounted, or mounted for reading alone.
    Clean,
    /// It was in use: the next mount replays its journal.
    InUse,
    /// The kernel found an error in it.
    Damaged,
    /// There is no ext4 file system.
    Unknown,
}

/// One instruction is one nanosecond of the guest's clock. A processor that idles counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InstructionClock {
    /// Instructions and idle nanoseconds, from the job's start to its end.
    pub ticks: u64,
    /// Time it idled, by the kernel's account, in steps of 10 ms.
    pub idle_milliseconds: u64,
}

/// The last word on the job, or nothing where PID 1 did not come to it.
#[derive(Debug, Clone)]
pub(super) struct JobEnd {
    pub(super) how: JobExit,
    pub(super) oom_kills: u64,
}

/// The outcome of a guest that ended by itself.
pub(super) fn judged(
    ended: Option<&JobEnd>,
    log: &[String],
    qemu_said: &str,
    reboots: bool,
) -> Outcome {
    if let Some(JobEnd { how, oom_kills }) = ended {
        return match how {
            JobExit::Signalled(9) if *oom_kills > 0 => Outcome::OutOfMemory { kills: *oom_kills },
            // A shell passes its child's death on as a status.
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
        None if qemu_said.is_empty() => Outcome::Failed { message: left_by(log).to_owned() },
        None => Outcome::Failed { message: qemu_said.to_owned() },
    }
}

/// A restart ends the machine, and a command may ask for one.
fn left_by(log: &[String]) -> &'static str {
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
        judged(Some(&JobEnd { how, oom_kills }), &[], "", false)
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
            judged(None, &panic, "x", true),
            Outcome::Panicked { message: "sysrq triggered crash".to_owned() }
        );
        let deadlock = line("Kernel panic - not syncing: System is deadlocked on memory");
        assert_eq!(judged(None, &deadlock, "", true), Outcome::OutOfMemory { kills: 0 });
        let left = |log: &[String]| match judged(None, log, "", false) {
            Outcome::Failed { message: said } => said,
            other => panic!("{other:?}"),
        };
        assert!(left(&line("reboot: Restarting system")).contains("restarted"));
        assert!(left(&[]).contains("neither"));
        let failed = Outcome::Failed { message: "no kvm".to_owned() };
        assert_eq!(judged(None, &[], "no kvm", true), failed);
        let restarted = line("reboot: Restarting system");
        assert_eq!(judged(None, &restarted, "", true), Outcome::Restarted);
    }
}
