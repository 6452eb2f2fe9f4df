// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pieces of our own memory in small and in huge pages → what a random access to each costs.
//!
//! Two pieces, one in small pages and one in huge ones, are chased through in a random order of cache lines,
//! in turns. Each step waits for the one before, so the difference between the two is what huge pages save
//! for memory that is used like that. It is an example and no bound: a small working set gains nothing, a
//! program that does more than find memory gains a part of it, and loops over few bytes of each page gained
//! more where it was tried (docs/measured/thp.md). Counting page walks themselves takes a PMU, which many virtual
//! machines do not show. Pages of the pools (hugetlb) are chased through in the same turns.

use std::hint::black_box;
use std::time::Instant;

use pagewise_model::Bytes;
use rustix::io::Errno;
use rustix::thread::disable_transparent_huge_pages;

use crate::pool::PoolMemory;

/// Bytes of each piece.
pub const SIZE: usize = 120 << 20;
/// Bytes of a huge page.
pub const BLOCK: u64 = 2 << 20;
/// Turns of each; odd, so that there is a middle one.
pub const ROUNDS: u32 = 9;
const LINE: usize = 64;
const STEPS: u32 = 400_000;

/// What was measured.
#[derive(Debug)]
pub struct ChaseResult {
    /// Nanoseconds of an access in small pages.
    pub small_ns: f64,
    /// In huge pages.
    pub huge: SmallPages,
    /// The part of the second piece that was huge, as `collapse` says.
    pub coverage: f64,
    /// The size of the pages of each pool, and what they took.
    pub pools: Vec<(Bytes, SmallPages)>,
}

/// Beside the same in small pages.
#[derive(Debug, Clone, Copy)]
pub struct SmallPages {
    /// Nanoseconds of an access.
    pub ns: f64,
    /// The middle of the ratios, and the lowest and highest.
    pub ratio: [f64; 3],
}

/// Measures. `collapse` makes our memory huge and answers which part of [`SIZE`] that is; `progress` is told
/// the step and how many there are.
///
/// # Errors
/// What `collapse` answers, or that huge pages cannot be switched off for us.
pub fn measure<E: From<Errno>>(
    pools: &mut [(Bytes, PoolMemory)],
    collapse: &mut dyn FnMut() -> Result<f64, E>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<ChaseResult, E> {
    // made first and collapsed, before there is anything else that could be
    let huge = chain(1);
    progress(1, ROUNDS + 2);
    let coverage = collapse()?;
    disable_transparent_huge_pages(true)?;
    let small = chain(2);
    for (at, pool) in pools.iter_mut().enumerate() {
        let ring = chain(3 + at as u64);
        pool.1.words_mut().iter_mut().zip(ring).for_each(|(word, next)| *word = next);
    }
    disable_transparent_huge_pages(false)?;
    let (mut smalls, mut huges) = (Vec::new(), Vec::new());
    let mut turns = vec![Vec::new(); pools.len()];
    for round in 0..ROUNDS {
        progress(round + 2, ROUNDS + 2);
        smalls.push(chase(&small));
        huges.push(chase(&huge));
        pools.iter().zip(&mut turns).for_each(|((_, pool), turns)| turns.push(chase(pool.words())));
    }
    let sizes = pools.iter().map(|(size, _)| *size);
    let against = turns.into_iter().map(|turns| SmallPages::compare(turns, &smalls));
    let pools = sizes.zip(against).collect();
    let huge = SmallPages::compare(huges, &smalls);
    Ok(ChaseResult { small_ns: middle(&mut smalls), huge, coverage, pools })
}

impl SmallPages {
    fn compare(mut turns: Vec<f64>, smalls: &[f64]) -> Self {
        let mut ratios: Vec<f64> = turns.iter().zip(smalls).map(|(ns, small)| ns / small).collect();
        let ratio = [middle(&mut ratios), lowest(&ratios), highest(&ratios)];
        Self { ns: middle(&mut turns), ratio }
    }
}

/// Each slot holds the number of the next one; all of them are one ring, in random order
/// (Sattolo). One slot of each cache line is used.
fn chain(seed: u64) -> Vec<u64> {
    let lines = SIZE / LINE;
    let mut order: Vec<u32> = (0..lines).map(|line| u32::try_from(line).unwrap_or(0)).collect();
    let mut state = seed;
    for at in (1..lines).rev() {
        let other = usize::try_from(random(&mut state) % at as u64).unwrap_or(0);
        order.swap(at, other);
    }
    let per_line = LINE / size_of::<u64>();
    let mut ring = vec![0u64; lines * per_line];
    for (line, next) in order.iter().enumerate() {
        ring[line * per_line] = u64::from(*next) * per_line as u64;
    }
    ring
}

/// splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Nanoseconds per step.
fn chase(ring: &[u64]) -> f64 {
    let began = Instant::now();
    let mut at = 0;
    for _ in 0..STEPS {
        at = ring.get(usize::try_from(at).unwrap_or(0)).copied().unwrap_or(0);
    }
    black_box(at);
    began.elapsed().as_nanos() as f64 / f64::from(STEPS)
}

fn middle(numbers: &mut [f64]) -> f64 {
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
        let ring = chain(3);
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
