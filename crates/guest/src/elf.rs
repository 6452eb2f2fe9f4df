// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from an ELF file (x86_64) whether it needs a dynamic loader, whether it is a kernel that
//! QEMU can boot, and how much memory its segments take.

/// What the program headers of a 64-bit little-endian ELF file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    /// Whether the file names an interpreter: then it is linked dynamically and needs its
    /// libraries.
    pub(crate) needs_loader: bool,
    /// Whether the file is a kernel with a PVH entry point, where a virtual machine can start it.
    pub(crate) is_kernel: bool,
    /// Total size in memory of the loaded segments, in bytes.
    pub(crate) memory: u64,
}

const LOAD: u64 = 1;
const INTERPRETER: u64 = 3;
const NOTE: u64 = 4;
/// Type of the PVH entry note (`XEN_ELFNOTE_PHYS32_ENTRY`).
const ENTRY: u64 = 18;

/// Parses the program headers; `None` if the file is not 64-bit little-endian ELF.
pub(crate) fn read(bytes: &[u8]) -> Option<Elf> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let start = usize::try_from(read_number(bytes, 32, 8)?).ok()?;
    let size = usize::try_from(read_number(bytes, 54, 2)?).ok()?;
    let mut elf = Elf { needs_loader: false, is_kernel: false, memory: 0 };
    for index in 0..usize::try_from(read_number(bytes, 56, 2)?).ok()? {
        let at = start.checked_add(index.checked_mul(size)?)?;
        match read_number(bytes, at, 4)? {
            LOAD => {
                elf.memory = elf.memory.saturating_add(read_number(bytes, at.checked_add(40)?, 8)?);
            }
            INTERPRETER => elf.needs_loader = true,
            NOTE => elf.is_kernel |= has_entry(notes(bytes, at).unwrap_or_default()),
            _ => {}
        }
    }
    Some(elf)
}

fn notes(bytes: &[u8], header: usize) -> Option<&[u8]> {
    let start = usize::try_from(read_number(bytes, header.checked_add(8)?, 8)?).ok()?;
    let length = usize::try_from(read_number(bytes, header.checked_add(32)?, 8)?).ok()?;
    bytes.get(start..start.checked_add(length)?)
}

/// Whether the notes have a PVH entry. Name and description of a note are aligned to four bytes.
fn has_entry(mut notes: &[u8]) -> bool {
    let next = |notes: &[u8]| {
        let size = |at| usize::try_from(read_number(notes, at, 4)?).ok();
        let name = notes.get(12..size(0)?.checked_add(12)?)?;
        let found = name == b"Xen\0" && read_number(notes, 8, 4)? == ENTRY;
        let end = size(0)?.next_multiple_of(4).checked_add(size(4)?.next_multiple_of(4))?;
        Some((found, end.checked_add(12)?))
    };
    while let Some((found, end)) = next(notes) {
        if found {
            return true;
        }
        notes = notes.get(end..).unwrap_or_default();
    }
    false
}

/// Reads a little-endian number of at most eight bytes.
pub(crate) fn read_number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// A minimal kernel for tests: one program header, two notes, padded with zeros to `size`.
#[cfg(test)]
pub(crate) fn tests_kernel(size: usize) -> Vec<u8> {
    let notes = b"\x06\0\0\0\x01\0\0\0\x07\0\0\0Linux\0\0\0x\0\0\0\
                  \x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\0\0\0\0";
    let mut bytes = vec![0; size];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
    (bytes[64], bytes[64 + 8], bytes[64 + 32]) = (4, 64 + 56, 44);
    bytes[64 + 56..64 + 56 + 44].copy_from_slice(notes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_test_program_takes_memory() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(read(&own).unwrap().memory > 4096);
    }

    #[test]
    fn headers_say_whether_a_loader_is_needed() {
        let mut bytes = vec![0; 64 + 2 * 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 2);
        bytes[64] = 1;
        bytes[64 + 41] = 0x10;
        assert_eq!(read(&bytes), Some(Elf { needs_loader: false, is_kernel: false, memory: 4096 }));
        bytes[64 + 56] = 3;
        assert_eq!(read(&bytes), Some(Elf { needs_loader: true, is_kernel: false, memory: 4096 }));
    }

    #[test]
    fn a_kernel_names_its_entry_among_its_notes() {
        let kernel = tests_kernel(200);
        assert!(read(&kernel).unwrap().is_kernel);
        for (at, byte) in [(64 + 56 + 24, b'Y'), (64 + 56 + 24 + 8, 17), (64 + 32, 20), (64, 1)] {
            let mut other = kernel.clone();
            assert!(std::mem::replace(&mut other[at], byte) != byte);
            assert!(!read(&other).unwrap().is_kernel, "{at}");
        }
    }

    proptest! {
        /// Random bytes are refused or parsed, and never cause a panic.
        #[test]
        fn noise_does_no_harm(mut bytes: Vec<u8>) {
            let _ = read(&bytes);
            bytes.splice(0..0, *b"\x7fELF\x02\x01");
            let _ = (read(&bytes), has_entry(&bytes));
        }
    }
}
