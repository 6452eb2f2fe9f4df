// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a line for the user about what a run waits for: once the wait has lasted for a while, and
//! again when the reason changes.

use std::path::PathBuf;

use pagewise_model::Bytes;

use super::budget::Shortage;
use super::load::Running;
use super::note::{RunNote, cpus_in_words};
use super::queue::Place;

/// Number of checks before the first line, so that a short wait for a guest that is about to end is
/// not announced.
const FIRST: u64 = 20;
/// Minimum number of checks between two lines, as a long queue may change often.
const GAP: u64 = 100;
/// Maximum number of running guests that are named in a line.
const NAMED: usize = 4;

/// Why a run does not start yet.
#[derive(Debug)]
pub(super) enum Reason {
    /// Other runs are first in the queue.
    Ahead(Place),
    /// The run is first in the queue, and this resource is missing. The number is that of the runs
    /// behind it in the queue.
    Short(Shortage, usize),
}

/// Remembers the last announcement and how many checks ago that was.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    looks: u64,
    announced: Option<(u64, Subject)>,
}

/// The part of an announcement that causes a new line when it changes. Changes of the CPU load, or
/// of the runs behind in the queue, cause none.
#[derive(Debug, Clone, PartialEq)]
struct Subject {
    ahead: usize,
    running: Vec<PathBuf>,
    kind: Option<std::mem::Discriminant<Shortage>>,
}

impl Announcer {
    /// The line that must be shown at this check; `None` if none is due.
    pub(super) fn line_if_due(
        &mut self,
        requested: &RunNote,
        running: &[Running],
        reason: &Reason,
    ) -> Option<String> {
        self.looks += 1;
        let due = self.announced.as_ref().map_or(FIRST, |(look, _)| look + GAP);
        if self.looks < due {
            return None;
        }
        let subject = Subject::from_reason(running, reason);
        if self.announced.as_ref().is_some_and(|(_, announced)| *announced == subject) {
            return None;
        }
        self.announced = Some((self.looks, subject));
        Some(describe_wait(requested, running, reason))
    }
}

impl Subject {
    fn from_reason(running: &[Running], reason: &Reason) -> Self {
        let (ahead, kind) = match reason {
            Reason::Ahead(place) => (place.ahead.len(), None),
            Reason::Short(shortage, _) => (0, Some(std::mem::discriminant(shortage))),
        };
        Self { ahead, running: running.iter().map(|run| run.folder.clone()).collect(), kind }
    }
}

fn describe_wait(requested: &RunNote, running: &[Running], reason: &Reason) -> String {
    let (ahead, behind) = match reason {
        Reason::Ahead(place) => (place.ahead.len(), place.behind),
        Reason::Short(_, behind) => (0, *behind),
    };
    let mut named: Vec<String> = running.iter().map(|run| run.note.describe()).collect();
    let others = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if others > 0 {
        named.push(format!("and {others} more"));
    }
    let runs = if named.is_empty() { "no guest".to_owned() } else { named.join("; ") };
    let waits = match reason {
        Reason::Ahead(place) => {
            let first = place.ahead.first().and_then(Option::as_ref);
            let first = first.map_or_else(String::new, |it| format!(": {}", it.describe()));
            format!("the first in the queue has not started yet{first}")
        }
        Reason::Short(shortage, _) => {
            let memory = Bytes::new(requested.memory);
            format!("this guest needs {} and {memory}: {shortage}", cpus_in_words(requested.cpus))
        }
    };
    format!(
        "waiting to start a guest, place {} of {} in the queue. Running: {runs}. Waiting because {waits}. \
         --now starts regardless",
        ahead + 1,
        ahead + 1 + behind
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(label: &str) -> RunNote {
        RunNote::new(1, Bytes::new(512 << 20), label)
    }

    fn running(count: usize) -> Vec<Running> {
        let run = |number| Running { folder: format!("/{number}").into(), note: note("trixie") };
        (0..count).map(run).collect()
    }

    fn short(busy: f64) -> Reason {
        Reason::Short(Shortage::Cpus { busy, all: 2 }, 1)
    }

    #[test]
    fn a_line_names_the_place_who_runs_and_what_is_missing() {
        let text = describe_wait(&note("sid"), &running(1), &short(1.84));
        let pid = std::process::id();
        let start = format!(
            "waiting to start a guest, place 1 of 2 in the queue. Running: pid {pid} since "
        );
        assert!(text.starts_with(&start), "{text}");
        let end = "): trixie, 512.0 MiB, 1 CPU. Waiting because this guest needs 1 CPU and 640.0 MiB: \
                   1.8 of 2 CPUs are busy. --now starts regardless";
        assert!(text.ends_with(end), "{text}");
        assert!(
            describe_wait(&note("sid"), &running(7), &short(1.0)).contains("1 CPU; and 3 more. ")
        );
    }

    #[test]
    fn who_is_not_the_first_hears_whom_all_wait_for() {
        let place = Place { ahead: vec![Some(note("bookworm: first")), None], behind: 0 };
        let text = describe_wait(&note("sid"), &running(1), &Reason::Ahead(place));
        assert!(text.contains("place 3 of 3"), "{text}");
        let first = "Waiting because the first in the queue has not started yet: pid ";
        assert!(text.contains(first) && text.contains("bookworm: first, 512.0 MiB"), "{text}");
    }

    /// The first announcement comes after FIRST checks; later only changes are announced, at most
    /// once per GAP checks.
    #[test]
    fn a_long_wait_is_announced_at_first_and_when_it_changes() {
        let mut announcer = Announcer::default();
        let mut lines = |looks: u64, count: usize, reason: &Reason| {
            let line = |_| announcer.line_if_due(&note("sid"), &running(count), reason);
            (0..looks).filter_map(line).count()
        };
        assert_eq!(lines(FIRST - 1, 1, &short(1.0)), 0);
        assert_eq!(lines(1, 1, &short(1.0)), 1);
        assert_eq!(lines(10 * GAP, 1, &short(1.7)), 0);
        assert_eq!(lines(1, 2, &short(1.7)), 1);
        assert_eq!(lines(GAP - 1, 3, &short(1.7)), 0);
        assert_eq!(lines(1, 3, &short(1.7)), 1);
        let memory = Reason::Short(Shortage::Available(0), 1);
        assert_eq!(lines(2 * GAP, 3, &memory), 1);
        let mut place = Place { ahead: vec![None], behind: 0 };
        place.behind = 5;
        assert_eq!(lines(2 * GAP, 3, &Reason::Ahead(place)), 1);
    }
}
