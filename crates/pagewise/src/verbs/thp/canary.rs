// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp --canary`: what walking page tables costs on this machine.
//!
//! Two pieces of our own memory, one in small pages and one in huge ones, are chased through in a
//! random order of cache lines, in turns. Each step waits for the one before, so the difference
//! between the two is what huge pages save for memory that is used like that. It is an example and no
//! bound: a small working set gains nothing, a program that does more than find memory gains a part
//! of it, and loops over few bytes of each page gained more where it was tried (docs/thp.md). Counting
//! page walks themselves takes a PMU, which many virtual machines do not show. With `--hugetlb` pages
//! of the pools are chased through in the same turns.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise_apply::act::{self, CollapseWish, Whom};
use pagewise_model::{Bytes, Name};
use pagewise_observe::{HostRoot, Scope, coverage};

use super::Outcome;
use super::pools::Pools;
use crate::cli::{Global, Thp};
use crate::interrupt::Stop;
use crate::progress::Measuring;
use crate::{input, output};

const SIZE: usize = 120 << 20;
const LINE: usize = 64;
const BLOCK: u64 = 2 << 20;
const STEPS: u32 = 400_000;
/// Turns of each; odd, so that there is a middle one.
const ROUNDS: u32 = 9;

/// What was measured.
#[derive(Debug)]
struct Chased {
    small_ns: f64,
    huge: Against,
    coverage: f64,
    /// Page size and what it took.
    pools: Vec<(Bytes, Against)>,
    left_out: Vec<String>,
}

/// Beside the same in small pages.
#[derive(Debug, Clone, Copy)]
struct Against {
    ns: f64,
    /// The middle of the ratios, and the lowest and highest.
    ratio: [f64; 3],
}

pub(super) fn run(global: &Global, wanted: &Thp) -> anyhow::Result<Outcome> {
    super::refuse_recording(global, "thp --canary")?;
    let host = input::open(global)?;
    let mut pools = Pools::default();
    if wanted.hugetlb {
        // the first Ctrl-C waits for what is borrowed to go back, which is a matter of seconds
        let _stop = Stop::listen()?;
        let seen = host.without_start().interval(&Scope::glance(), || anyhow::Ok(()))?.end;
        pools = Pools::open(&seen, SIZE);
        let chased = measure(global, &HostRoot::live()?, &mut pools);
        pools.end();
        return show(global, &chased?);
    }
    show(global, &measure(global, &host.end, &mut pools)?)
}

fn show(global: &Global, chased: &Chased) -> anyhow::Result<Outcome> {
    let text = match global.json {
        true => json(chased),
        false => text(chased),
    };
    output::answer(global, &text)?;
    Ok(Outcome::Done)
}

fn measure(global: &Global, host: &HostRoot, pools: &mut Pools) -> anyhow::Result<Chased> {
    let shown = Measuring::start(global, "canary");
    // made first and collapsed, before there is anything else that could be
    let huge = chain(1);
    shown.of(1, ROUNDS + 2);
    let coverage = collapse_own(host)?;
    rustix::thread::disable_transparent_huge_pages(true)?;
    let small = chain(2);
    for (at, pool) in pools.memory.iter_mut().enumerate() {
        let ring = chain(3 + at as u64);
        pool.1.words_mut().iter_mut().zip(ring).for_each(|(word, next)| *word = next);
    }
    rustix::thread::disable_transparent_huge_pages(false)?;
    let others: Vec<&[u64]> =
        std::iter::once(&huge[..]).chain(pools.memory.iter().map(|(_, it)| it.words())).collect();
    let mut smalls = Vec::new();
    let mut turns = vec![Vec::new(); others.len()];
    for round in 0..ROUNDS {
        shown.of(round + 2, ROUNDS + 2);
        smalls.push(chase(&small));
        others.iter().zip(&mut turns).for_each(|(ring, turns)| turns.push(chase(ring)));
    }
    let mut against = turns.into_iter().map(|turns| Against::of(turns, &smalls));
    let huge = against.next().context("no turn")?;
    let pools_against = pools.memory.iter().map(|(size, _)| *size).zip(against).collect();
    let left_out = std::mem::take(&mut pools.left_out);
    Ok(Chased { small_ns: middle(&mut smalls), huge, coverage, pools: pools_against, left_out })
}

impl Against {
    fn of(mut turns: Vec<f64>, smalls: &[f64]) -> Self {
        let mut ratios: Vec<f64> = turns.iter().zip(smalls).map(|(ns, small)| ns / small).collect();
        let ratio = [middle(&mut ratios), lowest(&ratios), highest(&ratios)];
        Self { ns: middle(&mut turns), ratio }
    }
}

/// Collapses our own memory; the part of it that is huge afterwards.
fn collapse_own(host: &HostRoot) -> anyhow::Result<f64> {
    let pid = std::process::id();
    let whom = Whom { processes: vec![(pid, Name::from("pagewise"))], ..Whom::default() };
    let wish = CollapseWish {
        max_growth: 0.2,
        deadline: Duration::from_secs(20),
        pace: 1.0,
        swapped: false,
        dry_run: false,
        watch: None,
        block: BLOCK,
    };
    act::collapse(host, &whom, &wish, &AtomicBool::new(false), &mut |_, _, _| ())?;
    let found = coverage::process(pid, BLOCK, false)?.coverage;
    Ok((found.anon_huge.get() as f64 / SIZE as f64).min(1.0))
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

fn json(chased: &Chased) -> String {
    let [ratio, low, high] = chased.huge.ratio;
    let pool = |(size, against): &(Bytes, Against)| {
        let [ratio, low, high] = against.ratio;
        serde_json::json!({
            "page_bytes": size.get(),
            "ns_per_access": against.ns,
            "per_small": ratio,
            "per_small_range": [low, high],
        })
    };
    let document = serde_json::json!({
        "schema": "pagewise/canary/1",
        "small_ns_per_access": chased.small_ns,
        "huge_ns_per_access": chased.huge.ns,
        "huge_per_small": ratio,
        "huge_per_small_range": [low, high],
        "huge_coverage": chased.coverage,
        "hugetlb": chased.pools.iter().map(pool).collect::<Vec<_>>(),
        "left_out": chased.left_out,
        "bytes_each": SIZE,
    });
    format!("{document:#}\n")
}

fn text(chased: &Chased) -> String {
    let less = |ratio: f64| (1.0 - ratio) * 100.0;
    let [ratio, low, high] = chased.huge.ratio;
    let mut text = format!(
        "A random access to {size} of memory takes {:.0} ns in small pages and {:.0} ns in huge ones:\n\
         {:.0} % less (of {ROUNDS} turns, {:.0} to {:.0} %; {:.0} % of the second piece is huge).\n",
        chased.small_ns,
        chased.huge.ns,
        less(ratio),
        less(high),
        less(low),
        chased.coverage * 100.0,
        size = Bytes::new(SIZE as u64),
    );
    for (size, Against { ns, ratio: [ratio, low, high] }) in &chased.pools {
        text += &format!(
            "In pages of {size} from the pool (hugetlb) it takes {ns:.0} ns: {:.0} % less ({:.0} to {:.0} %).\n",
            less(*ratio),
            less(*high),
            less(*low),
        );
    }
    chased.left_out.iter().for_each(|why| text += &format!("{why}\n"));
    text + "An example, not a bound: a program gains a part of it for what it does besides finding memory\n\
            (a GET of a Redis half to three quarters of it in batches, a seventh to a quarter one at a\n\
            time), nothing with a small working set. Page walks themselves are not counted here.\n"
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
