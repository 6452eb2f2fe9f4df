// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts QEMU, listens to PID 1, and lets nothing outlive this call.
//!
//! QEMU is in a process group of its own, so that Ctrl-C reaches us first, and is killed by the
//! kernel when the thread that started it ends. PID 1's words come over a pipe; the kernel's log
//! goes to a file in the run's folder.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use pagewise_model::Bytes;

use super::outcome::{Counted, Ended, Outcome, Phase, Run, judged};
use super::proof::comes_up;
use super::seat::Seat;
use super::{Accelerator, Access, Disk, Guest, disk, initramfs, kvm, log, machine};
use crate::cache::{Cache, Kept};
use crate::error::{At, Error};
use crate::kernel::Kernel;
use crate::program::{self, last_lines};
use crate::userland;
use crate::wire::{self, Event, Stream};

/// The longest line that PID 1 writes is far shorter.
const LONGEST_LINE: u64 = 1 << 20;
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
pub enum Heard<'a> {
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

/// Runs a job in a guest to its end.
///
/// # Errors
/// Where no guest could be started. What becomes of a started one is in the [`Run`].
pub fn run(
    guest: &Guest,
    kernel: &Kernel,
    cache: &Cache,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Heard<'_>),
) -> Result<Run, Error> {
    let qemu = program::find("qemu-system-x86_64", "qemu-system-x86")?;
    let mut image = kernel.image()?;
    let mut note = |line: &str| hear(Heard::Note(line));
    let (guest, _kept) = &with_root(guest, cache, stop, &mut note)?;
    let initramfs = initramfs::build(guest, kernel)?;
    let needed = image.memory.saturating_add(initramfs.len() as u64 * 2);
    if guest.memory.get() < needed {
        return Err(Error::TooLittle { given: guest.memory, needed: Bytes::new(needed) });
    }
    let (accelerator, why_emulated) =
        chosen(guest, &qemu, || comes_up(guest, kernel, cache, stop))?;
    hear(Heard::Chosen(accelerator));
    let mut note = |line: &str| hear(Heard::Note(line));
    let seat = Seat::take(cache, guest.cpus, guest.memory, guest.budget, stop, &mut note)?;
    if let Some(bytes) = image.unpacked.take() {
        image.path = seat.folder.join("kernel");
        fs::write(&image.path, bytes).at(&image.path)?;
    }
    let path = seat.folder.join("initramfs");
    fs::write(&path, &initramfs).at(&path)?;
    let disks = disk::back(&guest.disks, &seat.folder)?;
    let machine = machine::machine(&qemu, guest, &image, &disks)?;
    let mut command = program::leashed(qemu.as_os_str())?;
    // Where QEMU keeps what is written to a copy.
    command.env("TMPDIR", &seat.folder);
    command.args(machine::arguments(guest, accelerator, &image, &disks, machine, &seat.folder));
    let watch = Watch::start(&mut command, &seat, guest.userland.patience())?;
    let run = watch.finish(guest, stop, hear);
    Ok(Run { accelerator, why_emulated, initramfs_bytes: initramfs.len() as u64, ..run })
}

/// Its userland's disk becomes the guest's last one, so that those of the user keep their names; it
/// stays in the cache as long as the guest runs.
fn with_root(
    guest: &Guest,
    cache: &Cache,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(Guest, Option<Kept>), Error> {
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
            Err(why) => (Accelerator::Tcg, Some(why)),
            Ok(()) if comes_up()? => (Accelerator::Kvm, None),
            Ok(()) => (Accelerator::Tcg, Some("/dev/kvm opens, but no kernel comes up".to_owned())),
        },
    })
}

/// A running QEMU and what was heard from it.
struct Watch<'a> {
    qemu: Child,
    seat: &'a Seat,
    /// How long QEMU may take to end once the guest is done.
    patience: Duration,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<String>,
    started: Instant,
    /// When the command started, by the first event that says so: the command can write events too.
    command: Option<Instant>,
    phase: Phase,
    ended: Option<Ended>,
    run: Run,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Why we stopped listening.
enum Why {
    Over,
    TimedOut,
    Stopped,
}

impl<'a> Watch<'a> {
    fn start(command: &mut Command, seat: &'a Seat, patience: Duration) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = Instant::now();
        let mut qemu = command.spawn().at(Path::new("setpriv"))?;
        let (say, lines) = sync_channel(LINES);
        let (complain, errors) = channel();
        let (out, err) = (qemu.stdout.take(), qemu.stderr.take());
        std::thread::spawn(move || out.map(|out| read_lines(out, &say)));
        std::thread::spawn(move || err.map(|err| complain.send(read_errors(err))));
        Ok(Self {
            qemu,
            seat,
            patience,
            lines,
            errors,
            started,
            command: None,
            phase: Phase::Kernel,
            ended: None,
            run: nothing_yet(),
        })
    }

    fn finish(mut self, guest: &Guest, stop: &AtomicBool, hear: &mut dyn FnMut(Heard<'_>)) -> Run {
        let why = self.listen(guest, stop, hear);
        if !matches!(why, Why::Over) {
            let _ = self.qemu.kill();
        }
        let _ = self.qemu.wait();
        self.run.seconds = self.started.elapsed().as_secs_f64();
        self.run.command_seconds = self.command.map(|start| start.elapsed().as_secs_f64());
        let said = self.errors.recv_timeout(PATIENCE).unwrap_or_default();
        let log = self.log();
        self.run.whole_log = guest.whole_log.then(|| self.whole_log());
        self.run.outcome = match why {
            Why::Over => judged(self.ended.as_ref(), &log, &said),
            Why::TimedOut => Outcome::TimedOut { phase: self.phase },
            Why::Stopped => Outcome::Stopped,
        };
        self.run.log = log[log.len().saturating_sub(SHOWN)..].to_vec();
        if !guest.count {
            self.run.counted = None;
        }
        self.run.clone()
    }

    /// Listens until QEMU has closed its end, the time is over, or the user stops us.
    fn listen(&mut self, guest: &Guest, stop: &AtomicBool, hear: &mut dyn FnMut(Heard<'_>)) -> Why {
        let mut until = self.started + guest.start_deadline;
        let mut looked = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => self.take(&line, guest.deadline, &mut until, hear),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Why::Over,
            }
            if stop.load(Ordering::SeqCst) {
                return Why::Stopped;
            }
            if Instant::now() >= until {
                // A machine that is done but does not end is ended; that is no time-out.
                return if self.phase == Phase::End { self.end() } else { Why::TimedOut };
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
        }
    }

    fn end(&mut self) -> Why {
        let _ = self.qemu.kill();
        Why::Over
    }

    fn look(&mut self) {
        if let Some(seconds) = cpu_seconds(self.qemu.id()) {
            self.run.cpu_seconds = seconds;
        }
        let _ = self.log_file(true).and_then(|file| log::limit(&file, LONGEST_LOG));
    }

    fn reach(&mut self, phase: Phase, hear: &mut dyn FnMut(Heard<'_>)) {
        self.phase = self.phase.max(phase);
        hear(Heard::Reached(phase));
    }

    fn take(
        &mut self,
        line: &[u8],
        deadline: Duration,
        until: &mut Instant,
        hear: &mut dyn FnMut(Heard<'_>),
    ) {
        match wire::event(line) {
            Some(Event::Up { release }) => {
                self.look();
                self.run.boot_cpu_seconds = Some(self.run.cpu_seconds);
                self.run.boot_seconds = Some(self.started.elapsed().as_secs_f64());
                self.run.release = Some(release);
                self.reach(Phase::System, hear);
            }
            Some(Event::Started) => {
                if self.command.is_none() {
                    let now = Instant::now();
                    self.command = Some(now);
                    *until = now + deadline;
                }
                self.reach(Phase::Job, hear);
            }
            Some(Event::Output { stream, bytes }) => {
                if let Some(bytes) = wire::unpacked(&bytes) {
                    hear(Heard::Output(stream, bytes));
                }
            }
            Some(Event::File { path, bytes }) => {
                if let Some(bytes) = wire::unpacked(&bytes) {
                    hear(Heard::File(&path, bytes));
                }
            }
            Some(Event::Trouble { what }) => self.run.troubles.push(what),
            Some(Event::Ended { how, left, oom_kills, ticks, idle_milliseconds, .. }) => {
                self.ended = Some(Ended { how, oom_kills });
                self.run.left = left;
                self.run.counted = ticks.map(|ticks| Counted { ticks, idle_milliseconds });
            }
            Some(Event::Done) => {
                *until = (*until).min(Instant::now() + self.patience);
                self.reach(Phase::End, hear);
            }
            None => {}
        }
    }

    /// All of it, unless the guest wrote more than is kept; then a first line says so.
    fn whole_log(&self) -> Vec<u8> {
        self.log_file(false).and_then(|file| log::end(&file, LONGEST_LOG)).unwrap_or_default()
    }

    fn log_file(&self, write: bool) -> std::io::Result<File> {
        OpenOptions::new().read(true).write(write).open(self.seat.folder.join(machine::LOG))
    }

    /// The end of the kernel's log.
    fn log(&self) -> Vec<String> {
        let end = self.log_file(false).and_then(|file| log::end(&file, TAIL));
        let bytes = end.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let clean = |line: String| line.chars().filter(|letter| !letter.is_control()).collect();
        last_lines(&text, SEARCHED).into_iter().map(clean).collect()
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
        whole_log: None,
    }
}

fn read_lines(out: ChildStdout, say: &SyncSender<Vec<u8>>) {
    let mut out = BufReader::new(out);
    loop {
        let mut line = Vec::new();
        match out.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(1..) if say.send(line).is_ok() => {}
            _ => return,
        }
    }
}

/// What QEMU complains of; a warning about a feature that is switched off is no complaint.
fn read_errors(err: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = err.take(LONGEST_LINE).read_to_end(&mut bytes);
    last_lines(&String::from_utf8_lossy(&bytes), 3).join("; ")
}

/// User and system time, in hundredths of a second; the program's name may hold spaces.
fn cpu_seconds(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut time = || words.next()?.parse::<u32>().ok().map(f64::from);
    let ticks = rustix::param::clock_ticks_per_second();
    Some((time()? + time()?) / f64::from(u32::try_from(ticks).ok()?))
}
