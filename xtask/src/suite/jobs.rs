// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs jobs that wait for each other, several at a time, and returns the outcome of each.
//!
//! If several jobs are ready (their predecessors have passed), a free worker chooses first a job
//! that others wait for, then one whose guest needs several CPUs, then the one with the longest
//! expected time. A job may add further jobs, because the list of tests is known only after they
//! are built. If a predecessor fails, the jobs that wait for it are not started, and are reported
//! as such.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;

use super::child;
use super::outcome::{Outcome, State};
use super::times::Times;

/// The work of a job: a function that returns the job's outcome, and further jobs.
pub(super) type Work = Box<dyn FnOnce() -> Result<(Outcome, Vec<Job>)> + Send>;

pub(super) struct Job {
    /// Name of the job; no other job of the run has it.
    pub(super) name: String,
    pub(super) phase: &'static str,
    /// Names of jobs that must have passed before this job starts.
    pub(super) after: Vec<&'static str>,
    /// Whether the job changes settings of this machine. Only one such job runs at a time. It does
    /// not count as one of the workers, because it mostly waits: for its turn, and for the effects
    /// of its changes.
    pub(super) borrows: bool,
    /// Whether the job starts only when nothing else runs, and nothing else starts while it runs.
    pub(super) is_alone: bool,
    /// Number of virtual CPUs of the guest that the job starts. Guests that run at the same time
    /// never have more CPUs together than the machine; a job whose guest would exceed that number
    /// waits.
    pub(super) guest_cpus: usize,
    /// Whether many jobs wait for this job; then it starts before all jobs that are not urgent,
    /// even if it is short.
    pub(super) is_urgent: bool,
    /// Estimated duration in seconds; used until the job has been measured.
    pub(super) guess: f64,
    /// Whether all other jobs wait until this job has ended, and are not started if it failed: for
    /// example, code that does not compile cannot be tested.
    pub(super) stops_all: bool,
    /// Whether the job is left out if it is not expected to end within the time for all jobs.
    pub(super) may_be_left_out: bool,
    pub(super) work: Work,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("after", &self.after).finish()
    }
}

/// A job that has ended, with its outcome and times.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) name: String,
    pub(super) phase: &'static str,
    pub(super) seconds: f64,
    /// When the job ended, in seconds since the first job started.
    pub(super) ended_at: f64,
    pub(super) outcome: Outcome,
}

#[derive(Default)]
struct Queue {
    /// Number of jobs that may run at a time, in addition to one that changes settings.
    workers: usize,
    /// Number of CPUs of this machine.
    processors: usize,
    /// Number of virtual CPUs of the running guests.
    guest_cpus: usize,
    waiting: Vec<Job>,
    running: usize,
    /// Whether one of the running jobs changes settings of this machine.
    is_borrowed: bool,
    /// Whether the running job must be the only one.
    is_taken: bool,
    /// Whether the shortest ready job starts first, not the longest.
    shortest_first: bool,
    /// Time for all jobs in seconds since the first one started; `None` if there is no limit.
    within: Option<f64>,
    /// Whether each job that has ended passed, by its name.
    ended: BTreeMap<String, bool>,
    finished: Vec<Finished>,
    halted: bool,
}

impl Queue {
    /// Removes from the queue the ready job that should start next: an urgent job; if there is
    /// none, one whose guest has several CPUs; otherwise the longest (the shortest with
    /// `shortest_first`).
    fn take_next(&mut self, times: &Times) -> Option<Job> {
        let others = self.running - usize::from(self.is_borrowed);
        if self.is_taken {
            return None;
        }
        let ready = |job: &Job| {
            if job.is_alone {
                return self.running == 0;
            }
            let is_free = if job.borrows { !self.is_borrowed } else { others < self.workers };
            let cpus = self.guest_cpus + job.guest_cpus;
            let has_cpus = job.guest_cpus == 0 || self.guest_cpus == 0 || cpus <= self.processors;
            is_free && has_cpus && job.after.iter().all(|name| self.ended.get(*name) == Some(&true))
        };
        let sign = if self.shortest_first { -1.0 } else { 1.0 };
        let expected = |job: &Job| sign * times.seconds_of(&job.name).unwrap_or(job.guess);
        let (at, _) = self.waiting.iter().enumerate().filter(|(_, job)| ready(job)).max_by(
            |(_, a), (_, b)| {
                let first = |job: &Job| {
                    (job.is_urgent, !self.shortest_first && job.guest_cpus > 1, !job.is_alone)
                };
                first(a).cmp(&first(b)).then(expected(a).total_cmp(&expected(b)))
            },
        )?;
        Some(self.waiting.remove(at))
    }

    /// Marks the jobs that wait for a failed job, or for one that does not exist, as ended without
    /// a run.
    fn end_unreachable(&mut self, now: f64) {
        while let Some(at) = self.waiting.iter().position(|job| self.is_hopeless(job)) {
            let job = self.waiting.remove(at);
            self.ended.insert(job.name.clone(), false);
            let why = if self.halted { "an earlier job failed" } else { "what it needs failed" };
            let outcome = Outcome::new(State::NotStarted, format!("not started: {why}"));
            let Job { name, phase, .. } = job;
            self.finished.push(Finished { name, phase, seconds: 0.0, ended_at: now, outcome });
        }
    }

    /// Marks the jobs that would probably not end in time as ended without a run.
    fn end_late(&mut self, now: f64, times: &Times) {
        let Some(within) = self.within else { return };
        let is_late = |job: &Job| {
            let expected = times.seconds_of(&job.name).unwrap_or(job.guess);
            job.may_be_left_out && now + expected > within
        };
        while let Some(at) = self.waiting.iter().position(is_late) {
            let job = self.waiting.remove(at);
            self.ended.insert(job.name.clone(), false);
            let why = "it would not have ended within the time that was given";
            let outcome = Outcome::new(State::NoTime, why.to_owned());
            let Job { name, phase, .. } = job;
            self.finished.push(Finished { name, phase, seconds: 0.0, ended_at: now, outcome });
        }
    }

    fn is_hopeless(&self, job: &Job) -> bool {
        let failed = |name: &&str| self.ended.get(*name) == Some(&false);
        let unknown = |name: &&str| {
            self.running == 0
                && !self.ended.contains_key(*name)
                && !self.waiting.iter().any(|other| other.name == **name)
        };
        self.halted || job.after.iter().any(|name| failed(name) || unknown(name))
    }
}

/// Runs all jobs on this number of CPUs. Half as many jobs run at a time (but two to four), plus
/// one that changes settings. With `within`, jobs that may be left out are not started if they
/// would not end within so many seconds. Prints a line when a job starts and when it ends.
pub(super) fn run_all(
    jobs: Vec<Job>,
    processors: usize,
    times: &Times,
    shortest_first: bool,
    within: Option<f64>,
) -> Vec<Finished> {
    // CI has at least two CPUs; a guest or a test that sleeps leaves its CPU to another job.
    let workers = (processors / 2).clamp(2, 4);
    run_queue(
        Queue { workers, processors, waiting: jobs, shortest_first, within, ..Queue::default() },
        times,
    )
}

#[cfg(test)]
fn run_by(workers: usize, jobs: Vec<Job>, processors: usize, times: &Times) -> Vec<Finished> {
    run_queue(Queue { workers, processors, waiting: jobs, ..Queue::default() }, times)
}

fn run_queue(queue: Queue, times: &Times) -> Vec<Finished> {
    let begun = Instant::now();
    let workers = queue.workers;
    let queue = Mutex::new(queue);
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..=workers {
            scope.spawn(|| run_until_empty(&queue, &changed, times, begun));
        }
    });
    lock(&queue).finished.drain(..).collect()
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_until_empty(queue: &Mutex<Queue>, changed: &Condvar, times: &Times, begun: Instant) {
    let mut state = lock(queue);
    loop {
        state.halted |= child::is_stopped();
        state.end_unreachable(begun.elapsed().as_secs_f64());
        state.end_late(begun.elapsed().as_secs_f64(), times);
        if let Some(job) = state.take_next(times) {
            let (borrows, guest_cpus, is_alone) = (job.borrows, job.guest_cpus, job.is_alone);
            state.running += 1;
            state.is_taken |= is_alone;
            state.guest_cpus += guest_cpus;
            state.is_borrowed |= borrows;
            drop(state);
            let finished = finish(job, begun);
            state = lock(queue);
            let (finished, stops_all, added) = finished;
            state.running -= 1;
            state.guest_cpus -= guest_cpus;
            state.is_borrowed &= !borrows;
            state.is_taken &= !is_alone;
            let passed = finished.outcome.state.is_good();
            state.halted |= stops_all && !passed;
            state.ended.insert(finished.name.clone(), passed);
            state.finished.push(finished);
            state.waiting.extend(added);
            changed.notify_all();
        } else if state.running == 0 && state.waiting.is_empty() {
            changed.notify_all();
            return;
        } else if state.running > 0 {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Prints a line to standard output. If the pipe is closed, the run continues.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn finish(job: Job, begun: Instant) -> (Finished, bool, Vec<Job>) {
    let Job { name, phase, stops_all, work, .. } = job;
    let started = Instant::now();
    print_line(&format!("  start   {name}"));
    let (outcome, added) = work()
        .unwrap_or_else(|error| (Outcome::new(State::Failed, format!("{error:#}")), Vec::new()));
    let seconds = started.elapsed().as_secs_f64();
    print_line(&outcome.describe(&name, seconds));
    let ended_at = begun.elapsed().as_secs_f64();
    (Finished { name, phase, seconds, ended_at, outcome }, stops_all, added)
}

#[cfg(test)]
mod check {
    use super::*;
    use std::sync::Arc;

    type Order = Arc<Mutex<Vec<String>>>;

    fn job(order: &Order, name: &str, after: &[&'static str], guess: f64, state: State) -> Job {
        let (order, own) = (Arc::clone(order), name.to_owned());
        let work = move || {
            order.lock().unwrap().push(own);
            Ok((Outcome::new(state, String::new()), Vec::new()))
        };
        let (name, after) = (name.to_owned(), after.to_vec());
        let (is_urgent, work) = (false, Box::new(work));
        Job {
            name,
            phase: "check",
            after,
            borrows: false,
            is_alone: false,
            guest_cpus: 0,
            is_urgent,
            guess,
            stops_all: false,
            may_be_left_out: false,
            work,
        }
    }

    fn states(finished: &[Finished]) -> BTreeMap<&str, State> {
        finished.iter().map(|one| (one.name.as_str(), one.outcome.state)).collect()
    }

    #[test]
    fn longest_first_and_never_before_what_it_needs() {
        let order = Order::default();
        let jobs = vec![
            job(&order, "short", &[], 1.0, State::Passed),
            job(&order, "long", &["short"], 9.0, State::Passed),
            job(&order, "middle", &[], 5.0, State::Passed),
        ];
        let finished = run_by(1, jobs, 2, &Times::default());
        assert_eq!(*order.lock().unwrap(), ["middle", "short", "long"]);
        assert!(finished.iter().all(|one| one.outcome.state == State::Passed));
    }

    #[test]
    fn what_was_measured_counts_more_than_a_guess() {
        let order = Order::default();
        let mut times = Times::default();
        times.set("a", 10.0);
        let jobs = vec![
            job(&order, "b", &[], 5.0, State::Passed),
            job(&order, "a", &[], 1.0, State::Passed),
        ];
        run_by(1, jobs, 2, &times);
        assert_eq!(*order.lock().unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_others_wait_for_goes_first_however_short() {
        let order = Order::default();
        let mut short = job(&order, "short", &[], 1.0, State::Passed);
        short.is_urgent = true;
        run_by(1, vec![job(&order, "long", &[], 9.0, State::Passed), short], 2, &Times::default());
        assert_eq!(*order.lock().unwrap(), ["short", "long"]);
    }

    /// A job that fails if another job with the same lock runs at the same time.
    fn alone(order: &Order, name: &str, held: &Arc<Mutex<()>>) -> Job {
        let held = Arc::clone(held);
        let work = move || {
            let _held = held.try_lock().expect("no other one of its kind runs now");
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok((Outcome::new(State::Passed, String::new()), Vec::new()))
        };
        Job { work: Box::new(work), ..job(order, name, &[], 9.0, State::Passed) }
    }

    #[test]
    fn of_those_that_borrow_one_runs_at_a_time() {
        let (order, borrowed) = (Order::default(), Arc::default());
        let borrower = |name: &str| Job { borrows: true, ..alone(&order, name, &borrowed) };
        let other = job(&order, "other", &[], 1.0, State::Passed);
        let jobs = vec![borrower("one"), borrower("two"), borrower("three"), other];
        let finished = run_by(4, jobs, 2, &Times::default());
        assert_eq!(finished.len(), 4);
        // This job does not wait for the job that changes settings.
        assert_ne!(finished[3].name, "other");
    }

    #[test]
    fn one_that_borrows_runs_beside_as_many_others_as_there_are_workers() {
        let (order, worker) = (Order::default(), Arc::default());
        let (began, begins) = std::sync::mpsc::channel();
        let mut one = alone(&order, "one", &worker);
        let work = one.work;
        one.work = Box::new(move || {
            began.send(()).unwrap();
            work()
        });
        let mut borrower = job(&order, "borrows", &[], 99.0, State::Passed);
        borrower.borrows = true;
        borrower.work = Box::new(move || {
            begins.recv_timeout(std::time::Duration::from_secs(60)).expect("another one runs");
            Ok((Outcome::new(State::Passed, String::new()), Vec::new()))
        });
        let jobs = vec![borrower, one, alone(&order, "two", &worker)];
        let finished = run_by(1, jobs, 2, &Times::default());
        assert!(finished.iter().all(|one| one.outcome.state == State::Passed), "{finished:?}");
    }

    #[test]
    fn guests_share_the_processors_and_others_run_beside_one_that_has_all() {
        let (order, guests) = (Order::default(), Arc::default());
        let guest = |name: &str, guest_cpus| Job { guest_cpus, ..alone(&order, name, &guests) };
        let (began, begins) = std::sync::mpsc::channel();
        let mut other = job(&order, "other", &[], 1.0, State::Passed);
        let work = other.work;
        other.work = Box::new(move || {
            began.send(()).unwrap();
            work()
        });
        let mut wide = guest("wide", 2);
        let work = wide.work;
        wide.work = Box::new(move || {
            begins.recv_timeout(std::time::Duration::from_secs(60)).expect("another one runs");
            work()
        });
        let jobs = vec![guest("narrow", 1), guest("all", 3), other, wide];
        let finished = run_by(2, jobs, 2, &Times::default());
        assert_eq!(finished.len(), 4);
        assert!(finished.iter().all(|one| one.outcome.state == State::Passed), "{finished:?}");
        assert_eq!(finished[3].name, "narrow", "those with several processors go first");
    }

    #[test]
    fn one_that_is_alone_begins_when_all_others_have_ended() {
        let (order, machine) = (Order::default(), Arc::default());
        let mut again = alone(&order, "again", &machine);
        again.is_alone = true;
        again.guess = 99.0;
        let jobs = vec![
            again,
            job(&order, "a", &[], 1.0, State::Passed),
            job(&order, "b", &[], 2.0, State::Passed),
        ];
        let finished = run_by(2, jobs, 2, &Times::default());
        assert_eq!(finished.last().map(|last| last.name.as_str()), Some("again"));
    }

    #[test]
    fn the_shortest_goes_first_where_that_is_wanted() {
        let order = Order::default();
        let waiting = [("long", 9.0), ("short", 1.0), ("middle", 5.0)]
            .map(|(name, guess)| job(&order, name, &[], guess, State::Passed));
        let queue = Queue {
            workers: 1,
            processors: 2,
            waiting: waiting.into(),
            shortest_first: true,
            ..Queue::default()
        };
        run_queue(queue, &Times::default());
        assert_eq!(*order.lock().unwrap(), ["short", "middle", "long"]);
    }

    #[test]
    fn what_would_not_end_in_time_is_left_out_if_it_may_be() {
        let order = Order::default();
        let mut waiting: Vec<Job> = ["short", "middle", "long", "needed"]
            .into_iter()
            .zip([60.0, 600.0, 7200.0, 9000.0])
            .map(|(name, guess)| job(&order, name, &[], guess, State::Passed))
            .collect();
        waiting.iter_mut().for_each(|job| job.may_be_left_out = job.name != "needed");
        let queue = Queue {
            workers: 1,
            processors: 2,
            waiting,
            shortest_first: true,
            within: Some(3600.0),
            ..Queue::default()
        };
        let finished = run_queue(queue, &Times::default());
        assert_eq!(*order.lock().unwrap(), ["short", "middle", "needed"]);
        assert_eq!((finished.len(), states(&finished)["long"]), (4, State::NoTime));
    }

    #[test]
    fn followers_of_a_failure_are_told_and_others_go_on() {
        let order = Order::default();
        let jobs = vec![
            job(&order, "broken", &[], 9.0, State::Failed),
            job(&order, "follower", &["broken"], 1.0, State::Passed),
            job(&order, "its follower", &["follower"], 1.0, State::Passed),
            job(&order, "other", &[], 1.0, State::Passed),
            job(&order, "waits for nobody", &["nonesuch"], 1.0, State::Passed),
        ];
        let finished = run_by(2, jobs, 2, &Times::default());
        let states = states(&finished);
        assert_eq!(states["follower"], State::NotStarted);
        assert_eq!(states["its follower"], State::NotStarted);
        assert_eq!(states["waits for nobody"], State::NotStarted);
        assert_eq!((states["other"], states["broken"]), (State::Passed, State::Failed));
    }

    #[test]
    fn one_that_stops_all_stops_what_has_not_begun() {
        let order = Order::default();
        let mut first = job(&order, "first", &[], 9.0, State::Failed);
        first.stops_all = true;
        let jobs = vec![first, job(&order, "second", &[], 1.0, State::Passed)];
        let finished = run_by(1, jobs, 2, &Times::default());
        assert_eq!(*order.lock().unwrap(), ["first"]);
        assert_eq!(states(&finished)["second"], State::NotStarted);
    }

    #[test]
    fn a_job_may_bring_others() {
        let order = Order::default();
        let mut first = job(&order, "build", &[], 9.0, State::Passed);
        let brought = job(&order, "built", &["build"], 1.0, State::Passed);
        first.work = Box::new(|| Ok((Outcome::new(State::Passed, String::new()), vec![brought])));
        let finished = run_by(2, vec![first], 2, &Times::default());
        assert_eq!(states(&finished)["built"], State::Passed);
    }
}
