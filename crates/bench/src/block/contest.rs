// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of the requests of each contestant, in every shape, round by round, as a plan
//! says.
//!
//! Each cell (a contestant with one shape of requests) gets a slice of every round, in a different
//! order each time, so that disturbances affect all cells equally. The first round is a warm-up. If
//! a contestant fails, its cell is left out from then on, and the reason is kept; the other cells
//! continue.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_model::{Noise, Shape};

use super::cell::Cell;
use super::contestant::Contestant;
use super::noise;
use super::pace::{Pace, Progress};
use super::plan::Plan;
use super::round::Round;
use super::slice::Runner;

/// The flag that stops a contest, and the function that receives its progress.
pub struct Watch<'a> {
    /// Set by the caller to stop the contest; what was measured until then is kept.
    pub stop: &'a AtomicBool,
    /// Called with the progress before every step.
    pub progress: &'a mut dyn FnMut(&Progress),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch(stop: {:?})", self.stop)
    }
}

/// What a contest measured, and how it ended.
#[derive(Debug)]
pub struct ContestResults {
    /// A cell for every contestant in each of its shapes, in the order of the lists.
    pub cells: Vec<Cell>,
    /// Number of planned rounds that did not fit into the time budget.
    pub rounds_left_out: u32,
    /// Activity of other processes on the machine during the contest.
    pub noise: Noise,
    /// Whether the user stopped the contest.
    pub stopped: bool,
}

/// Measures all contestants. `calm` is the index of the cell whose spread shows how steady the
/// machine was; the index counts along the shapes of each contestant.
pub fn measure(
    contestants: &[Contestant<'_>],
    plan: &Plan,
    calm: usize,
    watch: &mut Watch<'_>,
) -> ContestResults {
    let mut cells = lay_out_cells(contestants);
    let before = noise::Baseline::now();
    let mut runner = make_runner(&cells, plan, watch.stop);
    let mut pace = Pace::new(plan, count_measurable(&cells));
    let mut rounds_left_out = 0;
    'rounds: for round in 0..=plan.rounds {
        if round > plan.fewest && pace.is_over() {
            rounds_left_out = plan.rounds + 1 - round;
            break;
        }
        pace.begin_round(plan.rounds - round, round == 0, count_measurable(&cells));
        for at in slice_order(&cells, plan.seed, round) {
            if runner.is_stopped() {
                break 'rounds;
            }
            let cell = &mut cells[at];
            let contestant = &contestants[cell.contestant];
            (watch.progress)(&pace.progress(&contestant.label));
            run_slice(&mut runner, contestant, cell, round.checked_sub(1), pace.slice);
            pace.count_slice(cell.ended.is_some());
        }
    }
    let named = |cell: &Cell| format!("{}, {}", contestants[cell.contestant].label, cell.label());
    let calm = cells.get(calm).map(|cell| (named(cell), cell.rounds.as_slice()));
    let noise = before.until_now(calm);
    ContestResults { stopped: runner.is_stopped(), noise, cells, rounds_left_out }
}

/// A cell for each contestant and shape; cells that cannot be measured have the reason in `ended`.
fn lay_out_cells(contestants: &[Contestant<'_>]) -> Vec<Cell> {
    let shapes = contestants.iter().enumerate();
    let shapes = shapes.flat_map(|(at, one)| one.shapes.iter().map(move |shape| (at, one, shape)));
    let cell = |(at, contestant, shape): (usize, &Contestant<'_>, &Shape)| Cell {
        ended: contestant.why_refused(shape),
        ..Cell::new(at, *shape)
    };
    shapes.map(cell).collect()
}

fn make_runner<'a>(cells: &[Cell], plan: &Plan, stop: &'a AtomicBool) -> Runner<'a> {
    let measured = || cells.iter().filter(|cell| cell.ended.is_none());
    let jobs = measured().map(|cell| cell.shape.jobs).max().unwrap_or(0);
    let largest = measured().map(Cell::block_bytes).max().unwrap_or(0);
    Runner::new(jobs, largest, plan.seed, stop)
}

/// The indices of the measurable cells, in a different order for each round.
fn slice_order(cells: &[Cell], seed: u64, round: u32) -> Vec<usize> {
    let measured = cells.iter().enumerate().filter(|(_, cell)| cell.ended.is_none());
    let mut order: Vec<usize> = measured.map(|(at, _)| at).collect();
    fastrand::Rng::with_seed(seed ^ (u64::from(round) << 32)).shuffle(&mut order);
    order
}

/// Number of cells that can still be measured.
fn count_measurable(cells: &[Cell]) -> u32 {
    let measurable = cells.iter().filter(|cell| cell.ended.is_none());
    u32::try_from(measurable.count()).unwrap_or(u32::MAX)
}

/// Runs one slice of a cell; `number` is `None` in the warm-up round.
fn run_slice(
    runner: &mut Runner<'_>,
    contestant: &Contestant<'_>,
    cell: &mut Cell,
    number: Option<u32>,
    slice: Duration,
) {
    let slice_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    match (runner.run(contestant, cell, slice_ns), number) {
        (Ok(Some(round)), Some(number)) => cell.rounds.push(Round { number, ..round }),
        (Ok(Some(_)), None) => cell.latencies.reset(),
        (Ok(None), _) => {}
        (Err(error), _) => cell.ended = Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    use pagewise_model::{Bytes, Direction};
    use proptest::prelude::*;

    use super::super::pages::Pages;
    use super::super::store::Store;
    use super::*;

    const PAGE: usize = 4096;

    /// A store of pages in memory; records the requests and can be made to fail.
    struct Memory {
        bytes: Mutex<Vec<u8>>,
        requests: Mutex<Vec<(Direction, u64, usize)>>,
        fails_after: usize,
    }

    impl Memory {
        fn failing_after(pages: &Pages, fails_after: usize) -> Self {
            let bytes = Mutex::new(pages.bytes().to_vec());
            Self { bytes, requests: Mutex::default(), fails_after }
        }

        fn note(&self, direction: Direction, at: u64, length: usize) -> io::Result<usize> {
            let mut requests = self.requests.lock().unwrap();
            requests.push((direction, at, length));
            if requests.len() > self.fails_after {
                Err(io::Error::other("the device is gone"))
            } else {
                Ok(usize::try_from(at).unwrap())
            }
        }
    }

    impl Store for &Memory {
        fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
            let start = self.note(Direction::Read, at, into.len())?;
            into.copy_from_slice(&self.bytes.lock().unwrap()[start..start + into.len()]);
            Ok(())
        }

        fn write_at(&self, at: u64, from: &[u8]) -> io::Result<()> {
            let start = self.note(Direction::Write, at, from.len())?;
            self.bytes.lock().unwrap()[start..start + from.len()].copy_from_slice(from);
            Ok(())
        }

        fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
            Ok(Box::new(*self))
        }
    }

    fn pages(count: usize) -> Pages {
        let mut pages = Pages::with_room(count);
        let page = usize::try_from(pages.page_size().get()).unwrap();
        (1..).take(count).for_each(|number: u8| assert!(pages.push(&vec![number; page])));
        pages
    }

    fn shape(block: usize, jobs: u32, direction: Direction) -> Shape {
        Shape { block_bytes: Bytes::new(block as u64), jobs, direction }
    }

    fn contestant<'a>(memory: &'a Memory, pages: &'a Pages, shapes: Vec<Shape>) -> Contestant<'a> {
        let span = Bytes::new(pages.bytes().len() as u64);
        let (label, store) = ("memory".to_owned(), Box::new(memory));
        Contestant { label, store, pages: Some(pages), span, shapes }
    }

    fn run(
        contestants: &[Contestant<'_>],
        rounds: u32,
        stop_at: Option<u32>,
    ) -> (ContestResults, Vec<Progress>) {
        let (stop, mut reported) = (AtomicBool::new(false), Vec::new());
        let mut progress = |step: &Progress| {
            reported.push(step.clone());
            stop.store(stop_at.is_some_and(|at| step.done >= at), Ordering::SeqCst);
        };
        let plan = Plan { rounds, fewest: rounds, budget: Duration::ZERO, seed: 3 };
        let mut watch = Watch { stop: &stop, progress: &mut progress };
        (measure(contestants, &plan, 0, &mut watch), reported)
    }

    #[test]
    fn every_cell_has_a_figure_of_every_round_and_contents_stay() {
        let (pages, shapes) = (pages(64), [4, 8, 16, 32].map(|kib| kib << 10));
        let ways = [Direction::Read, Direction::Write];
        let shapes: Vec<Shape> = shapes
            .iter()
            .flat_map(|&block| ways.map(|way| [shape(block, 1, way), shape(block, 2, way)]))
            .flatten()
            .collect();
        let memory = Memory::failing_after(&pages, usize::MAX);
        let (measured, reported) = run(&[contestant(&memory, &pages, shapes.clone())], 3, None);
        assert_eq!(measured.cells.iter().map(|cell| cell.shape).collect::<Vec<_>>(), shapes);
        for cell in &measured.cells {
            let numbers: Vec<u32> = cell.rounds.iter().map(|round| round.number).collect();
            assert_eq!(numbers, [0, 1, 2]);
            assert!(cell.rounds.iter().all(|round| round.requests > 0 && round.iops > 0.0));
            let figures = cell.figures(Bytes::new(PAGE as u64)).unwrap();
            assert_eq!(figures.kernel_ns_per_io, None);
            assert_eq!(
                cell.latencies.len(),
                figures.requests,
                "the round that warms does not count"
            );
        }
        assert_eq!(reported.len(), shapes.len() * 4);
        assert!(reported.iter().enumerate().all(|(at, step)| step.done as usize == at));
        assert!(measured.noise.calm_p50_spread.is_some());
        assert_eq!(measured.noise.calm.unwrap().as_str(), "memory, 4.0 KiB read by 1");
        assert_eq!(*memory.bytes.lock().unwrap(), pages.bytes());
        let asked = memory.requests.lock().unwrap();
        let inside = |&(_, at, length): &(Direction, u64, usize)| {
            at % length as u64 == 0 && at + length as u64 <= pages.bytes().len() as u64
        };
        assert!(asked.iter().all(inside));
    }

    #[test]
    fn what_fails_in_the_middle_ends_with_a_reason_and_the_rest_goes_on() {
        let pages = pages(16);
        let (good, bad) =
            (Memory::failing_after(&pages, usize::MAX), Memory::failing_after(&pages, 40));
        let read = vec![shape(PAGE, 2, Direction::Read)];
        let both = [contestant(&bad, &pages, read.clone()), contestant(&good, &pages, read)];
        let (measured, reported) = run(&both, 4, None);
        let [failed, went_on] = &measured.cells[..] else { panic!("two cells") };
        assert_eq!(failed.ended.as_deref(), Some("the device is gone"));
        assert!(failed.rounds.len() < 4);
        assert_eq!((went_on.ended.as_deref(), went_on.rounds.len()), (None, 4));
        assert_eq!(reported.last().unwrap().total, 10);
        assert!(!measured.stopped);
    }

    #[test]
    fn what_was_measured_until_a_stop_is_kept() {
        let pages = pages(16);
        let memory = Memory::failing_after(&pages, usize::MAX);
        let shapes = vec![shape(PAGE, 1, Direction::Read), shape(2 * PAGE, 1, Direction::Read)];
        let (measured, reported) = run(&[contestant(&memory, &pages, shapes)], 9, Some(7));
        assert!(measured.stopped);
        assert_eq!(reported.len(), 8);
        // two warm-up slices and five slices that count; the last of the five was cut short
        assert_eq!(measured.cells.iter().map(|cell| cell.rounds.len()).sum::<usize>(), 5);
    }

    /// Two of nine rounds are run even with a budget of zero.
    #[test]
    fn rounds_that_do_not_fit_into_the_budget_are_left_out_and_counted() {
        let pages = pages(16);
        let memory = Memory::failing_after(&pages, usize::MAX);
        let all = [contestant(&memory, &pages, vec![shape(PAGE, 1, Direction::Read)])];
        let (stop, mut progress) = (AtomicBool::new(false), |_: &Progress| {});
        let plan = Plan { rounds: 9, fewest: 2, budget: Duration::ZERO, seed: 3 };
        let mut watch = Watch { stop: &stop, progress: &mut progress };
        let measured = measure(&all, &plan, 0, &mut watch);
        assert_eq!((measured.cells[0].rounds.len(), measured.rounds_left_out), (2, 7));
        assert!(!measured.stopped);
    }

    #[test]
    fn what_cannot_be_asked_says_so() {
        let (pages, empty) = (pages(3), Pages::with_room(0));
        let memory = Memory::failing_after(&pages, usize::MAX);
        let large = shape(32 << 10, 1, Direction::Read);
        let write = shape(PAGE, 1, Direction::Write);
        let two = shape(2 * PAGE, 1, Direction::Write);
        let mut all = [
            contestant(&memory, &pages, vec![large]),
            contestant(&memory, &pages, vec![write]),
            contestant(&memory, &pages, vec![two]),
        ];
        all[1].pages = None;
        all[2].span = Bytes::new(6 * PAGE as u64);
        all[2].pages = Some(&empty);
        assert!(all[2].why_refused(&two).is_some());
        all[2].pages = Some(&pages);
        let (measured, reported) = run(&all, 2, None);
        let ended: Vec<_> = measured.cells.iter().map(|cell| cell.ended.clone().unwrap()).collect();
        assert!(ended[0].contains("too few for blocks of 32.0 KiB"), "{ended:?}");
        assert!(ended[1].contains("only read") && ended[2].contains("no multiple"), "{ended:?}");
        assert!(reported.is_empty() && memory.requests.lock().unwrap().is_empty());
    }

    proptest! {
        /// A round has every measurable cell once; the order differs between rounds.
        #[test]
        fn a_round_has_every_cell_once(ended in prop::collection::vec(any::<bool>(), 0..40), seed: u64) {
            let cell = |&ended: &bool| Cell {
                ended: ended.then(|| "gone".to_owned()),
                ..Cell::new(0, shape(PAGE, 1, Direction::Read))
            };
            let cells: Vec<Cell> = ended.iter().map(cell).collect();
            let orders: Vec<_> = (0..8).map(|round| slice_order(&cells, seed, round)).collect();
            let naive: Vec<usize> = (0..ended.len()).filter(|&at| !ended[at]).collect();
            for one in &orders {
                let mut sorted = one.clone();
                sorted.sort_unstable();
                prop_assert_eq!(&sorted, &naive);
            }
            // the chance that 8 orders of at least 8 cells are all equal by accident is 1 in 10^32
            prop_assert!(naive.len() < 8 || orders.iter().any(|one| *one != orders[0]));
        }
    }
}
