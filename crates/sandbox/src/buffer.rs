// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A buffer for page contents of other programs.

use crate::calls::Mapping;

/// Zeroed bytes that start at a page boundary. They are excluded from core dumps and forked
/// children, locked into RAM as far as the limit on locked memory allows, and wiped when this is
/// dropped.
pub struct Buffer {
    mapping: Mapping,
    length: usize,
}

impl std::fmt::Debug for Buffer {
    /// Never prints the contents of the buffer.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

impl Buffer {
    /// A buffer of `length` bytes, whose memory is allocated as it is used.
    ///
    /// # Panics
    /// If there is no address space left, as for any allocation.
    #[must_use]
    pub fn new_zeroed(length: usize) -> Self {
        let mapping = Mapping::new(length.max(1));
        let mapping = mapping.unwrap_or_else(|error| panic!("memory of {length} bytes: {error}"));
        mapping.keep_private();
        Self { mapping, length }
    }

    /// The contents of the buffer.
    #[must_use]
    pub fn get(&self) -> &[u8] {
        &self.mapping.bytes()[..self.length]
    }

    /// The contents of the buffer, to be changed.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.mapping.bytes_mut()[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.get_mut().fill(0);
        std::hint::black_box(self.get());
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what the kernel says of our own memory")]
mod tests {
    use super::*;

    /// The flags of the mapping that contains an address, such as `rd wr mr mw me dd`.
    fn flags(address: usize) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in text.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let parsed = range.and_then(|(low, high)| {
                let low = usize::from_str_radix(low, 16).ok()?;
                Some(low..usize::from_str_radix(high, 16).ok()?)
            });
            if let Some(range) = parsed {
                inside = range.contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return flags.split_whitespace().map(str::to_owned).collect();
            }
        }
        panic!("no mapping has {address:x}");
    }

    #[test]
    fn a_buffer_is_in_no_dump_and_no_child_and_stays_in_ram() {
        let mut buffer = Buffer::new_zeroed(10_000);
        assert!(buffer.get().iter().all(|byte| *byte == 0));
        assert_eq!(buffer.get().as_ptr().addr() % 4096, 0);
        buffer.get_mut()[9_999] = 7;
        assert_eq!((buffer.get().len(), buffer.get()[9_999]), (10_000, 7));
        let flags = flags(buffer.get().as_ptr().addr());
        for wanted in ["dd", "wf", "lo"] {
            assert!(flags.iter().any(|flag| flag == wanted), "{wanted}: {flags:?}");
        }
        assert_eq!(format!("{buffer:?}"), "Buffer(10000 bytes)");
    }

    #[test]
    fn an_empty_buffer_is_none_of_the_above_and_no_trouble() {
        assert!(Buffer::new_zeroed(0).get().is_empty());
    }
}
