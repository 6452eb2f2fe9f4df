// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the programs that this program starts. As root, it accepts only a program that no other
//! user can replace.
//!
//! `sudo -E` and `su -m` keep PATH, HOME, TMPDIR, PAGER and the like of the user who called them.
//! So root does not take a program from a folder of PATH that another user can change, and does not
//! take one that another user owns or may write. A link is followed under the same rules. If `/`
//! does not belong to root (a user namespace of a user without rights), no file belongs to root,
//! and this process can do only what that user can: then every program in PATH is accepted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, Stat};
use rustix::io::Errno;

use crate::trusted_folder::{
    FolderError, LINKS, OTHERS_WRITE, PASS, TrustedFolder, is_ours_or_roots,
};

/// Folders of the distribution's programs, for the PATH of programs that root starts.
pub const PROGRAM_FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const EXECUTABLE: u32 = 0o111;

/// Why there is no program to start.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No folder of PATH has the program.
    #[error("{name} is not installed (looked through PATH)")]
    Missing {
        /// Name of the program.
        name: String,
    },
    /// PATH has only a program of this name that another user could replace.
    #[error("{}: root does not start it: {why}", path.display())]
    Untrusted {
        /// The path of that program.
        path: PathBuf,
        /// Which user could replace it, and how.
        why: String,
    },
}

/// Whether this process has rights of root that other users of this machine do not have.
#[must_use]
pub fn acts_as_root() -> bool {
    let root = || rustix::fs::openat(CWD, "/", PASS, Mode::empty()).and_then(rustix::fs::fstat);
    rustix::process::geteuid().is_root() && root().is_ok_and(|stat| stat.st_uid == 0)
}

/// Finds a program in PATH. If this process acts as root, folders and programs that another user
/// can change are passed over.
///
/// # Errors
/// If there is none.
pub fn find_program(name: &OsStr) -> Result<PathBuf, ProgramError> {
    find_in(&path_variable(), name, acts_as_root())
}

/// Finds a program as [`find_program`] does, in `/usr/sbin` and `/sbin` too, which are not in every
/// user's PATH.
///
/// # Errors
/// If there is none.
pub fn find_system_program(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let mut path = path_variable();
    path.push(":/usr/sbin:/sbin");
    find_in(&path, name, acts_as_root())
}

fn path_variable() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn find_in(path: &OsStr, name: &OsStr, guarded: bool) -> Result<PathBuf, ProgramError> {
    let mut refused = None;
    for folder in std::env::split_paths(path) {
        let found = folder.join(name);
        if !is_executable(&found) {
            continue;
        }
        match if guarded { check_trusted_file(&found) } else { Ok(()) } {
            Ok(()) => return Ok(found),
            Err(why) => _ = refused.get_or_insert(ProgramError::Untrusted { path: found, why }),
        }
    }
    Err(refused.unwrap_or_else(|| ProgramError::Missing { name: name.to_string_lossy().into() }))
}

fn is_executable(path: &Path) -> bool {
    let stat = rustix::fs::stat(path);
    stat.is_ok_and(|stat| is_regular(&stat) && stat.st_mode & EXECUTABLE != 0)
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Checks that no other user can change or replace the regular file at this path. No folder on the
/// path can be replaced either, so the path continues to lead to this file.
///
/// # Errors
/// Which other user could, and how; or why the file cannot be examined.
pub fn check_trusted_file(path: &Path) -> Result<(), String> {
    let mut path = std::path::absolute(path).map_err(|error| error.to_string())?;
    for _ in 0..LINKS {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err("expected the path of a file".to_owned());
        };
        let folder = TrustedFolder::open(above).map_err(|error| match error {
            FolderError::Untrusted { path, why } => format!("{}: {why}", path.display()),
            FolderError::At { path, source } => format!("{}: {source}", path.display()),
        })?;
        let describe = |errno: Errno| format!("{}: {errno}", path.display());
        let file = rustix::fs::openat(folder.handle(), name, PASS, Mode::empty());
        let file = file.map_err(describe)?;
        let stat = rustix::fs::fstat(&file).map_err(describe)?;
        if !is_ours_or_roots(&stat) {
            return Err(format!("{} belongs to user {}", path.display(), stat.st_uid));
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = rustix::fs::readlinkat(&file, "", Vec::new()).map_err(describe)?;
            path = folder.path().join(OsStr::from_bytes(target.to_bytes()));
            continue;
        }
        return match stat.st_mode & OTHERS_WRITE {
            0 if is_regular(&stat) => Ok(()),
            0 => Err(format!("{}: expected a regular file", path.display())),
            _ => Err(format!("{}: others may write to it", path.display())),
        };
    }
    Err(format!("{}: {}", path.display(), Errno::LOOP))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the programs that they look for")]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A new folder `name` with a program `tool`.
    fn folder_with_tool(below: &Path, name: &str) -> PathBuf {
        let folder = below.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("tool"), "#!/bin/sh\n").unwrap();
        set_mode(&folder.join("tool"), 0o755);
        set_mode(&folder, 0o755);
        folder
    }

    fn find(folders: &[&Path], guarded: bool) -> Result<PathBuf, ProgramError> {
        find_in(&std::env::join_paths(folders).unwrap(), OsStr::new("tool"), guarded)
    }

    /// The first folder of PATH may be written by others: root skips it; for other users it counts.
    #[test]
    fn root_passes_over_what_others_can_replace() {
        let base = tempfile::tempdir().unwrap();
        let (open, own) =
            (folder_with_tool(base.path(), "open"), folder_with_tool(base.path(), "own"));
        set_mode(&open, 0o777);
        assert_eq!(find(&[&open, &own], false).unwrap(), open.join("tool"));
        assert_eq!(find(&[&open, &own], true).unwrap(), own.join("tool"));
        let error = find(&[&open], true).unwrap_err().to_string();
        assert!(error.contains("root does not start it") && error.contains("others may write"));

        // the program itself, a folder above, and what a link leads to
        set_mode(&own.join("tool"), 0o775);
        assert!(
            check_trusted_file(&own.join("tool")).unwrap_err().contains("others may write to it")
        );
        set_mode(&own.join("tool"), 0o755);
        let linked = base.path().join("linked");
        fs::create_dir(&linked).unwrap();
        symlink("../own/tool", linked.join("tool")).unwrap();
        assert_eq!(find(&[&linked], true).unwrap(), linked.join("tool"));
        fs::remove_file(linked.join("tool")).unwrap();
        symlink("../open/tool", linked.join("tool")).unwrap();
        assert!(matches!(find(&[&linked], true), Err(ProgramError::Untrusted { .. })));
        symlink("turn", linked.join("turn")).unwrap();
        assert!(check_trusted_file(&linked.join("turn")).unwrap_err().contains("links"));
        set_mode(base.path(), 0o777);
        assert!(matches!(find(&[&own], true), Err(ProgramError::Untrusted { .. })));
        let nowhere = Path::new("/nowhere");
        assert!(matches!(find(&[nowhere], true), Err(ProgramError::Missing { .. })));
    }

    /// The folder belongs to another user, as under `sudo -E`; only root can give files away.
    #[test]
    fn root_passes_over_a_folder_of_another_user() {
        let base = tempfile::tempdir().unwrap();
        let theirs = folder_with_tool(base.path(), "theirs");
        if !acts_as_root() {
            return;
        }
        std::os::unix::fs::chown(theirs.join("tool"), Some(4242), None).unwrap();
        let error = find(&[&theirs], true).unwrap_err().to_string();
        assert!(error.contains("belongs to user 4242"), "{error}");
        std::os::unix::fs::chown(&theirs, Some(4242), None).unwrap();
        let error = find(&[&theirs], true).unwrap_err().to_string();
        assert!(error.contains("theirs: it belongs to user 4242"), "{error}");
    }

    #[test]
    fn the_shell_of_this_machine_is_trusted() {
        check_trusted_file(Path::new("/bin/sh")).unwrap();
    }
}
