// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts QEMU, receives the events of PID 1, and stops QEMU at the end.
//!
//! QEMU is in its own process group, so that Ctrl-C reaches the runner first; the kernel kills it
//! when the thread that started it ends. The events of PID 1 arrive over a pipe; the kernel's log
//! goes to a file in the run's folder.
//!
//! QEMU runs without privileges. If root starts it, it runs as a user who owns nothing except a
//! folder below the run's folder (see user.rs), with disks, log and pipe already open. It also runs
//! under the seccomp filter of `-sandbox`. The runner trusts nothing in QEMU's folder.

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

use super::accelerator::{Accelerator, DEVICE, NoKvm, check_kvm};
use super::disk::{Access, Disk};
use super::files::OpenFiles;
use super::guest::Guest;
use super::kvm_test::does_kernel_boot;
use super::outcome::{
    DiskAfter, DiskState, InstructionClock, JobEnd, Outcome, Phase, Run, determine_outcome,
};
use super::power::PowerCut;
use super::run_slot::{RunSlot, SlotRequest};
use super::{disk, initramfs, log, machine, process};
use crate::cache::{Cache, CacheEntry};
use crate::error::{Error, ErrorContext};
use crate::kernel::{Image, Kernel};
use crate::program::{self, last_lines, printable_line};
use crate::user::User;
use crate::userland;
use crate::wire::{self, Event, JobExit, Stream};

/// File name of the kernel's log, in the run's folder.
const LOG: &str = "kernel.log";
/// Maximum number of bytes that are read of QEMU's error output.
const COMPLAINTS: u64 = 1 << 20;
/// Capacity of the queue of events; if it is full, the guest waits.
const EVENTS: usize = 64;
/// Interval for checking the deadline and whether the user stopped the run.
const LOOK: Duration = Duration::from_millis(50);
/// How long to wait for QEMU's error output after it has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// `SHOWN`: number of lines of the kernel's log in the result; `SEARCHED`: number of lines that are
/// searched for a panic.
const SHOWN: usize = 12;
const SEARCHED: usize = 400;
const TAIL: u64 = 64 << 10;
/// Number of bytes at the end of the kernel's log that are kept on disk and in `whole_log`.
const LONGEST_LOG: u64 = 16 << 20;

/// What happens while a guest runs.
#[derive(Debug)]
pub enum GuestEvent<'a> {
    /// The accelerator that will run the guest was chosen.
    Chosen(Accelerator),
    /// The guest reached this phase on its way from boot to end.
    Reached(Phase),
    /// The job wrote to its output.
    Output(Stream, Vec<u8>),
    /// The next piece of a file in `/out`, with the file's name.
    File(&'a str, Vec<u8>),
    /// A message that the job's program sent with [`Channel::send`](crate::init::Channel::send).
    Message(Vec<u8>),
    /// A message for the user.
    Note(&'a str),
}

/// What a receiver of events answers: `Break` ends the guest as if the user stopped it.
pub(super) type Answer = ControlFlow<()>;

/// Runs a job in a guest to its end, or until `on_event` returns `Break`.
///
/// # Errors
/// If no guest could be started. The outcome of a started guest is in the [`Run`].
pub fn run(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<Run, Error> {
    let qemu = find_qemu()?;
    let mut note = |line: &str| {
        // this event ignores `Break`; the next event returns it again
        let _ = on_event(GuestEvent::Note(line));
    };
    let (guest, kept) = &add_root_disk(guest, cache, stop, &mut note)?;
    let images = Images::load(guest, kernel)?;
    let emulator = Emulator::choose(qemu, guest, (kernel, cache), stop)?;
    if on_event(GuestEvent::Chosen(emulator.accelerator)).is_break() {
        return Ok(emulator.run_not_started());
    }
    let slot = take_slot(guest, kernel, cache, stop, on_event)?;
    let root = kept.as_ref().map(|kept| kept.open(&kept.path(userland::DISK))).transpose()?;
    let place = BootPlace { slot: &slot, folder: &slot.folder, root };
    boot(guest, images, &emulator, place, stop, on_event)
}

pub(super) fn find_qemu() -> Result<PathBuf, Error> {
    program::find("qemu-system-x86_64", "qemu-system-x86")
}

/// Waits in the queue, and until the budget has room for the guest.
pub(super) fn take_slot(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<RunSlot, Error> {
    let mut note = |line: &str| {
        let _ = on_event(GuestEvent::Note(line));
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

/// The images that a guest boots from: kernel and initramfs.
pub(super) struct Images {
    kernel: Image,
    initramfs: Vec<u8>,
}

impl Images {
    pub(super) fn load(guest: &Guest, kernel: &Kernel) -> Result<Self, Error> {
        let image = kernel.image()?;
        let initramfs = initramfs::build(guest, kernel)?;
        let needed = image.memory.saturating_add(initramfs.len() as u64 * 2);
        if guest.memory.get() < needed {
            return Err(Error::TooLittle { given: guest.memory, needed: Bytes::new(needed) });
        }
        Ok(Self { kernel: image, initramfs })
    }
}

/// The QEMU program, and the accelerator that it uses.
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
            choose_accelerator(guest, &qemu, || does_kernel_boot(guest, kernel, cache, stop))?;
        Ok(Self { qemu, accelerator, why_emulated })
    }

    /// The result for a guest that was not started.
    pub(super) fn run_not_started(&self) -> Run {
        let why_emulated = self.why_emulated.clone();
        Run { accelerator: self.accelerator, why_emulated, ..run_before_start() }
    }
}

/// The places of the files of a boot.
pub(super) struct BootPlace<'a> {
    pub(super) slot: &'a RunSlot,
    /// The folder for this boot: the slot's, or one below it.
    pub(super) folder: &'a Path,
    /// The root disk, if the caller has already opened it.
    pub(super) root: Option<File>,
}

/// Starts QEMU and receives events until QEMU has ended.
pub(super) fn boot(
    guest: &Guest,
    mut images: Images,
    emulator: &Emulator,
    place: BootPlace<'_>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
) -> Result<Run, Error> {
    let (qemu, folder) = (&emulator.qemu, place.folder);
    let user = User::choose_unprivileged();
    if user == User::BareRoot {
        let note =
            "QEMU runs as root without capabilities: this user namespace knows no other user";
        let _ = on_event(GuestEvent::Note(note));
    }
    let mut files = OpenFiles::default();
    let disks = disk::open_disks(&guest.disks, place.root, folder, &mut files)?;
    let machine = machine::choose_machine(qemu, guest, &images.kernel, &disks)?;
    let own = OwnFolder::new(folder, user)?;
    let (events, channel) = pipe_with(PipeFlags::CLOEXEC).with_path(folder)?;
    let (log, to_log) = open_log(folder)?;
    let places = machine::MachineFiles {
        kernel: own.place_kernel(&mut images.kernel)?,
        initramfs: own.write_file("initramfs", &images.initramfs)?,
        log: files.add([to_log.into()]),
        channel: files.add([channel]),
    };
    let (options, files) = files.into_parts();
    let group = match emulator.accelerator {
        Accelerator::Kvm => user.group_for(Path::new(DEVICE)).unwrap_or(None),
        Accelerator::Tcg => None,
    };
    let mut command = program::confined_command(qemu, user, group, files);
    // QEMU stores the changes to a copy-on-write disk in TMPDIR. That is its own folder, whose
    // absolute path it cannot reach.
    command.current_dir(&own.folder).env("TMPDIR", "/proc/self/cwd").args(options);
    let (accelerator, mark) = (emulator.accelerator, &place.slot.folder);
    command.args(machine::arguments(guest, accelerator, &disks, machine, places, mark));
    let watch = Watch::start(command, events.into(), log, guest)?;
    let run = watch.finish(guest, stop, on_event);
    let initramfs_bytes = images.initramfs.len() as u64;
    Ok(Run { initramfs_bytes, why_emulated: emulator.why_emulated.clone(), accelerator, ..run })
}

/// Opens the file of the kernel's log twice: the runner reads and shortens it, and QEMU appends to
/// it.
fn open_log(folder: &Path) -> Result<(File, File), Error> {
    let path = folder.join(LOG);
    let to_write =
        File::options().append(true).create_new(true).mode(0o600).open(&path).with_path(&path)?;
    let to_read = File::options().read(true).write(true).open(&path).with_path(&path)?;
    Ok((to_read, to_write))
}

/// The folder that QEMU runs in, owned by QEMU's user.
struct OwnFolder {
    folder: PathBuf,
    user: User,
}

impl OwnFolder {
    fn new(run: &Path, user: User) -> Result<Self, Error> {
        let folder = run.join("machine");
        DirBuilder::new().mode(0o700).create(&folder).with_path(&folder)?;
        chown(&folder, user.uid(), user.uid()).with_path(&folder)?;
        Ok(Self { folder, user })
    }

    /// Writes a file in the folder; returns its name.
    fn write_file(&self, name: &str, bytes: &[u8]) -> Result<OsString, Error> {
        let path = self.folder.join(name);
        let mut open = File::options();
        let mut file =
            open.write(true).create_new(true).mode(0o600).open(&path).with_path(&path)?;
        fchown(&file, self.user.uid(), self.user.uid()).with_path(&path)?;
        file.write_all(bytes).with_path(&path)?;
        Ok(name.into())
    }

    /// Path of the kernel image for QEMU. For a user who cannot reach the image, it is linked into
    /// the folder or, if it cannot be linked or is not readable by everybody, copied.
    fn place_kernel(&self, image: &mut Image) -> Result<OsString, Error> {
        const NAME: &str = "kernel";
        if let Some(bytes) = image.unpacked.take() {
            return self.write_file(NAME, &bytes);
        }
        if self.user.uid().is_none() {
            return Ok(image.path.canonicalize().with_path(&image.path)?.into());
        }
        let may_read = image.path.metadata().with_path(&image.path)?.mode() & 0o004 != 0;
        if may_read && fs::hard_link(&image.path, self.folder.join(NAME)).is_ok() {
            return Ok(NAME.into());
        }
        self.write_file(NAME, &fs::read(&image.path).with_path(&image.path)?)
    }
}

/// Adds the userland's disk as the last one, so that the user's disks keep their names. The
/// returned entry locks the disk in the cache while the guest runs.
fn add_root_disk(
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

/// Chooses the accelerator. Instructions can be counted only by the emulator.
fn choose_accelerator(
    guest: &Guest,
    qemu: &Path,
    comes_up: impl FnOnce() -> Result<bool, Error>,
) -> Result<(Accelerator, Option<String>), Error> {
    Ok(match (guest.count, guest.accelerator) {
        (true, _) => (Accelerator::Tcg, None),
        (false, Some(accelerator)) => (accelerator, None),
        (false, None) => match check_kvm(qemu) {
            Err(why) => (Accelerator::Tcg, Some(why.to_string())),
            Ok(()) if comes_up()? => (Accelerator::Kvm, None),
            Ok(()) => (Accelerator::Tcg, Some(NoKvm::NoKernel.to_string())),
        },
    })
}

/// A running QEMU and what was received from its guest.
struct Watch {
    qemu: Child,
    /// The file with the kernel's log.
    log: File,
    /// Time limit for QEMU to end after the job has ended.
    patience: Duration,
    events: Receiver<Event>,
    errors: Receiver<String>,
    started: Instant,
    /// When the command started, according to the first event that says so. Later events of this
    /// kind are ignored, because the command could have forged them.
    command: Option<Instant>,
    /// Finds out when the power loss that the command requested is due.
    power: PowerCut,
    /// Messages about repairs of the root disk's file system.
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

/// Why the runner stopped waiting for events.
enum StopReason {
    Over,
    TimedOut,
    PowerCut,
    Stopped,
}

impl Watch {
    /// Starts QEMU. Takes `command` by value in order to drop it: `command` holds the write end of
    /// the event pipe, and the pipe must close when QEMU ends.
    fn start(mut command: Command, events: File, log: File, guest: &Guest) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let started = Instant::now();
        let mut qemu = command.spawn().with_path(Path::new(command.get_program()))?;
        let (sender, received) = sync_channel(EVENTS);
        let (complain, errors) = channel();
        let err = qemu.stderr.take();
        std::thread::spawn(move || read_events(events, &sender));
        std::thread::spawn(move || err.map(|err| complain.send(read_errors(err))));
        Ok(Self {
            qemu,
            log,
            patience: guest.patience(),
            events: received,
            errors,
            started,
            command: None,
            power: PowerCut::with_delay(guest.lose_power),
            repairs: Vec::new(),
            phase: Phase::Kernel,
            ended: None,
            run: run_before_start(),
        })
    }

    fn finish(
        mut self,
        guest: &Guest,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> Run {
        let why = self.listen(guest, stop, on_event);
        if !matches!(why, StopReason::Over) {
            let _ = self.qemu.kill();
        }
        let _ = self.qemu.wait();
        self.run.seconds = self.started.elapsed().as_secs_f64();
        self.run.command_seconds = self.command.map(|start| start.elapsed().as_secs_f64());
        let output = self.errors.recv_timeout(PATIENCE).unwrap_or_default();
        let log = self.last_log_lines();
        self.run.whole_log = guest.whole_log.then(|| self.whole_log());
        self.run.outcome = match why {
            StopReason::Over => {
                determine_outcome(self.ended.as_ref(), &log, &output, guest.boot.is_some())
            }
            StopReason::TimedOut => Outcome::TimedOut { phase: self.phase },
            StopReason::PowerCut => Outcome::PowerLost,
            StopReason::Stopped => Outcome::Stopped,
        };
        self.run.disk = guest.boot.as_ref().map(|boot| DiskAfter {
            boot: boot.number,
            repairs: std::mem::take(&mut self.repairs),
            // the caller sets the state after QEMU has ended
            state: DiskState::Unknown,
        });
        self.run.log = log[log.len().saturating_sub(SHOWN)..].to_vec();
        if !guest.count {
            self.run.counted = None;
        }
        self.run.clone()
    }

    /// Receives events until QEMU has closed the pipe, a deadline has passed, or the user stops the
    /// run.
    fn listen(
        &mut self,
        guest: &Guest,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> StopReason {
        let mut until = self.started + guest.start_deadline;
        let mut looked = Instant::now();
        loop {
            match self.events.recv_timeout(self.power.wait(Instant::now(), LOOK)) {
                Ok(event) => {
                    if self.handle(event, guest.deadline, &mut until, on_event).is_break() {
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
                // If the job is done but the machine does not end in time, QEMU is killed; this is
                // not reported as a timeout. A guest whose disk is kept must unmount it first, so
                // for such a guest it is a timeout.
                let may_end = self.phase == Phase::End && guest.boot.is_none();
                return if may_end { self.kill_after_job() } else { StopReason::TimedOut };
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.read_usage();
            }
        }
    }

    fn kill_after_job(&mut self) -> StopReason {
        let _ = self.qemu.kill();
        StopReason::Over
    }

    fn read_usage(&mut self) {
        if let Some(seconds) = process::cpu_seconds(Pid::from_child(&self.qemu)) {
            self.run.cpu_seconds = seconds;
        }
        let _ = log::limit_disk_usage(&self.log, LONGEST_LOG);
    }

    fn report_phase(
        &mut self,
        phase: Phase,
        on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> Answer {
        self.phase = self.phase.max(phase);
        on_event(GuestEvent::Reached(phase))
    }

    fn handle(
        &mut self,
        event: Event,
        deadline: Duration,
        until: &mut Instant,
        on_event: &mut dyn FnMut(GuestEvent<'_>) -> Answer,
    ) -> Answer {
        match event {
            Event::Up { release } => {
                self.read_usage();
                self.run.boot_cpu_seconds = Some(self.run.cpu_seconds);
                self.run.boot_seconds = Some(self.started.elapsed().as_secs_f64());
                self.run.release = Some(printable_line(&release));
                return self.report_phase(Phase::System, on_event);
            }
            Event::Started => {
                if self.command.is_none() {
                    let now = Instant::now();
                    self.command = Some(now);
                    *until = now + deadline;
                }
                return self.report_phase(Phase::Job, on_event);
            }
            Event::Output { stream, bytes } => {
                self.power.search(stream, &bytes, Instant::now());
                return on_event(GuestEvent::Output(stream, bytes));
            }
            Event::Message(bytes) => return on_event(GuestEvent::Message(bytes)),
            Event::File { path, bytes } => return on_event(GuestEvent::File(&path, bytes)),
            Event::Trouble { what } => {
                wire::add_trouble(&mut self.run.troubles, printable_line(&what));
            }
            Event::Repaired { line } => {
                wire::add_trouble(&mut self.repairs, printable_line(&line));
            }
            Event::Ended { how, left, oom_kills, ticks, idle_milliseconds, .. } => {
                let how = match how {
                    JobExit::NotStarted(why) => JobExit::NotStarted(printable_line(&why)),
                    how => how,
                };
                self.ended = Some(JobEnd { how, oom_kills });
                self.run.left = left;
                self.run.counted = ticks.map(|ticks| InstructionClock { ticks, idle_milliseconds });
            }
            Event::Done => {
                *until = (*until).min(Instant::now() + self.patience);
                return self.report_phase(Phase::End, on_event);
            }
        }
        Answer::Continue(())
    }

    /// The whole kernel log. If the guest wrote more than is kept, this is the end of the log,
    /// after a line that says so.
    fn whole_log(&self) -> Vec<u8> {
        log::read_end(&self.log, LONGEST_LOG).unwrap_or_default()
    }

    /// The last lines of the kernel's log.
    fn last_log_lines(&self) -> Vec<String> {
        let bytes = log::read_end(&self.log, TAIL).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        last_lines(&text, SEARCHED)
    }
}

fn run_before_start() -> Run {
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

/// Reads frames until the pipe is closed; lines that are no frames are ignored.
fn read_events(pipe: File, sender: &SyncSender<Event>) {
    let mut pipe = BufReader::new(pipe);
    while let Ok(Some(line)) = wire::read_line(&mut pipe) {
        if let Some(event) = Event::decode(&line) {
            if sender.send(event).is_err() {
                return;
            }
        }
    }
}

/// The last three lines of QEMU's error output, joined. QEMU's warnings are among them.
fn read_errors(err: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = err.take(COMPLAINTS).read_to_end(&mut bytes);
    last_lines(&String::from_utf8_lossy(&bytes), 3).join("; ")
}
