// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends files through a pipe, from a confined process that creates them to the process that may
//! write them.
//!
//! `capture --root` parses a recording that may come from anybody, and then writes files. The
//! parsing is done in a child process without privileges. The child sends only bytes: name and
//! contents of each file, with a limited total size. The parent does not parse the contents, and
//! writes files only where the user requested.
//!
//! Format of each file in the pipe: length of the name (4 bytes), length of the contents (8 bytes),
//! name, contents.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path};

use pagewise_observe::{MAX_ENTRIES, MAX_SUM};

/// Maximum length of a file's name, in bytes: the longest path in a recording, with a folder in
/// front of it.
const MAX_NAME: usize = 4096;

/// Writes one file to the pipe.
pub fn write(out: &mut impl Write, name: &str, contents: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::from(ErrorKind::InvalidInput);
    out.write_all(&u32::try_from(name.len()).map_err(too_long)?.to_le_bytes())?;
    out.write_all(&(contents.len() as u64).to_le_bytes())?;
    out.write_all(name.as_bytes())?;
    out.write_all(contents)
}

/// Reads all files until the pipe ends. Returns an error if the files are more or larger than those
/// of a recording may be, or if the pipe ends within a file.
pub fn read_all(mut pipe: impl Read) -> io::Result<Vec<(String, Vec<u8>)>> {
    // twice the limit, because the text about the recording is sent as well
    let (mut files, mut room) = (Vec::new(), 2 * MAX_SUM);
    while files.len() < MAX_ENTRIES {
        let mut length = [0; 4];
        match pipe.read_exact(&mut length[..1]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(files),
            read => read?,
        }
        pipe.read_exact(&mut length[1..])?;
        let mut size = [0; 8];
        pipe.read_exact(&mut size)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        let size = usize::try_from(u64::from_le_bytes(size)).unwrap_or(usize::MAX);
        room = room.checked_sub(size).filter(|_| length <= MAX_NAME).ok_or_else(error_too_large)?;
        let name = String::from_utf8(read_some(&mut pipe, length)?).map_err(io::Error::other)?;
        files.push((name, read_some(&mut pipe, size)?));
    }
    Err(error_too_large())
}

/// Reads `length` bytes from the pipe. Memory is allocated as the bytes arrive, so that a wrong
/// length does not allocate too much.
fn read_some(pipe: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn error_too_large() -> io::Error {
    io::Error::other("more came than a recording can hold")
}

/// Whether a name refers to a file below the folder into which it is written.
pub fn is_below_folder(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_cut_is_noticed() {
        let files = [("a/b", &b"contents"[..]), ("", b""), ("c", b"\0\xff")];
        let mut pipe = Vec::new();
        let mut ends = vec![0];
        for (name, contents) in files {
            write(&mut pipe, name, contents).unwrap();
            ends.push(pipe.len());
        }
        for cut in 0..=pipe.len() {
            let read = read_all(&pipe[..cut]);
            let Some(whole) = ends.iter().position(|end| *end == cut) else {
                assert!(read.is_err(), "{cut}");
                continue;
            };
            let requested: Vec<(String, Vec<u8>)> =
                files[..whole].iter().map(|(name, text)| ((*name).into(), text.to_vec())).collect();
            assert_eq!(read.unwrap(), requested);
        }
    }

    /// A compromised child process may announce a file of any length.
    #[test]
    fn lengths_that_no_recording_has_are_refused_before_memory_is_taken() {
        for (length, size) in [(u32::MAX, 0), (0, u64::MAX), (1, 1 << 40), (5000, 1)] {
            let head = [&length.to_le_bytes()[..], &u64::to_le_bytes(size)].concat();
            assert!(read_all(head.as_slice()).is_err(), "{length} {size}");
        }
        let endless = io::repeat(0);
        assert!(read_all(endless).is_err(), "files without number");
    }

    #[test]
    fn only_names_below_the_folder_are_taken() {
        assert!(is_below_folder("end/proc/meminfo") && is_below_folder("host.toml"));
        for name in ["", "/etc/passwd", "../x", "a/../../x", "./x", ".."] {
            assert!(!is_below_folder(name), "{name}");
        }
    }
}
