// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/smaps_rollup` of as many processes as fit into a time budget.
//!
//! The kernel walks every page of a process for this file, in one go and under the process's memory
//! lock: about 12 ms per GiB of small pages, seconds for a large database. So what a read will cost
//! is told from the sizes in `status`, the smallest go first, and none is begun that does not fit
//! into what is left. What is left out is [`SmapsOutcome::NotRead`].
//!
//! A recording says what was read then; there is nothing to budget. It also holds the reason for each
//! file that was begun and not read, so that it replays to the same outcome.

use std::ffi::CString;
use std::time::Duration;

use pagewise_model::{Bytes, Process, SmapsOutcome, Source};

use super::helper::{self, Answer};
use crate::calls::Job;
use crate::root::{HostRoot, NO_SUCH_FILE, Refusal, absolute};
use crate::text::{NO_LINE, Text};

/// Why there is no proportional size.
const GONE: &str = "it ended while it was read";
const STUCK: &str = "no answer by the deadline: something holds the process's memory lock";
const NOT_READ: &str = "not read: it did not fit into the time budget";
const HELPER_ENDED: &str = "the helper process that was reading it was ended";
const NO_FILE: &str = "this kernel has no smaps_rollup";

/// A process to read, and what it has in RAM and swap, where that is known.
pub(super) struct Candidate<'a> {
    pub(super) process: &'a mut Process,
    pub(super) resident: Option<Bytes>,
}

/// Fills in what smaps_rollup says about each process.
pub(super) fn read(host: &HostRoot, mut candidates: Vec<Candidate<'_>>, budget: Duration) {
    candidates.sort_by_key(|candidate| (candidate.cost(), candidate.process.pid));
    let answers = if budget.is_zero() {
        candidates.iter().map(|_| Err(absent(NOT_READ))).collect()
    } else if host.is_live() {
        read_live(host, &candidates, budget)
    } else {
        candidates.iter().map(|candidate| recorded(host, &candidate.path())).collect()
    };
    for (candidate, answer) in candidates.iter_mut().zip(answers) {
        let path = absolute(&candidate.path());
        fill(host, candidate.process, &path, answer);
    }
}

impl Candidate<'_> {
    fn path(&self) -> String {
        format!("proc/{}/smaps_rollup", self.process.pid)
    }

    /// What reading it should take; never, where nothing is known about its size.
    fn cost(&self) -> Duration {
        self.resident.map_or(Duration::MAX, cost)
    }

    /// Always `Some`: no path that is made of a number has a zero byte in it.
    fn job(&self) -> Option<Job> {
        let path = CString::new(absolute(&self.path())).ok()?;
        Some(Job { path, cost: self.cost() })
    }
}

/// 30 µs, and 12 ms per GiB: measured on small pages; huge ones are cheaper.
fn cost(size: Bytes) -> Duration {
    const BASE: u64 = 30_000;
    const NANOS_PER_GIB: u128 = 12_000_000;
    let nanos = (u128::from(size.get()) * NANOS_PER_GIB) >> 30;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(BASE))
}

type Answered = Result<Vec<u8>, Refusal>;

fn read_live(host: &HostRoot, candidates: &[Candidate<'_>], budget: Duration) -> Vec<Answered> {
    // For a process that is gone the answer is the same as for a file that no process has.
    if rustix::fs::access("/proc/self/smaps_rollup", rustix::fs::Access::EXISTS).is_err() {
        return candidates.iter().map(|_| Err(absent(NO_FILE))).collect();
    }
    let jobs: Vec<Job> = candidates.iter().filter_map(Candidate::job).collect();
    let answers = helper::read_all(&jobs, budget).into_iter().map(answered);
    candidates.iter().zip(answers).map(|(it, answer)| noted(host, &it.path(), answer)).collect()
}

fn answered(answer: Answer) -> Answered {
    match answer {
        Answer::Read(bytes) if bytes.is_empty() => Err(absent(GONE)),
        Answer::Read(bytes) => Ok(bytes),
        Answer::Refused(errno) => Err(Refusal::from_errno(errno).explained(NO_SUCH_FILE, GONE)),
        Answer::NotRead => Err(absent(NOT_READ)),
        Answer::Stuck => Err(absent(STUCK)),
        Answer::HelperEnded => Err(absent(HELPER_ENDED)),
    }
}

/// Lets a recorder know of what the helper read. What was not begun leaves no trace.
fn noted(host: &HostRoot, path: &str, answer: Answered) -> Answered {
    if answer != Err(absent(NOT_READ)) {
        host.note(path, &answer);
    }
    answer
}

/// A file that the recording does not hold was not read.
fn recorded(host: &HostRoot, path: &str) -> Answered {
    let answer = host.bytes(path);
    answer.map_err(|refusal| refusal.explained(NO_SUCH_FILE, NOT_READ))
}

fn absent(why: &'static str) -> Refusal {
    Refusal::Absent(why.into())
}

fn outcome(answer: &Answered) -> SmapsOutcome {
    match answer {
        Ok(_) => SmapsOutcome::Read,
        Err(Refusal::Denied(_)) => SmapsOutcome::Denied,
        Err(Refusal::Absent(why)) => match why.as_ref() {
            GONE => SmapsOutcome::Gone,
            STUCK => SmapsOutcome::Stuck,
            _ => SmapsOutcome::NotRead,
        },
    }
}

fn fill(host: &HostRoot, process: &mut Process, path: &str, answer: Answered) {
    process.smaps = outcome(&answer);
    match answer {
        Ok(bytes) => parse(host, process, &Text::new(path, bytes)),
        Err(refusal) => mark(process, &refusal, &Source::file(path)),
    }
}

fn mark(process: &mut Process, refusal: &Refusal, source: &Source) {
    let Process { proportional, swap_proportional, anon_huge, shmem_huge, file_huge, .. } = process;
    for field in [proportional, swap_proportional, anon_huge, shmem_huge, file_huge] {
        *field = refusal.clone().reading(source.clone());
    }
}

/// The first line tells address ranges; all others are sizes.
fn parse(host: &HostRoot, process: &mut Process, text: &Text) {
    mark(process, &absent(NO_LINE), &text.source());
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
    use crate::root::Entry;
    use crate::text::testing::{host, mangled};

    /// Linux 6.18, with sizes changed so that no two are the same.
    const ROLLUP: &str = "5653552b6000-7ffc16d8d000 ---p 00000000 00:00 0                          [rollup]\nRss:                1688 kB\nPss:                 291 kB\nPss_Dirty:           116 kB\nPss_Anon:            117 kB\nPss_File:            175 kB\nPss_Shmem:             0 kB\nAnonymous:           118 kB\nKSM:                   0 kB\nLazyFree:              0 kB\nAnonHugePages:      2048 kB\nShmemPmdMapped:     4096 kB\nFilePmdMapped:         0 kB\nSwap:                  9 kB\nSwapPss:               3 kB\nLocked:                0 kB\n";

    fn parsed(bytes: &[u8]) -> Process {
        let mut process = Process::default();
        let text = Text::new("/proc/7/smaps_rollup", bytes.to_vec());
        parse(&host([("x", "")]), &mut process, &text);
        process
    }

    #[test]
    fn sizes_come_from_their_lines() {
        let process = parsed(ROLLUP.as_bytes());
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
        let process = parsed(&ROLLUP.as_bytes()[..150]);
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
        read(host, candidates.collect(), budget);
        all.into_iter().map(|process| process.smaps).collect()
    }

    #[test]
    fn a_recording_replays_to_the_outcome_that_it_was_made_with() {
        let refused = |refusal| Entry::Refused(refusal);
        let entries = [
            (1, Entry::File(ROLLUP.into())),
            (2, refused(Refusal::Denied("run as root".into()))),
            (3, refused(absent(STUCK))),
            (4, refused(absent(GONE))),
        ];
        let host = HostRoot::memory(
            entries.map(|(pid, entry)| (format!("proc/{pid}/smaps_rollup"), entry)),
        );
        use SmapsOutcome::{Denied, Gone, NotRead, Read, Stuck};
        let budget = Duration::from_millis(1);
        assert_eq!(outcomes(&host, budget, &[1, 2, 3, 4, 5]), [Read, Denied, Stuck, Gone, NotRead]);
        assert_eq!(outcomes(&host, Duration::ZERO, &[1, 2]), [NotRead, NotRead]);
    }

    #[test]
    fn what_the_helper_read_is_remembered_and_replays() {
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let live = HostRoot::live().unwrap().remembering();
        let pids = [own, u32::MAX];
        let then = outcomes(&live, Duration::from_secs(5), &pids);
        assert_eq!(then, [SmapsOutcome::Read, SmapsOutcome::Gone]);
        let replay = HostRoot::memory(live.remembered());
        assert_eq!(outcomes(&replay, Duration::from_secs(5), &pids), then);
    }

    #[test]
    fn answers_of_the_kernel_become_outcomes() {
        use rustix::io::Errno;
        let of = |answer| outcome(&answered(answer));
        assert_eq!(of(Answer::Refused(Errno::ACCESS)), SmapsOutcome::Denied);
        assert_eq!(of(Answer::Refused(Errno::SRCH)), SmapsOutcome::Gone);
        assert_eq!(of(Answer::Refused(Errno::IO)), SmapsOutcome::NotRead);
        assert_eq!(of(Answer::Read(Vec::new())), SmapsOutcome::Gone);
        assert_eq!(of(Answer::Stuck), SmapsOutcome::Stuck);
    }

    proptest! {
        #[test]
        fn no_rollup_panics(bytes in mangled(ROLLUP)) {
            let _ = parsed(&bytes);
        }
    }
}
