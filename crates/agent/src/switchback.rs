// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop that is switched on and off by plan: samples → the values of each block, and what they show.
//!
//! A block counts only if it was watched from the end of its wash-out to its own end: an agent that was
//! restarted, a machine that was off or suspended, and a clock that was set leave a block without
//! values. The judgement then leaves out the block with which it would be compared as well.
//!
//! `pagewise_stats` has the plan and the judgement.

mod metric;

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_model::{Bytes, ProofVerdict};
use pagewise_stats::switchback::{
    Block, BlockValues, DAY, KEPT_DAYS, SwitchbackPlan, SwitchbackQuestion, SwitchbackReport,
    is_new_look, judge_switchback,
};
use serde::{Deserialize, Serialize};

pub use metric::parse_metric;

/// The largest time between two samples, and between an end of a block and the sample next to it.
const LONGEST_GAP: u64 = 300;
/// By so many seconds the clock may run differently from the time since the boot: more means that it was
/// set, or that the machine was suspended.
const CLOCK_TOLERANCE: u64 = 5;

/// How a loop is proved.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchbackSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// The cgroup whose CPU time, refaults and memory are measured.
    pub cgroup: String,
    /// Where the counter of the work of the cgroup comes from.
    pub metric: MetricSource,
    /// The name of the counter; `None` if the file or command gives one number and nothing else.
    pub metric_name: Option<String>,
    /// Length of a block.
    pub block: Duration,
    /// The first part of each block, which does not count.
    pub wash_out: Duration,
    /// The smallest change that counts, in percent.
    pub relevant_percent: f64,
}

/// Where a counter of the work comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MetricSource {
    /// There is none: the CPU time of the cgroup alone is compared.
    #[default]
    None,
    /// A file with this path.
    File(String),
    /// What a program prints: its path, and its arguments.
    Command(Vec<String>),
}

impl Default for SwitchbackSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            cgroup: String::new(),
            metric: MetricSource::None,
            metric_name: None,
            block: Duration::from_secs(4 * 3600),
            wash_out: Duration::from_secs(1800),
            relevant_percent: 1.0,
        }
    }
}

impl SwitchbackSettings {
    /// Identifies what is measured: values of another measurement must not be compared with these.
    fn subject(&self) -> String {
        let Self { cgroup, metric, metric_name, block, wash_out, .. } = self;
        format!("{cgroup} {metric:?} {metric_name:?} {} {}", block.as_secs(), wash_out.as_secs())
    }

    /// Whether more of what is compared as work is better: work per CPU second is, CPU time is not.
    pub fn is_more_better(&self) -> bool {
        self.metric != MetricSource::None
    }
}

/// Counters at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchbackSample {
    /// Unix time in seconds.
    pub unix_seconds: u64,
    /// Time since the start of the agent, without the time in which the machine was suspended.
    pub elapsed: Duration,
    /// CPU time of the cgroup since it was created.
    pub cpu: Duration,
    /// The counter of the work; `None` without one.
    pub metric: Option<f64>,
    /// Refaults since the cgroup was created.
    pub refaults: u64,
    /// Memory that the cgroup holds now, with the RAM that its pages in zram take.
    pub memory: Bytes,
}

/// The values of a block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct MeasuredBlock {
    day: u64,
    number: u64,
    work: f64,
    refaults: f64,
    memory: f64,
}

/// What is kept on disk for a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchbackRecord {
    seed: u64,
    /// What is measured.
    subject: String,
    /// The first day that counts, in Unix time; `None` before there is a block.
    start: Option<u64>,
    /// When the loop was switched off because it harms, in Unix time.
    stopped: Option<u64>,
    blocks: Vec<MeasuredBlock>,
}

#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    block: Block,
    first: SwitchbackSample,
    last: SwitchbackSample,
    memory: f64,
    count: f64,
}

/// A loop that is proved.
#[derive(Debug, Clone)]
pub struct Switchback {
    settings: SwitchbackSettings,
    plan: SwitchbackPlan,
    record: SwitchbackRecord,
    open: Option<OpenBlock>,
    /// The day, in Unix time, on which it was judged.
    judged_day: u64,
    report: SwitchbackReport,
}

impl Switchback {
    /// Goes on with what was recorded, if it was of the same measurement; otherwise begins anew with
    /// this seed. `None` if the lengths make no plan, which the configuration checks.
    pub fn new(
        settings: SwitchbackSettings,
        recorded: Option<SwitchbackRecord>,
        seed: u64,
        unix_seconds: u64,
    ) -> Option<Self> {
        let subject = settings.subject();
        let record = recorded.filter(|record| record.subject == subject);
        let anew = || SwitchbackRecord { seed, subject, ..SwitchbackRecord::default() };
        let record = record.unwrap_or_else(anew);
        let plan = SwitchbackPlan::new(record.seed, settings.block, settings.wash_out)?;
        let judged_day = unix_seconds / DAY;
        let report = judge(&plan, &record, &settings, judged_day);
        let mut made = Self { settings, plan, record, open: None, judged_day, report };
        made.stop_if_harmful(unix_seconds);
        Some(made)
    }

    /// Whether the loop may act at this time, and until when that is so, in Unix time.
    pub fn is_loop_on(&self, unix_seconds: u64) -> (bool, u64) {
        let block = self.plan.block_at(unix_seconds);
        (self.record.stopped.is_none() && self.plan.is_on(block), self.plan.end_of(block))
    }

    /// When the loop was switched off because it harms.
    pub fn stopped(&self) -> Option<u64> {
        self.record.stopped
    }

    /// What is kept on disk.
    pub fn record(&self) -> &SwitchbackRecord {
        &self.record
    }

    /// What was shown until now.
    pub fn report(&self, unix_seconds: u64) -> SwitchbackReport {
        let passed = (unix_seconds / DAY).saturating_sub(self.judged_day);
        let more_days = self.report.more_days.map(|more| more.saturating_sub(passed).max(1));
        SwitchbackReport { more_days, ..self.report }
    }

    /// The settings by which it is proved.
    pub fn settings(&self) -> &SwitchbackSettings {
        &self.settings
    }

    /// Number of blocks that were measured.
    pub fn measured(&self) -> usize {
        self.record.blocks.len()
    }

    /// Judges again if a month has ended, or the days after which large harm is checked. True if that has changed the record. The sample of this time must
    /// be taken before: it ends the last block of the day.
    pub fn update(&mut self, unix_seconds: u64) -> bool {
        let today = unix_seconds / DAY;
        let start = self.record.start.unwrap_or(self.judged_day);
        if self.record.stopped.is_some() || !is_new_look(start, self.judged_day, today) {
            return false;
        }
        self.judged_day = today;
        self.report = judge(&self.plan, &self.record, &self.settings, today);
        self.stop_if_harmful(unix_seconds)
    }

    fn stop_if_harmful(&mut self, unix_seconds: u64) -> bool {
        let is_harm = self.report.verdict == ProofVerdict::Harms && self.record.stopped.is_none();
        if is_harm {
            self.record.stopped = Some(unix_seconds);
            self.open = None;
        }
        is_harm
    }

    /// Takes a sample. True if it ended a block that counts: then the record has changed.
    pub fn take(&mut self, sample: SwitchbackSample) -> bool {
        if self.record.stopped.is_some() {
            return false;
        }
        let block = self.plan.block_at(sample.unix_seconds);
        let Some(open) = &mut self.open else {
            self.begin(block, sample);
            return false;
        };
        let is_whole = follows(&open.last, &sample);
        if is_whole && open.block == block {
            open.memory += sample.memory.get() as f64;
            open.count += 1.0;
            open.last = sample;
            return false;
        }
        let ended = *open;
        self.open = None;
        self.begin(block, sample);
        is_whole && self.end(&ended)
    }

    /// A block in the middle of which it was not watched has no values.
    fn begin(&mut self, block: Block, sample: SwitchbackSample) {
        let after = sample.unix_seconds.checked_sub(self.plan.counts_from(block));
        if after.is_some_and(|after| after <= LONGEST_GAP) {
            let memory = sample.memory.get() as f64;
            self.open = Some(OpenBlock { block, first: sample, last: sample, memory, count: 1.0 });
        }
    }

    fn end(&mut self, open: &OpenBlock) -> bool {
        let OpenBlock { block, first, last, .. } = *open;
        let is_new =
            !self.record.blocks.iter().any(|it| (it.day, it.number) == (block.day, block.number));
        let seconds = last.elapsed.saturating_sub(first.elapsed).as_secs_f64();
        let cpu = last.cpu.saturating_sub(first.cpu).as_secs_f64();
        let work = match last.metric.zip(first.metric) {
            Some((end, start)) => (end - start) / cpu,
            None => cpu / seconds,
        };
        let refaults = (last.refaults.saturating_sub(first.refaults) as f64 + 0.5) / seconds;
        let memory = open.memory / open.count;
        let is_sound = [work, refaults, memory].iter().all(|it| it.is_finite() && *it > 0.0);
        if !(is_sound && is_new) {
            return false;
        }
        let Block { day, number } = block;
        self.record.blocks.push(MeasuredBlock { day, number, work, refaults, memory });
        self.record.blocks.retain(|it| it.day.abs_diff(day) <= KEPT_DAYS);
        // a start in the future is of a clock that was wrong
        if self.record.start.is_none_or(|start| start > day + 2) {
            self.record.start = Some(day.next_multiple_of(2));
            self.judged_day = day;
            self.report = judge(&self.plan, &self.record, &self.settings, day);
        }
        true
    }
}

fn judge(
    plan: &SwitchbackPlan,
    record: &SwitchbackRecord,
    settings: &SwitchbackSettings,
    today: u64,
) -> SwitchbackReport {
    let values = |it: &MeasuredBlock| {
        let &MeasuredBlock { day, number, work, refaults, memory } = it;
        (Block { day, number }, BlockValues { work, refaults, memory })
    };
    let measured: BTreeMap<Block, BlockValues> = record.blocks.iter().map(values).collect();
    let question = SwitchbackQuestion {
        start: record.start.unwrap_or_else(|| today.next_multiple_of(2)),
        is_more_better: settings.is_more_better(),
        relevant: settings.relevant_percent / 100.0,
    };
    let today = record.stopped.map_or(today, |stopped| stopped / DAY);
    let mut report = judge_switchback(plan, &measured, question, today);
    if record.stopped.is_some() {
        report.verdict = ProofVerdict::Harms;
    }
    report
}

/// Whether nothing is missing between two samples: they are at most [`LONGEST_GAP`] apart, the clock was
/// not set, and the counters are those of the same cgroup and program.
fn follows(before: &SwitchbackSample, sample: &SwitchbackSample) -> bool {
    let metric = match (before.metric, sample.metric) {
        (Some(before), Some(now)) => now >= before,
        (None, None) => true,
        _ => false,
    };
    let elapsed = sample.elapsed.saturating_sub(before.elapsed).as_secs();
    let time = sample
        .unix_seconds
        .checked_sub(before.unix_seconds)
        .is_some_and(|passed| passed <= LONGEST_GAP && passed.abs_diff(elapsed) <= CLOCK_TOLERANCE);
    time && metric && sample.cpu >= before.cpu && sample.refaults >= before.refaults
}

#[cfg(test)]
mod tests;
