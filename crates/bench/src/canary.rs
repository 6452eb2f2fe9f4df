// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of a random access to memory in small and in huge pages.
//!
//! Two buffers, one in small pages and one in huge pages, are read alternately by chasing pointers
//! in a random order of cache lines. Each step depends on the one before, so the difference between
//! the two is what huge pages save for memory that is accessed in this way. The result is an
//! example, not a bound. A program with a small working set gains nothing, and a program that does
//! more than access memory gains less. Loops that read only a few bytes of each page gained more in
//! a test (docs/measured/thp.md). Counting page walks directly would need a PMU, which many virtual
//! machines do not have. Pages of the hugetlb pools are measured in the same rounds.

use std::hint::black_box;
use std::time::Instant;

use pagewise_model::Bytes;
use rustix::io::Errno;
use rustix::thread::disable_transparent_huge_pages;

use crate::pool::PoolMemory;

/// Size of each buffer in bytes.
pub const SIZE: usize = 120 << 20;
/// Size of a huge page in bytes.
pub const BLOCK: u64 = 2 << 20;
/// Number of rounds for each buffer; odd, so that there is a median.
pub const ROUNDS: u32 = 9;
const LINE: usize = 64;
const STEPS: u32 = 400_000;

/// Times of random accesses to memory in small and in huge pages.
#[derive(Debug)]
pub struct ChaseResult {
    /// Nanoseconds per access in small pages.
    pub small_ns: f64,
    /// Times in huge pages, measured in the same way as those in small ones.
    pub huge: LargerPages,
    /// The share of the second buffer that was in huge pages, as `collapse` returned it.
    pub coverage: f64,
    /// The page size of each hugetlb pool, and the times in its memory.
    pub pools: Vec<(Bytes, LargerPages)>,
}

/// Times in larger pages, and their ratio to small pages.
#[derive(Debug, Clone, Copy)]
pub struct LargerPages {
    /// Time of an access in these pages, in nanoseconds.
    pub ns: f64,
    /// Ratio of the time in these pages to that in small pages: median, lowest and highest of the
    /// rounds.
    pub ratio: [f64; 3],
}

/// Measures random accesses to small and huge pages. `collapse` collapses memory of this process
/// into huge pages and returns the share of [`SIZE`] that is huge; `progress` receives the step and
/// the number of steps.
///
/// # Errors
/// If `collapse` fails, or if transparent huge pages cannot be disabled for this process.
pub fn measure<E: From<Errno>>(
    pools: &mut [(Bytes, PoolMemory)],
    collapse: &mut dyn FnMut() -> Result<f64, E>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<ChaseResult, E> {
    // the huge buffer is allocated and collapsed first, while this process has no other memory that
    // `collapse` could collapse
    let huge = random_ring(1);
    progress(1, ROUNDS + 2);
    let coverage = collapse()?;
    disable_transparent_huge_pages(true)?;
    let small = random_ring(2);
    for (at, pool) in pools.iter_mut().enumerate() {
        let ring = random_ring(3 + at as u64);
        pool.1.words_mut().iter_mut().zip(ring).for_each(|(word, next)| *word = next);
    }
    disable_transparent_huge_pages(false)?;
    let (mut smalls, mut huges) = (Vec::new(), Vec::new());
    let mut turns = vec![Vec::new(); pools.len()];
    for round in 0..ROUNDS {
        progress(round + 2, ROUNDS + 2);
        smalls.push(measure_chase(&small));
        huges.push(measure_chase(&huge));
        pools
            .iter()
            .zip(&mut turns)
            .for_each(|((_, pool), turns)| turns.push(measure_chase(pool.words())));
    }
    let sizes = pools.iter().map(|(size, _)| *size);
    let against = turns.into_iter().map(|turns| LargerPages::compare(turns, &smalls));
    let pools = sizes.zip(against).collect();
    let huge = LargerPages::compare(huges, &smalls);
    Ok(ChaseResult { small_ns: median(&mut smalls), huge, coverage, pools })
}

impl LargerPages {
    fn compare(mut turns: Vec<f64>, smalls: &[f64]) -> Self {
        let mut ratios: Vec<f64> = turns.iter().zip(smalls).map(|(ns, small)| ns / small).collect();
        let ratio = [median(&mut ratios), lowest(&ratios), highest(&ratios)];
        Self { ns: median(&mut turns), ratio }
    }
}

/// Builds a ring: each slot holds the index of the next slot, in random order (Sattolo's
/// algorithm). One slot of each cache line is used.
fn random_ring(seed: u64) -> Vec<u64> {
    let lines = SIZE / LINE;
    let mut order: Vec<u32> = (0..lines).map(|line| u32::try_from(line).unwrap_or(0)).collect();
    let mut state = seed;
    for at in (1..lines).rev() {
        let other = usize::try_from(next_random(&mut state) % at as u64).unwrap_or(0);
        order.swap(at, other);
    }
    let per_line = LINE / size_of::<u64>();
    let mut ring = vec![0u64; lines * per_line];
    for (line, next) in order.iter().enumerate() {
        ring[line * per_line] = u64::from(*next) * per_line as u64;
    }
    ring
}

/// Next number of the splitmix64 generator.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Follows the ring and returns the nanoseconds per step.
fn measure_chase(ring: &[u64]) -> f64 {
    let began = Instant::now();
    let mut at = 0;
    for _ in 0..STEPS {
        at = ring.get(usize::try_from(at).unwrap_or(0)).copied().unwrap_or(0);
    }
    black_box(at);
    began.elapsed().as_nanos() as f64 / f64::from(STEPS)
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn lowest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_one_ring() {
        let ring = random_ring(3);
        let per_line = LINE / size_of::<u64>();
        let (mut at, mut steps) = (0, 0);
        loop {
            at = usize::try_from(ring[at]).unwrap();
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, ring.len() / per_line);
    }
}
