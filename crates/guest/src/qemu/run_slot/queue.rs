// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of waiting runs: a numbered ticket for each, in the cache's folder `queue`.
//!
//! A ticket is a file that its run keeps locked. The kernel releases the lock when the process
//! ends, so a ticket whose lock is free belongs to a killed run, and the next run in the queue
//! removes it. Numbers are assigned under the lock of arrivals, each higher than all existing ones.
//! So no run gets a number below that of a waiting run, and a new ticket that is not locked yet is
//! never mistaken for that of a killed run.

use std::fs;
use std::path::{Path, PathBuf};

use super::note::RunNote;
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::lock::{Held, Kind, Lock};

/// A place in the queue, held until this value is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    queue: PathBuf,
    number: u64,
    _lock: Lock,
}

/// The place of one ticket in the queue.
#[derive(Debug)]
pub(super) struct Place {
    /// Notes of the runs before this one, the next to start first; `None` if a run has not written
    /// its note yet.
    pub(super) ahead: Vec<Option<RunNote>>,
    /// Number of runs behind this one.
    pub(super) behind: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = fs::remove_file(ticket_path(&self.queue, self.number));
    }
}

impl Ticket {
    /// Takes the last place in the queue. The caller holds the lock of arrivals.
    pub(super) fn take(queue: &Path, note: &RunNote) -> Result<Self, Error> {
        let number = ticket_numbers(queue)?.last().map_or(1, |last| last.saturating_add(1));
        let path = ticket_path(queue, number);
        let note = serde_json::to_vec(note).unwrap_or_default();
        files::write(&path, &note, 0o600)?;
        let lock = Lock::try_take(&path, Kind::Alone)?.ok_or(Error::Stopped)?;
        Ok(Self { queue: queue.to_owned(), number, _lock: lock })
    }

    /// The place of this ticket. Tickets of killed runs before it are removed.
    pub(super) fn place(&self) -> Result<Place, Error> {
        let (mut ahead, mut behind) = (Vec::new(), 0);
        for number in ticket_numbers(&self.queue)? {
            if number > self.number {
                behind += 1;
            } else if number < self.number && is_waiting(&self.queue, number)? {
                let note = fs::read(ticket_path(&self.queue, number)).unwrap_or_default();
                ahead.push(serde_json::from_slice(&note).ok());
            }
        }
        Ok(Place { ahead, behind })
    }
}

/// Removes the tickets of killed runs. The caller holds the lock of arrivals, so that no other run
/// has just made a ticket that it has not locked yet.
pub(super) fn remove_dead_tickets(queue: &Path) -> Result<(), Error> {
    ticket_numbers(queue)?.into_iter().try_for_each(|number| is_waiting(queue, number).map(|_| ()))
}

/// Whether the run of a ticket is alive; otherwise the ticket is removed.
fn is_waiting(queue: &Path, number: u64) -> Result<bool, Error> {
    let path = ticket_path(queue, number);
    Ok(match Lock::try_lock_existing(&path)? {
        Held::ByOther => true,
        Held::ByNobody(_lock) => {
            let _ = fs::remove_file(&path);
            false
        }
        Held::Gone => false,
    })
}

/// Numbers of the tickets in ascending order; files with other names are ignored.
fn ticket_numbers(queue: &Path) -> Result<Vec<u64>, Error> {
    let entries = fs::read_dir(queue).with_path(queue)?.flatten();
    let mut numbers: Vec<u64> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn ticket_path(queue: &Path, number: u64) -> PathBuf {
    queue.join(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    fn note(label: &str) -> RunNote {
        RunNote::new(1, Bytes::new(1 << 20), label)
    }

    /// Number of runs before and behind a ticket.
    fn place(ticket: &Ticket) -> (usize, usize) {
        let place = ticket.place().unwrap();
        (place.ahead.len(), place.behind)
    }

    #[test]
    fn places_follow_the_order_of_arrival_whoever_goes() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Ticket::take(folder.path(), &note("x")).unwrap();
        let (one, two, three) = (take(), take(), take());
        assert_eq!([&one, &two, &three].map(place), [(0, 2), (1, 1), (2, 0)]);
        drop(two);
        let four = take();
        assert_eq!([&one, &three, &four].map(place), [(0, 2), (1, 1), (2, 0)]);
        drop(one);
        assert_eq!([&three, &four].map(place), [(0, 1), (1, 0)]);
        drop((three, four));
        assert_eq!(ticket_numbers(folder.path()).unwrap(), Vec::<u64>::new());
    }

    /// A ticket of a killed run: the file exists, but nobody holds its lock.
    #[test]
    fn a_ticket_of_a_killed_run_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let leave = |number: u64| fs::write(ticket_path(folder.path(), number), b"{}").unwrap();
        leave(3);
        fs::write(folder.path().join("foreign"), b"").unwrap();
        let one = Ticket::take(folder.path(), &note("one")).unwrap();
        assert_eq!(one.number, 4);
        leave(7);
        let two = Ticket::take(folder.path(), &note("two")).unwrap();
        let found = two.place().unwrap();
        assert_eq!(found.ahead, [Some(note("one"))]);
        assert_eq!(ticket_numbers(folder.path()).unwrap(), [4, 8]);
        drop((one, two));
        leave(9);
        remove_dead_tickets(folder.path()).unwrap();
        assert_eq!(ticket_numbers(folder.path()).unwrap(), Vec::<u64>::new());
        assert!(folder.path().join("foreign").exists());
    }
}
