// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `swap`: touches code in a file and data in memory, together slightly larger than the available
//! memory, and measures the time of an iteration in the steady state, and the time until then.
//!
//! If the data is barred from swapping, the kernel can only reclaim the code, which must be read
//! again from disk for each touch. An iteration touches the data in a window that moves.
//!
//! Each touch of data is timed separately. A touch of code is not timed, but it takes part of the
//! time of its iteration. Besides data and code the workload has about 8 MiB of memory of its own,
//! including the program.

use std::time::{Duration, Instant};

use fastrand::Rng;
use pagewise_mappings::{Advice, Region};

use super::error::{Error, ErrorContext};
use super::pace::Pace;
use super::progress::Progress;
use super::record::Record;
use super::store::{self, MappedStore};
use super::window::Window;
use super::zipf::Zipf;
use super::{Pattern, Readahead, STEADY, Swap, WorkloadSummary, check};

/// Number of parts of the code of which one is the hottest.
const HOT: usize = 10;

/// Runs the workload; `mark` is called before the second half of its iterations, or of its time.
pub(super) fn run(
    settings: &Swap,
    progress: &mut Progress<'_>,
    mark: &mut dyn FnMut(&str),
) -> Result<WorkloadSummary, Error> {
    check::check_swap(settings)?;
    let contents = check::parse_mix(&settings.contents)?;
    let mut code = Code::new(settings, progress)?;
    let pages = check::page_count("data", settings.data)?;
    let mut data = store::map_filled(pages, settings.shared, &contents, settings.seed, progress)?;
    let mut rng = Rng::with_seed(settings.seed);
    let mut touches = TouchPattern::new(settings, &mut rng)?;
    let end = Instant::now() + Duration::from_secs_f64(settings.seconds);
    let (mut record, mut operations, mut halfway) = (Record::new(), 0, false);
    for iteration in 0..settings.iterations {
        let done = share_done(iteration, settings, end);
        if done >= 0.5 && !halfway {
            halfway = true;
            mark(STEADY);
        }
        progress("touching", done);
        let began = Instant::now();
        let Some(done) = touches.run_iteration(&mut data, &mut code, &mut record, &mut rng, end)
        else {
            break;
        };
        record.add_iteration(began.elapsed().as_secs_f64(), done);
        operations += done;
    }
    operations += touches.of_the_last;
    let (course, mut values) = record.conclude();
    values.insert("operations".to_owned(), operations as f64);
    Ok(WorkloadSummary { workload: "swap".to_owned(), values, course })
}

/// Share of the workload that is done, by iterations or by time, whichever is further.
fn share_done(iteration: u32, settings: &Swap, end: Instant) -> f64 {
    let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
    let of_time = 1.0 - left / settings.seconds;
    of_time.max(f64::from(iteration) / f64::from(settings.iterations))
}

/// The code of the workload: a file that is mapped like a library.
#[derive(Debug)]
struct Code {
    map: Option<MappedStore>,
    pages: usize,
    hot_share: f64,
    per_data: f64,
    pace: Pace,
}

impl Code {
    fn new(settings: &Swap, progress: &mut Progress<'_>) -> Result<Self, Error> {
        let pages = check::page_count("code", settings.code)?;
        let map =
            if pages > 0 { Some(MappedStore::new(pages, settings.seed, progress)?) } else { None };
        if let (Some(stored), Readahead::None) = (&map, settings.readahead) {
            stored.map.advise(Advice::Random).about(|| "MADV_RANDOM".to_owned())?;
        }
        let (hot_share, per_data) = (settings.code_hot_share, settings.code_per_data);
        Ok(Self { map, pages, hot_share, per_data, pace: Pace::default() })
    }

    /// Touches as many pages of the code as are due with one touch of data.
    fn touch(&mut self, rng: &mut Rng) {
        let Some(stored) = &self.map else { return };
        for _ in 0..self.pace.operations_due(self.per_data) {
            let hot = self.hot_share > 0.0 && rng.f64() < self.hot_share;
            let among = if hot { self.pages.div_ceil(HOT) } else { self.pages };
            std::hint::black_box(stored.map.touch(rng.usize(0..among)));
        }
    }
}

/// Which pages of the data a workload touches, and how.
#[derive(Debug)]
struct TouchPattern {
    window: Window,
    step: usize,
    pattern: Pattern,
    /// The distribution, and the page of the window for each rank; `None` if the pattern is not
    /// Zipf.
    zipf: Option<(Zipf, Vec<usize>)>,
    write_share: f64,
    of_the_last: u64,
}

impl TouchPattern {
    fn new(settings: &Swap, rng: &mut Rng) -> Result<Self, Error> {
        let pages = check::page_count("window", settings.window)?;
        let window = Window {
            data: check::page_count("data", settings.data)?,
            pages,
            parts: usize::try_from(settings.parts).unwrap_or(1),
            start: 0,
        };
        let zipf = (settings.pattern == Pattern::Zipf).then(|| {
            let mut order: Vec<usize> = (0..pages).collect();
            rng.shuffle(&mut order);
            (Zipf::new(pages, 1.0), order)
        });
        let step = check::page_count("step", settings.step)?;
        let (pattern, write_share) = (settings.pattern, settings.write_share);
        Ok(Self { window, step, pattern, zipf, write_share, of_the_last: 0 })
    }

    fn page(&self, touch: usize, rng: &mut Rng) -> usize {
        let number = match (&self.zipf, self.pattern) {
            (Some((zipf, order)), _) => order[zipf.draw(rng)],
            (None, Pattern::Scan) => touch,
            (None, _) => rng.usize(0..self.window.pages),
        };
        self.window.page(number)
    }

    /// Runs an iteration; returns the number of touches, or `None` if the time was over first.
    fn run_iteration(
        &mut self,
        data: &mut Region,
        code: &mut Code,
        record: &mut Record,
        rng: &mut Rng,
        end: Instant,
    ) -> Option<u64> {
        self.of_the_last = 0;
        for touch in 0..self.window.pages {
            code.touch(rng);
            let page = self.page(touch, rng);
            let writes = self.write_share > 0.0 && rng.f64() < self.write_share;
            let began = Instant::now();
            if writes {
                data.write(page);
            } else {
                std::hint::black_box(data.touch(page));
            }
            let ended = Instant::now();
            record.add_latency(nanoseconds(ended - began));
            self.of_the_last += 1;
            if ended >= end {
                return None;
            }
        }
        self.window.step(self.step);
        Some(std::mem::take(&mut self.of_the_last))
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rustix::param::page_size;

    use super::super::Size;
    use super::*;

    fn small() -> Swap {
        Swap {
            code: Size::mib(1),
            data: Size::mib(2),
            window: Size::mib(1),
            iterations: 30,
            seconds: 60.0,
            ..Swap::default()
        }
    }

    #[test]
    fn it_does_as_many_iterations_as_asked_for() {
        for pattern in [Pattern::Uniform, Pattern::Zipf, Pattern::Scan] {
            for shared in [false, true] {
                let settings = Swap { pattern, shared, step: "4K".parse().unwrap(), ..small() };
                let mut marks = Vec::new();
                let summary =
                    run(&settings, &mut |_, _| {}, &mut |mark| marks.push(mark.to_owned()))
                        .unwrap();
                assert_eq!(marks, [STEADY]);
                let pages = (1 << 20) / page_size();
                assert_eq!(summary.values["operations"], (30 * pages) as f64, "{pattern:?}");
                assert_eq!(summary.course.iteration_seconds.len(), 30);
                assert!(summary.values["steady-iteration"] > 0.0 && summary.values["p99"] > 0.0);
            }
        }
    }

    #[test]
    fn its_time_ends_it() {
        let settings = Swap { iterations: u32::MAX, seconds: 0.05, ..small() };
        let summary = run(&settings, &mut |_, _| {}, &mut |_| {}).unwrap();
        assert!(summary.values["operations"] > 0.0);
    }

    #[test]
    fn the_published_form_can_be_said() {
        let settings = Swap {
            shared: true,
            contents: "zero:100".to_owned(),
            parts: 3,
            step: "4K".parse().unwrap(),
            pattern: Pattern::Scan,
            ..small()
        };
        assert!(run(&settings, &mut |_, _| {}, &mut |_| {}).is_ok());
    }
}
