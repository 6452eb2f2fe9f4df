// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from an ELF file (x86_64) whether it needs a dynamic loader, whether it is a kernel that
//! QEMU can boot, and how much memory its segments take.

use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, PT_INTERP, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

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

/// Type of the PVH entry note (`XEN_ELFNOTE_PHYS32_ENTRY`).
const ENTRY: NoteType = NoteType(18);

/// Parses the program headers; `None` if they are invalid.
pub(crate) fn read(bytes: &[u8]) -> Option<Elf> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let mut elf = Elf { needs_loader: false, is_kernel: false, memory: 0 };
    for segment in header.program_headers(LittleEndian, bytes).ok()? {
        match segment.p_type(LittleEndian) {
            PT_LOAD => elf.memory = elf.memory.saturating_add(segment.p_memsz(LittleEndian)),
            PT_INTERP => elf.needs_loader = true,
            PT_NOTE => elf.is_kernel |= has_entry(segment, bytes),
            _ => {}
        }
    }
    Some(elf)
}

/// Whether the notes of a segment have a PVH entry; notes after an invalid one are ignored.
fn has_entry(segment: &ProgramHeader64<LittleEndian>, bytes: &[u8]) -> bool {
    let Ok(Some(mut notes)) = segment.notes(LittleEndian, bytes) else { return false };
    std::iter::from_fn(|| notes.next().ok().flatten())
        .any(|note| note.name() == b"Xen" && note.n_type(LittleEndian) == ENTRY)
}

/// A minimal kernel for tests: one program header, two notes, padded with zeros to `size`.
#[cfg(test)]
pub(crate) fn tests_kernel(size: usize) -> Vec<u8> {
    let notes = b"\x06\0\0\0\x01\0\0\0\x07\0\0\0Linux\0\0\0x\0\0\0\
                  \x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\0\0\0\0";
    let mut bytes = vec![0; size];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
            bytes.splice(0..0, *b"\x7fELF\x02\x01\x01");
            let _ = read(&bytes);
            let mut kernel = tests_kernel(64 + 56 + 44);
            kernel.iter_mut().skip(64 + 56).zip(&bytes).for_each(|(old, new)| *old = *new);
            let _ = read(&kernel);
        }
    }
}
