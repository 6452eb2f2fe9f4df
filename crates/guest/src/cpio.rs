// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes files into an initramfs archive (cpio, "newc").
//!
//! The kernel unpacks several archives one after the other from one file; a later file of the same
//! name replaces an earlier one. A folder must come before the files in it; this module adds
//! missing folders.

use std::collections::BTreeSet;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An initramfs archive under construction.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a folder and its parents to the archive, unless they are already there.
    pub(crate) fn add_folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            let folder = path[..end].to_owned();
            if self.folders.insert(folder.clone()) {
                self.write_entry(&folder, FOLDER, &[]);
            }
        }
    }

    /// Adds an executable file to the archive. All files are executable: inside a guest everything
    /// runs as root.
    pub(crate) fn add_file(&mut self, path: &str, bytes: &[u8]) {
        self.add_with_parents(path, PROGRAM, bytes);
    }

    /// Adds a symbolic link to the archive.
    pub(crate) fn add_link(&mut self, path: &str, target: &str) {
        self.add_with_parents(path, LINK, target.as_bytes());
    }

    /// Ends the archive and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.write_entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn add_with_parents(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        let path = path.trim_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.add_folder(folder);
        }
        self.write_entry(path, mode, bytes);
    }

    fn write_entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        // inode, mode, uid, gid, links, mtime, size, four device numbers, length of the name,
        // checksum (unused)
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Pads the archive with zeros: the format aligns names and contents to four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an archive into name, mode and contents, independently of the code above.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let start = at + 6 + 8 * n;
                let text = std::str::from_utf8(&bytes[start..start + 8]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, length) = (field(1), field(6), field(11));
            let name = &bytes[at + 110..at + 110 + length - 1];
            let start = (at + 110 + length).next_multiple_of(4);
            let contents = bytes[start..start + size].to_vec();
            let mode = u32::try_from(mode).unwrap();
            found.push((String::from_utf8(name.to_vec()).unwrap(), mode, contents));
            at = (start + size).next_multiple_of(4);
        }
        found
    }

    #[test]
    fn folders_come_once_and_before_what_they_hold() {
        let mut archive = Archive::default();
        archive.add_file("a/b/one", b"1");
        archive.add_file("/a/b/three", b"333");
        archive.add_link("a/l", "b/one");
        archive.add_folder("out");
        let found = read(&archive.finish());
        let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/one", "a/b/three", "a/l", "out", "TRAILER!!!"]);
        assert_eq!(found[3], ("a/b/three".to_owned(), PROGRAM, b"333".to_vec()));
        assert_eq!(found[4], ("a/l".to_owned(), LINK, b"b/one".to_vec()));
        assert_eq!(found[5].1, FOLDER);
    }
}
