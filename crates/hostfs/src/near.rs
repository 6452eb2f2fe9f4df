// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps folders of the live machine open for some time, so that the path to a folder is resolved
//! once and not for each of its files.
//!
//! For a file in sysfs, resolving its folder, five to eight names deep, costs about as much as
//! opening, reading and closing the file. If a folder does not exist, no file in it has to be
//! looked up.
//!
//! If a folder is replaced by another one of the same name, the open folder remains the old one. So
//! folders are kept open for one reading of the host and no longer ([`Near::forget`]).

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Maximum number of folders that are kept open. A walk through a tree needs as many as the tree is
/// deep, however many folders it has.
const MOST: usize = 8;

/// Number of files in a row that are read from a folder before it is opened. Folders of processes
/// are not opened: at most three of their files are read, and their path is short.
const WORTH: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Near {
    /// The folders that are kept open, the most recently used last.
    held: Vec<Folder>,
    last: String,
    in_a_row: usize,
}

#[derive(Debug)]
struct Folder {
    path: String,
    /// The open folder, or the error with which opening it failed.
    handle: Result<OwnedFd, Errno>,
}

impl Near {
    /// The folder from which to open `path`, and the rest of the path; `root` is `/`.
    pub(crate) fn split_at_open_folder<'a>(
        &'a mut self,
        root: &'a OwnedFd,
        path: &'a str,
    ) -> Result<(&'a OwnedFd, &'a str), Errno> {
        if let Some((folder, _)) = path.rsplit_once('/') {
            // a fast path: most files are in the folder that was used last
            if self.held.last().is_none_or(|held| held.path != folder) {
                self.open_if_repeated(root, folder);
            }
        }
        self.find_known(root, path)
    }

    /// Opens `folder` because several of its files will be read.
    pub(crate) fn hold(&mut self, root: &OwnedFd, folder: &str) {
        if self.held.iter().any(|held| held.path == folder) {
            return;
        }
        let handle = self.find_known(root, folder).and_then(|(from, name)| {
            rustix::fs::openat(
                from,
                name,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        });
        if matches!(handle, Ok(_) | Err(Errno::NOENT | Errno::NOTDIR)) {
            self.held.drain(..(self.held.len() + 1).saturating_sub(MOST));
            self.held.push(Folder { path: folder.to_owned(), handle });
        }
    }

    /// Closes all folders that are kept open.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn open_if_repeated(&mut self, root: &OwnedFd, folder: &str) {
        if self.last != folder {
            self.last.replace_range(.., folder);
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        if self.in_a_row == WORTH && !is_process_folder(folder) {
            self.hold(root, folder);
        }
    }

    /// The deepest open folder that contains the path, and the rest of the path.
    fn find_known<'a>(
        &'a mut self,
        root: &'a OwnedFd,
        path: &'a str,
    ) -> Result<(&'a OwnedFd, &'a str), Errno> {
        let Some((at, name)) = self.find_deepest(path) else {
            return Ok((root, path));
        };
        if let Some(latest) = self.held.get_mut(at..) {
            latest.rotate_left(1);
        }
        match self.held.last() {
            Some(Folder { handle: Ok(handle), .. }) => Ok((handle, name)),
            Some(Folder { handle: Err(errno), .. }) => Err(*errno),
            None => Ok((root, path)),
        }
    }
}

impl Near {
    /// Index of the deepest open folder that contains `path`, and the rest of the path.
    fn find_deepest<'a>(&self, path: &'a str) -> Option<(usize, &'a str)> {
        let ways = self.held.iter().enumerate().rev();
        let mut ways = ways.filter_map(|(at, held)| Some((at, strip_folder(&held.path, path)?)));
        let latest = ways.next()?;
        // the file is directly in this folder, so none can be deeper
        match memchr::memchr(b'/', latest.1.as_bytes()) {
            None => Some(latest),
            Some(_) => ways.chain([latest]).min_by_key(|(_, name)| name.len()),
        }
    }
}

fn is_process_folder(folder: &str) -> bool {
    let pid = folder.strip_prefix("proc/");
    pid.is_some_and(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The part of `path` below `folder`; `None` if the path is not in this folder.
fn strip_folder<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(folder)? {
        "" => Some("."),
        rest => rest.strip_prefix('/'),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn root_of(folder: &std::path::Path) -> OwnedFd {
        rustix::fs::open(folder, OFlags::PATH, Mode::empty()).unwrap()
    }

    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let tree = tempfile::tempdir().unwrap();
        for folder in ["a/b/c", "ab/c", "d"] {
            std::fs::create_dir_all(tree.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("a/b", tree.path().join("link")).unwrap();
        let root = root_of(tree.path());
        (tree, root)
    }

    fn inode(at: Result<(&OwnedFd, &str), Errno>) -> Result<u64, Errno> {
        let (from, name) = at?;
        rustix::fs::statat(from, name, rustix::fs::AtFlags::empty()).map(|found| found.st_ino)
    }

    #[test]
    fn a_folder_is_held_from_its_third_file_on() {
        let (_tree, root) = tree();
        let mut near = Near::default();
        let names = ["a/b/1", "a/b/2", "a/b/3", "a/b/4", "a/b"];
        let ways = names.map(|path| near.split_at_open_folder(&root, path).unwrap().1.to_owned());
        assert_eq!(ways, ["a/b/1", "a/b/2", "3", "4", "."]);
        near.forget();
        assert_eq!(near.split_at_open_folder(&root, "a/b/5").unwrap().1, "a/b/5");
    }

    #[test]
    fn folders_of_processes_are_not_held() {
        let root = root_of(std::path::Path::new("/"));
        let mut near = Near::default();
        near.hold(&root, "proc");
        for name in ["status", "stat", "cgroup", "statm"] {
            let path = format!("proc/1/{name}");
            assert_eq!(near.split_at_open_folder(&root, &path).unwrap().1, format!("1/{name}"));
        }
        assert_eq!(near.held.len(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_answers_for_its_files() {
        let (_tree, root) = tree();
        let mut near = Near::default();
        near.hold(&root, "a/none");
        assert_eq!(near.split_at_open_folder(&root, "a/none/x/y").unwrap_err(), Errno::NOENT);
        assert!(near.split_at_open_folder(&root, "a/none2").is_ok());
    }

    #[test]
    fn what_is_used_stays_and_the_rest_gives_way() {
        let (_tree, root) = tree();
        let mut near = Near::default();
        near.hold(&root, "a");
        for n in 0..3 * MOST {
            near.hold(&root, &format!("a/{n}"));
            assert_eq!(near.held.len(), MOST.min(n + 2));
        }
        assert_eq!(near.split_at_open_folder(&root, "a/b").unwrap().1, "b");
    }

    proptest! {
        /// Whatever was read before, the result is the same as with the whole path.
        #[test]
        fn every_way_leads_to_the_same_file(
            asked in prop::collection::vec(
                (any::<bool>(), prop::sample::select(vec![
                    "a", "a/b", "a/b/c", "a/x", "a/x/y", "ab", "ab/c", "d", "d/e", "link", "link/c", "link/e",
                ])),
                0..60,
            ),
        ) {
            let (_tree, root) = tree();
            let mut near = Near::default();
            for (hold, path) in asked {
                if hold {
                    near.hold(&root, path);
                }
                prop_assert_eq!(inode(near.split_at_open_folder(&root, path)), inode(Ok((&root, path))), "{}", path);
            }
        }
    }
}
