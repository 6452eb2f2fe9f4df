// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real machine: the only place where Pagewise changes it.
//!
//! Values of the host (swap, memory, mounts) are read by `pagewise-observe`. Only what was written
//! or will be written is read here, directly before or after: the journal, and the file of a
//! setting. Programs are started by name from the system's folders, whatever PATH contains, because
//! we are root.
//!
//! A path may come from a journal, and a journal may have been forged. So links are not followed, a
//! setting is written only to a file in one of the kernel's file systems, and a file is removed or
//! filled only if it has the recorded identity.

#![expect(clippy::disallowed_methods, reason = "this is where settings are written and read back")]

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pagewise_model::plan::PlannedMachine;
use pagewise_model::{Bytes, Cgroup, Limit, Micros, Percent, Snapshot, Stall, Tier, Zram};
use pagewise_observe::{HostRoot, Scope, counters, memory_cgroups, psi, snapshot};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, FallocateFlags, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, openat, statat,
    unlinkat,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpriority_process, pidfd_open, pidfd_send_signal,
    setpriority_process,
};

use crate::calls;
use crate::config_files;
use crate::error::Error;
use crate::host_ops::{
    Area, Config, Entry, GroupCharge, HostChange, HostOps, MemoryFacts, Site, Strain,
    UnreadJournal, folder_of,
};
use crate::journal::Identity;
use crate::loan::drain::{Brake, DrainSample};
use crate::loan::zram;
use crate::swap_area;

/// Length limit of a journal that is read, in bytes: a session of a thousand loans writes half a
/// megabyte.
pub(crate) const MAX_JOURNAL: u64 = 16 << 20;
/// Length limit of a setting's file that is read, in bytes.
const MAX_SETTING: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Live {
    host: HostRoot,
    /// Set when the user wants to stop long operations.
    stop: Option<Arc<AtomicBool>>,
}

impl Live {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { host: HostRoot::live()?, stop: None })
    }

    /// A handle to the machine that aborts swapoff, or filling a file, when `stop` is set.
    pub(crate) fn with_stop(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Disables a swap area, and stops if the brake or the user wants it. The kernel must not kill
    /// this process meanwhile, since it would leave the plan half applied.
    fn drain(&self, area: &str, reserve: Bytes) -> io::Result<()> {
        let _watchman = Watchman::new();
        let start = Instant::now();
        let mut brake = Brake::new(area, reserve, self.memory_pressure().oom_kills);
        let mut groups_at = Duration::ZERO;
        calls::swap_off_while(area, || {
            if self.is_stopped() {
                return Err("a signal (Ctrl-C or SIGTERM)".to_owned());
            }
            let at = start.elapsed();
            let facts = if at >= groups_at {
                let facts = self.memory_facts();
                // reading thousands of cgroups takes at most a tenth of the time
                groups_at = start.elapsed() + (start.elapsed() - at) * 10;
                facts
            } else {
                self.host_facts(&self.read_glance())
            };
            brake.check(&DrainSample {
                at,
                areas: self.swaps(),
                facts,
                strain: self.memory_pressure(),
            })
        })
    }

    /// The facts about memory without those about cgroups.
    fn host_facts(&self, now: &Snapshot) -> MemoryFacts {
        let mode = self.read("/proc/sys/vm/overcommit_memory");
        MemoryFacts {
            total: now.memory.total.get().unwrap_or_default(),
            available: now.memory.available.get().unwrap_or_default(),
            is_strict: mode.is_ok_and(|mode| mode == "2"),
            committed: now.memory.committed.get().unwrap_or_default(),
            commit_limit: now.memory.commit_limit.get().unwrap_or_default(),
            groups: Vec::new(),
            groups_left_out: 0,
        }
    }

    fn read_glance(&self) -> Snapshot {
        snapshot(&self.host, &Scope::glance())
    }
}

/// While this value exists, the kernel kills this process for lack of memory only as a last resort, and runs it
/// before others: on a busy machine, memory could be used up between two checks. Without the rights to that
/// (`CAP_SYS_RESOURCE`, `CAP_SYS_NICE`) this has no effect.
#[derive(Debug)]
struct Watchman {
    score_before: Option<String>,
    nice_before: Option<i32>,
}

impl Watchman {
    const SCORE: &str = "/proc/self/oom_score_adj";
    const NICE: i32 = -20;

    fn new() -> Self {
        let score = fs::read_to_string(Self::SCORE).ok();
        let score_before = score.filter(|_| write(Self::SCORE, "-1000").is_ok());
        let nice = getpriority_process(None).ok();
        let nice_before = nice.filter(|_| setpriority_process(None, Self::NICE).is_ok());
        Self { score_before, nice_before }
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        if let Some(before) = &self.score_before {
            let _ = write(Self::SCORE, before.trim());
        }
        if let Some(before) = self.nice_before {
            let _ = setpriority_process(None, before);
        }
    }
}

/// The path of the folder of journals with links resolved, as the paths of journals spell it.
pub(crate) fn resolve(folder: &Path) -> Result<String, Error> {
    let describe = |source| Error::State { path: folder.display().to_string(), source };
    into_text(fs::canonicalize(folder).map_err(describe)?).map_err(describe)
}

fn into_text(path: std::path::PathBuf) -> io::Result<String> {
    let strange = |_| io::Error::other("the path is no UTF-8");
    path.into_os_string().into_string().map_err(strange)
}

impl HostOps for Live {
    fn make_change(&mut self, deed: &HostChange<'_>) -> io::Result<()> {
        match *deed {
            HostChange::Write { path, value } => write(path, value),
            HostChange::MakeGroup(folder) => fs::create_dir(folder),
            HostChange::RemoveGroup(folder) => fs::remove_dir(folder),
            HostChange::Kill { pid, group } => kill(pid, group),
            HostChange::MakeFile(path) => swap_area::make_file(path),
            HostChange::FillFile { path, identity, size } => {
                fill_file(path, identity, size, &|| self.is_stopped())
            }
            HostChange::RemoveFile { path, identity } => remove_own(path, identity),
            HostChange::FormatSwap(area) => swap_area::format(area),
            HostChange::SwapOn { area, priority } => swap_area::enable(area, priority),
            HostChange::SwapOff(area) => calls::swap_off(area),
            HostChange::Load { module, parameter } => run("modprobe", &[module, parameter]),
            HostChange::Unload(module) => run("modprobe", &["-r", module]),
            HostChange::Drain { area, reserve } => self.drain(area, reserve),
            HostChange::Stage { path, staged } => config_files::stage(path, staged),
            HostChange::SyncFile(path) => config_files::sync_file(path),
            HostChange::Rename { from, to } => config_files::rename(from, to),
            HostChange::SyncFolder(folder) => config_files::sync_folder(folder),
            HostChange::RemoveConfig(path) => config_files::remove(path),
            HostChange::MakeFolder(path) => config_files::make_folder(path),
            HostChange::RemoveFolder(path) => config_files::remove_folder(path),
            HostChange::ReloadUnits => run("systemctl", &["daemon-reload"]),
            HostChange::StartUnit(unit) => run("systemctl", &["start", "--no-block", "--", unit]),
            HostChange::StopUnit(unit) => run("systemctl", &["stop", "--", unit]),
            HostChange::Arm { seconds, program, state, journal } => {
                start_undo_timer(seconds, program, state, journal)
            }
            HostChange::Disarm => stop_undo_timer(),
            HostChange::Begin(journal) => begin(journal),
            HostChange::Append { journal, line } => append(journal, line),
            HostChange::Cut { journal, length } => truncate_journal(journal, length),
            HostChange::Forget(journal) => forget(journal),
            HostChange::SetAside { journal, to } => move_journal_aside(journal, to),
        }
    }

    /// Creates a zram device with a single read, because each read of `hot_add` creates one.
    fn add_zram_device(&mut self) -> io::Result<u32> {
        let mut text = [0; 32];
        let length = File::open("/sys/class/zram-control/hot_add")?.read(&mut text)?;
        let text = String::from_utf8_lossy(&text[..length]);
        let strange = |_| io::Error::other(format!("expected a number, found {text:?}"));
        text.trim().parse().map_err(strange)
    }

    fn read(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&bytes(path, MAX_SETTING)?).trim().to_owned())
    }

    fn journal(&self, path: &str) -> Result<Vec<u8>, UnreadJournal> {
        let untrusted = |error: io::Error| UnreadJournal::Untrusted(error.to_string());
        let kind = fs::symlink_metadata(path).map_err(untrusted)?.file_type();
        if !kind.is_file() {
            return Err(UnreadJournal::NoFile(format!(
                "it is {}, not a plain file",
                kind_of(kind)
            )));
        }
        let file = open_own(path, OpenOptions::new().read(true)).map_err(untrusted)?;
        read_limited(file, MAX_JOURNAL).map_err(untrusted)
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
        let names: io::Result<Vec<_>> = names.collect();
        let mut names: Vec<String> =
            names?.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn for_thread(&self) -> io::Result<Box<dyn HostOps + Send>> {
        Ok(Box::new(Self { stop: self.stop.clone(), ..Self::new()? }))
    }

    fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    fn resolve(&self, folder: &Path) -> io::Result<String> {
        into_text(fs::canonicalize(folder)?)
    }

    fn inode(&self, folder: &str) -> io::Result<u64> {
        Ok(fs::metadata(folder)?.ino())
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        let found = fs::symlink_metadata(path)?;
        Ok(Entry {
            identity: identity(&found),
            is_own_file: is_own_file(&found),
            size: found.len(),
        })
    }

    fn is_cgroup(&self, folder: &str) -> bool {
        open_group(folder).is_ok()
    }

    fn created_at(&self, number: u32) -> Option<u64> {
        let node = fs::symlink_metadata(format!("/dev/zram{number}")).ok()?;
        let since = node.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or_default()
    }

    fn since_boot(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let milliseconds =
            time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000);
        u64::try_from(milliseconds).unwrap_or_default()
    }

    fn free_space(&self, folder: &str) -> io::Result<Bytes> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(Bytes::new(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn swaps(&self) -> Vec<Area> {
        let now = self.read_glance();
        let area = |tier: &Tier| {
            let used = tier.used.get().unwrap_or_default();
            let size = tier.size.get().unwrap_or_default();
            let number = zram::number_of(tier.path.as_str());
            let device = now.zram.iter().find(|it| number == Some(it.id));
            let limited = device.and_then(limit_left);
            let free = size.saturating_sub(used);
            Area {
                path: tier.path.as_str().to_owned(),
                used,
                size,
                room: limited.map_or(free, |left| free.min(left)),
                priority: tier.priority.get().unwrap_or_default(),
            }
        };
        now.tiers.iter().map(area).collect()
    }

    fn available(&self) -> Option<Bytes> {
        self.read_glance().memory.available.get()
    }

    fn config(&self, path: &str) -> io::Result<Config> {
        config_files::read(path)
    }

    fn check_config_writable(&self, folder: &str) -> io::Result<()> {
        config_files::check_writable(folder)
    }

    fn site(&self) -> Site {
        let now = self.read_glance();
        let kernel = now.taken.kernel.value().map(|release| release.as_str().to_owned());
        Site {
            machine: PlannedMachine {
                machine_id_hash: config_files::machine_id_hash(),
                memory_total_bytes: now.memory.total.get(),
                kernel,
            },
            container: now.host.container.value().map(|kind| kind.as_str().to_owned()),
            // systemd is PID 1 if this folder exists: the test that `sd_booted()` of libsystemd
            // makes
            has_systemd: Path::new("/run/systemd/system").is_dir(),
        }
    }

    fn memory_facts(&self) -> MemoryFacts {
        let now = snapshot(&self.host, &Scope { cgroups: true, ..Scope::glance() });
        let swappiness = self.read("/proc/sys/vm/swappiness").ok().and_then(|it| it.parse().ok());
        let groups = now.cgroups.groups.iter().map(|group| group_charge(group, swappiness));
        MemoryFacts {
            groups: groups.collect(),
            groups_left_out: now.cgroups.left_out,
            ..self.host_facts(&now)
        }
    }

    fn memory_pressure(&self) -> Strain {
        let vmstat = counters(&self.host, "proc/vmstat");
        let count = |name: &str| vmstat.get(name).get().unwrap_or_default();
        let memory = psi(&self.host).memory;
        let micros = |stall: &Stall| stall.total_us.get().map(Micros::get);
        let refaults = ["workingset_refault", "workingset_refault_anon", "workingset_refault_file"];
        Strain {
            some_us: micros(&memory.some),
            full_us: micros(&memory.full),
            full_percent: whole_percent(&memory.full),
            oom_kills: count("oom_kill"),
            refaults: refaults.into_iter().map(count).sum(),
        }
    }

    fn groups(&self) -> Option<(String, bool)> {
        memory_cgroups(&self.host)
    }

    fn program(&self) -> io::Result<String> {
        into_text(std::env::current_exe()?)
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

fn whole_percent(stall: &Stall) -> u64 {
    let percent = stall.avg10.get().map_or(0.0, Percent::get).clamp(0.0, 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let whole = percent.round() as u64;
    whole
}

/// How much more incompressible data a zram device with a `mem_limit` can take; `None` if it has no
/// limit.
fn limit_left(device: &Zram) -> Option<Bytes> {
    let stat = &device.mm_stat;
    let limit = stat.memory_limit.get().filter(|limit| limit.get() > 0)?;
    Some(limit.saturating_sub(stat.memory_used.get().unwrap_or_default()))
}

/// The values of a cgroup that decide whether swap can be disabled. `swappiness` is the host's value, for groups
/// without a value of their own.
fn group_charge(group: &Cgroup, swappiness: Option<u64>) -> GroupCharge {
    GroupCharge {
        path: group.path.as_str().to_owned(),
        current: group.current.get().unwrap_or_default(),
        swap: group.swap_current.get().unwrap_or_default(),
        max: group.max.get().and_then(Limit::bytes),
        swap_max: group.swap_max.get().and_then(Limit::bytes),
        swappiness: group.swappiness.get().or(swappiness),
    }
}

fn bytes(path: &str, most: u64) -> io::Result<Vec<u8>> {
    read_limited(File::open(path)?, most)
}

fn read_limited(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

/// A file of the kernel that can be polled for changes.
#[derive(Debug)]
pub(crate) struct WatchedFile(File);

impl WatchedFile {
    pub(crate) fn open(path: &str) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// The number that the file contains now; changes after this call wake [`Self::wait`].
    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let mut text = [0; 32];
        let length = self.0.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..length]);
        let strange = |_| io::Error::other(format!("expected a number, found {text:?}"));
        text.trim().parse().map_err(strange)
    }

    /// Waits until the file changes, a signal arrives, or the time `most` is over.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(most).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::PRI)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Whether an existing file is writable; it is opened, but not changed.
pub(crate) fn check_writable(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

/// Opens a file of the kernel's settings for writing. Links are not followed.
pub(crate) fn open_setting(path: &str) -> io::Result<File> {
    let file = set_plain_flags(OpenOptions::new().write(true)).open(path)?;
    if SETTINGS.contains(&rustix::fs::fstatfs(&file)?.f_type) {
        return Ok(file);
    }
    Err(io::Error::other("it lies in no file system of the kernel's settings"))
}

/// Writes a value in a single write to an existing file of the kernel.
pub(crate) fn write(path: &str, value: &str) -> io::Result<()> {
    let mut file = open_setting(path)?;
    let written = file.write(value.as_bytes())?;
    if written == value.len() {
        return Ok(());
    }
    Err(io::Error::other(format!("took {written} of {} bytes", value.len())))
}

/// Kills a process if it is in the given cgroup. The check and the signal use the same pidfd, so
/// that a reused process id is not killed.
fn kill(pid: u32, group: &str) -> io::Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        process => process?,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let members = openat(open_group(group)?, "cgroup.procs", flags, Mode::empty())?;
    let members = read_limited(File::from(members), MAX_JOURNAL)?;
    let number = pid.as_raw_nonzero().to_string();
    if !members.split(|&byte| byte == b'\n').any(|line| line == number.as_bytes()) {
        return Ok(());
    }
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets flags so that opening follows no link in the last part of a path, and never blocks on the
/// other end of a pipe.
fn set_plain_flags(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
}

/// File systems whose files are settings: proc, sysfs, debugfs, cgroup versions 1 and 2.
const SETTINGS: [FsWord; 5] =
    [PROC_SUPER_MAGIC, libc::SYSFS_MAGIC, libc::DEBUGFS_MAGIC, GROUPS[0], GROUPS[1]];
const GROUPS: [FsWord; 2] = [libc::CGROUP_SUPER_MAGIC, libc::CGROUP2_SUPER_MAGIC];

/// Opens a folder, and fails unless it is a cgroup.
fn open_group(folder: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    if GROUPS.contains(&rustix::fs::fstatfs(&folder)?.f_type) {
        return Ok(folder);
    }
    Err(io::Error::other("it is no cgroup"))
}

fn identity(found: &Metadata) -> Identity {
    Identity { device: found.dev(), inode: found.ino() }
}

/// Whether the file is a regular one with one link that we own and nobody else may write to.
fn is_own_file(found: &Metadata) -> bool {
    why_untrusted(found).is_none()
}

/// Why the contents of a file may come from another user; `None` if they cannot.
pub(crate) fn why_untrusted(found: &Metadata) -> Option<String> {
    let ours = rustix::process::geteuid().as_raw();
    let mode = found.mode() & 0o7777;
    if !found.is_file() {
        return Some("it is not a plain file".to_owned());
    }
    if found.uid() != ours {
        return Some(format!("it belongs to user {} and not to {ours}", found.uid()));
    }
    if mode & 0o022 != 0 {
        return Some(format!("others may write to it (mode {mode:04o})"));
    }
    (found.nlink() != 1).then(|| format!("it has {} names (hard links)", found.nlink()))
}

fn kind_of(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

/// Opens a file, and fails if another user can have written it.
fn open_own(path: &str, options: &mut OpenOptions) -> io::Result<File> {
    let file = set_plain_flags(options).open(path)?;
    match why_untrusted(&file.metadata()?) {
        None => Ok(file),
        Some(why) => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
    }
}

/// Allocates the blocks of a file without holes, because the kernel does not swap to a file that
/// has any. If the file system cannot allocate blocks without writing them, zeros are written;
/// this can be stopped.
fn fill_file(
    path: &str,
    meant: Identity,
    size: Bytes,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut file = swap_area::open_file(path)?;
    if identity(&file.metadata()?) != meant {
        return Err(io::Error::other("another file took its place"));
    }
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.get()) {
        Ok(()) => return file.sync_all(),
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno.into()),
    }
    write_zeros(&mut file, size, is_stopped)?;
    file.sync_all()
}

fn write_zeros(to: &mut impl Write, size: Bytes, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut left = size.get();
    while left > 0 {
        if is_stopped() {
            return Err(io::Error::new(ErrorKind::Interrupted, "stopped while it was written"));
        }
        let some = usize::try_from(left).map_or(zeros.len(), |left| left.min(zeros.len()));
        to.write_all(&zeros[..some])?;
        left -= some as u64;
    }
    Ok(())
}

/// Removes a file if it has this identity. The check and the removal use the same open folder, so
/// a change of its path meanwhile has no effect.
fn remove_own(path: &str, meant: Identity) -> io::Result<()> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = File::open(if folder.is_empty() { "/" } else { folder })?;
    let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (found.st_dev, found.st_ino) != (meant.device, meant.inode) {
        return Err(io::Error::other("another file took its place"));
    }
    unlinkat(&folder, name, AtFlags::empty())?;
    folder.sync_all()
}

/// Deletes a journal. If its path is a link, the link itself is deleted.
fn forget(journal: &str) -> io::Result<()> {
    #[cfg(debug_assertions)]
    if keep_for_tests(journal).is_ok() {
        return sync_folder(journal);
    }
    fs::remove_file(journal)?;
    sync_folder(journal)
}

/// Moves a journal into a folder that only we may enter.
fn move_journal_aside(journal: &str, to: &str) -> io::Result<()> {
    let folder = folder_of(to);
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(folder)?;
            let is_ours = found.uid() == rustix::process::geteuid().as_raw();
            if !found.is_dir() || !is_ours || found.mode() & 0o022 != 0 {
                let why = format!("{folder} is no folder that only this user can change");
                return Err(io::Error::new(ErrorKind::PermissionDenied, why));
            }
        }
        created => created?,
    }
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        journal,
        rustix::fs::CWD,
        to,
        RenameFlags::NOREPLACE,
    )?;
    sync_folder(to)?;
    sync_folder(folder)?;
    sync_folder(journal)
}

/// For tests that examine what a run lent: if a folder `ended` exists beside the journals, a debug
/// build moves ended journals there.
#[cfg(debug_assertions)]
fn keep_for_tests(journal: &str) -> io::Result<()> {
    let (folder, name) = journal.rsplit_once('/').ok_or(io::ErrorKind::InvalidInput)?;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    fs::rename(journal, format!("{folder}/ended/{now}-{name}"))
}

/// Syncs the folder of a file, so that a power cut does not restore or lose the file's name.
fn sync_folder(path: &str) -> io::Result<()> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

fn begin(journal: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(journal)?;
    file.sync_all()?;
    sync_folder(journal)
}

fn append(journal: &str, line: &[u8]) -> io::Result<()> {
    let mut file = open_own(journal, OpenOptions::new().append(true))?;
    file.write_all(line)?;
    file.sync_data()
}

fn truncate_journal(journal: &str, length: u64) -> io::Result<()> {
    let file = open_own(journal, OpenOptions::new().write(true))?;
    file.set_len(length)?;
    file.sync_all()
}

/// Name of the systemd timer that undoes a plan on trial.
const TIMER: &str = "pagewise-unconfirmed-timer";

/// Starts the timer that undoes a plan on trial. Units of this name are removed first: an earlier trial left them,
/// because no plan is on trial now, and systemd would refuse to create a second unit of the same name.
fn start_undo_timer(seconds: u64, program: &str, state: &str, journal: &str) -> io::Result<()> {
    let units = ["timer", "service"].map(|kind| format!("{TIMER}.{kind}"));
    for action in ["stop", "reset-failed"] {
        // fails if there is no such unit
        let _ = run("systemctl", &[action, "--quiet", &units[0], &units[1]]);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let arguments = timer_arguments(seconds, now, program, state, journal);
    run("systemd-run", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Seconds after the end of a trial at which the second condition of its timer holds.
const LATER: u64 = 2;

/// The arguments of `systemd-run`, at this moment of Unix time. `--on-active` counts on a monotonic
/// clock, so setting the clock does not change when the timer expires. But this clock stands still
/// while the machine is suspended (with `WakeSystem=` it would not, and the timer would wake the
/// machine). So the timer has a second condition, a moment of the clock that can be set, which a
/// machine that slept over it meets as soon as it wakes. The service undoes a plan only if the time
/// since boot, with suspended time, says that its trial is over; if the clock was set forward, it
/// does nothing and the first condition still holds later. If another run holds the lock then, systemd starts the
/// service again, as often as necessary. With exit status 3, what is left needs a person.
fn timer_arguments(
    seconds: u64,
    now: u64,
    program: &str,
    state: &str,
    journal: &str,
) -> Vec<String> {
    let (unit, after) = (format!("--unit={TIMER}"), format!("--on-active={seconds}s"));
    let at = format!("--on-calendar=@{}", now.saturating_add(seconds).saturating_add(LATER));
    let environment = format!("--setenv=PAGEWISE_STATE={state}");
    let arguments = [
        &*unit,
        &after,
        &at,
        "--timer-property=AccuracySec=1s",
        "--property=Type=oneshot",
        "--property=Restart=on-failure",
        "--property=RestartSec=5s",
        "--property=RestartPreventExitStatus=3",
        "--property=StartLimitIntervalSec=0",
        &environment,
        program,
        "undo",
        "--unconfirmed",
        journal,
    ];
    arguments.map(str::to_owned).to_vec()
}

/// Stops the timer of a trial but not the service that the timer started, which may be this
/// process. Without systemd there is no timer.
fn stop_undo_timer() -> io::Result<()> {
    let timer = format!("{TIMER}.timer");
    match run("systemctl", &["is-active", "--quiet", &timer]) {
        Ok(()) => run("systemctl", &["stop", &timer]),
        Err(_) => Ok(()),
    }
}

const FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    run_command(Command::new(program).args(arguments).stdin(Stdio::null()))
}

/// Runs a program of the distribution without the environment of whoever started us.
pub(crate) fn run_command(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.env_clear().env("PATH", FOLDERS).env("LC_ALL", "C");
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(error.kind(), format!("{program} is not installed")),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let message = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    Err(io::Error::other(if message.is_empty() {
        output.status.to_string()
    } else {
        message.join("; ")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A run may hold the lock for longer than any number of restarts.
    #[test]
    fn the_timer_of_a_trial_retries_without_end_and_names_its_journal() {
        let arguments =
            timer_arguments(60, 1000, "/usr/bin/pagewise", "/var/lib/pagewise", "7.b.plan");
        assert!(arguments.contains(&"--on-active=60s".to_owned()), "{arguments:?}");
        // the first clock stands still in suspend, the second can be set
        assert!(arguments.contains(&"--on-calendar=@1062".to_owned()), "{arguments:?}");
        assert!(arguments.contains(&"--property=StartLimitIntervalSec=0".to_owned()));
        assert!(arguments.contains(&"--property=Restart=on-failure".to_owned()));
        assert!(!arguments.iter().any(|it| it.contains("StartLimitBurst")), "{arguments:?}");
        assert!(arguments.ends_with(&["undo", "--unconfirmed", "7.b.plan"].map(str::to_owned)));
    }

    #[test]
    fn zeros_are_written_until_somebody_stops_that() {
        let size = Bytes::new((5 << 20) + 4096);
        let mut written = Vec::new();
        write_zeros(&mut written, size, &|| false).unwrap();
        assert!(written.len() as u64 == size.get() && written.iter().all(|byte| *byte == 0));

        let (mut some, looks) = (Vec::new(), Cell::new(0));
        let is_stopped = || looks.replace(looks.get() + 1) == 2;
        let error = write_zeros(&mut some, size, &is_stopped).unwrap_err();
        assert_eq!((error.kind(), some.len()), (ErrorKind::Interrupted, 2 << 20));
    }
}
