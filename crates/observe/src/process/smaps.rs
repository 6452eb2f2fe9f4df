// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/smaps_rollup` of as many processes as fit into a time budget.
//!
//! For this file the kernel walks all pages of a process at once, holding the process's memory
//! lock: about 12 ms per GiB of small pages, seconds for a large database. The cost of a read is
//! therefore estimated from the sizes in `status`, the smallest are read first, and no read is
//! started that exceeds the remaining budget. A process that is left out is
//! [`SmapsOutcome::NotRead`].
//!
//! A table of the ten largest processes does not need the sizes of five hundred small ones, which
//! would be half the cost of a report. A proportional size (PSS) is never larger than the resident
//! size. Reading therefore starts with the largest processes and stops when none of the others can
//! be among those that are wanted: the rest is [`SmapsOutcome::Smaller`].
//!
//! For a recording there is no budget: it contains what was read at the time, and for each file
//! that failed the reason, so that it replays to the same outcome.

use std::ffi::CString;
use std::ops::Range;
use std::time::Duration;

use pagewise_model::{Bytes, Process, SmapsOutcome, Source};

use super::helper::{self, FileAnswer};
use crate::calls::{Job, now};
use pagewise_hostfs::text::{NO_LINE, Text};
use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadHost, Refusal, absolute_path};

/// Why there is no proportional size.
const GONE: &str = "it ended while it was read";
const STUCK: &str = "no answer by the deadline: something holds the process's memory lock";
const NOT_READ: &str = "not read: it did not fit into the time budget";
const HELPER_ENDED: &str = "the helper process that was reading it was ended";
const NO_FILE: &str = "this kernel has no smaps_rollup";
const SMALLER: &str = "not read: enough processes are larger";

/// Processes that are always read: those with the most RAM and swap, and all from the size on at
/// which huge pages matter.
const ALWAYS: usize = 64;
const LARGE: Bytes = Bytes::new(16 << 20);

/// A process whose proportional size may be read, and its size in RAM and swap if known.
pub(super) struct Candidate<'a> {
    pub(super) process: &'a mut Process,
    pub(super) resident: Option<Bytes>,
}

/// Fills in the values of smaps_rollup for each process, or only for the `enough` largest ones.
pub(super) fn read(
    host: &HostRoot,
    mut candidates: Vec<Candidate<'_>>,
    budget: Duration,
    enough: usize,
) {
    candidates.sort_by_key(|candidate| (candidate.cost(), candidate.process.pid));
    if budget.is_zero() {
        fill_all(host, &mut candidates, |_| Err(absent_refusal(NOT_READ)));
    } else if !host.is_live() {
        fill_all(host, &mut candidates, |path| read_recorded(host, path));
    } else if rustix::fs::access("/proc/self/smaps_rollup", rustix::fs::Access::EXISTS).is_err() {
        // A recording does not distinguish an ended process from a file that was not read.
        fill_all(host, &mut candidates, |path| {
            record_answer(host, path, Err(absent_refusal(NO_FILE)))
        });
    } else {
        read_largest(host, &mut candidates, budget, enough);
    }
}

fn fill_all(host: &HostRoot, candidates: &mut [Candidate<'_>], answer: impl Fn(&str) -> Answered) {
    for candidate in candidates {
        let path = candidate.path();
        fill(host, candidate.process, &absolute_path(&path), answer(&path));
    }
}

/// Reads proportional sizes in batches, the largest processes first, until all others are known to
/// be smaller.
fn read_largest(
    host: &HostRoot,
    candidates: &mut [Candidate<'_>],
    budget: Duration,
    enough: usize,
) {
    let until = now().saturating_add(budget);
    let bounds: Vec<Option<Bytes>> = candidates.iter().map(|one| one.resident).collect();
    let smaller = read_batches(&bounds, enough, |batch| {
        let batch = candidates.get_mut(batch).unwrap_or_default();
        read_live(host, batch, until.saturating_sub(now()));
        batch.iter().map(Candidate::size).collect()
    });
    let rest = candidates.get_mut(..smaller).unwrap_or_default();
    fill_all(host, rest, |_| Err(absent_refusal(SMALLER)));
}

/// Reads processes in batches, starting at the end of `bounds`. These are upper bounds of the sizes
/// in ascending order, unknown ones last; `read` returns the actual sizes of a batch. Returns how
/// many processes at the beginning were not read: none of them can be larger than the `enough`
/// largest of the others.
fn read_batches(
    bounds: &[Option<Bytes>],
    enough: usize,
    mut read: impl FnMut(Range<usize>) -> Vec<Bytes>,
) -> usize {
    let first_above = |size: Bytes| bounds.partition_point(|it| it.is_some_and(|it| it <= size));
    let mut rest = bounds.len();
    let mut known: Vec<Bytes> = Vec::new();
    let mut most = ALWAYS;
    let mut begin =
        if enough >= rest { 0 } else { rest.saturating_sub(ALWAYS).min(first_above(LARGE)) };
    while begin < rest {
        known.extend(read(begin..rest));
        known.sort_unstable_by(|a, b| b.cmp(a));
        rest = begin;
        let smaller = match enough.checked_sub(1) {
            None => rest,
            Some(last) => known.get(last).map_or(0, |&size| first_above(size)),
        };
        begin = smaller.max(rest.saturating_sub(most));
        most = most.saturating_mul(2);
    }
    rest
}

impl Candidate<'_> {
    fn path(&self) -> String {
        format!("proc/{}/smaps_rollup", self.process.pid)
    }

    /// The expected time to read the process's proportional size; the maximum if its resident size
    /// is unknown, so that it is never read.
    fn cost(&self) -> Duration {
        self.resident.map_or(Duration::MAX, cost)
    }

    /// The size by which a report sorts processes: the proportional size, or the resident size if
    /// that is unknown.
    fn size(&self) -> Bytes {
        self.process.proportional.get().or_else(|| self.process.resident()).unwrap_or_default()
    }

    /// The job that reads the process's file. Always `Some`: the path contains only a number and
    /// fixed text, so no zero byte.
    fn job(&self) -> Option<Job> {
        let path = CString::new(absolute_path(&self.path())).ok()?;
        Some(Job { path, cost: self.cost() })
    }
}

/// The expected time to read the proportional size of a process with this resident size: 30 µs plus
/// 12 ms per GiB, measured with small pages; huge pages are cheaper.
fn cost(size: Bytes) -> Duration {
    const BASE: u64 = 30_000;
    const NANOS_PER_GIB: u128 = 12_000_000;
    let nanos = (u128::from(size.get()) * NANOS_PER_GIB) >> 30;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(BASE))
}

type Answered = Result<Vec<u8>, Refusal>;

fn read_live(host: &HostRoot, batch: &mut [Candidate<'_>], budget: Duration) {
    let jobs: Vec<Job> = batch.iter().filter_map(Candidate::job).collect();
    let answers = helper::read_all(&jobs, budget);
    for (candidate, answer) in batch.iter_mut().zip(answers) {
        let path = candidate.path();
        let noted = record_answer(host, &path, parse_answer(answer));
        fill(host, candidate.process, &absolute_path(&path), noted);
    }
}

fn parse_answer(answer: FileAnswer) -> Answered {
    match answer {
        FileAnswer::Read(bytes) if bytes.is_empty() => Err(absent_refusal(GONE)),
        FileAnswer::Read(bytes) => Ok(bytes),
        FileAnswer::Refused(errno) => Err(Refusal::from_errno(errno).explain(NO_SUCH_FILE, GONE)),
        FileAnswer::NotRead => Err(absent_refusal(NOT_READ)),
        FileAnswer::Stuck => Err(absent_refusal(STUCK)),
        FileAnswer::HelperEnded => Err(absent_refusal(HELPER_ENDED)),
    }
}

/// Passes the helper's answer about a file to a recorder. A read that was not started is not
/// recorded.
fn record_answer(host: &HostRoot, path: &str, answer: Answered) -> Answered {
    if answer != Err(absent_refusal(NOT_READ)) {
        host.note(path, &answer);
    }
    answer
}

/// Reads a process's file from a recording. A file that the recording lacks was not read at the
/// time.
fn read_recorded(host: &HostRoot, path: &str) -> Answered {
    let answer = host.bytes(path);
    answer.map_err(|refusal| refusal.explain(NO_SUCH_FILE, NOT_READ))
}

fn absent_refusal(why: &'static str) -> Refusal {
    Refusal::Absent(why.into())
}

fn outcome(answer: &Answered) -> SmapsOutcome {
    match answer {
        Ok(_) => SmapsOutcome::Read,
        Err(Refusal::Denied(_)) => SmapsOutcome::Denied,
        Err(Refusal::Absent(why)) => match why.as_ref() {
            GONE => SmapsOutcome::Gone,
            STUCK => SmapsOutcome::Stuck,
            SMALLER => SmapsOutcome::Smaller,
            _ => SmapsOutcome::NotRead,
        },
    }
}

fn fill(host: &HostRoot, process: &mut Process, path: &str, answer: Answered) {
    process.smaps = outcome(&answer);
    match answer {
        Ok(bytes) => parse(host, process, &Text::new(path, bytes)),
        Err(refusal) => set_refusal(process, &refusal, &Source::file(path)),
    }
}

fn set_refusal(process: &mut Process, refusal: &Refusal, source: &Source) {
    let Process { proportional, swap_proportional, anon_huge, shmem_huge, file_huge, .. } = process;
    for field in [proportional, swap_proportional, anon_huge, shmem_huge, file_huge] {
        *field = refusal.clone().reading(source.clone());
    }
}

/// Parses smaps_rollup. The first line contains an address range; all others are sizes.
fn parse(host: &HostRoot, process: &mut Process, text: &Text) {
    set_refusal(process, &absent_refusal(NO_LINE), &text.source());
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(b':') else { continue };
        let field = match key {
            b"Pss" => &mut process.proportional,
            b"SwapPss" => &mut process.swap_proportional,
            b"AnonHugePages" => &mut process.anon_huge,
            b"ShmemPmdMapped" => &mut process.shmem_huge,
            b"FilePmdMapped" => &mut process.file_huge,
            _ => continue,
        };
        *field = line.size(host, rest);
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::Reading;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};
    use pagewise_hostfs::Entry;

    /// The file smaps_rollup of a process on Linux 6.18, with sizes changed so that no two are
    /// equal.
    const ROLLUP: &str = "5653552b6000-7ffc16d8d000 ---p 00000000 00:00 0                          [rollup]\nRss:                1688 kB\nPss:                 291 kB\nPss_Dirty:           116 kB\nPss_Anon:            117 kB\nPss_File:            175 kB\nPss_Shmem:             0 kB\nAnonymous:           118 kB\nKSM:                   0 kB\nLazyFree:              0 kB\nAnonHugePages:      2048 kB\nShmemPmdMapped:     4096 kB\nFilePmdMapped:         0 kB\nSwap:                  9 kB\nSwapPss:               3 kB\nLocked:                0 kB\n";

    fn process_of(bytes: &[u8]) -> Process {
        let mut process = Process::default();
        let text = Text::new("/proc/7/smaps_rollup", bytes.to_vec());
        parse(&host([("x", "")]), &mut process, &text);
        process
    }

    #[test]
    fn sizes_come_from_their_lines() {
        let process = process_of(ROLLUP.as_bytes());
        let kib = |kib, line| {
            let source = Source::line("/proc/7/smaps_rollup", line);
            Reading::found(Bytes::from_kib(kib).unwrap(), source)
        };
        assert_eq!(process.proportional, kib(291, 3));
        assert_eq!(process.anon_huge, kib(2048, 11));
        assert_eq!(process.shmem_huge, kib(4096, 12));
        assert_eq!(process.swap_proportional, kib(3, 15));
    }

    #[test]
    fn a_missing_line_is_absent_and_not_zero() {
        let process = process_of(&ROLLUP.as_bytes()[..150]);
        assert_eq!(process.proportional.get(), Bytes::from_kib(291));
        assert_eq!(process.anon_huge.get(), None);
    }

    #[test]
    fn the_cost_follows_the_size_and_never_overflows() {
        assert_eq!(cost(Bytes::new(0)), Duration::from_micros(30));
        assert_eq!(cost(Bytes::new(1 << 30)), Duration::from_micros(12_030));
        assert_eq!(cost(Bytes::new(200 << 30)), Duration::from_micros(2_400_030));
        assert!(cost(Bytes::new(u64::MAX)) > Duration::from_secs(1));
    }

    fn outcomes(host: &HostRoot, budget: Duration, pids: &[u32]) -> Vec<SmapsOutcome> {
        let mut all: Vec<Process> =
            pids.iter().map(|&pid| Process { pid, ..Process::default() }).collect();
        let resident = Some(Bytes::new(4096));
        let candidates = all.iter_mut().map(|process| Candidate { process, resident });
        read(host, candidates.collect(), budget, usize::MAX);
        all.into_iter().map(|process| process.smaps).collect()
    }

    #[test]
    fn a_recording_replays_to_the_outcome_that_it_was_made_with() {
        let refused = |refusal| Entry::Refused(refusal);
        let entries = [
            (1, Entry::File(ROLLUP.into())),
            (2, refused(Refusal::Denied("run as root".into()))),
            (3, refused(absent_refusal(STUCK))),
            (4, refused(absent_refusal(GONE))),
        ];
        let host = HostRoot::memory(
            entries.map(|(pid, entry)| (format!("proc/{pid}/smaps_rollup"), entry)),
        );
        use SmapsOutcome::{Denied, Gone, NotRead, Read, Stuck};
        let budget = Duration::from_millis(1);
        assert_eq!(outcomes(&host, budget, &[1, 2, 3, 4, 5]), [Read, Denied, Stuck, Gone, NotRead]);
        assert_eq!(outcomes(&host, Duration::ZERO, &[1, 2]), [NotRead, NotRead]);
    }

    proptest! {
        /// Whatever share of its memory each process shares, the processes that were read include
        /// the largest of all, and all of at least 16 MiB.
        #[test]
        fn the_largest_are_among_those_that_are_read(
            kib in prop::collection::vec((0u64..40_000, 0u64..=100), 0..400),
            unknown in 0usize..3,
            enough in 0usize..200,
        ) {
            let mut all: Vec<(Option<Bytes>, Bytes)> = kib
                .iter()
                .map(|(most, percent)| {
                    (Bytes::from_kib(*most), Bytes::from_kib(most * percent / 100).unwrap())
                })
                .collect();
            all.sort_unstable();
            all.extend((0..unknown).map(|_| (None, Bytes::new(0))));
            let bounds: Vec<Option<Bytes>> = all.iter().map(|(bound, _)| *bound).collect();
            let mut seen: Vec<(Option<Bytes>, Bytes)> = Vec::new();
            let smaller = read_batches(&bounds, enough, |batch| {
                seen.extend(&all[batch.clone()]);
                all[batch].iter().map(|(_, size)| *size).collect()
            });
            prop_assert_eq!(seen.len(), all.len() - smaller);
            prop_assert!(all[..smaller].iter().all(|(bound, _)| bound.unwrap() <= LARGE));
            let largest = |of: &[(Option<Bytes>, Bytes)]| {
                let mut sizes: Vec<Bytes> = of.iter().map(|(_, size)| *size).collect();
                sizes.sort_unstable_by(|a, b| b.cmp(a));
                sizes.truncate(enough);
                sizes
            };
            prop_assert_eq!(largest(&seen), largest(&all));
        }
    }

    #[test]
    fn small_processes_are_not_read_where_larger_ones_suffice() {
        let bounds = vec![Bytes::from_kib(1700); 500];
        let mut reads = Vec::new();
        let smaller = read_batches(&bounds, 10, |batch| {
            reads.push(batch.len());
            vec![Bytes::from_kib(1700).unwrap(); batch.len()]
        });
        assert_eq!((smaller, reads), (436, vec![64]));
    }

    /// Where processes share nearly all of their memory, all are read: any of them may be the
    /// largest.
    #[test]
    fn where_much_is_shared_all_are_read() {
        let bounds = vec![Bytes::from_kib(15_000); 500];
        let mut reads = Vec::new();
        let smaller = read_batches(&bounds, 10, |batch| {
            reads.push(batch.len());
            vec![Bytes::from_kib(900).unwrap(); batch.len()]
        });
        assert_eq!((smaller, reads), (0, vec![64, 64, 128, 244]));
    }

    #[test]
    fn what_the_helper_read_is_remembered_and_replays() {
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let live = HostRoot::live().unwrap().start_remembering();
        let pids = [own, u32::MAX];
        let then = outcomes(&live, Duration::from_secs(5), &pids);
        assert_eq!(then, [SmapsOutcome::Read, SmapsOutcome::Gone]);
        let replay = HostRoot::memory(live.into_remembered_files());
        assert_eq!(outcomes(&replay, Duration::from_secs(5), &pids), then);
    }

    #[test]
    fn answers_of_the_kernel_become_outcomes() {
        use rustix::io::Errno;
        let of = |answer| outcome(&parse_answer(answer));
        assert_eq!(of(FileAnswer::Refused(Errno::ACCESS)), SmapsOutcome::Denied);
        assert_eq!(of(FileAnswer::Refused(Errno::SRCH)), SmapsOutcome::Gone);
        assert_eq!(of(FileAnswer::Refused(Errno::IO)), SmapsOutcome::NotRead);
        assert_eq!(of(FileAnswer::Read(Vec::new())), SmapsOutcome::Gone);
        assert_eq!(of(FileAnswer::Stuck), SmapsOutcome::Stuck);
    }

    proptest! {
        #[test]
        fn no_rollup_panics(bytes in mangle(ROLLUP)) {
            let _ = process_of(&bytes);
        }
    }
}
