// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts QEMU, listens to PID 1, and lets nothing outlive this call.
//!
//! QEMU is in a process group of its own, so that Ctrl-C reaches us first, and is killed by the
//! kernel when the thread that started it ends. PID 1's words come over a pipe; the kernel's log
//! goes to a file in the run's folder.
//!
//! QEMU has no rights: root starts it as a user who owns nothing but a folder below the run's (see
//! user.rs), with its disks, log and pipe open already, and no system calls but those of `-sandbox`. The
//! runner trusts nothing that lies in that folder.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use pagewise_model::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::accelerator::{Accelerator, DEVICE, NoKvm, kvm};
use super::disk::{Access, Disk};
use super::files::OpenFiles;
use super::guest::Guest;
use super::outcome::{DiskAfter, DiskState, InstructionClock, JobEnd, Outcome, Phase, Run, judged};
use super::power::PowerCut;
use super::proof::comes_up;
use super::run_slot::{RunSlot, SlotRequest};
use super::{disk, initramfs, log, machine, process};
use crate::cache::{Cache, CacheEntry};
use crate::error::{Error, ErrorContext};
use crate::kernel::{Image, Kernel};
use crate::program::{self, last_lines, printable_line};
use crate::user::User;
use crate::userland;
use crate::wire::{self, Event, JobExit, Stream};

/// The kernel's log, in the run's folder.
const LOG: &str = "kernel.log";
/// So much of what QEMU complains of is read.
const COMPLAINTS: u64 = 1 << 20;
/// How many lines may wait for us; then the guest waits.
const LINES: usize = 64;
/// How often the deadline and the user are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long its complaints may take to arrive once it has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines of the kernel's log that are shown, and that a panic is looked for in.
const SHOWN: usize = 12;
const SEARCHED: usize = 400;
const TAIL: u64 = 64 << 10;
/// The most of the kernel's log that is kept, on disk and as a whole: its end.
const LONGEST_LOG: u64 = 16 << 20;

/// What happens while a guest runs.
#[derive(Debug)]
pub enum GuestEvent<'a> {
    /// What will execute its instructions.
    Chosen(Accelerator),
    /// It came further.
    Reached(Phase),
    /// The job printed.
    Output(Stream, Vec<u8>),
    /// The job left a file: its name, and its next piece.
    File(&'a str, Vec<u8>),
    /// Something the user may want to know.
    Note(&'a str),
}

/// What a listener answers: go on, or end the guest as the user would.
pub(super) type Answer = ControlFlow<()>;

/// Runs a job in a guest to its end, or until `hear` breaks off.
///
/// # Errors
/// Where no guest could be started. What becomes of a started one is in the [`Run`].
pub fn run(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<Run, Error> {
    let qemu = find_qemu()?;
    let mut note = |line: &str| {
        // a note ends nothing: the next event does
        let _ = hear(GuestEvent::Note(line));
    };
    let (guest, kept) = &with_root(guest, cache, stop, &mut note)?;
    let images = Images::of(guest, kernel)?;
    let emulator = Emulator::choose(qemu, guest, (kernel, cache), stop)?;
    if hear(GuestEvent::Chosen(emulator.accelerator)).is_break() {
        return Ok(emulator.nothing_yet());
    }
    let slot = take_slot(guest, kernel, cache, stop, hear)?;
    let root = kept.as_ref().map(|kept| kept.open(&kept.path(userland::DISK))).transpose()?;
    let place = BootPlace { slot: &slot, folder: &slot.folder, root };
    boot(guest, images, &emulator, place, stop, hear)
}

pub(super) fn find_qemu() -> Result<PathBuf, Error> {
    program::find("qemu-system-x86_64", "qemu-system-x86")
}

/// Waits for the guest's turn, and until there is room for it.
pub(super) fn take_slot(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<RunSlot, Error> {
    let mut note = |line: &str| {
        let _ = hear(GuestEvent::Note(line));
    };
    let request = SlotRequest {
        label: &format!("{}: {}", kernel.name, guest.label()),
        cpus: guest.cpus,
        memory: guest.memory,
        budget: guest.budget,
        now: guest.now,
    };
    RunSlot::take(cache, request, stop, &mut note)
}

/// What a guest starts from.
pub(super) struct Images {
    kernel: Image,
    initramfs: Vec<u8>,
}

impl Images {
    pub(super) fn of(guest: &Guest, kernel: &Kernel) -> Result<Self, Error> {
        let image = kernel.image()?;
        let initramfs = initramfs::build(guest, kernel)?;
        let needed = image.memory.saturating_add(initramfs.len() as u64 * 2);
        if guest.memory.get() < needed {
            return Err(Error::TooLittle { given: guest.memory, needed: Bytes::new(needed) });
        }
        Ok(Self { kernel: image, initramfs })
    }
}

/// QEMU, and with what it executes instructions.
#[derive(Debug)]
pub(super) struct Emulator {
    qemu: PathBuf,
    pub(super) accelerator: Accelerator,
    why_emulated: Option<String>,
}

impl Emulator {
    pub(super) fn choose(
        qemu: PathBuf,
        guest: &Guest,
        (kernel, cache): (&Kernel, &Cache),
        stop: &AtomicBool,
    ) -> Result<Self, Error> {
        let (accelerator, why_emulated) =
            chosen(guest, &qemu, || comes_up(guest, kernel, cache, stop))?;
        Ok(Self { qemu, accelerator, why_emulated })
    }

    /// The run of a guest that was not started.
    pub(super) fn nothing_yet(&self) -> Run {
        let why_emulated = self.why_emulated.clone();
        Run { accelerator: self.accelerator, why_emulated, ..nothing_yet() }
    }
}

/// Where a guest runs.
pub(super) struct BootPlace<'a> {
    pub(super) slot: &'a RunSlot,
    /// For the files of this boot: the slot's folder, or one below it.
    pub(super) folder: &'a Path,
    /// The last disk, if it is open already.
    pub(super) root: Option<File>,
}

/// Starts QEMU and listens until it has ended.
pub(super) fn boot(
    guest: &Guest,
    mut images: Images,
    emulator: &Emulator,
    place: BootPlace<'_>,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<Run, Error> {
    let (qemu, folder) = (&emulator.qemu, place.folder);
    let user = User::without_rights();
    if user == User::BareRoot {
        let note =
            "QEMU runs as root without capabilities: this user namespace knows no other user";
        let _ = hear(GuestEvent::Note(note));
    }
    let mut files = OpenFiles::default();
    let disks = disk::back(&guest.disks, place.root, folder, &mut files)?;
    let machine = machine::machine(qemu, guest, &images.kernel, &disks)?;
    let own = OwnFolder::new(folder, user)?;
    let (told, channel) = pipe_with(PipeFlags::CLOEXEC).with_path(folder)?;
    let (log, to_log) = log(folder)?;
    let places = machine::MachineFiles {
        kernel: own.kernel(&mut images.kernel)?,
        initramfs: own.file("initramfs", &images.initramfs)?,
        log: files.add([to_log.into()]),
        channel: files.add([channel]),
    };
    let (options, files) = files.into_parts();
    let group = match emulator.accelerator {
        Accelerator::Kvm => user.group_for(Path::new(DEVICE)).unwrap_or(None),
        Accelerator::Tcg => None,
    };
    let mut command = program::confined(qemu, user, group, files);
    // Where QEMU keeps what is written to a copy: its folder, which it cannot reach by a path from the root.
    command.current_dir(&own.folder).env("TMPDIR", "/proc/self/cwd").args(options);
    let (accelerator, mark) = (emulator.accelerator, &place.slot.folder);
    command.args(machine::arguments(guest, accelerator, &disks, machine, places, mark));
    let watch = Watch::start(command, told.into(), log, guest)?;
    let run = watch.finish(guest, stop, hear);
    let initramfs_bytes = images.initramfs.len() as u64;
    Ok(Run { initramfs_bytes, why_emulated: emulator.why_emulated.clone(), accelerator, ..run })
}

/// The kernel's log, open for the runner to read and to shorten, and for QEMU to write.
fn log(folder: &Path) -> Result<(File, File), Error> {
    let path = folder.join(LOG);
    let to_write =
        File::options().append(true).create_new(true).mode(0o600).open(&path).with_path(&path)?;
    let to_read = File::options().read(true).write(true).open(&path).with_path(&path)?;
    Ok((to_read, to_write))
}

/// The folder that QEMU runs in, which is its user's.
struct OwnFolder {
    folder: PathBuf,
    user: User,
}

impl OwnFolder {
    fn new(run: &Path, user: User) -> Result<Self, Error> {
        let folder = run.join("machine");
        DirBuilder::new().mode(0o700).create(&folder).with_path(&folder)?;
        chown(&folder, user.number(), user.number()).with_path(&folder)?;
        Ok(Self { folder, user })
    }

    /// A file in it; its name there.
    fn file(&self, name: &str, bytes: &[u8]) -> Result<OsString, Error> {
        let path = self.folder.join(name);
        let mut open = File::options();
        let mut file =
            open.write(true).create_new(true).mode(0o600).open(&path).with_path(&path)?;
        fchown(&file, self.user.number(), self.user.number()).with_path(&path)?;
        file.write_all(bytes).with_path(&path)?;
        Ok(name.into())
    }

    /// The kernel: where it is; for a user who cannot reach that, as one more name of the same file or,
    /// where it cannot have one or may not be read, as a copy.
    fn kernel(&self, image: &mut Image) -> Result<OsString, Error> {
        const NAME: &str = "kernel";
        if let Some(bytes) = image.unpacked.take() {
            return self.file(NAME, &bytes);
        }
        if self.user.number().is_none() {
            return Ok(image.path.canonicalize().with_path(&image.path)?.into());
        }
        let may_read = image.path.metadata().with_path(&image.path)?.mode() & 0o004 != 0;
        if may_read && fs::hard_link(&image.path, self.folder.join(NAME)).is_ok() {
            return Ok(NAME.into());
        }
        self.file(NAME, &fs::read(&image.path).with_path(&image.path)?)
    }
}

/// Its userland's disk becomes the guest's last one, so that those of the user keep their names; it
/// stays in the cache as long as the guest runs.
fn with_root(
    guest: &Guest,
    cache: &Cache,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(Guest, Option<CacheEntry>), Error> {
    let mut guest = guest.clone();
    let item = guest.userland.item();
    let kept = item.map(|item| cache.get(&item, stop, tell)).transpose()?;
    let disk = kept.as_ref().map(|kept| kept.path(userland::DISK));
    guest.disks.extend(disk.map(|path| Disk::Image(path, Access::CopyOnWrite)));
    Ok((guest, kept))
}

/// Counting is the translator's work.
fn chosen(
    guest: &Guest,
    qemu: &Path,
    comes_up: impl FnOnce() -> Result<bool, Error>,
) -> Result<(Accelerator, Option<String>), Error> {
    Ok(match (guest.count, guest.accelerator) {
        (true, _) => (Accelerator::Tcg, None),
        (false, Some(accelerator)) => (accelerator, None),
        (false, None) => match kvm(qemu) {
            Err(why) => (Accelerator::Tcg, Some(why.to_string())),
            Ok(()) if comes_up()? => (Accelerator::Kvm, None),
            Ok(()) => (Accelerator::Tcg, Some(NoKvm::NoKernel.to_string())),
        },
    })
}

/// A running QEMU and what was heard from it.
struct Watch {
    qemu: Child,
    /// The kernel's log.
    log: File,
    /// How long QEMU may take to end once the guest is done.
    patience: Duration,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<String>,
    started: Instant,
    /// When the command started, by the first event that says so: the command can write events too.
    command: Option<Instant>,
    /// When the command wants the power to go.
    power: PowerCut,
    /// What the kernel repaired on the root disk.
    repairs: Vec<String>,
    phase: Phase,
    ended: Option<JobEnd>,
    run: Run,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Why we stopped listening.
enum StopReason {
    Over,
    TimedOut,
    PowerCut,
    Stopped,
}

impl Watch {
    /// The command holds QEMU's end of the pipe open, and is gone with this.
    fn start(mut command: Command, events: File, log: File, guest: &Guest) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let started = Instant::now();
        let mut qemu = command.spawn().with_path(Path::new(command.get_program()))?;
        let (say, lines) = sync_channel(LINES);
        let (complain, errors) = channel();
        let err = qemu.stderr.take();
        std::thread::spawn(move || read_lines(events, &say));
        std::thread::spawn(move || err.map(|err| complain.send(read_errors(err))));
        Ok(Self {
            qemu,
            log,
            patience: guest.patience(),
            lines,
            errors,
            started,
            command: None,
            power: PowerCut::after(guest.lose_power),
            repairs: Vec::new(),
            phase: Phase::Kernel,
            ended: None,
            run: nothing_yet(),
        })
    }

    fn finish(
        mut self,
        guest: &Guest,
        stop: &AtomicBool,
        hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> Run {
        let why = self.listen(guest, stop, hear);
        if !matches!(why, StopReason::Over) {
            let _ = self.qemu.kill();
        }
        let _ = self.qemu.wait();
        self.run.seconds = self.started.elapsed().as_secs_f64();
        self.run.command_seconds = self.command.map(|start| start.elapsed().as_secs_f64());
        let output = self.errors.recv_timeout(PATIENCE).unwrap_or_default();
        let log = self.log();
        self.run.whole_log = guest.whole_log.then(|| self.whole_log());
        self.run.outcome = match why {
            StopReason::Over => judged(self.ended.as_ref(), &log, &output, guest.boot.is_some()),
            StopReason::TimedOut => Outcome::TimedOut { phase: self.phase },
            StopReason::PowerCut => Outcome::PowerLost,
            StopReason::Stopped => Outcome::Stopped,
        };
        self.run.disk = guest.boot.as_ref().map(|boot| DiskAfter {
            boot: boot.number,
            repairs: std::mem::take(&mut self.repairs),
            // the disk is looked at when nobody writes to it any more
            state: DiskState::Unknown,
        });
        self.run.log = log[log.len().saturating_sub(SHOWN)..].to_vec();
        if !guest.count {
            self.run.counted = None;
        }
        self.run.clone()
    }

    /// Listens until QEMU has closed its end, the time is over, or the user stops us.
    fn listen(
        &mut self,
        guest: &Guest,
        stop: &AtomicBool,
        hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> StopReason {
        let mut until = self.started + guest.start_deadline;
        let mut looked = Instant::now();
        loop {
            match self.lines.recv_timeout(self.power.wait(Instant::now(), LOOK)) {
                Ok(line) => {
                    if self.take(&line, guest.deadline, &mut until, hear).is_break() {
                        return StopReason::Stopped;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return StopReason::Over,
            }
            if stop.load(Ordering::SeqCst) {
                return StopReason::Stopped;
            }
            if self.power.is_due(Instant::now()) {
                return StopReason::PowerCut;
            }
            if Instant::now() >= until {
                // A machine that is done but does not end is ended; that is no time-out, unless its disk is
                // to be unmounted.
                let may_end = self.phase == Phase::End && guest.boot.is_none();
                return if may_end { self.end() } else { StopReason::TimedOut };
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.check_guest();
            }
        }
    }

    fn end(&mut self) -> StopReason {
        let _ = self.qemu.kill();
        StopReason::Over
    }

    fn check_guest(&mut self) {
        if let Some(seconds) = process::cpu_seconds(Pid::from_child(&self.qemu)) {
            self.run.cpu_seconds = seconds;
        }
        let _ = log::limit(&self.log, LONGEST_LOG);
    }

    fn reach(&mut self, phase: Phase, hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer) -> Answer {
        self.phase = self.phase.max(phase);
        hear(GuestEvent::Reached(phase))
    }

    fn take(
        &mut self,
        line: &[u8],
        deadline: Duration,
        until: &mut Instant,
        hear: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> Answer {
        match wire::event(line) {
            Some(Event::Up { release }) => {
                self.check_guest();
                self.run.boot_cpu_seconds = Some(self.run.cpu_seconds);
                self.run.boot_seconds = Some(self.started.elapsed().as_secs_f64());
                self.run.release = Some(printable_line(&release));
                return self.reach(Phase::System, hear);
            }
            Some(Event::Started) => {
                if self.command.is_none() {
                    let now = Instant::now();
                    self.command = Some(now);
                    *until = now + deadline;
                }
                return self.reach(Phase::Job, hear);
            }
            Some(Event::Output { stream, bytes }) => {
                if let Some(bytes) = wire::unpacked(&bytes) {
                    self.power.hear(stream, &bytes, Instant::now());
                    return hear(GuestEvent::Output(stream, bytes));
                }
            }
            Some(Event::File { path, bytes }) => {
                if let Some(bytes) = wire::unpacked(&bytes) {
                    return hear(GuestEvent::File(&path, bytes));
                }
            }
            Some(Event::Trouble { what }) => {
                wire::add_trouble(&mut self.run.troubles, printable_line(&what));
            }
            Some(Event::Repaired { line }) => {
                wire::add_trouble(&mut self.repairs, printable_line(&line));
            }
            Some(Event::Ended { how, left, oom_kills, ticks, idle_milliseconds, .. }) => {
                let how = match how {
                    JobExit::NotStarted(why) => JobExit::NotStarted(printable_line(&why)),
                    how => how,
                };
                self.ended = Some(JobEnd { how, oom_kills });
                self.run.left = left;
                self.run.counted = ticks.map(|ticks| InstructionClock { ticks, idle_milliseconds });
            }
            Some(Event::Done) => {
                *until = (*until).min(Instant::now() + self.patience);
                return self.reach(Phase::End, hear);
            }
            None => {}
        }
        Answer::Continue(())
    }

    /// All of it, unless the guest wrote more than is kept; then a first line says so.
    fn whole_log(&self) -> Vec<u8> {
        log::end(&self.log, LONGEST_LOG).unwrap_or_default()
    }

    /// The end of the kernel's log.
    fn log(&self) -> Vec<String> {
        let bytes = log::end(&self.log, TAIL).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        last_lines(&text, SEARCHED)
    }
}

fn nothing_yet() -> Run {
    Run {
        outcome: Outcome::Stopped,
        release: None,
        accelerator: Accelerator::Tcg,
        why_emulated: None,
        boot_cpu_seconds: None,
        boot_seconds: None,
        cpu_seconds: 0.0,
        seconds: 0.0,
        command_seconds: None,
        left: 0,
        counted: None,
        initramfs_bytes: 0,
        troubles: Vec::new(),
        log: Vec::new(),
        disk: None,
        whole_log: None,
    }
}

fn read_lines(out: File, say: &SyncSender<Vec<u8>>) {
    let mut out = BufReader::new(out);
    while let Ok(Some(line)) = wire::read_line(&mut out) {
        if say.send(line).is_err() {
            return;
        }
    }
}

/// What QEMU complains of; a warning about a feature that is switched off is no complaint.
fn read_errors(err: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = err.take(COMPLAINTS).read_to_end(&mut bytes);
    last_lines(&String::from_utf8_lossy(&bytes), 3).join("; ")
}
