// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packs the files of a recording into one `.tar` archive, and unpacks them. Equal files give equal
//! archives.
//!
//! The description comes first, then all files sorted by path. If a file of the interval's start
//! equals the same file of the end, it is stored as a hard link to that file, as `pagewise capture`
//! does. Owner, time and permissions are constant, so that two archives in `fixtures/hosts` differ
//! only if the contents of a file differ.
//!
//! `xtask` compiles this file as well, because it depends on no crate of the project.

use std::collections::BTreeMap;
use std::io::{Error, Read, Result};

use tar::{Archive, Builder, EntryType, Header};

/// The file name of a recording's description.
pub(crate) const DESCRIPTION: &str = "host.toml";

/// Contents of the files by path in the recording, such as `end/proc/meminfo`.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Unpacks the files of an archive that this module wrote, or that `tar` made of a folder.
pub(crate) fn unpack(archive: &[u8]) -> Result<Files> {
    let mut files = Files::new();
    for entry in Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = path_in_archive(&entry.path_bytes())?;
        let bytes = match entry.header().entry_type() {
            EntryType::Regular => {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                bytes
            }
            EntryType::Link => {
                let target = path_in_archive(&entry.link_name_bytes().unwrap_or_default())?;
                let known = files.get(&target).cloned();
                known.ok_or_else(|| Error::other(format!("{path}: a link to no file before it")))?
            }
            EntryType::Directory => continue,
            other => return Err(Error::other(format!("{path}: {other:?}, and no plain file"))),
        };
        files.insert(path, bytes);
    }
    Ok(files)
}

/// Returns a path in an archive without the prefix `./` that `tar` writes.
fn path_in_archive(path: &[u8]) -> Result<String> {
    let path = std::str::from_utf8(path).map_err(Error::other)?;
    Ok(path.strip_prefix("./").unwrap_or(path).to_owned())
}

/// Packs files into an archive.
pub(crate) fn pack(files: &Files) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let (first, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|(path, _)| *path == DESCRIPTION);
    for (path, bytes) in first.into_iter().chain(others) {
        match find_twin(files, path, bytes) {
            Some(twin) => archive.append_link(&mut make_header(EntryType::Link, 0), path, twin)?,
            None => {
                let mut head = make_header(EntryType::Regular, bytes.len());
                archive.append_data(&mut head, path, bytes.as_slice())?;
            }
        }
    }
    archive.into_inner()
}

fn make_header(kind: EntryType, size: usize) -> Header {
    let mut head = Header::new_gnu();
    head.set_entry_type(kind);
    head.set_mode(0o644);
    head.set_size(size as u64);
    head
}

/// Returns the path of the same file in the snapshot of the end, which comes before this file in
/// the archive, if both files are equal. Empty files are not linked, because a link would take as
/// many bytes.
pub(crate) fn find_twin(files: &Files, path: &str, bytes: &[u8]) -> Option<String> {
    let twin = format!("end/{}", path.strip_prefix("start/")?);
    let same = files.get(&twin).is_some_and(|other| other == bytes);
    (same && !bytes.is_empty()).then_some(twin)
}
