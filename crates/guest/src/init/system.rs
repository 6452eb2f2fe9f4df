// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounts, modules and cgroups of a guest. A step that fails is returned as text.
//!
//! A feature that the kernel lacks is not an error: the job can find out itself whether the feature
//! exists.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// File systems to mount: mount point and type of each, in mount order.
const MOUNTS: &[(&str, &str)] = &[
    ("/dev", "devtmpfs"),
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/sys/fs/cgroup", "cgroup2"),
    ("/sys/kernel/debug", "debugfs"),
    ("/dev/shm", "tmpfs"),
    ("/tmp", "tmpfs"),
    ("/run", "tmpfs"),
];

/// Mounts every file system of the guest that is not mounted yet.
pub(super) fn mount_all(troubles: &mut Vec<String>) {
    for (folder, kind) in MOUNTS {
        let _ = fs::create_dir_all(folder);
        match mount_one(folder, kind) {
            // EBUSY: already mounted. ENODEV, ENOENT: this kernel does not have the file system.
            Ok(()) | Err(Errno::BUSY | Errno::NODEV | Errno::NOENT) => {}
            Err(errno) => troubles.push(format!("{folder}: {kind} is not mounted: {errno}")),
        }
    }
}

fn mount_one(folder: &str, kind: &str) -> rustix::io::Result<()> {
    if is_mounted(folder) {
        return Ok(());
    }
    mount(kind, folder, kind, MountFlags::empty(), None::<&CStr>)
}

/// Whether the mount table lists this folder: a tmpfs could be mounted a second time over itself.
fn is_mounted(folder: &str) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(1) == Some(folder))
}

/// Loads modules in the given order; returns a line for each that failed.
pub(super) fn load_modules(modules: &[String]) -> Vec<String> {
    let failed = |name: &String| match load_module(&Path::new("/modules").join(name)) {
        Ok(()) | Err(Errno::EXIST) => None,
        Err(errno) => Some(format!("module {name} is not loaded: {errno}")),
    };
    modules.iter().filter_map(failed).collect()
}

fn load_module(path: &Path) -> rustix::io::Result<()> {
    let file =
        File::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let none = CString::default();
    rustix::system::finit_module(file, &none, 0)
}

/// Unmounts everything that [`mount_all`] mounted. The unmounts are lazy, because processes may
/// still have files open.
pub(super) fn unmount_all() {
    for (folder, _) in MOUNTS.iter().rev() {
        let _ = unmount(*folder, UnmountFlags::DETACH);
    }
}

/// Messages in the kernel's log about the repair of an ext4 file system: replay of the journal, and
/// removal of files that were deleted but still open. Reads the log up to the last message so far.
pub(super) fn repair_messages() -> Vec<String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let log = File::options().read(true).custom_flags(flags).open("/dev/kmsg");
    let Ok(mut log) = log else { return Vec::new() };
    let mut found = Vec::new();
    let mut record = [0; 8192];
    // each read returns one record of the kernel's log
    while let Ok(length @ 1..) = log.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..length]);
        found.extend(repair_message(&text).map(str::to_owned));
    }
    found
}

/// Whether a record is about a repair, such as `6,339,1202143,-;EXT4-fs (vda): recovery complete`;
/// returns its text.
fn repair_message(record: &str) -> Option<&str> {
    let text = record.split_once(';')?.1.lines().next()?;
    let is_repair = ["recovery", "orphan"].iter().any(|word| text.contains(word));
    (text.starts_with("EXT4-fs") && is_repair).then_some(text)
}

/// Name of the job's cgroup. It is long because the job may make cgroups beside this one: if this
/// cgroup were called `job`, a script that makes, limits and kills a cgroup of that name would kill
/// itself.
const JOB_GROUP: &str = "pagewise-lab-job";
/// Name of the cgroup of PID 1, if this program is PID 1.
const INIT_GROUP: &str = "pagewise-lab-init";

/// Two cgroups of a guest: one for the process that runs the job, one for the job.
#[derive(Debug)]
pub(super) struct Groups {
    parent: String,
    own: String,
    pub(super) job: String,
    /// Whether the guest has no other processes, so that all processes except this one belong to
    /// the job.
    pub(super) alone: bool,
}

impl Groups {
    /// The cgroups of a guest whose PID 1 is this program.
    pub(super) fn of_pid_1() -> Self {
        Self { alone: true, ..Self::below("/sys/fs/cgroup", INIT_GROUP) }
    }

    /// Paths of the two cgroups below a cgroup that nobody else uses.
    pub(super) fn below(parent: &str, own: &str) -> Self {
        let group = |name: &str| format!("{parent}/{name}");
        Self { parent: parent.to_owned(), own: group(own), job: group(JOB_GROUP), alone: false }
    }

    /// Makes the cgroups, with every controller of the parent. A cgroup that enables controllers
    /// for its children may not hold processes (except the root cgroup), so this process first
    /// moves into its own cgroup.
    pub(super) fn make(&self) -> Vec<String> {
        let Ok(offered) = fs::read_to_string(format!("{}/cgroup.controllers", self.parent)) else {
            return vec!["there is no cgroup v2 here".to_owned()];
        };
        let mut troubles = Vec::new();
        for group in [&self.own, &self.job] {
            if let Err(error) = fs::create_dir_all(group) {
                troubles.push(format!("{group}: {error}"));
            }
        }
        self.enter_own_group();
        for controller in offered.split_whitespace() {
            let handed_on = format!("{}/cgroup.subtree_control", self.parent);
            if let Err(error) = fs::write(handed_on, format!("+{controller}")) {
                troubles.push(format!("cgroup controller {controller} is not enabled: {error}"));
            }
        }
        troubles
    }

    /// Moves this process into the job's cgroup, so that a child starts there.
    pub(super) fn enter_job(&self) {
        enter_group(&self.job);
    }

    /// Moves this process back into its own cgroup.
    pub(super) fn enter_own_group(&self) {
        enter_group(&self.own);
    }
}

/// Why the job cannot get the disks it requested; `None` if all exist.
pub(super) fn describe_missing_disks(requested: usize) -> Option<String> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let found = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"vd"));
    let found = found.count();
    (found < requested).then(|| {
        format!("{found} of {requested} disks came up: this kernel lacks virtio_pci or virtio_blk")
    })
}

/// Waits until the CPUs are idle, at most twenty steps of half a second. Otherwise background work
/// of the boot (mainly self-tests of compression modules) would be counted as work of the job, in
/// amounts that vary.
pub(super) fn wait_until_idle() {
    const STEP: u64 = 500;
    for _ in 0..20 {
        let before = read_idle_milliseconds();
        std::thread::sleep(Duration::from_millis(STEP));
        if read_idle_milliseconds().saturating_sub(before) >= STEP / 100 * 98 {
            return;
        }
    }
}

fn enter_group(group: &str) {
    let _ = fs::write(format!("{group}/cgroup.procs"), "0");
}

/// The number after this name in a file such as /proc/vmstat; 0 if the file lacks the name.
pub(super) fn read_counter(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().map(str::split_whitespace);
    let found = lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next())?);
    found.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Idle time of all CPUs since boot, in milliseconds. The second word of /proc/uptime is this sum,
/// in seconds with two decimals.
pub(super) fn read_idle_milliseconds() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let digits = text.split_whitespace().nth(1).unwrap_or_default().replace('.', "");
    digits.parse::<u64>().map_or(0, |hundredths| hundredths.saturating_mul(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_told_from_what_every_mount_prints() {
        let record = |text: &str| format!("6,339,1202143,-;{text}\n SUBSYSTEM=x\n");
        let repaired =
            ["EXT4-fs (vda): recovery complete", "EXT4-fs (vda): 2 orphan inodes deleted"];
        for text in repaired {
            assert_eq!(repair_message(&record(text)), Some(text));
        }
        let mounted =
            "EXT4-fs (vda): mounted filesystem 1-2 r/w with ordered data mode. Quota mode: none.";
        assert_eq!(repair_message(&record(mounted)), None);
        assert_eq!(repair_message(&record("systemd[1]: recovery")), None);
    }
}
