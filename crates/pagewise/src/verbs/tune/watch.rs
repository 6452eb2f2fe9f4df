// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches a machine for some time in slices, before and after a change, and judges the change.
//!
//! A [`Machine`] is watched: the live machine, or a made-up host in tests.
//! [`pagewise_stats::periods`] computes the verdict.

use std::time::Duration;

use pagewise_model::PeriodsVerdict;
use pagewise_stats::median;
use pagewise_stats::periods::{Periods, Use, judge_periods};

/// Number of slices of a period. With nine slices the confidence interval is narrow enough, and
/// each slice is long enough for rates.
const SLICES: u32 = 9;
/// Shortest slice; a shorter period has fewer slices.
const SHORTEST: Duration = Duration::from_secs(1);
/// Maximum number of runs of the user's command in one period.
const MOST_RUNS: usize = 60;
/// Minimum number of runs of the user's command in one period, even if they take longer than the
/// period.
pub(super) const FEWEST_RUNS: usize = 8;
/// If all tasks wait for memory for most of this time, the change is undone at once.
const LONG: Duration = Duration::from_secs(20);
/// The share of [`LONG`] that counts as most of it.
const MOST: f64 = 0.6;

/// Counters of a machine since its boot; `None` if the kernel does not have the counter, or if it
/// is not readable.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counters {
    /// Time in which at least one task waited for memory (PSI, `some`), in microseconds.
    pub(super) some_us: Option<u64>,
    /// Time in which all tasks waited for memory (PSI, `full`), in microseconds.
    pub(super) full_us: Option<u64>,
    /// Time in which at least one task waited for a disk (PSI, `some`), in microseconds.
    pub(super) io_us: Option<u64>,
    /// Pages of programs' memory that were read back after they were reclaimed.
    pub(super) refaults_anon: Option<u64>,
    /// Pages of files that were read back after they were reclaimed. On kernels that do not
    /// distinguish the two, all such pages.
    pub(super) refaults_file: Option<u64>,
    pub(super) swapped_in: Option<u64>,
    pub(super) swapped_out: Option<u64>,
    /// CPU time of programs, without that of the kernel, in microseconds.
    pub(super) user_us: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub(super) kills: Option<u64>,
    /// The value of the user's counter.
    pub(super) counted: Option<u64>,
}

/// A machine that can be watched.
pub(super) trait Machine {
    fn counters(&mut self) -> Counters;

    /// Time since some fixed moment.
    fn now(&self) -> Duration;

    /// Waits for this time.
    ///
    /// # Errors
    /// If somebody stops the program.
    fn pass(&mut self, time: Duration) -> anyhow::Result<()>;

    /// Runs the user's measuring command once, and returns the value; `None` if there is no such
    /// command.
    ///
    /// # Errors
    /// If the command fails, or somebody stops the program.
    fn measure(&mut self) -> anyhow::Result<Option<f64>>;
}

/// A part of a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    seconds: f64,
    from: Counters,
    to: Counters,
    /// What the user's command measured.
    measured: Option<f64>,
}

impl Slice {
    fn growth(&self, counter: fn(&Counters) -> Option<u64>) -> Option<f64> {
        Some(counter(&self.to)?.checked_sub(counter(&self.from)?)? as f64)
    }

    fn rate(&self, counter: fn(&Counters) -> Option<u64>) -> Option<f64> {
        Some(self.growth(counter)? / self.seconds)
    }
}

/// For how long the machine is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Length of each of the two periods.
    pub(super) watch: Duration,
    /// Time after the change that is not judged.
    pub(super) settle: Duration,
}

impl Times {
    fn slices(self) -> u32 {
        let most = u32::try_from(self.watch.as_secs() / SHORTEST.as_secs()).unwrap_or(SLICES);
        SLICES.min(most).max(1)
    }

    fn slice(self) -> Duration {
        self.watch / self.slices()
    }
}

/// Watches for a reason to end the trial of a change at once.
#[derive(Debug)]
pub(super) struct Brake {
    kills: Option<u64>,
    /// Share of the time in which all tasks waited for memory, as measured before the change.
    usual: f64,
    seen: Vec<Slice>,
}

impl Brake {
    pub(super) fn new(machine: &mut dyn Machine, before: &[Slice]) -> Self {
        let kills = before.last().map_or_else(|| machine.counters().kills, |last| last.to.kills);
        Self { kills, usual: share_of_waiting(before), seen: Vec::new() }
    }

    /// Adds a slice; returns why the change must be undone now, if there is a reason.
    fn find_reason_to_stop(&mut self, slice: Slice) -> Option<String> {
        self.seen.push(slice);
        let kills =
            slice.to.kills.zip(self.kills).map_or(0, |(now, then)| now.saturating_sub(then));
        if kills > 0 {
            let processes = if kills == 1 { "process" } else { "processes" };
            return Some(format!("the kernel killed {kills} {processes} for lack of memory"));
        }
        let mut seconds = 0.0;
        let long = self.seen.iter().rev().take_while(|slice| {
            let is_short = seconds < LONG.as_secs_f64();
            seconds += slice.seconds;
            is_short
        });
        let long: Vec<Slice> = long.copied().collect();
        let seconds: f64 = long.iter().map(|slice| slice.seconds).sum();
        let share = share_of_waiting(&long);
        if seconds >= LONG.as_secs_f64() && share >= MOST.max(2.0 * self.usual) {
            return Some(format!(
                "all tasks waited for memory for {:.0} s of the last {seconds:.0} s",
                share * seconds
            ));
        }
        None
    }
}

/// Share of the time in which all tasks waited for memory; 0 if it is not known.
fn share_of_waiting(slices: &[Slice]) -> f64 {
    let waited: f64 = slices.iter().filter_map(|slice| slice.growth(|it| it.full_us)).sum();
    let seconds: f64 = slices.iter().map(|slice| slice.seconds).sum();
    if seconds > 0.0 { waited / 1e6 / seconds } else { 0.0 }
}

/// The slices of a period, and why it ended early.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) slices: Vec<Slice>,
    pub(super) braked: Option<String>,
}

/// Watches the machine before the change.
pub(super) fn watch_before(machine: &mut dyn Machine, times: Times) -> anyhow::Result<Vec<Slice>> {
    Ok(watch(machine, times, None)?.slices)
}

/// Lets the machine settle after the change, and watches it.
pub(super) fn watch_after(
    machine: &mut dyn Machine,
    times: Times,
    brake: &mut Brake,
) -> anyhow::Result<Watched> {
    let until = machine.now() + times.settle;
    while let Some(left) = until.checked_sub(machine.now()).filter(|left| !left.is_zero()) {
        let slice = pass_slice(machine, left.min(Duration::from_secs(5)), false)?;
        if let Some(why) = brake.find_reason_to_stop(slice) {
            return Ok(Watched { slices: Vec::new(), braked: Some(why) });
        }
    }
    watch(machine, times, Some(brake))
}

fn watch(
    machine: &mut dyn Machine,
    times: Times,
    mut brake: Option<&mut Brake>,
) -> anyhow::Result<Watched> {
    let (begun, planned) = (machine.now(), times.slices() as usize);
    let mut slices: Vec<Slice> = Vec::new();
    loop {
        let is_over = if slices.iter().any(|slice| slice.measured.is_some()) {
            let is_long = machine.now().saturating_sub(begun) >= times.watch;
            slices.len() >= MOST_RUNS || slices.len() >= FEWEST_RUNS && is_long
        } else {
            slices.len() >= planned
        };
        if is_over {
            return Ok(Watched { slices, braked: None });
        }
        let slice = pass_slice(machine, times.slice(), true)?;
        let braked = brake.as_mut().and_then(|brake| brake.find_reason_to_stop(slice));
        slices.push(slice);
        if braked.is_some() {
            return Ok(Watched { slices, braked });
        }
    }
}

/// Watches for one slice: during one run of the user's command, or for a fixed time.
fn pass_slice(
    machine: &mut dyn Machine,
    time: Duration,
    is_measured: bool,
) -> anyhow::Result<Slice> {
    let (begun, from) = (machine.now(), machine.counters());
    let measured = if is_measured { machine.measure()? } else { None };
    if measured.is_none() {
        machine.pass(time)?;
    }
    let to = machine.counters();
    // a run may be shorter than the resolution of the clock
    let seconds = machine.now().saturating_sub(begun).as_secs_f64().max(1e-3);
    Ok(Slice { seconds, from, to, measured })
}

/// The user's own measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) higher_is_better: bool,
}

/// Judges a change by what was watched before and after it.
pub(super) fn judge(
    before: &[Slice],
    after: &[Slice],
    times: Times,
    named: Option<&Named>,
) -> PeriodsVerdict {
    let mut all: Vec<Periods> =
        named.map(|named| judge_user_measure(named, before, after)).into_iter().collect();
    let mut unknown = Vec::new();
    for measure in MEASURES {
        let values = |slices: &[Slice]| -> Vec<f64> {
            let rates = slices.iter().filter_map(|slice| slice.rate(measure.counter));
            rates.map(|rate| rate / measure.per_unit).collect()
        };
        let (before, after) = (values(before), values(after));
        if before.is_empty() || after.is_empty() {
            unknown.push(format!("{}: {}", measure.name, measure.missing));
            continue;
        }
        all.push(Periods {
            name: measure.name.to_owned(),
            unit: measure.unit.to_owned(),
            higher_is_better: false,
            purpose: measure.purpose,
            is_of_load: true,
            least: measure.least,
            before,
            after,
        });
    }
    let seconds = [times.settle, times.watch].map(|time| time.as_secs_f64());
    judge_periods(&all, seconds, unknown)
}

fn judge_user_measure(named: &Named, before: &[Slice], after: &[Slice]) -> Periods {
    let is_of_load = before.iter().all(|slice| slice.measured.is_none());
    let value = |slice: &Slice| slice.measured.or_else(|| slice.rate(|it| it.counted));
    let [before, after] =
        [before, after].map(|slices| slices.iter().filter_map(value).collect::<Vec<f64>>());
    let largest = [&before, &after].into_iter().filter_map(|values| median(values));
    let least = largest.fold(1e-6, f64::max) / 100.0;
    let Named { name, unit, higher_is_better } = named.clone();
    Periods { name, unit, higher_is_better, purpose: Use::Named, is_of_load, least, before, after }
}

/// A rate that is measured on every machine, to judge a change by.
struct Measure {
    name: &'static str,
    unit: &'static str,
    purpose: Use,
    counter: fn(&Counters) -> Option<u64>,
    /// The amount of the counter that makes one unit of the rate.
    per_unit: f64,
    /// Lower rates than this are ignored.
    least: f64,
    /// Why the counter may be missing.
    missing: &'static str,
}

const NO_PSI: &str = "not known, /proc/pressure is not readable (a kernel without PSI, or psi=0)";
const NO_COUNTER: &str = "not known, /proc/vmstat does not have it";

/// The least rate that matters is one millisecond of waiting per second, a thousandth of the time.
const MEASURES: [Measure; 8] = [
    Measure {
        name: "waiting for memory",
        unit: "ms/s",
        purpose: Use::Decides,
        counter: |it| it.some_us,
        per_unit: 1000.0,
        least: 1.0,
        missing: NO_PSI,
    },
    Measure {
        name: "pages read again",
        unit: "1/s",
        purpose: Use::Supports,
        counter: |it| Some(it.refaults_file? + it.refaults_anon.unwrap_or(0)),
        per_unit: 1.0,
        least: 20.0,
        missing: NO_COUNTER,
    },
    Measure {
        name: "all tasks waiting",
        unit: "ms/s",
        purpose: Use::Shown,
        counter: |it| it.full_us,
        per_unit: 1000.0,
        least: 1.0,
        missing: NO_PSI,
    },
    Measure {
        name: "waiting for disks",
        unit: "ms/s",
        purpose: Use::Shown,
        counter: |it| it.io_us,
        per_unit: 1000.0,
        least: 1.0,
        missing: NO_PSI,
    },
    Measure {
        name: "file pages read again",
        unit: "1/s",
        purpose: Use::Shown,
        counter: |it| it.refaults_file,
        per_unit: 1.0,
        least: 20.0,
        missing: NO_COUNTER,
    },
    Measure {
        name: "pages swapped in",
        unit: "1/s",
        purpose: Use::Shown,
        counter: |it| it.swapped_in,
        per_unit: 1.0,
        least: 20.0,
        missing: NO_COUNTER,
    },
    Measure {
        name: "pages swapped out",
        unit: "1/s",
        purpose: Use::Shown,
        counter: |it| it.swapped_out,
        per_unit: 1.0,
        least: 20.0,
        missing: NO_COUNTER,
    },
    Measure {
        name: "user CPU time",
        unit: "ms/s",
        purpose: Use::Load,
        counter: |it| it.user_us,
        per_unit: 1000.0,
        least: 10.0,
        missing: "not known, /proc/stat is not readable",
    },
];

#[cfg(test)]
#[path = "planted.rs"]
mod planted;
