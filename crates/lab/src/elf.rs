// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ELF file (x86_64) → whether it needs a loader, and how much memory its segments take.

/// What the program headers say; nothing where this is no 64-bit little-endian ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    /// It names an interpreter, so it runs only where its libraries are.
    pub(crate) needs_loader: bool,
    /// All loaded segments together.
    pub(crate) memory: u64,
}

const LOAD: u64 = 1;
const INTERPRETER: u64 = 3;

/// Looks at the program headers.
pub(crate) fn read(bytes: &[u8]) -> Option<Elf> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let start = usize::try_from(number(bytes, 32, 8)?).ok()?;
    let size = usize::try_from(number(bytes, 54, 2)?).ok()?;
    let mut elf = Elf { needs_loader: false, memory: 0 };
    for index in 0..usize::try_from(number(bytes, 56, 2)?).ok()? {
        let at = start.checked_add(index.checked_mul(size)?)?;
        match number(bytes, at, 4)? {
            LOAD => elf.memory = elf.memory.saturating_add(number(bytes, at.checked_add(40)?, 8)?),
            INTERPRETER => elf.needs_loader = true,
            _ => {}
        }
    }
    Some(elf)
}

/// A little-endian number of at most eight bytes.
pub(crate) fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
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
        assert_eq!(read(&bytes), Some(Elf { needs_loader: false, memory: 4096 }));
        bytes[64 + 56] = 3;
        assert_eq!(read(&bytes), Some(Elf { needs_loader: true, memory: 4096 }));
    }

    proptest! {
        /// Noise is refused or understood, never a panic.
        #[test]
        fn noise_does_no_harm(mut bytes: Vec<u8>) {
            let _ = read(&bytes);
            bytes.splice(0..0, *b"\x7fELF\x02\x01");
            let _ = read(&bytes);
        }
    }
}
