// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's log of a guest: QEMU appends to a file, of which only the end is kept.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// The last `most` bytes of the log. If bytes before them were left out, a first line says how
/// many.
pub(super) fn read_end(mut file: &File, most: u64) -> std::io::Result<Vec<u8>> {
    let left_out = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    if left_out > 0 {
        bytes = format!("[{left_out} bytes before this are left out]\n").into_bytes();
    }
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Limits the disk space of the log, because a guest may write to its console without end. If the
/// file uses more than twice `most` bytes, all blocks but those of the last `most` bytes are freed
/// (a hole). QEMU keeps its file position, so the file's length stays the number of bytes written.
/// `file` must be open for writing.
pub(super) fn limit_disk_usage(file: &File, most: u64) -> std::io::Result<()> {
    let data = file.metadata()?;
    if data.blocks().saturating_mul(512) <= 2 * most {
        return Ok(());
    }
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let before = data.len().saturating_sub(most);
    match rustix::fs::fallocate(file, hole, 0, before) {
        // the file system has no holes: discard everything; QEMU's next write leaves a gap before
        // it
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(0),
        punched => Ok(punched?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A writer that writes like QEMU: at its own file position, even if the file was truncated
    /// before it.
    #[test]
    fn a_log_without_end_takes_limited_room_and_its_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        let seen = File::options().read(true).write(true).open(&path).unwrap();
        let most = 64 << 10;
        for line in 0..100_000 {
            writeln!(log, "line {line:06}").unwrap();
            if line % 1000 == 0 {
                limit_disk_usage(&seen, most).unwrap();
            }
        }
        limit_disk_usage(&seen, most).unwrap();
        let data = seen.metadata().unwrap();
        assert_eq!(data.len(), 1_200_000);
        assert!(data.blocks() * 512 <= 2 * most + 4096, "{} blocks", data.blocks());
        let kept = String::from_utf8(read_end(&seen, most).unwrap()).unwrap();
        assert!(kept.starts_with("[1134464 bytes before this are left out]\n"), "{kept:.60}");
        assert!(kept.ends_with("line 099999\n") && !kept.contains('\0'));
        assert_eq!(read_end(&seen, 2_000_000).unwrap().len(), 1_200_000);
    }
}
