// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small command for experiments about the machine itself: some memory is filled and hit at random.
//!
//! It does the same each time, in some dozens of milliseconds, and needs nothing but a processor and
//! `MEMORY`.

/// What it fills.
const MEMORY: usize = 8 << 20;
/// How often it hits.
const HITS: usize = 2_000_000;

/// Does it; the number depends on all that was done, so that nothing is left out.
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
