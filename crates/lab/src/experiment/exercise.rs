// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small command for experiments about the machine itself: fills some memory and accesses it at
//! random.
//!
//! Each run does the same work, takes some dozens of milliseconds, and needs only a CPU and
//! `MEMORY` bytes.

/// Size of the memory that the exercise fills, in bytes.
const MEMORY: usize = 8 << 20;
/// Number of random accesses to the memory.
const HITS: usize = 2_000_000;

/// Runs the exercise. Its result depends on all accesses, so that the compiler cannot remove any.
#[must_use]
pub fn exercise() -> u64 {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut memory: Vec<u64> = (0..MEMORY / 8).map(|_| rng.u64(..)).collect();
    let mut at = 0;
    for step in 0..HITS as u64 {
        memory[at] = memory[at].rotate_left(7) ^ step;
        at = usize::try_from(memory[at] % memory.len() as u64).unwrap_or(0);
    }
    memory.iter().fold(0, |sum, one| sum ^ one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_each_time() {
        assert_eq!(exercise(), exercise());
    }
}
