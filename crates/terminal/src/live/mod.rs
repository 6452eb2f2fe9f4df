// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws frames on the terminal's alternate screen, and reports keys, signals and resizes.
//!
//! Only changed lines are written. The terminal is restored when the [`LiveScreen`] is dropped,
//! before a panic is printed ([`restore`]), before a fatal signal takes effect, and while the
//! program is stopped.

mod key;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagewise_report::text::escape_all_but_colours;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGWINCH};

pub use key::Key;
use key::{is_unfinished, parse_keys};

/// Switches to the alternate screen, hides the cursor, turns off wrapping at the right edge, and
/// clears the screen.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The bytes of one escape sequence arrive within this time.
const SEQUENCE: Duration = Duration::from_millis(50);
/// Signals that end the program.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The signal of Ctrl-C.
pub const CTRL_C: i32 = SIGINT;

/// The terminal settings before the live view; `None` if there is nothing to restore.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal if a live view uses it. May be called at any time and repeatedly.
pub fn restore() {
    let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    // an error means that the terminal is gone, and cannot be reported
    let _ = write(LEAVE);
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
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
    shown: Vec<String>,
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
        Ok(Self { woken, signals, shown: Vec::new() })
    }

    /// Switches the terminal to the live view.
    ///
    /// # Errors
    /// If the terminal's settings cannot be changed.
    pub fn enter(&mut self) -> anyhow::Result<()> {
        take_terminal()
    }

    /// Columns and lines; 80 × 24 if the size is unknown.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Draws these lines from the top, and clears the rest.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, lines: &[String]) -> anyhow::Result<()> {
        write(&changes(&self.shown, lines))?;
        self.shown = lines.to_vec();
        Ok(())
    }

    /// Waits for the next event, at most until the deadline.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn wait(&mut self, deadline: Instant) -> anyhow::Result<LiveEvent> {
        loop {
            if let Some(event) = self.signalled()? {
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
    fn signalled(&mut self) -> anyhow::Result<Option<LiveEvent>> {
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
        self.shown.clear();
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

/// Changes the terminal's settings for the live view. Ctrl-C, Ctrl-Z and Ctrl-\ still send signals.
fn take_terminal() -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = match before.clone() {
        Some(known) => known,
        None => tcgetattr(&stdin)?,
    };
    let mut raw = known.clone();
    raw.make_raw();
    raw.local_modes |= LocalModes::ISIG;
    *before = Some(known);
    tcsetattr(&stdin, OptionalActions::Now, &raw)?;
    write(ENTER)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
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

/// The output that changes a screen from the lines `before` to the lines `after`. A line is erased
/// before it is written, because after writing a line as wide as the window the cursor is on its
/// last character.
fn changes(before: &[String], after: &[String]) -> String {
    let mut out = String::new();
    for (at, line) in after.iter().enumerate() {
        if before.get(at) != Some(line) {
            let _ = write!(
                out,
                "\x1b[{};1H\x1b[0m\x1b[K{}\x1b[0m",
                at + 1,
                escape_all_but_colours(line)
            );
        }
    }
    if before.len() > after.len() {
        let _ = write!(out, "\x1b[{};1H\x1b[J", after.len() + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn only_lines_that_changed_are_written() {
        let (before, after) = (lines(&["a", "b", "c"]), lines(&["a", "B"]));
        assert_eq!(changes(&before, &after), "\x1b[2;1H\x1b[0m\x1b[KB\x1b[0m\x1b[3;1H\x1b[J");
        assert_eq!(changes(&after, &after), "");
    }

    #[test]
    fn what_a_terminal_would_act_on_becomes_visible() {
        let drawn = changes(&[], &lines(&["\x1b[2Jx", "\x1b[1mbold\x1b[0m"]));
        assert!(drawn.contains("\\u{1b}[2Jx") && drawn.contains("\x1b[1mbold"), "{drawn:?}");
    }
}
