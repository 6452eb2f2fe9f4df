// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Picks the best algorithm for each goal and the runner-up, and decides whether they really
//! differ.
//!
//! Rounds with the same number are compared in pairs, because they ran under the same conditions.
//! Each goal is a cost, and less is better; for display it is converted to the goal's own unit.

mod cost;
mod front;

use std::collections::BTreeMap;

use pagewise_model::{Bytes, Compressor, Direction, Pick, Picks, RunnerUp, Shape};
use pagewise_stats::{PairedRatio, median};

use crate::block::{Bench, Entrant, Round};

pub(crate) use cost::swappiness;
pub use cost::{break_even_points, tier_mixes};
pub use front::pareto_front;

/// The smallest ratio of two compression ratios that counts as a difference; both were measured
/// with the same pages.
const SAME_RATIO: f64 = 1.01;

/// Step of the clock in nanoseconds above which it is too coarse to time a request of some
/// microseconds.
const COARSE_NS: f64 = 500.0;

/// An algorithm, and its cost for a goal in each round.
#[derive(Debug, Clone, PartialEq)]
struct Cost {
    contender: Compressor,
    /// The cost in each round, by the number of the round. An exact cost has a single entry.
    rounds: BTreeMap<u32, f64>,
}

/// The best algorithm for each goal.
#[must_use]
pub fn picks(bench: &Bench) -> Picks {
    let field = Field::new(bench);
    let throughput = field.per_round(|shapes| shapes.most_bytes, |round| 1.0 / round.iops);
    let largest = field.shapes.map_or(0.0, |shapes| shapes.most_bytes.block_bytes.get() as f64);
    let iops = field.per_round(|shapes| shapes.most_requests, |round| 1.0 / round.iops);
    let latency = field.per_round(|shapes| shapes.one_read, field.typical_cost());
    Picks {
        throughput: pick_best(throughput, "bytes_per_second", |cost| largest / cost),
        latency: pick_best(latency, "ns", |cost| cost),
        iops: pick_best(iops, "iops", |cost| 1.0 / cost),
        ratio: pick_best(field.memory_costs(), "original_per_memory_used", |cost| 1.0 / cost),
        balanced: pick_best(field.balanced_costs(), "times_ideal", |cost| cost),
    }
}

/// The shapes of requests that the goals refer to.
#[derive(Debug, Clone, Copy)]
struct Shapes {
    most_bytes: Shape,
    most_requests: Shape,
    one_read: Shape,
    one_write: Shape,
}

impl Shapes {
    fn from_extremes(bench: &Bench) -> Option<Self> {
        let all = || bench.cells.iter().map(|cell| cell.shape);
        let blocks = || all().map(|shape| shape.block_bytes);
        let jobs = || all().map(|shape| shape.jobs);
        let (small, large) = (blocks().min()?, blocks().max()?);
        let (few, many) = (jobs().min()?, jobs().max()?);
        let read = |block_bytes, jobs| Shape { block_bytes, jobs, direction: Direction::Read };
        Some(Self {
            most_bytes: read(large, many),
            most_requests: read(small, many),
            one_read: read(small, few),
            one_write: Shape { direction: Direction::Write, ..read(small, few) },
        })
    }
}

/// All algorithms of a run, among which the best are picked.
struct Field<'a> {
    bench: &'a Bench,
    shapes: Option<Shapes>,
}

impl<'a> Field<'a> {
    fn new(bench: &'a Bench) -> Self {
        Self { bench, shapes: Shapes::from_extremes(bench) }
    }

    /// The function that gives the typical cost of a round: the median time of a request, or the
    /// mean if the clock is too coarse.
    fn typical_cost(&self) -> fn(&Round) -> f64 {
        if self.bench.noise.clock_step_ns.is_none_or(|step| step > COARSE_NS) {
            |round| round.mean_ns
        } else {
            |round| round.p50_ns
        }
    }

    /// Each algorithm of the run, with its index and the memory that it uses per original byte.
    fn algorithms(&self) -> impl Iterator<Item = (usize, Compressor, Option<f64>)> + '_ {
        let span = self.bench.span;
        self.bench.entrants.iter().enumerate().filter_map(move |(at, entrant)| {
            let Entrant::Algorithm { candidate, filled } = entrant else { return None };
            let memory = filled.memory_used.and_then(|used| ratio(used, span));
            Some((at, candidate.clone(), memory))
        })
    }

    fn rounds(&self, entrant: usize, shape: Shape, cost: fn(&Round) -> f64) -> BTreeMap<u32, f64> {
        let cells = self.bench.cells.iter();
        let rounds = cells.filter(|cell| cell.contestant == entrant && cell.shape == shape);
        rounds.flat_map(|cell| &cell.rounds).map(|round| (round.number, cost(round))).collect()
    }

    fn per_round(&self, shape: fn(Shapes) -> Shape, cost: fn(&Round) -> f64) -> Vec<Cost> {
        let Some(shapes) = self.shapes else { return Vec::new() };
        let shape = shape(shapes);
        let algorithms = self.algorithms();
        let cost = |(at, contender, _)| Cost { contender, rounds: self.rounds(at, shape, cost) };
        algorithms.map(cost).collect()
    }

    fn memory_costs(&self) -> Vec<Cost> {
        let exact = |(_, contender, memory): (_, _, Option<f64>)| {
            Some(Cost { contender, rounds: BTreeMap::from([(0, memory?)]) })
        };
        self.algorithms().filter_map(exact).collect()
    }

    /// The balanced cost of each algorithm: the geometric mean of three costs, each relative to the
    /// median of the best algorithm.
    fn balanced_costs(&self) -> Vec<Cost> {
        let read = self.per_round(|shapes| shapes.one_read, self.typical_cost());
        let write = self.per_round(|shapes| shapes.one_write, self.typical_cost());
        let memory = self.memory_costs();
        let Some(ideal) = ideal_cost(&read).zip(ideal_cost(&write)).zip(ideal_cost(&memory)) else {
            return Vec::new();
        };
        let ((best_read, best_write), best_memory) = ideal;
        let of_one = |read: &Cost| {
            let same = |other: &&Cost| other.contender == read.contender;
            let (write, memory) = (write.iter().find(same)?, memory.iter().find(same)?);
            let used = memory.rounds.values().next()? / best_memory;
            let both = read.rounds.iter().filter_map(|(number, read)| {
                let write = write.rounds.get(number)? / best_write;
                Some((*number, (read / best_read * write * used).cbrt()))
            });
            Some(Cost { contender: read.contender.clone(), rounds: both.collect() })
        };
        read.iter().filter_map(of_one).collect()
    }
}

fn ratio(part: Bytes, whole: Bytes) -> Option<f64> {
    (part.get() > 0 && whole.get() > 0).then(|| part.get() as f64 / whole.get() as f64)
}

fn ideal_cost(costs: &[Cost]) -> Option<f64> {
    costs.iter().filter_map(Cost::median).min_by(f64::total_cmp)
}

impl Cost {
    fn median(&self) -> Option<f64> {
        median(&self.rounds.values().copied().collect::<Vec<_>>())
    }
}

/// Picks the cheapest algorithm, with the runner-up.
fn pick_best(costs: Vec<Cost>, unit: &str, value: impl Fn(f64) -> f64) -> Option<Pick> {
    let with_median = |cost: Cost| Some((cost.median()?, cost));
    let mut ranked: Vec<(f64, Cost)> = costs.into_iter().filter_map(with_median).collect();
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut ranked = ranked.into_iter();
    let (median, winner) = ranked.next()?;
    let runner_up = ranked.next().and_then(|(next, cost)| runner_up(&winner, cost, value(next)));
    Some(Pick { winner: winner.contender, value: value(median), unit: unit.into(), runner_up })
}

fn runner_up(winner: &Cost, next: Cost, value: f64) -> Option<RunnerUp> {
    let both = winner.rounds.iter().filter_map(|(at, cost)| Some((*cost, *next.rounds.get(at)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = both.unzip();
    let ratio = PairedRatio::from_runs(&ours, &theirs)?;
    let is_exact = winner.rounds.len() == 1 && next.rounds.len() == 1;
    Some(RunnerUp {
        contender: next.contender,
        value,
        cost_per_winner: ratio.estimate,
        interval: ratio.interval,
        is_real: if is_exact {
            ratio.estimate > SAME_RATIO
        } else {
            ratio.excludes_no_difference()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(name: &str, rounds: &[f64]) -> Cost {
        let contender = Compressor::new(name);
        Cost { contender, rounds: (0..).zip(rounds.iter().copied()).collect() }
    }

    #[test]
    fn a_difference_in_every_round_is_real_and_one_in_the_median_alone_is_not() {
        let steady = cost("lz4", &[10.0, 20.0, 30.0, 10.0, 20.0, 30.0, 10.0]);
        let behind = cost("lzo", &[11.0, 22.0, 33.0, 11.0, 22.0, 33.0, 11.0]);
        let pick = pick_best(vec![behind.clone(), steady.clone()], "ns", |cost| cost).unwrap();
        let next = pick.runner_up.unwrap();
        assert_eq!((pick.winner.algorithm.as_str(), pick.value), ("lz4", 20.0));
        assert!(next.is_real && (next.cost_per_winner - 1.1).abs() < 1e-9, "{next:?}");

        let noisy = cost("lzo", &[12.0, 17.0, 31.0, 9.0, 23.0, 27.0, 12.0]);
        let next = pick_best(vec![steady, noisy], "ns", |cost| cost).unwrap().runner_up.unwrap();
        assert!(!next.is_real, "{next:?}");
    }

    #[test]
    fn what_is_exact_needs_no_rounds() {
        let pick = |a: f64, b: f64| {
            let both = vec![cost("zstd", &[a]), cost("lz4", &[b])];
            pick_best(both, "original_per_memory_used", |cost| 1.0 / cost).unwrap()
        };
        assert!(pick(0.3, 0.4).runner_up.unwrap().is_real);
        assert!(!pick(0.3, 0.3001).runner_up.unwrap().is_real);
        assert!((pick(0.25, 0.4).value - 4.0).abs() < 1e-9);
    }

    #[test]
    fn few_rounds_show_no_difference_and_one_alone_wins() {
        let both = vec![cost("lz4", &[1.0, 1.0, 1.0]), cost("lzo", &[2.0, 2.0, 2.0])];
        assert!(!pick_best(both, "ns", |cost| cost).unwrap().runner_up.unwrap().is_real);
        let alone =
            pick_best(vec![cost("lz4", &[1.0]), cost("lzo", &[])], "ns", |cost| cost).unwrap();
        assert_eq!(alone.runner_up, None);
        assert_eq!(pick_best(Vec::new(), "ns", |cost| cost), None);
    }
}
