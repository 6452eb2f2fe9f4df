// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A private redis-server on a socket that no other user can reach and that nobody has to remove.
//!
//! The server makes its socket in a private folder. Once it listens, the folder and the socket's
//! name are removed, and the socket is reached through `/proc/PID/fd`, like an unlinked file. So
//! nothing is left even if all processes are killed, and no free port is needed. The server ends
//! with this process.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pagewise_guest::kill_with_parent;
use pagewise_guest::program::{find, last_lines};
use pagewise_observe::{TrustedFolder, acts_as_root};
use pagewise_procmem::coverage;
use rustix::fs::{CWD, Mode, OFlags};

use super::super::error::{Error, ErrorContext};
use super::oom::{OomProtection, prefer_for_oom};

const OPTIONS: [&str; 14] = [
    "--port",
    "0",
    "--unixsocket",
    NAME,
    "--unixsocketperm",
    "700",
    "--save",
    "",
    "--appendonly",
    "no",
    "--daemonize",
    "no",
    "--loglevel",
    "warning",
];
const NAME: &str = "socket";
const SERVER: &str = "redis-server";
/// Interval at which the state of the server is checked.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// Time to wait for the exit status of the server after its connections broke.
const DYING: Duration = Duration::from_secs(2);

/// A redis-server that accepts connections.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    socket: Option<OwnedFd>,
    _spared: OomProtection,
}

impl Server {
    /// Starts an empty server that saves nothing; with `thp` the server may use huge pages.
    pub(super) fn start(thp: bool, end: Instant) -> Result<Self, Error> {
        let program = program()?;
        let folder = Folder::new()?;
        let mut command = Command::new(program);
        command.arg0(SERVER).args(OPTIONS).current_dir(&folder.0).stdin(Stdio::null());
        command.args(thp.then_some(["--disable-thp", "no"]).iter().flatten());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        kill_with_parent(&mut command);
        let child = command.spawn().about(|| "starting redis-server".to_owned())?;
        prefer_for_oom(child.id());
        let mut server = Self { child, socket: None, _spared: OomProtection::new() };
        while !server.is_listening(&folder.0) {
            if let Some(why) = server.why_ended()? {
                return Err(why);
            }
            if Instant::now() >= end {
                return Err(Error::Ended("redis-server: does not answer in time".to_owned()));
            }
            std::thread::sleep(TICK);
        }
        Ok(server)
    }

    fn is_listening(&mut self, folder: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.socket = rustix::fs::openat(CWD, folder.join(NAME), flags, Mode::empty()).ok();
        self.socket.is_some() && self.connect().is_ok()
    }

    /// A path of the socket, usable by all programs of this user while this value exists.
    pub(super) fn path(&self) -> PathBuf {
        let number = self.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{number}", std::process::id()).into()
    }

    /// The share of the server's memory that is in huge pages.
    pub(super) fn huge_page_share(&self, block: u64) -> Option<f64> {
        let share = coverage::measure_share(self.child.id(), block).ok()?;
        Some(share.percent()?.get() / 100.0)
    }

    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.path())
    }

    /// Why the server has ended; `None` while it runs.
    pub(super) fn why_ended(&mut self) -> Result<Option<Error>, Error> {
        let status = self.child.try_wait().about(|| "redis-server".to_owned())?;
        Ok(status.map(|status| Error::Ended(self.describe_end(status))))
    }

    /// Returns the server's end as the cause of an error if the server ends within a short time,
    /// `otherwise` if not.
    pub(super) fn find_cause_or(&mut self, otherwise: Error) -> Error {
        let until = Instant::now() + DYING;
        while Instant::now() < until {
            match self.why_ended() {
                Ok(Some(why)) | Err(why) => return why,
                Ok(None) => std::thread::sleep(TICK),
            }
        }
        otherwise
    }

    fn describe_end(&mut self, status: ExitStatus) -> String {
        let mut output = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            // The server's output fits into a pipe, and all writers have ended.
            let _ = pipe.read_to_string(&mut output);
        }
        let output = last_lines(&output, 2).join("; ");
        match status.signal() {
            Some(9) => {
                "redis-server was killed (signal 9), as the kernel does where memory is out; \
                 give it fewer records, or more memory or swap"
                    .to_owned()
            }
            _ if output.is_empty() => format!("redis-server ended by itself ({status})"),
            _ => format!("redis-server ended by itself ({status}): {output}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds the redis-server program. In Debian, redis-server is the same executable as
/// redis-check-rdb, started under another name; the latter comes with redis-benchmark, and the name
/// is passed as argv[0].
fn program() -> Result<PathBuf, Error> {
    let other = |missing| find("redis-check-rdb", SERVER).map_err(|_| missing);
    find(SERVER, SERVER).or_else(other).map_err(Error::Program)
}

/// A folder that only this user may enter, used until the socket is connected.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Error> {
        let name = format!("pagewise-redis-{}-{}", std::process::id(), fastrand::u32(..));
        let path = temporary_folder().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.about(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

/// The folder for temporary files. Under `sudo -E`, TMPDIR may be a folder of another user, who
/// could then put a server of their own in the place of ours.
fn temporary_folder() -> PathBuf {
    let named = std::env::temp_dir();
    if acts_as_root() && TrustedFolder::open_for_entries(&named).is_err() {
        return "/tmp".into();
    }
    named
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
