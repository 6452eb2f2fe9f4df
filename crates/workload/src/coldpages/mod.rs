// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `coldpages`: uses anonymous memory, a library and a streamed file with known access frequencies
//! for each page, and finds whether the kernel evicts the pages that are used least.
//!
//! A touch of data is one operation. The library is mapped and touched with the same distribution
//! as the data; the stream is read with read(), a page at a time. The kernel must not read ahead
//! for either (`MADV_RANDOM`, `POSIX_FADV_RANDOM`): hosts differ in readahead by a factor of a
//! thousand, and a page that was read ahead has no known frequency.
//!
//! With several sharers the data is mapped by as many processes. All except this one sleep, so a
//! page that was evicted returns with one mapping only.
//!
//! Memory of the workload itself: about 6 MiB, including the program, and 40 bytes for each page of
//! the three sets.

mod residency;

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pagewise_mappings::{Advice, Region, Sleeper};
use residency::ResidencySamples;
use rustix::param::page_size;

use super::error::{Error, ErrorContext};
use super::pace::Pace;
use super::progress::Progress;
use super::record::Record;
use super::slices::{SLICES, share_of, slice_end};
use super::store::{self, MappedStore};
use super::swap::nanoseconds;
use super::zipf::ZipfPages;
use super::{ColdPages, STEADY, WorkloadSummary, check};

/// Number of iterations between two samples of residency, which give 16 samples in total.
const LOOK_EVERY: u64 = 10;

/// Runs the workload; `mark` is called before the second half. With sharers, the process must have
/// a single thread.
pub(super) fn run(
    settings: &ColdPages,
    progress: &mut Progress<'_>,
    mark: &mut dyn FnMut(&str),
) -> Result<WorkloadSummary, Error> {
    check::check_coldpages(settings)?;
    let mut sets = Sets::new(settings, progress)?;
    let fork = || Sleeper::fork().about(|| "fork".to_owned());
    let _sharers = (1..settings.sharers).map(|_| fork()).collect::<Result<Vec<_>, _>>()?;
    let end = Instant::now() + Duration::from_secs_f64(settings.seconds);
    let (mut record, mut looks) = (Record::new(), ResidencySamples::default());
    let mut operations = 0;
    for slice in 1..=SLICES {
        if slice == SLICES / 2 + 1 {
            mark(STEADY);
        }
        progress("touching", share_of(operations, settings.operations));
        let upto = slice_end(slice, settings.operations);
        let began = Instant::now();
        let done = sets.touch(upto - operations, &mut record, end)?;
        operations += done;
        if operations < upto {
            break;
        }
        if done > 0 {
            record.add_iteration(began.elapsed().as_secs_f64(), done);
        }
        if slice % LOOK_EVERY == 0 {
            looks.sample(operations, &mut sets)?;
        }
    }
    let (course, mut values) = record.conclude();
    values.insert("operations".to_owned(), operations as f64);
    values.extend(looks.means(operations / 2));
    Ok(WorkloadSummary { workload: "coldpages".to_owned(), values, course })
}

/// The three sets of pages, and how often each page is touched.
#[derive(Debug)]
struct Sets {
    data: Region,
    data_hot: ZipfPages,
    write_share: f64,
    library: MappedStore,
    library_hot: ZipfPages,
    library_seen: Vec<bool>,
    library_rate: f64,
    library_pace: Pace,
    stream: MappedStore,
    stream_pages: usize,
    /// Number of pages of the stream read so far, in all passes together.
    stream_read: usize,
    stream_rate: f64,
    stream_pace: Pace,
    buffer: Vec<u8>,
    rng: Rng,
}

impl Sets {
    fn new(settings: &ColdPages, progress: &mut Progress<'_>) -> Result<Self, Error> {
        let mut rng = Rng::with_seed(settings.seed);
        let pages = |key, size| check::page_count(key, size);
        let library_pages = pages("library", settings.library)?;
        let stream_pages = pages("stream", settings.stream)?;
        let data_pages = pages("data", settings.data)?;
        let library = MappedStore::new(library_pages, settings.seed, progress)?;
        library.map.advise(Advice::Random).about(|| "MADV_RANDOM".to_owned())?;
        let stream = MappedStore::new(stream_pages, settings.seed.wrapping_add(1), progress)?;
        rustix::fs::fadvise(&stream.file, 0, None, rustix::fs::Advice::Random)
            .about(|| "POSIX_FADV_RANDOM".to_owned())?;
        let contents = check::parse_mix(&settings.contents)?;
        Ok(Self {
            data: store::map_filled(data_pages, false, &contents, settings.seed, progress)?,
            data_hot: ZipfPages::new(data_pages, settings.exponent, &mut rng),
            write_share: settings.write_share,
            library,
            library_hot: ZipfPages::new(library_pages, settings.exponent, &mut rng),
            library_seen: vec![false; library_pages],
            library_rate: settings.library_per_data,
            library_pace: Pace::default(),
            stream,
            stream_pages,
            stream_read: 0,
            stream_rate: settings.stream_per_data,
            stream_pace: Pace::default(),
            buffer: vec![0; page_size()],
            rng,
        })
    }

    /// Touches pages of the data up to `count` times, and pages of the other sets in proportion.
    /// Returns the number of touches of data, which is smaller if the time is over.
    fn touch(&mut self, count: u64, record: &mut Record, end: Instant) -> Result<u64, Error> {
        for done in 0..count {
            for _ in 0..self.library_pace.operations_due(self.library_rate) {
                let page = self.library_hot.draw(&mut self.rng);
                std::hint::black_box(self.library.map.touch(page));
                self.library_seen[page] = true;
            }
            for _ in 0..self.stream_pace.operations_due(self.stream_rate) {
                self.read_next_page()?;
            }
            let page = self.data_hot.draw(&mut self.rng);
            let writes = self.write_share > 0.0 && self.rng.f64() < self.write_share;
            let began = Instant::now();
            if writes {
                self.data.write(page);
            } else {
                std::hint::black_box(self.data.touch(page));
            }
            let ended = Instant::now();
            record.add_latency(nanoseconds(ended - began));
            if ended >= end {
                return Ok(done + 1);
            }
        }
        Ok(count)
    }

    fn read_next_page(&mut self) -> Result<(), Error> {
        let page = self.stream_read % self.stream_pages;
        let place = u64::try_from(page * self.buffer.len()).unwrap_or(u64::MAX);
        self.stream
            .file
            .read_exact_at(&mut self.buffer, place)
            .about(|| "the stream".to_owned())?;
        self.stream_read += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::*;

    fn small() -> ColdPages {
        ColdPages {
            data: Size::mib(2),
            library: Size::mib(1),
            stream: Size::mib(1),
            operations: 10_000,
            ..ColdPages::default()
        }
    }

    #[test]
    fn where_memory_is_enough_nothing_is_chosen() {
        let mut marks = Vec::new();
        let summary =
            run(&small(), &mut |_, _| {}, &mut |mark| marks.push(mark.to_owned())).unwrap();
        assert_eq!(marks, [STEADY]);
        assert_eq!(summary.values["operations"], 10_000.0);
        assert!(!summary.values.contains_key("precision"), "{summary:?}");
        // 500 pages were read from a stream of 256: all of them, some twice
        let kept = summary.values["cold-kept"];
        assert!((200.0..=256.0).contains(&kept), "{kept}");
        assert!(summary.values["p99"] > 0.0 && summary.course.iteration_seconds.len() <= 200);
    }

    #[test]
    fn its_time_and_few_operations_end_it() {
        let timed = ColdPages { operations: u64::MAX, seconds: 0.05, ..small() };
        let cut = run(&timed, &mut |_, _| {}, &mut |_| panic!("no second half")).unwrap();
        assert!(cut.values["operations"] > 0.0);
        let few = ColdPages { operations: 3, ..small() };
        assert_eq!(run(&few, &mut |_, _| {}, &mut |_| {}).unwrap().values["operations"], 3.0);
    }
}
