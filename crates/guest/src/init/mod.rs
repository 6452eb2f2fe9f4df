// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PID 1 of a guest: prepares a minimal system for the job, runs the job, reports its outcome, and
//! ends the machine.
//!
//! Errors can only be reported to the runner, over the second serial port. After a step that fails,
//! PID 1 continues with the next one. A panic here is a kernel panic, which the runner sees in the
//! kernel's log. PID 1 ends the machine by a restart: QEMU's option `-no-reboot` makes it exit
//! instead of starting the machine again, and a restart works without firmware.

#![expect(
    clippy::disallowed_methods,
    reason = "PID 1 of a guest sets the machine up, writes its settings and starts the job"
)]

mod channel;
mod failure;
mod hand_over;
mod job;
mod out_files;
mod system;
mod unit;

use std::fs;
use std::time::Duration;

use rustix::system::RebootCommand;

use crate::wire::{Event, JOB, Job, MARK};
pub use channel::Channel;
use failure::{ErrorContext, Failure};
use system::Groups;

/// Whether this process is PID 1 of a guest that Pagewise started: the runner puts a mark on the
/// kernel's command line, which PID 1 gets in its environment. PID 1 of a container has no such
/// mark.
#[must_use]
pub fn is_guest_pid_1() -> bool {
    is_pid_1() && std::env::var_os(MARK).is_some()
}

/// Whether this machine is a guest that Pagewise started, whatever program is its PID 1. The disks
/// of such a guest were made for its job and hold nobody's data.
#[must_use]
pub fn is_guest() -> bool {
    fs::read_to_string("/proc/cmdline").is_ok_and(|line| is_marked(&line))
}

fn is_marked(line: &str) -> bool {
    line.split_whitespace().any(|word| word.split('=').next() == Some(MARK))
}

fn is_pid_1() -> bool {
    rustix::process::getpid().as_raw_nonzero().get() == 1
}

/// Entry point of PID 1.
pub fn main() -> ! {
    system::mount_all(&mut Vec::new());
    let channel = Channel::open();
    let mut troubles = Vec::new();
    system::mount_all(&mut troubles);
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    channel.send_or_ignore(&Event::Up { release });
    for what in troubles {
        channel.send_or_ignore(&Event::Trouble { what });
    }
    if let Err(failure) = run(&channel) {
        channel.send_or_ignore(&Event::Trouble { what: failure.to_string() });
    }
    // A restart discards data that was not yet written to a disk.
    rustix::fs::sync();
    channel.send_or_ignore(&Event::Done);
    channel.drain();
    restart_machine()
}

fn run(channel: &Channel) -> Result<(), Failure> {
    let path = format!("/{JOB}");
    let text = fs::read(&path).context(&path)?;
    let job: Job = serde_json::from_slice(&text).context(&path)?;
    for what in system::load_modules(&job.modules) {
        channel.send_or_ignore(&Event::Trouble { what });
    }
    let ended = match (system::describe_missing_disks(job.disks), &job.root) {
        (Some(why), _) => job::not_started_event(why),
        (None, None) => run_job_in_guest(&job, channel),
        (None, Some(disk)) => {
            channel.drain();
            match hand_over::start_systemd(&job, disk, |event| channel.send_or_ignore(event)) {
                Ok(never) => match never {},
                Err(failure) => job::not_started_event(failure.to_string()),
            }
        }
    };
    channel.send_or_ignore(&ended);
    out_files::send_all(channel)
}

fn run_job_in_guest(job: &Job, channel: &Channel) -> Event {
    let groups = Groups::of_pid_1();
    for what in groups.make() {
        channel.send_or_ignore(&Event::Trouble { what });
    }
    if job.quiet {
        system::wait_until_idle();
    }
    job::run(job, &groups, channel)
}

/// Whether this process was started by the unit that runs the job under systemd.
#[must_use]
pub fn is_unit() -> bool {
    !is_pid_1() && std::env::var_os(MARK).is_some_and(|mark| mark == "unit")
}

/// Entry point of the process that runs the job under systemd; a failure is sent to the runner.
pub fn unit_main() -> ! {
    let channel = Channel::open();
    if let Err(failure) = unit::main(&channel) {
        channel.send_or_ignore(&Event::Trouble { what: failure.to_string() });
    }
    channel.send_or_ignore(&Event::Done);
    channel.drain();
    std::process::exit(0)
}

/// Restarts the machine; QEMU exits instead (see the module's documentation).
fn restart_machine() -> ! {
    loop {
        let _ = rustix::system::reboot(RebootCommand::Restart);
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_known_by_its_command_line() {
        assert!(is_marked(&format!("console=ttyS0 {MARK}=1 quiet\n")));
        assert!(!is_marked(&format!(
            "console=ttyS0 not{MARK}=1 quiet {}\n",
            MARK.to_lowercase() + "x"
        )));
        assert!(!is_guest() || is_marked(&fs::read_to_string("/proc/cmdline").unwrap()));
    }
}
