// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the files in an ext4 image that a power loss left, after e2fsck repaired it.
//!
//! e2fsck replays the journal and repairs everything else, and debugfs copies folders out of the
//! image. Nothing is mounted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file, symbolic link or folder, as a test compares it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// A file, by its mode and contents.
    File(u32, Vec<u8>),
    /// A symbolic link, by its target.
    Link(PathBuf),
    /// A folder, by its mode.
    Folder(u32),
}

/// Everything below a folder, by path relative to the folder.
pub type Tree = BTreeMap<String, Node>;

/// A folder in which images of disks are repaired and read, one after the other.
#[derive(Debug)]
pub struct FileSystem {
    folder: tempfile::TempDir,
}

impl FileSystem {
    /// Creates the folder in memory: if it were on a disk, e2fsck would wait for that disk with
    /// each image.
    ///
    /// # Panics
    /// If no folder can be created in `/dev/shm`.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir_in("/dev/shm").expect("a folder in memory") }
    }

    /// Repairs the file system in an image, and copies these folders out of it. The returned folder
    /// contains them until the next image is read.
    ///
    /// # Errors
    /// The output of e2fsck or debugfs if the image cannot be repaired or read.
    ///
    /// # Panics
    /// If these programs are missing, or the copies cannot be made.
    pub fn read(&self, image: &[u8], folders: &[&str]) -> Result<PathBuf, String> {
        let [path, copies] = ["image", "copies"].map(|name| self.folder.path().join(name));
        fs::write(&path, image).expect("the image fits into memory");
        let mut check = Command::new("/usr/sbin/e2fsck");
        // exit status 1 or 2 means that e2fsck found errors and corrected all of them
        run(check.arg("-fy").arg(&path), &[0, 1, 2])?;
        if copies.exists() {
            fs::remove_dir_all(&copies).expect("the copies of the image before");
        }
        fs::create_dir(&copies).expect("a folder for copies");
        let mut copy = Command::new("/usr/sbin/debugfs");
        let request = format!("rdump {} {}", folders.join(" "), copies.display());
        run(copy.arg("-R").arg(request).arg(&path), &[0])?;
        Ok(copies)
    }
}

impl Default for FileSystem {
    fn default() -> Self {
        Self::new()
    }
}

fn run(command: &mut Command, good: &[i32]) -> Result<(), String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if output.status.code().is_some_and(|status| good.contains(&status)) {
        return Ok(());
    }
    let program = command.get_program().to_string_lossy();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().take(3).collect::<Vec<_>>().join("; ");
    Err(format!("{program}: {}: {last}", output.status))
}

/// Reads all files, links and folders below a folder.
///
/// # Panics
/// If something in the folder cannot be read.
#[must_use]
pub fn read_tree(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((folder, name)) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{name}: {error}")) {
            let entry = entry.expect("an entry");
            let (path, name) =
                (entry.path(), format!("{name}/{}", entry.file_name().to_string_lossy()));
            let found = entry.metadata().expect("what it is");
            let mode = found.permissions().mode() & 0o7777;
            let node = if found.is_symlink() {
                Node::Link(fs::read_link(&path).expect("its target"))
            } else if found.is_dir() {
                open.push((path, name.clone()));
                Node::Folder(mode)
            } else {
                Node::File(mode, fs::read(&path).expect("its contents"))
            };
            tree.insert(name, node);
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an image that contains a file and a link, with e2fsprogs.
    fn image() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (from, image) = (folder.path().join("from"), folder.path().join("image"));
        fs::create_dir_all(from.join("etc/a")).unwrap();
        fs::write(from.join("etc/a/file"), "text").unwrap();
        fs::set_permissions(from.join("etc/a/file"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a/file", from.join("etc/link")).unwrap();
        let mut make = Command::new("/usr/sbin/mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-d"]).arg(&from).arg(&image).arg("2M");
        assert!(make.status().unwrap().success());
        fs::read(image).unwrap()
    }

    #[test]
    fn the_files_of_an_image_are_read() {
        let (image, system) = (image(), FileSystem::new());
        for _ in 0..2 {
            let tree = read_tree(&system.read(&image, &["/etc"]).unwrap().join("etc"));
            let names: Vec<&str> = tree.keys().map(String::as_str).collect();
            assert_eq!(names, ["/a", "/a/file", "/link"]);
            assert_eq!(tree["/a/file"], Node::File(0o640, b"text".to_vec()));
            assert_eq!(tree["/link"], Node::Link("a/file".into()));
        }
    }

    #[test]
    fn an_image_that_is_no_file_system_is_told() {
        let told = FileSystem::new().read(&vec![0; 1 << 20], &["/etc"]).unwrap_err();
        assert!(told.starts_with("/usr/sbin/e2fsck: exit status: 8"), "{told}");
    }
}
