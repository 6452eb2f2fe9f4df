// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When and how much unused memory of a cgroup is reclaimed (`memory.reclaim`).
//!
//! If `lru_gen` can be had, the agent ages the cgroup from time to time, and only pages that were not
//! accessed over several agings count as idle. Otherwise nobody knows which pages are in use: less is
//! taken at a time, and the refaults that follow show what was too much.
//!
//! The brake is the CPU time that refaults cost the cgroup, as a share of all of its CPU time. Stall
//! time (PSI) hardly counts pages that come back from zram, so it is only an emergency stop. Nothing
//! is taken while the cgroup grows, or while it does far less than usual: an access that will come back
//! leaves no trace in a time without work. Agings count only while it works, for the same reason.
//!
//! The kernel does not protect a cgroup from its own `memory.reclaim` by `memory.low` and
//! `memory.min`, so these are floors here. Locked, shared and kernel memory never count as idle.

use std::collections::VecDeque;
use std::time::Duration;

use pagewise_model::{Bytes, ReclaimKind};

/// The most that is requested from the kernel at once: it can hold up the programs of the cgroup until
/// it is done.
pub const SLICE: Bytes = Bytes::new(256 << 10);

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Agings in a row before anything counts as idle: a page was not accessed over at least two of the
/// times between them.
const FEWEST_AGINGS: u32 = 4;
/// Share of the memory that is taken in an interval.
const STEP: f64 = 0.01;
/// The same if nobody knows which pages are idle.
const BLIND_STEP: f64 = 0.005;
/// A cgroup that grew by this share within a minute grows.
const GROWTH: f64 = 0.1;
/// CPU time below this share of the usual means that the cgroup does far less than usual.
const QUIET: f64 = 0.2;
/// Below this share of a CPU, a cgroup has no usual work.
const NO_WORK: f64 = 0.001;
/// Share of the time in which tasks wait for memory that stops everything.
const STALLED: f64 = 0.1;
/// Time over which refaults and CPU time are averaged for the brake.
const BRAKE_TIME: f64 = 30.0;
/// The active set is the largest one of this many agings.
const SETS: usize = 5;
/// At most this many intervals are between two steps if a step is smaller than a slice. A cgroup of less
/// than about 3 MiB is too small to take anything.
const LONGEST_STRIDE: f64 = 8.0;
/// A floor that was learned from refaults is this much above the size at which they were too many.
const MARGIN: f64 = 1.05;

/// What a cgroup may lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReclaimSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// Only the page cache of files that no program has mapped is taken.
    pub files_only: bool,
    /// How long a page must be unused.
    pub idle_after: Duration,
    /// Refaults may cost at most this share of the CPU time of the cgroup, in percent.
    pub refault_cpu_percent: f64,
    /// The cgroup keeps at least this.
    pub keep: Bytes,
    /// Time between two readings.
    pub interval: Duration,
}

impl Default for ReclaimSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            files_only: false,
            idle_after: Duration::from_secs(240),
            refault_cpu_percent: 1.0,
            keep: Bytes::new(0),
            interval: Duration::from_secs(6),
        }
    }
}

/// Where anonymous memory of a cgroup would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapRoom {
    /// There is no swap, or it is full: the kernel cannot take anonymous memory.
    None,
    /// To zram or zswap, which have room for this many bytes.
    Ram(Bytes),
    /// To a disk.
    Disk,
}

/// What was read of a cgroup and of its swap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReclaimReading {
    /// All memory of the cgroup.
    pub current: Bytes,
    /// Anonymous memory.
    pub anon: Bytes,
    /// Page cache without shared memory.
    pub file: Bytes,
    /// Page cache that programs have mapped, such as their code.
    pub mapped: Bytes,
    /// Shared memory, tmpfs included.
    pub shmem: Bytes,
    /// Memory that cannot be reclaimed, such as locked memory.
    pub unevictable: Bytes,
    /// The larger of `memory.low` and `memory.min`.
    pub protected: Bytes,
    /// Pages that were read or swapped in again since the cgroup was created.
    pub refaults: u64,
    /// CPU time since the cgroup was created.
    pub cpu: Duration,
    /// Time in which tasks waited for memory; `None` if the kernel does not count it.
    pub stalled: Option<Duration>,
    /// Where anonymous memory would go.
    pub swap: SwapRoom,
    /// CPU time that one refault costs.
    pub refault_cost: Duration,
    /// Whether the kernel takes only one kind of memory if asked to (`swappiness=`).
    pub can_choose: bool,
}

/// Memory that was idle at the last aging.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdleMemory {
    /// Anonymous and shared memory.
    pub anon: Bytes,
    /// Page cache.
    pub file: Bytes,
}

/// What is to be done about a cgroup after a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReclaimStep {
    /// Nothing: there is no earlier reading to compare with.
    FirstReading,
    /// Age the cgroup, and report what is idle ([`ReclaimTarget::learn`]).
    Age,
    /// Nothing yet: this many agings are missing until it is known which pages are idle.
    Learning(u32),
    /// Nothing: the cgroup grows, or has grown in the last minute.
    Grows,
    /// Nothing: the cgroup does far less than usual.
    Quiet,
    /// Nothing: no memory is idle, or what is idle is needed as reserve.
    AllInUse,
    /// Nothing: files alone are to be taken, and the kernel does not offer that.
    CannotChoose,
    /// Nothing for this long: refaults cost this share of the cgroup's CPU time, in percent.
    Braked(Duration, f64),
    /// Nothing for this long: tasks waited for memory.
    Stalled(Duration),
    /// Nothing for this long: the kernel found nothing that it could take.
    InVain(Duration),
    /// Ask the kernel for this much, in slices.
    Take(Bytes, ReclaimKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Brake,
    Stall,
    Vain,
}

/// A wait that doubles each time.
#[derive(Debug, Clone, Copy, Default)]
struct Backoff {
    times: u32,
    last: Duration,
}

impl Backoff {
    /// The next wait; after a time without one that is twice as long as the last, it begins anew.
    fn next(&mut self, now: Duration, first: Duration, longest: Duration) -> Duration {
        let wait = |times: u32| first.saturating_mul(1 << times.min(12)).min(longest);
        let is_calm = now.saturating_sub(self.last) > wait(self.times).saturating_mul(2) + HOUR / 6;
        if is_calm {
            self.times = 0;
        }
        let found = wait(self.times);
        self.times = self.times.saturating_add(1);
        self.last = now + found;
        found
    }
}

/// A cgroup that the user named, and what was read and done.
#[derive(Debug, Clone)]
pub struct ReclaimTarget {
    settings: ReclaimSettings,
    next: Duration,
    last: Option<(Duration, ReclaimReading)>,
    /// CPU seconds per second, over about an hour; `None` before the second reading.
    usual_cpu: Option<f64>,
    /// Refaults and CPU seconds per second, over about [`BRAKE_TIME`].
    refaults: f64,
    cpu: f64,
    /// Sizes in the last minute.
    sizes: VecDeque<(Duration, u64)>,
    grew: Option<Duration>,
    /// Agings in a row in which the cgroup worked; and when the last one was.
    agings: u32,
    aged: Option<Duration>,
    /// `None` before it is known; taken pages are subtracted.
    idle: Option<IdleMemory>,
    /// Whether agings show what is idle; false: `lru_gen` cannot be had.
    has_ages: bool,
    /// What was in use at the last agings.
    active: VecDeque<u64>,
    /// A size that refaults showed to be too small, times [`MARGIN`]; and until when it counts.
    learned: Option<(u64, Duration)>,
    waits: Option<(Duration, Reason, f64)>,
    brake: Backoff,
    stall: Backoff,
    vain: Backoff,
    /// Requests in a row for which the kernel took nearly nothing.
    in_vain: u32,
    /// How much the kernel takes for each byte that it is asked for, if more.
    excess: f64,
}

impl ReclaimTarget {
    /// A cgroup that was not read yet.
    pub fn new(settings: ReclaimSettings) -> Self {
        Self {
            settings,
            next: Duration::ZERO,
            last: None,
            usual_cpu: None,
            refaults: 0.0,
            cpu: 0.0,
            sizes: VecDeque::new(),
            grew: None,
            agings: 0,
            aged: None,
            idle: None,
            has_ages: true,
            active: VecDeque::new(),
            learned: None,
            waits: None,
            brake: Backoff::default(),
            stall: Backoff::default(),
            vain: Backoff::default(),
            in_vain: 0,
            excess: 1.0,
        }
    }

    /// Takes other settings; what was read and learned stays.
    pub fn set(&mut self, settings: ReclaimSettings) {
        self.settings = settings;
    }

    /// Whether it is time for a reading.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Refaults per second, averaged over some intervals.
    pub fn refaults_per_second(&self) -> f64 {
        self.refaults
    }

    /// What the cgroup keeps at least, as far as that is known.
    pub fn floor(&self, now: Duration, reading: &ReclaimReading) -> Bytes {
        let active = self.active.iter().copied().max().unwrap_or(0);
        let learned = self.learned.filter(|(_, until)| now < *until).map_or(0, |(size, _)| size);
        let named = self.settings.keep.get().max(reading.protected.get());
        Bytes::new(named.max(active).max(learned))
    }

    /// Records that the cgroup could not be read, or must be left alone: all is learned anew.
    pub fn skip(&mut self, now: Duration) {
        let mut anew = Self::new(self.settings);
        (anew.brake, anew.stall, anew.vain) = (self.brake, self.stall, self.vain);
        anew.waits = self.waits;
        anew.next = now + self.settings.interval;
        *self = anew;
    }

    /// Decides by a reading.
    pub fn decide(&mut self, now: Duration, reading: &ReclaimReading) -> ReclaimStep {
        self.next = now + self.settings.interval;
        let Some((then, before)) = self.last.replace((now, *reading)) else {
            self.sizes.push_back((now, reading.current.get()));
            return ReclaimStep::FirstReading;
        };
        let seconds = now.saturating_sub(then).as_secs_f64();
        let is_another = reading.cpu < before.cpu || reading.refaults < before.refaults;
        if is_another || seconds <= 0.0 || seconds > 10.0 * self.settings.interval.as_secs_f64() {
            // another cgroup of this name, or a time of which nothing is known
            self.skip(now);
            self.last = Some((now, *reading));
            self.sizes.push_back((now, reading.current.get()));
            return ReclaimStep::FirstReading;
        }
        let stalled = self.count(now, seconds, &before, reading);
        if let Some(step) = self.stop(now, stalled, reading) {
            return step;
        }
        if let Some(step) = self.freeze(now) {
            return step;
        }
        if self.has_ages && self.is_aging_due(now) {
            return ReclaimStep::Age;
        }
        if self.has_ages && self.agings < FEWEST_AGINGS {
            return ReclaimStep::Learning(FEWEST_AGINGS - self.agings);
        }
        self.take(now, reading)
    }

    /// Brings the averages up to date; returns the share of the time in which tasks waited for memory.
    fn count(
        &mut self,
        now: Duration,
        seconds: f64,
        before: &ReclaimReading,
        reading: &ReclaimReading,
    ) -> f64 {
        let cpu = reading.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds;
        let refaults = (reading.refaults - before.refaults) as f64 / seconds;
        let average = |old: f64, new: f64, time: f64| {
            let weight = (-seconds / time).exp();
            old * weight + new * (1.0 - weight)
        };
        let is_first = self.usual_cpu.is_none();
        self.usual_cpu = Some(self.usual_cpu.map_or(cpu, |old| average(old, cpu, 3600.0)));
        self.cpu = if is_first { cpu } else { average(self.cpu, cpu, BRAKE_TIME) };
        self.refaults =
            if is_first { refaults } else { average(self.refaults, refaults, BRAKE_TIME) };
        self.sizes.push_back((now, reading.current.get()));
        while self.sizes.front().is_some_and(|(at, _)| now.saturating_sub(*at) > MINUTE) {
            self.sizes.pop_front();
        }
        let least = self.sizes.iter().map(|(_, size)| *size).min().unwrap_or(0);
        if reading.current.get() as f64 > least as f64 * (1.0 + GROWTH) {
            self.grew = Some(now);
        }
        let both = reading.stalled.zip(before.stalled);
        both.map_or(0.0, |(now, then)| now.saturating_sub(then).as_secs_f64() / seconds)
    }

    /// The share of the cgroup's CPU time that refaults cost, in percent.
    fn refault_percent(&self, reading: &ReclaimReading) -> f64 {
        let cost = self.refaults * reading.refault_cost.as_secs_f64();
        if cost <= 0.0 { 0.0 } else { (cost / self.cpu * 100.0).min(999.0) }
    }

    fn stop(
        &mut self,
        now: Duration,
        stalled: f64,
        reading: &ReclaimReading,
    ) -> Option<ReclaimStep> {
        let percent = self.refault_percent(reading);
        let is_new = self.waits.is_none_or(|(until, ..)| until <= now);
        if stalled > STALLED
            && !matches!(self.waits, Some((until, Reason::Stall, _)) if until > now)
        {
            let wait = self.stall.next(now, 10 * MINUTE, DAY);
            self.waits = Some((now + wait, Reason::Stall, 0.0));
        } else if is_new && percent >= self.settings.refault_cpu_percent {
            let wait = self.brake.next(now, MINUTE / 2, HOUR);
            self.waits = Some((now + wait, Reason::Brake, percent));
            if !self.has_ages {
                let size = reading.current.get() as f64 * MARGIN;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a size in memory"
                )]
                let size = size as u64;
                self.learned = Some((size, now + wait.saturating_mul(4)));
            }
        }
        let (until, reason, percent) = self.waits.filter(|(until, ..)| *until > now)?;
        let left = until.saturating_sub(now);
        Some(match reason {
            Reason::Brake => ReclaimStep::Braked(left, percent),
            Reason::Stall => ReclaimStep::Stalled(left),
            Reason::Vain => ReclaimStep::InVain(left),
        })
    }

    /// Whether the cgroup grows or rests; then what was learned is not valid any more.
    fn freeze(&mut self, now: Duration) -> Option<ReclaimStep> {
        let usual = self.usual_cpu.unwrap_or(0.0);
        let step = if self.grew.is_some_and(|at| now.saturating_sub(at) < MINUTE) {
            ReclaimStep::Grows
        } else if usual > NO_WORK && self.cpu < QUIET * usual {
            ReclaimStep::Quiet
        } else {
            return None;
        };
        self.agings = 0;
        self.aged = None;
        self.idle = None;
        Some(step)
    }

    /// Two agings are half of the time apart for which a page must be unused.
    fn is_aging_due(&self, now: Duration) -> bool {
        self.aged.is_none_or(|at| now.saturating_sub(at) >= self.settings.idle_after / 2)
    }

    /// Records an aging, and the memory that was idle for `idle_after`; or `None` if `lru_gen` cannot be
    /// had. `reading` is the one by which the aging was decided.
    pub fn learn(&mut self, now: Duration, idle: Option<IdleMemory>, reading: &ReclaimReading) {
        self.has_ages = idle.is_some();
        self.aged = Some(now);
        self.agings = self.agings.saturating_add(1);
        self.idle = idle;
        if self.agings < FEWEST_AGINGS {
            return;
        }
        if idle.is_some() {
            let (anon, file) = self.idle_of(reading);
            let used = reading.current.get().saturating_sub(anon).saturating_sub(file);
            self.active.push_back(used);
            while self.active.len() > SETS {
                self.active.pop_front();
            }
        }
    }

    /// Tries to age it again although the last try failed, for example because `lru_gen` can be had now.
    pub fn retry_ages(&mut self) {
        self.has_ages = true;
    }

    /// Idle memory, anonymous and of files, which the settings allow to take; room in swap aside.
    fn idle_of(&self, reading: &ReclaimReading) -> (u64, u64) {
        let all = IdleMemory { anon: reading.anon, file: reading.file };
        let idle = if self.has_ages { self.idle.unwrap_or_default() } else { all };
        // generations count shared memory among anonymous pages: all of it could be what is idle
        let shared = if self.has_ages { reading.shmem.get() } else { 0 };
        let anon = idle.anon.get().saturating_sub(shared).min(reading.anon.get());
        let file = idle.file.get().min(reading.file.get());
        // locked pages are in no generation, but are part of what memory.stat counts
        let locked = if self.has_ages { 0 } else { reading.unevictable.get() };
        let (anon, file) = (anon.saturating_sub(locked), file.saturating_sub(locked));
        if self.settings.files_only {
            (0, file.saturating_sub(reading.mapped.get()))
        } else {
            (anon, file)
        }
    }

    fn take(&mut self, now: Duration, reading: &ReclaimReading) -> ReclaimStep {
        let (anon, file) = self.idle_of(reading);
        let anon = match reading.swap {
            SwapRoom::Ram(room) => anon.min(room.get()),
            SwapRoom::None | SwapRoom::Disk => 0,
        };
        let (most, kind) = match reading.swap {
            _ if reading.can_choose && anon > file => (anon, ReclaimKind::Anon),
            _ if reading.can_choose => (file, ReclaimKind::File),
            // without swap, the kernel takes files alone
            SwapRoom::None => (file, ReclaimKind::Any),
            SwapRoom::Ram(_) if !self.settings.files_only => (anon + file, ReclaimKind::Any),
            SwapRoom::Ram(_) | SwapRoom::Disk => return ReclaimStep::CannotChoose,
        };
        let above = reading.current.get().saturating_sub(self.floor(now, reading).get());
        let most = most.min(above);
        if most < SLICE.get() {
            return ReclaimStep::AllInUse;
        }
        let base =
            (reading.anon.get() + reading.file.get()).saturating_sub(reading.unevictable.get());
        let share = if self.has_ages { STEP } else { BLIND_STEP };
        let brake = 1.0 - self.refault_percent(reading) / self.settings.refault_cpu_percent;
        let step = base as f64 * share * brake.max(0.0) / self.excess;
        // the kernel takes a slice at least: if that is more than a step, it is taken less often
        let every = (SLICE.get() as f64 / step.max(1.0)).max(1.0);
        if every > LONGEST_STRIDE {
            let percent = self.refault_percent(reading);
            let is_braked = brake < 0.5;
            return if is_braked {
                ReclaimStep::Braked(self.settings.interval, percent)
            } else {
                ReclaimStep::AllInUse
            };
        }
        self.next = now + self.settings.interval.mul_f64(every);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bytes of a step"
        )]
        let wanted = (step as u64).max(SLICE.get()).min(most);
        ReclaimStep::Take(Bytes::new(wanted), kind)
    }

    /// Records that the kernel was asked for `asked`, and that the cgroup became smaller by `freed`.
    pub fn finish(&mut self, now: Duration, asked: Bytes, kind: ReclaimKind, freed: Bytes) {
        let (asked, freed) = (asked.get(), freed.get());
        if let Some(idle) = &mut self.idle {
            let less = |from: Bytes, by: u64| Bytes::new(from.get().saturating_sub(by));
            match kind {
                ReclaimKind::Anon => idle.anon = less(idle.anon, freed.max(asked)),
                ReclaimKind::File => idle.file = less(idle.file, freed.max(asked)),
                ReclaimKind::Any => {
                    // it is not known which it was
                    idle.anon = less(idle.anon, freed.max(asked));
                    idle.file = less(idle.file, freed.max(asked));
                }
            }
        }
        if asked > 0 {
            let ratio = (freed as f64 / asked as f64).clamp(1.0, 4.0);
            self.excess = self.excess * 0.8 + ratio * 0.2;
        }
        if freed * 4 >= asked {
            self.in_vain = 0;
            return;
        }
        self.in_vain += 1;
        if self.in_vain >= 3 {
            self.in_vain = 0;
            let wait = self.vain.next(now, MINUTE, HOUR);
            self.waits = Some((now + wait, Reason::Vain, 0.0));
        }
    }
}

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
