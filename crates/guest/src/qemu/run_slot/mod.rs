// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of a run, which is also its slot among the guests that run at the same time.
//!
//! Each run has a folder with a lock that its runner holds, and a note that says who runs what with
//! how much memory. The kernel releases the lock when the runner dies, so a folder whose lock is
//! free was left by a killed runner; the next run removes the folder and prints a message
//! ([`leftovers`]).
//!
//! Runs start in order of arrival ([`queue`]), whatever resources they need; otherwise small runs
//! could overtake a large one for ever. A run takes its ticket before it waits for anything else.
//! The first run in the queue starts when there is enough memory and CPUs are free ([`budget`],
//! [`load`]); a run also starts if no other guest runs. If the first run in the queue is stopped by
//! SIGSTOP, it keeps its place and the others wait for it; [`announcer`] names it. A run with `now`
//! does not wait, but counts for the limits of the others.

mod announcer;
mod budget;
mod leftovers;
mod load;
mod note;
mod places;
mod queue;

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pagewise_model::Bytes;

use self::announcer::{Announcer, Reason};
use self::load::{Load, LoadMeter, Running};
use self::note::RunNote;
use self::queue::Ticket;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::lock::{Kind, Lock};

pub use self::budget::Budget;
pub use self::leftovers::remove_leftovers;

/// Interval at which a waiting run checks whether it may start.
const LOOK: Duration = Duration::from_millis(100);

/// The right to run a guest, with a folder for the run; held until this value is dropped.
#[derive(Debug)]
pub(super) struct RunSlot {
    pub(super) folder: PathBuf,
    _lock: Lock,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The resources that a run requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRequest<'a> {
    /// The kernel and the command, as shown to other runs that wait.
    pub(super) label: &'a str,
    pub(super) cpus: u32,
    /// Size of the guest's memory.
    pub(super) memory: Bytes,
    /// Limits for all runs together.
    pub(super) budget: Budget,
    /// Whether to start at once, without waiting for other runs.
    pub(super) now: bool,
}

/// The state of a run that waits for its slot.
struct Wait<'a> {
    stop: &'a AtomicBool,
    tell: &'a mut dyn FnMut(&str),
    measure: &'a mut dyn FnMut(&[Running]) -> Load,
    look: Duration,
}

impl RunSlot {
    /// Waits in the queue until it is this run's turn and the resources are free, or until the user
    /// stops the program.
    pub(super) fn take(
        cache: &Cache,
        request: SlotRequest<'_>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let mut meter = LoadMeter::default();
        let mut measure = |running: &[Running]| meter.measure(running);
        let mut wait = Wait { stop, tell, measure: &mut measure, look: LOOK };
        Self::take_in_turn(cache, request, &mut wait)
    }

    fn take_in_turn(
        cache: &Cache,
        request: SlotRequest<'_>,
        wait: &mut Wait<'_>,
    ) -> Result<Self, Error> {
        let note = RunNote::new(request.cpus, request.memory, request.label);
        if request.now {
            let _admission = wait.lock_admission(cache)?;
            return Self::new(cache, &note);
        }
        let ticket = {
            let _arrival = Lock::wait(&places::arrivals_lock(cache), Kind::Alone, wait.stop)?;
            Ticket::take(&places::queue_folder(cache), &note)?
        };
        let mut announcer = Announcer::default();
        loop {
            let place = ticket.place()?;
            let is_first = place.ahead.is_empty();
            let admission = is_first.then(|| wait.lock_admission(cache)).transpose()?;
            let running = places::list_running(cache)?;
            // the load is measured even while other runs are first, so that earlier readings exist
            // when the turn of this run comes
            let load = (wait.measure)(&running);
            let reason = if admission.is_some() {
                let notes: Vec<&RunNote> = running.iter().map(|run| &run.note).collect();
                match request.budget.shortage(&note, &notes, load) {
                    // the ticket is dropped after the folder exists, so that the run always counts
                    None => return Self::new(cache, &note),
                    Some(shortage) => Reason::Short(shortage, place.behind),
                }
            } else {
                Reason::Ahead(place)
            };
            drop(admission);
            if let Some(line) = announcer.line_if_due(&note, &running, &reason) {
                (wait.tell)(&line);
            }
            std::thread::sleep(wait.look);
            if wait.stop.load(Ordering::SeqCst) {
                return Err(Error::Stopped);
            }
        }
    }

    /// Makes the folder of a run. The caller holds the admission lock.
    fn new(cache: &Cache, note: &RunNote) -> Result<Self, Error> {
        let folder = new_folder(&places::runs_folder(cache))?;
        let lock =
            Lock::try_take(&folder.join(places::LOCK), Kind::Alone)?.ok_or(Error::Stopped)?;
        let slot = Self { folder, _lock: lock };
        let note = serde_json::to_vec(&note.renew()).unwrap_or_default();
        files::write(&slot.folder.join(places::NOTE), &note, 0o600)?;
        Ok(slot)
    }
}

impl Wait<'_> {
    /// Takes the admission lock and removes the leftovers of killed runs.
    fn lock_admission(&mut self, cache: &Cache) -> Result<Lock, Error> {
        let lock = Lock::wait(&places::admission_lock(cache), Kind::Alone, self.stop)?;
        for left in leftovers::remove_leftovers_under_lock(cache)? {
            (self.tell)(&left);
        }
        Ok(lock)
    }
}

/// Makes a new folder for a run. A pid alone would not be unique: runs of several PID namespaces
/// may share a cache.
fn new_folder(runs: &Path) -> Result<PathBuf, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let folder = runs.join(format!("{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.with_path(&folder).map(|()| folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::Scope;

    use super::*;
    use crate::qemu::process;

    /// Time limit for a step of these tests, much longer than any step takes; a step that exceeds
    /// it fails the test.
    const PATIENCE: Duration = Duration::from_secs(60);
    const BUDGET: Budget = Budget { cpus: 2, memory: 1 << 40 };
    /// Memory size of a guest: two guests of this size exceed the limit.
    const MOST: Bytes = Bytes::new((1 << 39) + 1);
    const LITTLE: Bytes = Bytes::new(1 << 20);

    fn request(label: &str, cpus: u32, memory: Bytes) -> SlotRequest<'_> {
        SlotRequest { label, cpus, memory, budget: BUDGET, now: false }
    }

    /// The load if each guest kept all its CPUs busy.
    fn all_busy(running: &[Running]) -> Load {
        let busy = running.iter().map(|run| f64::from(run.note.cpus)).sum();
        Load { busy, memory_left: None }
    }

    fn take_at_once(cache: &Cache, lines: &mut Vec<String>) -> RunSlot {
        let mut tell = |line: &str| lines.push(line.to_owned());
        let stop = AtomicBool::new(false);
        let (mut measure, look) = (all_busy, Duration::from_millis(1));
        let mut wait = Wait { stop: &stop, tell: &mut tell, measure: &mut measure, look };
        RunSlot::take_in_turn(cache, request("at once", 1, LITTLE), &mut wait).unwrap()
    }

    /// Runs that start one after the other: each starts when the previous one has printed what it
    /// waits for.
    struct Runs<'env> {
        cache: &'env Cache,
        measure: &'env (dyn Fn(&[Running]) -> Load + Sync),
        started: Sender<(&'static str, Result<RunSlot, Error>)>,
        results: Receiver<(&'static str, Result<RunSlot, Error>)>,
    }

    impl<'env> Runs<'env> {
        fn new(cache: &'env Cache, measure: &'env (dyn Fn(&[Running]) -> Load + Sync)) -> Self {
            let (started, results) = channel();
            Self { cache, measure, started, results }
        }

        /// Starts one more run; returns the lines that it prints while it waits.
        fn come<'scope>(
            &self,
            scope: &'scope Scope<'scope, 'env>,
            name: &'static str,
            request: SlotRequest<'static>,
            stop: &'env AtomicBool,
        ) -> Receiver<String> {
            let (say, lines) = channel();
            let (cache, measure, started) = (self.cache, self.measure, self.started.clone());
            scope.spawn(move || {
                let mut tell = |line: &str| {
                    // an error means that the receiver has ended already
                    let _ = say.send(line.to_owned());
                };
                let mut measure = |running: &[Running]| measure(running);
                let look = Duration::from_millis(1);
                let mut wait = Wait { stop, tell: &mut tell, measure: &mut measure, look };
                let slot = RunSlot::take_in_turn(cache, request, &mut wait);
                let _ = started.send((name, slot));
            });
            lines
        }

        /// Starts a run that has to wait for a slot; returns the first line that it prints.
        fn wait<'scope>(
            &self,
            scope: &'scope Scope<'scope, 'env>,
            name: &'static str,
            request: SlotRequest<'static>,
            stop: &'env AtomicBool,
        ) -> String {
            self.come(scope, name, request, stop).recv_timeout(PATIENCE).unwrap()
        }

        fn next(&self) -> (&'static str, Result<RunSlot, Error>) {
            self.results.recv_timeout(PATIENCE).unwrap()
        }

        fn next_slot(&self) -> (&'static str, RunSlot) {
            let (name, slot) = self.next();
            (name, slot.unwrap())
        }
    }

    #[test]
    fn the_third_waits_for_two_processors() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let mut lines = Vec::new();
        let (one, two) = (take_at_once(&cache, &mut lines), take_at_once(&cache, &mut lines));
        assert!(two.folder.is_dir() && one.folder != two.folder && lines.is_empty());
        let (runs, go_on) = (Runs::new(&cache, &all_busy), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // the third run finds no room, and waits
            let listed = runs.wait(scope, "third", request("third", 1, LITTLE), &go_on);
            assert!(listed.contains("place 1 of 1 in the queue"), "{listed}");
            assert!(listed.matches(": at once, 1.0 MiB, 1 CPU").count() == 2, "{listed}");
            assert!(
                listed.contains("needs 1 CPU and 129.0 MiB: 2.0 of 2 CPUs are busy"),
                "{listed}"
            );
            assert!(runs.results.try_recv().is_err());
            drop(one);
            assert_eq!(runs.next_slot().0, "third");
        });
        drop(two);
        assert_eq!(places::list_run_folders(&cache).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(folder.path().join("queue")).unwrap().count(), 0);
    }

    /// Five runs, of which no two fit at the same time: each starts when the previous one has
    /// ended.
    #[test]
    fn runs_start_in_the_order_in_which_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let first = take_at_once(&cache, &mut Vec::new());
        let sizes =
            [("a", 2, LITTLE), ("b", 1, MOST), ("c", 2, MOST), ("d", 2, LITTLE), ("e", 1, MOST)];
        let (runs, go_on) = (Runs::new(&cache, &all_busy), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for (index, (name, cpus, memory)) in sizes.into_iter().enumerate() {
                let line = runs.wait(scope, name, request(name, cpus, memory), &go_on);
                let place = format!("place {0} of {0} in the queue", index + 1);
                assert!(line.contains(&place), "{line}");
                let reason =
                    if index == 0 { "1.0 of 2 CPUs are busy" } else { ": a, 1.0 MiB, 2 CPUs" };
                assert!(line.contains(reason), "{line}");
            }
            drop(first);
            for (expected, ..) in sizes {
                let (name, slot) = runs.next_slot();
                assert_eq!(name, expected);
                assert!(runs.results.try_recv().is_err());
                drop(slot);
            }
        });
    }

    /// A run that needs two CPUs waits for one that uses one CPU; a later run with one CPU would
    /// fit, but must not overtake the waiting run.
    #[test]
    fn who_waits_is_not_overtaken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let first = take_at_once(&cache, &mut Vec::new());
        let (runs, go_on) = (Runs::new(&cache, &all_busy), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let line = runs.wait(scope, "wide", request("wide", 2, LITTLE), &go_on);
            assert!(line.contains("1.0 of 2 CPUs are busy"), "{line}");
            let line = runs.wait(scope, "narrow", request("narrow", 1, LITTLE), &go_on);
            assert!(line.contains("the first in the queue has not started yet: pid "), "{line}");
            drop(first);
            for expected in ["wide", "narrow"] {
                let (name, slot) = runs.next_slot();
                assert_eq!(name, expected);
                drop(slot);
            }
        });
    }

    /// Of three waiting runs, the first stops waiting and the second was killed, so the third
    /// starts.
    #[test]
    fn who_goes_leaves_its_place_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let first = take_at_once(&cache, &mut Vec::new());
        let (runs, go_on) = (Runs::new(&cache, &all_busy), AtomicBool::new(false));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            runs.wait(scope, "stopped", request("stopped", 2, MOST), &stop);
            // a killed run leaves a ticket without a lock; the first run that sees the ticket
            // removes it
            files::write(&folder.path().join("queue/2"), b"{}", 0o600).unwrap();
            let line = runs.wait(scope, "third", request("third", 2, MOST), &go_on);
            assert!(line.contains("place 2 of 2"), "{line}");
            stop.store(true, Ordering::SeqCst);
            let (name, ended) = runs.next();
            assert!(name == "stopped" && matches!(ended, Err(Error::Stopped)));
            drop(first);
            assert_eq!(runs.next_slot().0, "third");
        });
        assert_eq!(fs::read_dir(folder.path().join("queue")).unwrap().count(), 0);
    }

    #[test]
    fn a_guest_that_sleeps_lets_another_one_start() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let busy = Mutex::new(2.0);
        let measure = |_: &[Running]| Load { busy: *busy.lock().unwrap(), memory_left: None };
        let (_one, go_on) = (take_at_once(&cache, &mut Vec::new()), AtomicBool::new(false));
        let runs = Runs::new(&cache, &measure);
        std::thread::scope(|scope| {
            runs.wait(scope, "other", request("other", 2, LITTLE), &go_on);
            assert!(runs.results.try_recv().is_err());
            *busy.lock().unwrap() = 0.05;
            assert_eq!(runs.next_slot().0, "other");
        });
    }

    #[test]
    fn memory_that_the_machine_does_not_have_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let left = Mutex::new(1 << 20);
        let measure = |_: &[Running]| Load { busy: 0.0, memory_left: Some(*left.lock().unwrap()) };
        let (_one, go_on) = (take_at_once(&cache, &mut Vec::new()), AtomicBool::new(false));
        let runs = Runs::new(&cache, &measure);
        std::thread::scope(|scope| {
            let line = runs.wait(scope, "other", request("other", 1, LITTLE), &go_on);
            assert!(line.contains("this machine has 1.0 MiB available"), "{line}");
            *left.lock().unwrap() = 1 << 30;
            assert_eq!(runs.next_slot().0, "other");
        });
    }

    #[test]
    fn now_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let first = take_at_once(&cache, &mut Vec::new());
        let (runs, stop) = (Runs::new(&cache, &all_busy), AtomicBool::new(false));
        std::thread::scope(|scope| {
            runs.wait(scope, "waits", request("waits", 2, MOST), &stop);
            let now = SlotRequest { now: true, ..request("now", 64, MOST) };
            let lines = runs.come(scope, "now", now, &stop);
            let (name, slot) = runs.next_slot();
            assert!(name == "now" && slot.folder.is_dir() && lines.recv().is_err());
            // the run counts for the limits of waiting runs
            assert_eq!(places::list_running(&cache).unwrap().len(), 2);
            drop(first);
            assert!(runs.results.recv_timeout(Duration::from_millis(50)).is_err());
            drop(slot);
            assert_eq!(runs.next_slot().0, "waits");
        });
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let _taken = [(); 2].map(|()| take_at_once(&cache, &mut Vec::new()));
        let (runs, stop) = (Runs::new(&cache, &all_busy), AtomicBool::new(true));
        std::thread::scope(|scope| {
            runs.come(scope, "stopped", request("stopped", 1, LITTLE), &stop);
            assert!(matches!(runs.next().1, Err(Error::Stopped)));
        });
        assert_eq!(fs::read_dir(folder.path().join("queue")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let left = folder.path().join("runs/1234-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("initramfs"), b"x").unwrap();
        // One process has the mark of a QEMU among its arguments; the other has only the log there.
        let log = left.join("kernel.log").into_os_string();
        let sleeper = |word: &std::ffi::OsStr| {
            let mut sleeper = std::process::Command::new("sh");
            // the process ends when its input ends, so that it does not outlive the test
            sleeper.args(["-c", "read line"]).arg(word);
            let sleeper = sleeper.stdin(std::process::Stdio::piped()).spawn().unwrap();
            // the arguments appear in /proc shortly after the process was spawned
            let line = format!("/proc/{}/cmdline", sleeper.id());
            let shown = [word.as_encoded_bytes(), b"\0"].concat();
            let is_shown = |_| {
                std::thread::sleep(Duration::from_millis(1));
                fs::read(&line).unwrap().ends_with(&shown)
            };
            assert!((0..10_000).any(is_shown), "{line} shows no arguments");
            sleeper
        };
        let (mut qemu, mut reader) = (sleeper(&process::name_argument(&left)), sleeper(&log));
        let mut lines = Vec::new();
        let slot = take_at_once(&cache, &mut lines);
        assert!(lines.len() == 1 && lines[0].contains("1234-0 and its QEMU, left"), "{lines:?}");
        assert_eq!(qemu.wait().unwrap().signal(), Some(9));
        assert!(reader.try_wait().unwrap().is_none());
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert!(!left.exists() && slot.folder.exists());
        assert!(remove_leftovers(&cache, &AtomicBool::new(false)).unwrap().is_empty());
    }
}
