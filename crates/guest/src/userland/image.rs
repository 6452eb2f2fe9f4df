// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a disk image from a folder, and gives its files the right owners.
//!
//! mke2fs copies a folder with its owners, but the unpacked files belong to the user who unpacked
//! them, and only root could change that. So debugfs sets the owners inside the finished image,
//! which needs no privileges.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::Owned;
use crate::error::{Error, ErrorContext};
use crate::program;

/// Size of the file system. The image is a sparse file: unused blocks take no space.
const SIZE: &str = "448M";
/// Number of inodes: three times what the packages need. Each inode takes space, used or not.
const INODES: &str = "16384";
const PACKAGE: &str = "e2fsprogs";

/// Makes a disk image of the folder `root`.
pub(super) fn make(root: &Path, disk: &Path, others: &[Owned]) -> Result<(), Error> {
    let mut command = Command::new(program::find_for_root("mke2fs", PACKAGE)?);
    // With lazy initialization the kernel would initialize the inode tables in the background at
    // every boot.
    command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-N", INODES, "-L", "root"]);
    command.args(["-E", "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0", "-d"]);
    program::output("mke2fs", command.arg(root).arg(disk).arg(SIZE))?;
    set_owners(root, disk, others)
}

/// Sets the owner of all files to root, except those in `others`.
fn set_owners(root: &Path, disk: &Path, others: &[Owned]) -> Result<(), Error> {
    let script = disk.with_extension("owners");
    fs::write(&script, debugfs_commands(root, others)?).with_path(&script)?;
    let mut command = Command::new(program::find_for_root("debugfs", PACKAGE)?);
    command.arg("-w").arg("-f").arg(&script).arg(disk);
    program::output("debugfs", &mut command)?;
    fs::remove_file(&script).with_path(&script)?;
    check(disk)
}

/// Checks the file system of the image, and the owner of one folder in it, because debugfs exits
/// with 0 even if its commands failed.
fn check(disk: &Path) -> Result<(), Error> {
    let mut command = Command::new(program::find_for_root("e2fsck", PACKAGE)?);
    program::output("e2fsck", command.arg("-fn").arg(disk))?;
    let mut command = Command::new(program::find_for_root("debugfs", PACKAGE)?);
    let listed = program::output("debugfs", command.args(["-R", "stat /usr/bin"]).arg(disk))?;
    if listed.lines().any(|line| split_words(line).starts_with(&["User:", "0", "Group:", "0"])) {
        Ok(())
    } else {
        Err(Error::Failed {
            program: "debugfs".to_owned(),
            message: "the files of the new disk do not belong to root".to_owned(),
        })
    }
}

fn split_words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The debugfs commands that set user and group of each file and folder.
fn debugfs_commands(root: &Path, others: &[Owned]) -> Result<String, Error> {
    let mut script = String::new();
    for path in list_below(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if name.contains(['"', '\n', char::REPLACEMENT_CHARACTER]) {
            let what = "a name that debugfs cannot take".to_owned();
            return Err(Error::Unusable { path, what });
        }
        let other = others.iter().find(|other| other.path == name);
        let (user, group) = other.map_or((0, 0), |other| (other.user, other.group));
        for (field, number) in [("uid", user), ("gid", group)] {
            let _ = writeln!(script, "set_inode_field \"/{name}\" {field} {number}");
        }
    }
    Ok(script)
}

fn list_below(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_path(&folder)? {
            let entry = entry.with_path(&folder)?;
            if entry.file_type().with_path(&folder)?.is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_holds_what_the_folder_held_and_belongs_to_whom_it_should() {
        let folder = tempfile::tempdir().unwrap();
        let (root, disk) = (folder.path().join("root"), folder.path().join("disk"));
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/a b"), b"contents").unwrap();
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        // Root can change the owner; for other users the files already belong to a user other than
        // root.
        let _ = std::os::unix::fs::lchown(root.join("usr/bin/a b"), Some(1234), Some(1234));
        let _ = std::os::unix::fs::lchown(root.join("bin"), Some(1234), Some(1234));
        fs::write(root.join("conf"), b"").unwrap();
        make(&root, &disk, &[Owned { path: "conf".to_owned(), user: 70_000, group: 42 }]).unwrap();
        let ask = |what: &str| {
            let mut command = Command::new(program::find_for_root("debugfs", PACKAGE).unwrap());
            program::output("debugfs", command.args(["-R", what]).arg(&disk)).unwrap()
        };
        assert_eq!(ask("cat \"/usr/bin/a b\""), "contents");
        for path in ["/usr/bin/a b", "/usr", "/bin", "/", "/conf"] {
            let output = ask(&format!("stat \"{path}\""));
            let owner = output.lines().find(|line| line.starts_with("User:")).unwrap();
            let (user, group) = if path == "/conf" { ("70000", "42") } else { ("0", "0") };
            assert!(
                split_words(owner).starts_with(&["User:", user, "Group:", group]),
                "{path}: {owner}"
            );
        }
    }

    #[test]
    fn a_name_that_could_end_a_command_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a\"\nquit"), b"").unwrap();
        assert!(debugfs_commands(folder.path(), &[]).is_err());
    }
}
