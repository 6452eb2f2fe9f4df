// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads parts of a file that is too large to be read as a whole.

use std::os::fd::OwnedFd;

/// An open file of a host, of which parts are read.
#[derive(Debug)]
pub struct Pieces<'a>(Origin<'a>);

#[derive(Debug)]
enum Origin<'a> {
    Opened(OwnedFd),
    /// The bytes of a file in a recording.
    Stored(&'a [u8]),
}

impl<'a> Pieces<'a> {
    pub(crate) fn of_file(file: OwnedFd) -> Self {
        Self(Origin::Opened(file))
    }

    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        Self(Origin::Stored(bytes))
    }

    /// The current length of the file; 0 if it is not known.
    pub fn length(&self) -> u64 {
        match &self.0 {
            Origin::Opened(file) => rustix::fs::fstat(file)
                .ok()
                .and_then(|found| u64::try_from(found.st_size).ok())
                .unwrap_or(0),
            Origin::Stored(bytes) => bytes.len() as u64,
        }
    }

    /// `length` bytes from `offset` on; fewer if the file ends before, or cannot be read there.
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        match &self.0 {
            Origin::Opened(file) => {
                let mut bytes = vec![0; length];
                let read =
                    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes, offset));
                bytes.truncate(read.unwrap_or(0));
                bytes
            }
            Origin::Stored(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                bytes[from..].iter().copied().take(length).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Entry, HostRoot, ReadHost};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the file that is opened")]
    fn a_file_of_a_folder_and_one_of_a_recording_give_the_same_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(folder.path().join("file"), &bytes).unwrap();
        let folder = HostRoot::folder(folder.path()).unwrap().start_remembering();
        let memory = HostRoot::memory([("file".to_owned(), Entry::File(bytes))]);
        for host in [&folder, &memory] {
            let pieces = host.pieces("file").unwrap();
            assert_eq!(pieces.length(), 256);
            assert_eq!(pieces.read(2, 3), [2, 3, 4]);
            assert_eq!(pieces.read(254, 8), [254, 255]);
            assert_eq!((pieces.read(256, 8), pieces.read(u64::MAX, 8)), (Vec::new(), Vec::new()));
            assert!(host.pieces("none").is_err());
        }
        assert!(folder.pieces(".").is_err(), "only regular files");
        assert!(folder.into_remembered_files().is_empty());
    }
}
