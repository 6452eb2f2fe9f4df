// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws frames on the terminal's alternate screen, and reports keys, signals and resizes.
//!
//! ratatui finds which cells changed, and crossterm switches the terminal's modes. Keys are parsed
//! in this crate; ARCHITECTURE.md, "Written by hand", says why. The terminal is restored when the
//! [`LiveScreen`] is dropped, before a panic is printed ([`restore`]), before a fatal signal takes
//! effect, and while the program is stopped.

mod cells;
mod key;

use std::io::{IsTerminal, Write, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, is_raw_mode_enabled,
};
use pagewise_report::live::LiveLine;
use ratatui::buffer::Buffer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGWINCH};
use terminal_size::{Height, Width};

pub use key::Key;
use key::{is_unfinished, parse_keys};

/// The bytes of one escape sequence arrive within this time.
const SEQUENCE: Duration = Duration::from_millis(50);
/// Signals that end the program.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The signal of Ctrl-C.
pub const CTRL_C: i32 = SIGINT;

/// Restores the terminal if a live view uses it. May be called at any time and repeatedly.
pub fn restore() {
    if is_raw_mode_enabled().unwrap_or(false) {
        // an error means that the terminal is gone, and cannot be reported
        let _ = execute!(stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Why a live view is not possible on this terminal; `None` if it is.
pub fn obstacle() -> Option<&'static str> {
    if !std::io::stdout().is_terminal() {
        return Some("standard output is not a terminal");
    }
    if !std::io::stdin().is_terminal() {
        return Some("standard input is not a terminal, and keys are read from there");
    }
    let term = std::env::var_os("TERM").unwrap_or_default();
    (term.is_empty() || term == "dumb").then_some("the terminal cannot move its cursor (TERM=dumb)")
}

/// Whether the locale uses UTF-8.
pub fn has_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let first = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = first.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// An event that ended the wait of a [`LiveScreen`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// The deadline has passed.
    Timeout,
    /// Keys were pressed.
    Keys(Vec<Key>),
    /// The size of the terminal may have changed, or the program was continued after a stop.
    Redraw,
    /// This signal asks the program to end.
    End(i32),
}

/// The terminal in use by a live view.
#[derive(Debug)]
pub struct LiveScreen {
    woken: OwnedFd,
    signals: Signals,
    shown: Buffer,
}

/// Flags that are set by signal handlers.
#[derive(Debug, Clone, Default)]
struct Signals {
    ending: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    redraw: Arc<AtomicBool>,
}

impl LiveScreen {
    /// Installs the signal handlers, which may need rights that the program gives up later. Until
    /// [`wait`](Self::wait) is called, signals only set flags.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub fn prepare() -> anyhow::Result<Self> {
        let (woken, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let signals = Signals::default();
        for signal in ENDING {
            let number = usize::try_from(signal)?;
            signal_hook::flag::register_usize(signal, signals.ending.clone(), number)?;
        }
        signal_hook::flag::register(SIGTSTP, signals.stop.clone())?;
        signal_hook::flag::register(SIGWINCH, signals.redraw.clone())?;
        signal_hook::flag::register(SIGCONT, signals.redraw.clone())?;
        for signal in ENDING.into_iter().chain([SIGTSTP, SIGWINCH, SIGCONT]) {
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Self { woken, signals, shown: Buffer::default() })
    }

    /// Switches the terminal to the live view.
    ///
    /// # Errors
    /// If the terminal's settings cannot be changed.
    pub fn enter(&mut self) -> anyhow::Result<()> {
        take_terminal()
    }

    /// Columns and lines; 80 × 24 if the size is unknown.
    pub fn size(&self) -> (u16, u16) {
        match terminal_size::terminal_size_of(stdout()) {
            Some((Width(columns), Height(lines))) => (columns, lines),
            None => (80, 24),
        }
    }

    /// Draws these lines from the top of a screen of this size, and clears the rest.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, size: (u16, u16), lines: &[LiveLine]) -> anyhow::Result<()> {
        let next = cells::screen(size, lines);
        if self.shown.area != next.area {
            execute!(stdout(), Clear(ClearType::All))?;
            self.shown = cells::screen(size, &[]);
        }
        write(&cells::changes(&self.shown, &next))?;
        self.shown = next;
        Ok(())
    }

    /// Waits for the next event, at most until the deadline.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn wait(&mut self, deadline: Instant) -> anyhow::Result<LiveEvent> {
        loop {
            if let Some(event) = self.take_signal_event()? {
                return Ok(event);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let stdin = std::io::stdin();
            let mut ready =
                [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut ready, Some(&Timespec::try_from(left)?)) {
                Ok(0) => return Ok(LiveEvent::Timeout),
                Ok(_) if ready[0].revents().is_empty() => {}
                Ok(_) => return read_keys(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The event requested by signals since the last call.
    fn take_signal_event(&mut self) -> anyhow::Result<Option<LiveEvent>> {
        let mut bytes = [0; 64];
        while rustix::io::read(&self.woken, &mut bytes).is_ok_and(|length| length == bytes.len()) {}
        let ending = self.signals.ending.swap(0, Ordering::SeqCst);
        if ending != 0 {
            return Ok(Some(LiveEvent::End(i32::try_from(ending)?)));
        }
        if self.signals.stop.swap(false, Ordering::SeqCst) {
            restore();
            signal_hook::low_level::raise(SIGSTOP)?;
            self.signals.redraw.store(true, Ordering::SeqCst);
        }
        if !self.signals.redraw.swap(false, Ordering::SeqCst) {
            return Ok(None);
        }
        take_terminal()?;
        self.shown = Buffer::default();
        Ok(Some(LiveEvent::Redraw))
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, and then ends the program as the signal does without a handler.
///
/// # Errors
/// If the signal does not end programs.
pub fn end_by(signal: i32) -> anyhow::Result<()> {
    restore();
    Ok(signal_hook::low_level::emulate_default_handler(signal)?)
}

/// Switches the terminal to the live view. Ctrl-C, Ctrl-Z and Ctrl-\ still send signals: these
/// reach all processes of a job, keys only this one.
fn take_terminal() -> anyhow::Result<()> {
    enable_raw_mode()?;
    let stdin = std::io::stdin();
    let mut raw = tcgetattr(&stdin)?;
    // crossterm sets raw mode only once; another program may have changed the mode while this one
    // was stopped
    raw.make_raw();
    raw.local_modes |= LocalModes::ISIG;
    tcsetattr(&stdin, OptionalActions::Now, &raw)?;
    Ok(execute!(stdout(), EnterAlternateScreen, Hide, DisableLineWrap, Clear(ClearType::All))?)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Reads all available bytes; waits for more if an escape sequence is incomplete.
fn read_keys() -> anyhow::Result<LiveEvent> {
    let stdin = std::io::stdin();
    let mut typed = Vec::new();
    loop {
        let mut bytes = [0; 256];
        match rustix::io::read(stdin.as_fd(), &mut bytes) {
            Ok(0) => return Ok(LiveEvent::End(SIGHUP)),
            Ok(length) => typed.extend_from_slice(&bytes[..length]),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let mut more = || poll(&mut ready, Some(&Timespec::try_from(SEQUENCE).unwrap_or_default()));
        if !is_unfinished(&typed) || !matches!(more(), Ok(1)) {
            return Ok(LiveEvent::Keys(parse_keys(&typed)));
        }
    }
}
