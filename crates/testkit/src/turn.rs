// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lock with which runs of tests take turns to change things that exist only once on a machine:
//! swap, zram devices, settings, cgroups.
//!
//! If two runs changed them at the same time, each would find the values of the other. Runs as root
//! therefore wait for a lock on `/run/pagewise-tests/lock`, whatever clone or cache they use. The
//! file contains the process and command line of the holder; its modification time is when the
//! holder got the lock. Everybody may read the file, and only root may hold the lock.
//!
//! A run is a process with all its descendants: if an ancestor holds the lock, this process holds
//! it as well. The lock therefore need not be passed on, and no process waits for its own parent.
//!
//! `xtask` compiles this file as well, and uses no crate of the project.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The folder that contains the lock, and the list `made` of things that were created while the
/// lock is held.
pub(crate) const FOLDER: &str = "/run/pagewise-tests";
/// Maximum time to wait for the lock. All tests that change the machine together take five minutes.
const PATIENCE: Duration = Duration::from_secs(45 * 60);
const BETWEEN: Duration = Duration::from_millis(200);

/// The right of this process to change the machine. It is held until this value is dropped, or
/// until this process and all processes that have the lock file open have ended.
#[derive(Debug)]
pub struct Turn {
    /// The open lock file; `None` if an ancestor process holds the lock.
    file: Option<File>,
}

impl Turn {
    /// Waits until this process has the lock. Prints to standard error which process it waits for.
    ///
    /// # Errors
    /// If the lock cannot be created, for example because this is not root, or if another run holds
    /// it for 45 minutes.
    pub fn wait() -> io::Result<Self> {
        // written directly, because the test harness captures the output of `eprintln!`
        wait_for(Path::new(FOLDER), PATIENCE, &mut |told| drop(writeln!(io::stderr(), "{told}")))
    }

    /// Returns the open lock file: every process that has it open holds the lock.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

fn wait_for(folder: &Path, patience: Duration, say: &mut dyn FnMut(&str)) -> io::Result<Turn> {
    let path = folder.join("lock");
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let (mut file, began, mut is_told) =
        (open(folder, &path).map_err(named)?, Instant::now(), false);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                sign(&mut file).map_err(named)?;
                File::create(folder.join("made"))?;
                return Ok(Turn { file: Some(file) });
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(named(error.into())),
        }
        let holder = Holder::read(&mut file);
        if holder.pid.is_some_and(is_ancestor) {
            return Ok(Turn { file: None });
        }
        if began.elapsed() >= patience {
            let seconds = patience.as_secs();
            return Err(named(io::Error::other(format!("held for {seconds} s by {holder}"))));
        }
        if !is_told {
            say(&format!("waits for other tests that borrow settings of this machine: {holder}"));
            is_told = true;
        }
        sleep(BETWEEN);
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let file = options.custom_flags(no_follow).open(path)?;
    // the mode must not depend on the umask of this process
    file.set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}

fn sign(file: &mut File) -> io::Result<()> {
    let line = std::fs::read("/proc/self/cmdline")?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let short: String = line.trim().chars().filter(|it| !it.is_control()).take(200).collect();
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {short}", std::process::id())
}

/// The process that holds the lock, according to the lock file.
struct Holder {
    pid: Option<u32>,
    line: String,
    since: Option<Duration>,
}

impl Holder {
    /// Parses the lock file as far as it is complete: a new holder may not have written everything
    /// yet.
    fn read(file: &mut File) -> Self {
        let mut text = String::new();
        let read =
            file.rewind().and_then(|()| Read::take(&mut *file, 1024).read_to_string(&mut text));
        let text = read.map_or("", |_| text.trim());
        let (pid, line) = text.split_once(' ').unwrap_or((text, ""));
        let since = file.metadata().and_then(|it| it.modified()).ok();
        let since = since.and_then(|it| it.elapsed().ok());
        Self { pid: pid.parse().ok(), line: line.to_owned(), since }
    }
}

/// Prints a holder in a form such as `process 4711 (cargo xtask test --root), for 35 s`.
impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} ({})", self.line)?,
            None => f.write_str("a process that has not said its number")?,
        }
        self.since.map_or(Ok(()), |since| write!(f, ", for {} s", since.as_secs()))
    }
}

/// Whether `pid` is this process or one of its ancestors.
fn is_ancestor(pid: u32) -> bool {
    let parent_of = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // the name of a process is in parentheses and may contain any characters
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(Some(std::process::id()), parent_of).any(|process| process == pid)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn silent(_: &str) {}

    /// Starts a process that is not an ancestor and holds the lock until it is killed, as another
    /// run would.
    fn other_run(folder: &Path) -> std::process::Child {
        let script =
            "exec 3> lock; flock 3; echo $$ somebody else > lock; echo held; exec sleep 600";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut held = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();
        child
    }

    #[test]
    fn who_waits_is_told_for_whom_and_follows() {
        let folder = tempfile::tempdir().unwrap();
        let mut other = other_run(folder.path());
        let refused = wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap_err().to_string();
        let (pid, mut told) = (other.id(), String::new());
        assert!(refused.contains(&format!("held for 0 s by process {pid} (somebody else), for ")));
        let turn = wait_for(folder.path(), PATIENCE, &mut |line| {
            line.clone_into(&mut told);
            other.kill().unwrap();
            other.wait().unwrap();
        });
        assert!(turn.unwrap().file.is_some());
        assert!(told.contains(&format!("machine: process {pid} (somebody else), for ")), "{told}");
    }

    #[test]
    fn it_is_the_turn_of_all_that_the_holder_starts() {
        let folder = tempfile::tempdir().unwrap();
        let first = wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap();
        let nested = wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap();
        assert!(first.file.is_some() && nested.file.is_none());
        assert!(is_ancestor(1), "the parent of all");
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(!is_ancestor(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The process that undoes the changes of a killed test has the file open, and lives longer
    /// than the test.
    #[test]
    fn the_turn_lasts_as_long_as_somebody_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let turn = wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap();
        let file = turn.file().unwrap().try_clone().unwrap();
        let mut sleeper = Command::new("sleep").arg("600").stdout(file).spawn().unwrap();
        drop(turn);
        let lock = File::open(folder.path().join("lock")).unwrap();
        let is_free = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        assert!(!is_free());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(is_free());
    }

    #[test]
    fn everybody_may_read_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let turn = wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap();
        let path = folder.path().join("lock");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("{} ", std::process::id())) && text.len() > 10, "{text}");
        drop(turn);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        wait_for(folder.path(), Duration::ZERO, &mut silent).unwrap_err();
        assert!(!folder.path().join("elsewhere").exists(), "a link is not followed");
    }
}
