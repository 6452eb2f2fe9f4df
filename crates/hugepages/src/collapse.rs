// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collapses the memory of processes into huge pages, block by block and within a budget; once, or
//! repeatedly whenever coverage falls.
//!
//! Each block is a separate call, and directly before it pagemap is read again to check that every
//! page belongs to the process alone: after a fork, collapsing would make a copy. Shared blocks are
//! skipped; while watching, they are found again after the other process has exited.
//!
//! Between calls we sleep according to the pace, because each call takes the target's mmap lock,
//! and a target that wants to map memory has to wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewise_model::{
    BudgetMeasure, ByAccess, Bytes, Collapse, CollapsedProcess, Coverage, Failed, LeftAlone, Name,
};
use pagewise_observe::HostRoot;
use pagewise_observe::charge;
use pagewise_procmem::coverage::{Block, LookError, read_proportional_size};
use rustix::time::{ClockId, clock_gettime};

use crate::access_profile::AccessProfile;
use crate::brake::BrakeSignals;
use crate::budget::Budget;
use crate::pick::{self, CollapsePolicy, SkipReason};
use crate::subject::{ActError, Called, Subject};

/// Number of consecutive blocks without a free huge page after which we assume that there are
/// none.
const MOST_WITHOUT: u32 = 16;
/// Interval at which the brake is checked.
const GLANCE: Duration = Duration::from_millis(250);
/// Longest interval between measurements of memory: each walks over all pages of the target.
const MEASURE: Duration = Duration::from_secs(2);
/// How long examining a process may take before we assume that another task holds its mmap lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// The limits and options of a collapse.
#[derive(Debug, Clone, Copy)]
pub struct CollapseWish {
    /// How much the memory of the targets may grow, as a fraction of its size.
    pub max_growth: f64,
    /// Memory that earlier collapses have already added to the same targets.
    pub spent: Bytes,
    /// Time limit of one pass over the targets.
    pub deadline: Duration,
    /// The share of one CPU that collapsing may use, 0 to 1.
    pub pace: f64,
    /// Also collapse blocks with pages in swap, which swaps them in.
    pub swapped: bool,
    /// Only examine the targets, and change nothing.
    pub dry_run: bool,
    /// Time after which a pass is repeated, until the targets exit; `None` for one pass.
    pub watch: Option<Duration>,
    /// Size of a huge page in bytes.
    pub block: u64,
}

/// The processes whose memory is to be collapsed.
#[derive(Debug, Clone, Default)]
pub struct CollapseTargets {
    /// Ids and names of the processes.
    pub processes: Vec<(u32, Name)>,
    /// Path of the cgroup that the user named; the budget is then measured by the cgroup's charge.
    pub cgroup: Option<String>,
    /// Paths of the cgroups that the processes are in, whose limits are respected.
    pub cgroups: Vec<String>,
    /// Which memory of the processes is in use, if that was measured: this memory is collapsed
    /// first.
    pub heat: Option<AccessProfile>,
}

/// Collapses memory of the targets into huge pages; `tell` is called with the progress of each
/// pass: blocks done and all blocks.
///
/// # Errors
/// If it could not start. The reason for ending early is in [`Collapse::stopped`].
pub fn collapse(
    host: &HostRoot,
    targets: &CollapseTargets,
    wish: &CollapseWish,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(u64, u64, &Collapse),
) -> Result<Collapse, ActError> {
    let began = (Instant::now(), cpu_time());
    let mut act = Act::begin(host, targets, wish, stop)?;
    act.run_pass(tell)?;
    while let Some(rest) = act.next_pass_after() {
        if act.sleep_until_pass(rest) {
            act.run_pass(tell)?;
        }
    }
    Ok(act.end(began))
}

struct Act<'a> {
    host: &'a HostRoot,
    targets: &'a CollapseTargets,
    wish: &'a CollapseWish,
    stop: &'a AtomicBool,
    subjects: Vec<Subject>,
    budget: Budget,
    done: Collapse,
    /// Number of consecutive blocks for which the kernel had no huge page.
    without: u32,
    /// Blocks with a page that was in use when the collapse was tried: index of the process, and
    /// address.
    busy: Vec<(usize, u64)>,
    glanced: Instant,
    weighed: Instant,
    /// Time at which the current pass must end.
    until: Instant,
}

impl<'a> Act<'a> {
    fn begin(
        host: &'a HostRoot,
        targets: &'a CollapseTargets,
        wish: &'a CollapseWish,
        stop: &'a AtomicBool,
    ) -> Result<Self, ActError> {
        let (subjects, processes) = open_subjects(targets, wish.block)?;
        let measure = match targets.cgroup {
            Some(_) => BudgetMeasure::CgroupCharge,
            None => BudgetMeasure::ProportionalSize,
        };
        let before = measure_memory(host, targets, &subjects)?;
        let budget = Budget::new(before, wish.max_growth, wish.spent);
        let done = Collapse { processes, measure, dry_run: wish.dry_run, ..Collapse::default() };
        let now = Instant::now();
        let (glanced, weighed, until) = (now, now, now + wish.deadline);
        let (without, busy) = (0, Vec::new());
        let own = Self {
            host,
            targets,
            wish,
            stop,
            subjects,
            budget,
            done,
            without,
            busy,
            glanced,
            weighed,
            until,
        };
        Ok(own)
    }

    /// Examines every process of the targets, and collapses the blocks that qualify.
    fn run_pass(&mut self, tell: &mut dyn FnMut(u64, u64, &Collapse)) -> Result<(), ActError> {
        self.glanced = self.glanced.checked_sub(GLANCE).unwrap_or(self.glanced);
        let first = self.done.passes == 0 && self.done.anon_before == Bytes::new(0);
        self.until = Instant::now() + self.wish.deadline;
        self.without = 0;
        self.done.stopped = None;
        self.recheck_subjects();
        let mut left = LeftAlone::default();
        let mut found = Vec::new();
        let mut coverage = Coverage::default();
        for (at, subject) in self.subjects.iter().enumerate() {
            let Some((blocks, sizes)) = none_if_exited(subject.memory.blocks())? else { continue };
            coverage = coverage.plus(sizes);
            if !subject.allowed {
                continue;
            }
            let picked = pick::pick(blocks, self.policy(), &mut left);
            found.extend(picked.into_iter().map(|block| (at, block)));
        }
        // the best blocks of all processes first, because the budget may not suffice for all
        found.sort_by_cached_key(|it| std::cmp::Reverse((self.accesses_of(it), it.1.present)));
        if first {
            self.done.by_access = self.count_by_access(&found);
        }
        if first {
            (self.done.huge_before, self.done.anon_before) = (coverage.anon_huge, coverage.anon);
        }
        self.done.left_alone = left;
        let before = self.done.collapsed;
        let halted = if self.wish.dry_run {
            self.count_candidates(&found)
        } else {
            self.collapse_blocks(&found, tell)?
        };
        self.done.passes += u64::from(self.done.collapsed > before);
        if let Some((why, reached)) = halted {
            self.done.left_alone.not_reached += (found.len() - reached) as u64;
            self.done.stopped = Some(why);
        }
        if first || self.done.collapsed > before {
            self.measure_result()?;
        }
        Ok(())
    }

    fn accesses_of(&self, (at, block): &(usize, Block)) -> u128 {
        let pid = self.subjects.get(*at).map(|subject| subject.pid);
        let heat = self.targets.heat.as_ref().zip(pid);
        heat.map_or(0, |(heat, pid)| heat.accesses(pid, block.address, self.wish.block))
    }

    fn count_by_access(&self, found: &[(usize, Block)]) -> Option<ByAccess> {
        self.targets.heat.as_ref()?;
        let used = found.iter().filter(|it| self.accesses_of(it) > 0).count() as u64;
        Some(ByAccess { blocks: found.len() as u64, used, unknown: None })
    }

    /// Checks again which processes have huge pages disabled: a program may change this while it is
    /// watched.
    fn recheck_subjects(&mut self) {
        for subject in self.subjects.iter_mut().filter(|subject| subject.memory.is_alive()) {
            let why = subject.recheck_allowed();
            let named = self.done.processes.iter_mut().find(|named| named.pid == subject.pid);
            if let Some(named) = named {
                named.left_out = why;
            }
        }
    }

    /// Counts the blocks that a real run would collapse, for a dry run.
    fn count_candidates(&mut self, found: &[(usize, Block)]) -> Option<(String, usize)> {
        for (at, block) in found {
            let growth = self.growth(block);
            let Some(subject) = self.subjects.get(*at) else { continue };
            match subject.memory.exclusive(block.address) {
                Err(_) => self.done.left_alone.changed += 1,
                Ok(pages) => match self.policy().judge_again(block, pages) {
                    Err(why) => pick::count_skipped(&mut self.done.left_alone, why),
                    Ok(()) if !self.budget.has_room(growth) => {
                        self.done.left_alone.over_budget += 1;
                    }
                    Ok(()) => {
                        self.budget.spend(growth);
                        self.done.would_collapse += 1;
                    }
                },
            }
        }
        None
    }

    /// Collapses the given blocks; returns why it ended early, and before which block.
    fn collapse_blocks(
        &mut self,
        found: &[(usize, Block)],
        tell: &mut dyn FnMut(u64, u64, &Collapse),
    ) -> Result<Option<(String, usize)>, ActError> {
        for (reached, (at, block)) in found.iter().enumerate() {
            if let Some(why) = self.stop_reason()? {
                return Ok(Some((why, reached)));
            }
            self.collapse_at_pace(*at, block.address)?;
            tell(reached as u64 + 1, found.len() as u64, &self.done);
        }
        self.retry_busy()
    }

    /// Tries the busy blocks again.
    fn retry_busy(&mut self) -> Result<Option<(String, usize)>, ActError> {
        let busy = std::mem::take(&mut self.busy);
        self.done.failed.busy -= busy.len() as u64;
        for (at, address) in busy {
            // the remaining blocks count as busy, not as never reached
            if self.stop_reason()?.is_some() {
                self.done.failed.busy += 1;
                continue;
            }
            self.collapse_at_pace(at, address)?;
        }
        self.busy.clear();
        Ok(None)
    }

    fn collapse_at_pace(&mut self, at: usize, address: u64) -> Result<(), ActError> {
        let cpu = cpu_time();
        self.collapse_block(at, address)?;
        self.sleep_for_pace(cpu_time().saturating_sub(cpu));
        Ok(())
    }

    /// Checks again whether one block qualifies, and collapses it.
    fn collapse_block(&mut self, at: usize, address: u64) -> Result<(), ActError> {
        let Some(subject) = self.subjects.get(at) else { return Ok(()) };
        let Some(block) = none_if_exited(subject.memory.block_at(address, subject.scans))? else {
            return Ok(());
        };
        let growth = self.growth(&block);
        let Some(pages) = none_if_exited(subject.memory.exclusive(address))? else { return Ok(()) };
        if let Err(why) = self.policy().judge_again(&block, pages) {
            let why = if why == SkipReason::Nothing { SkipReason::Changed } else { why };
            pick::count_skipped(&mut self.done.left_alone, why);
        } else if self.budget.has_room(growth) {
            let called = subject.collapse(address)?;
            self.count_call(called, growth);
            if called == Called::Busy {
                self.busy.push((at, address));
            }
        } else {
            self.done.left_alone.over_budget += 1;
        }
        Ok(())
    }

    fn count_call(&mut self, called: Called, growth: Bytes) {
        self.without = if called == Called::NoMemory { self.without + 1 } else { 0 };
        let Failed { no_memory, busy } = &mut self.done.failed;
        match called {
            Called::Collapsed => {
                self.budget.spend(growth);
                self.done.collapsed += 1;
            }
            Called::NoMemory => *no_memory += 1,
            Called::Busy => *busy += 1,
            Called::Refused => self.done.left_alone.refused += 1,
            Called::Gone => self.done.left_alone.changed += 1,
        }
    }

    /// Why collapsing must stop now; `None` if it may go on. This is called before each collapse,
    /// so expensive checks are made only a few times a second.
    fn stop_reason(&mut self) -> Result<Option<String>, ActError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Some("stopped by Ctrl-C".to_owned()));
        }
        if Instant::now() >= self.until {
            return Ok(Some(format!("the deadline of {} s", self.wish.deadline.as_secs_f64())));
        }
        if self.without >= MOST_WITHOUT {
            let why = "no free huge pages: memory is fragmented, or the cgroup has no room";
            return Ok(Some(why.to_owned()));
        }
        if self.budget.is_measurement_due() || self.weighed.elapsed() >= MEASURE {
            self.weighed = Instant::now();
            let Some(now) =
                none_if_target_exited(measure_memory(self.host, self.targets, &self.subjects))?
            else {
                return Ok(Some(GONE.to_owned()));
            };
            self.budget.measure(now);
        }
        if self.glanced.elapsed() >= GLANCE {
            self.glanced = Instant::now();
            return Ok(
                BrakeSignals::read(self.host, &self.targets.cgroups, self.wish.block).stop_reason()
            );
        }
        Ok(None)
    }

    fn policy(&self) -> CollapsePolicy {
        let page = rustix::param::page_size() as u64;
        let pages = u32::try_from(self.wish.block / page).unwrap_or(u32::MAX);
        CollapsePolicy { pages, swapped: self.wish.swapped }
    }

    /// How much memory collapsing a block adds: its missing pages.
    fn growth(&self, block: &Block) -> Bytes {
        let page = rustix::param::page_size() as u64;
        Bytes::new(u64::from(block.missing(self.policy().pages)) * page)
    }

    /// Sleeps after `used` CPU time for as long as the allowed share of a CPU requires.
    fn sleep_for_pace(&self, used: Duration) {
        let pace = self.wish.pace.clamp(0.01, 1.0);
        if pace < 1.0 {
            std::thread::sleep(used.mul_f64((1.0 - pace) / pace).min(Duration::from_secs(1)));
        }
    }

    /// How long to sleep before the next pass; `None` if there is no further pass.
    fn next_pass_after(&self) -> Option<Duration> {
        let any = self.subjects.iter().any(|subject| subject.memory.is_alive());
        let stopped = self.stop.load(Ordering::Relaxed);
        self.wish.watch.filter(|_| any && !stopped && !self.wish.dry_run)
    }

    /// Sleeps in short intervals until the next pass; returns whether there still is a process to
    /// watch.
    fn sleep_until_pass(&self, time: Duration) -> bool {
        const PIECE: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while Instant::now() < until && self.next_pass_after().is_some() {
            std::thread::sleep(PIECE.min(time));
        }
        self.next_pass_after().is_some()
    }

    /// Measures how much memory of the processes that are still alive is now in huge pages.
    fn measure_result(&mut self) -> Result<(), ActError> {
        let mut coverage = Coverage::default();
        for subject in &self.subjects {
            let sizes = none_if_exited(subject.memory.blocks())?.map(|(_, sizes)| sizes);
            coverage = coverage.plus(sizes.unwrap_or_default());
        }
        if coverage.anon > Bytes::new(0) {
            (self.done.huge_after, self.done.anon_after) = (coverage.anon_huge, coverage.anon);
        }
        if let Some(now) =
            none_if_target_exited(measure_memory(self.host, self.targets, &self.subjects))?
        {
            self.budget.measure(now);
        }
        Ok(())
    }

    fn end(mut self, (began, cpu): (Instant, Duration)) -> Collapse {
        let stopped = self.stop.load(Ordering::Relaxed);
        if self.subjects.iter().all(|subject| !subject.memory.is_alive()) {
            self.done.stopped = Some(GONE.to_owned());
        } else if self.wish.watch.is_some() && stopped {
            self.done.stopped = Some("stopped by Ctrl-C".to_owned());
        }
        Collapse {
            memory_before: self.budget.memory_before(),
            memory_limit: self.budget.limit(),
            memory_after: self.budget.memory(),
            memory_peak: self.budget.peak(),
            growth: self.budget.spent(),
            cpu_seconds: cpu_time().saturating_sub(cpu).as_secs_f64(),
            wall_seconds: began.elapsed().as_secs_f64(),
            ..self.done
        }
    }
}

const GONE: &str = "the target has ended";

/// Opens every process of the targets. If there are several, those that refuse are left out and
/// listed.
fn open_subjects(
    targets: &CollapseTargets,
    block: u64,
) -> Result<(Vec<Subject>, Vec<CollapsedProcess>), ActError> {
    let (mut subjects, mut named, mut first) = (Vec::new(), Vec::new(), None);
    for (pid, name) in &targets.processes {
        let opened = open_subject(*pid, block);
        let left_out = opened.as_ref().err().map(ToString::to_string);
        named.push(CollapsedProcess { pid: *pid, name: name.clone(), left_out });
        match opened {
            Ok(subject) => subjects.push(subject),
            Err(error) => first = first.or(Some(error)),
        }
    }
    match first {
        _ if !subjects.is_empty() => Ok((subjects, named)),
        Some(error) => Err(error),
        None => Err(ActError::Nobody),
    }
}

/// Opens a process in a separate thread, so that only the thread blocks if another task holds the
/// mmap lock.
fn open_subject(pid: u32, block: u64) -> Result<Subject, ActError> {
    let subject = Subject::open(pid, block)?;
    match pagewise_procmem::coverage::run_with_timeout(PATIENCE, move || {
        read_proportional_size(pid)
    }) {
        Some(answered) => answered.map(|_| subject).map_err(ActError::Look),
        None => Err(LookError::Stuck(pid).into()),
    }
}

/// Measures the memory that the budget limits.
fn measure_memory(
    host: &HostRoot,
    targets: &CollapseTargets,
    subjects: &[Subject],
) -> Result<Bytes, ActError> {
    if let Some(path) = &targets.cgroup {
        let charge = charge(host, path).ok_or_else(|| ActError::NoGroup(path.clone()))?;
        return Ok(charge.current);
    }
    let living = subjects.iter().filter(|subject| subject.memory.is_alive());
    let sizes = living.map(|subject| none_if_exited(read_proportional_size(subject.pid)));
    let sizes: Result<Vec<Option<Bytes>>, ActError> = sizes.collect();
    let known: Vec<Bytes> = sizes?.into_iter().flatten().collect();
    if known.is_empty() {
        Err(ActError::Look(LookError::Gone(subjects.first().map_or(0, |it| it.pid))))
    } else {
        Ok(known.into_iter().sum())
    }
}

/// Turns the error that a process has exited meanwhile into `None`; other errors remain.
fn none_if_exited<T>(answer: Result<T, LookError>) -> Result<Option<T>, ActError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(LookError::Gone(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn none_if_target_exited<T>(answer: Result<T, ActError>) -> Result<Option<T>, ActError> {
    match answer {
        Err(ActError::Look(LookError::Gone(_)) | ActError::NoGroup(_)) => Ok(None),
        other => other.map(Some),
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}
