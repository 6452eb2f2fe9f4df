// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hash functions with which a journal file is indexed.
//!
//! Files use SipHash-2-4 with the file's own id as the key. If the flag for this is not set, they
//! use Bob Jenkins' lookup3 (`hashlittle2`), whose first word is the upper half of the hash.

use std::hash::Hasher as _;

/// The hash function that one journal file uses for its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldHash {
    /// SipHash-2-4, with the file's id as the key.
    Keyed([u8; 16]),
    /// Bob Jenkins' lookup3.
    Jenkins,
}

impl FieldHash {
    pub(crate) fn compute(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Keyed(id) => siphash(id, bytes),
            Self::Jenkins => hash_jenkins(bytes),
        }
    }
}

fn siphash(id: [u8; 16], bytes: &[u8]) -> u64 {
    let id = u128::from_le_bytes(id);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the key")]
    let (low, high) = (id as u64, (id >> 64) as u64);
    #[expect(
        deprecated,
        reason = "the format prescribes this function; DefaultHasher is another one"
    )]
    let mut hasher = std::hash::SipHasher::new_with_keys(low, high);
    hasher.write(bytes);
    hasher.finish()
}

fn hash_jenkins(bytes: &[u8]) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "lookup3 takes the length modulo 2^32")]
    let begin = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [begin; 3];
    // the last block is mixed in another way, even if it is complete
    let full = bytes.len().saturating_sub(1) / 12;
    let (blocks, last) = bytes.split_at(full * 12);
    for block in blocks.chunks_exact(12) {
        add(&mut state, block);
        mix(&mut state);
    }
    if !last.is_empty() {
        add(&mut state, last);
        finish(&mut state);
    }
    u64::from(state[2]) << 32 | u64::from(state[1])
}

/// Adds up to 12 bytes to the hash, as three words.
fn add(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks(4)) {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = word.wrapping_add(u32::from_le_bytes(padded));
    }
}

/// Mixes the three words. In each round, one word is subtracted from another, and the third one is
/// added. The constants are (left, right, rotation).
fn mix(state: &mut [u32; 3]) {
    for (round, rotation) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
        let (one, other, third) = (round % 3, (round + 2) % 3, (round + 1) % 3);
        let word = state[other];
        state[one] = state[one].wrapping_sub(word) ^ word.rotate_left(rotation);
        state[other] = word.wrapping_add(state[third]);
    }
}

fn finish(state: &mut [u32; 3]) {
    for (round, rotation) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let (one, other) = ((round + 2) % 3, (round + 1) % 3);
        let word = state[other];
        state[one] = (state[one] ^ word).wrapping_sub(word.rotate_left(rotation));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors published by the authors of both functions.
    #[test]
    fn published_vectors() {
        assert_eq!(hash_jenkins(b""), 0xdead_beef_dead_beef);
        assert_eq!(hash_jenkins(b"Four score and seven years ago"), 0x1777_0551_ce72_26e6);
        let key: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let input: [u8; 15] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        assert_eq!(FieldHash::Keyed(key).compute(&input), 0xa129_ca61_49be_45e5);
    }
}
