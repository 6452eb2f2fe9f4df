// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives a [`WatchCourse`] from [`WatchSample`]s of a program whose memory is being collapsed:
//! its phases, and the CPU time it used.
//!
//! A new phase begins when a fork that shares the memory starts or ends, and when a considerable
//! part of the memory was collapsed. The kernel's CPU times have a resolution of 10 ms, so that
//! samples are joined until their CPU time is large enough.

use pagewise_model::{WatchCourse, WatchPhase, WatchSample};

/// A fork is considered if it shares more than 1/50 of the memory.
const SHARED: u64 = 50;
/// A collapse is considered if it covers more than 1/20 of the memory.
const COLLAPSED: u64 = 20;
/// Minimum CPU time, in seconds, of the samples that are joined to one value.
const LEAST: f64 = 0.05;

/// Summarises the samples of a watched program, which must be in order of time.
#[must_use]
pub fn summarize(samples: &[WatchSample]) -> WatchCourse {
    let at = |sample: &WatchSample| Some((sample.seconds, covered_share(sample)?));
    WatchCourse {
        phases: phases(samples),
        covered: samples.iter().filter_map(at).collect(),
        used: used_series(samples),
        forks: forks(samples),
        counts_requests: is_counted(samples),
    }
}

fn forks(samples: &[WatchSample]) -> Vec<[f64; 2]> {
    let alike = samples.chunk_by(|a, b| is_shared(a) == is_shared(b));
    let shared = alike.filter(|samples| samples.first().is_some_and(is_shared));
    let ends = |samples: &[WatchSample]| Some([samples.first()?.seconds, samples.last()?.seconds]);
    shared.filter_map(ends).collect()
}

/// Whether a fork shares memory with the watched process at this sample.
fn is_shared(sample: &WatchSample) -> bool {
    let shared = sample.shared.unwrap_or_default().get();
    shared > 0 && shared > sample.coverage.anon.get() / SHARED
}

/// Returns all phases, in order of time.
fn phases(samples: &[WatchSample]) -> Vec<WatchPhase> {
    let (mut phases, mut start, mut before) = (Vec::new(), 0, 0);
    for (at, sample) in samples.iter().enumerate() {
        let Some(first) = samples.get(start) else { break };
        let has_begun = is_shared(sample) != is_shared(first)
            || (!is_much(before, first) && is_much(before, sample));
        if has_begun && at > start {
            phases.extend(phase(samples.get(start..at), before));
            before = samples.get(at - 1).map_or(0, |last| last.collapsed);
            start = at;
        }
    }
    phases.extend(phase(samples.get(start..), before));
    phases
}

fn phase(samples: Option<&[WatchSample]>, before: u64) -> Option<WatchPhase> {
    let samples = samples?;
    let last = samples.last()?;
    let much = is_much(before, last);
    let collapsed = if much { last.collapsed.saturating_sub(before) } else { 0 };
    Some(WatchPhase {
        seconds: [samples.first()?.seconds, last.seconds],
        shared: is_shared(last),
        collapsed,
        covered: covered_share(last),
        most: samples.iter().filter_map(|sample| sample.memory).max(),
        used: usage_after_collapse(samples),
    })
}

/// Whether the blocks collapsed since `before` are a considerable part of the memory.
fn is_much(before: u64, now: &WatchSample) -> bool {
    let blocks = now.coverage.anon.get() >> 21;
    now.collapsed.saturating_sub(before) > blocks / COLLAPSED
}

/// Returns a value for each group of joined samples: the time in its middle, and the CPU seconds
/// used per request, or per second if requests are not counted.
fn used_series(samples: &[WatchSample]) -> Vec<(f64, f64)> {
    let counted = is_counted(samples);
    let (mut found, mut rest) = (Vec::new(), samples);
    while let Some(first) = rest.first() {
        let enough = |later: &WatchSample| usage_between(first, later, counted).is_some();
        // if five seconds do not contain enough CPU time, the first sample is skipped: the program
        // had no work
        let mut near = rest.iter().take_while(|later| later.seconds - first.seconds < 5.0);
        let Some(at) = near.position(enough) else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let Some((last, used)) =
            rest.get(at).and_then(|last| Some((last, usage_between(first, last, counted)?)))
        else {
            break;
        };
        found.push(((first.seconds + last.seconds) / 2.0, used));
        rest = rest.get(at..).unwrap_or_default();
    }
    found
}

/// Whether any sample has a number of requests, from the counter that the user named.
fn is_counted(samples: &[WatchSample]) -> bool {
    samples.iter().any(|sample| sample.requests.is_some())
}

/// Returns the CPU usage between two samples; `None` if too little CPU time was used.
fn usage_between(before: &WatchSample, after: &WatchSample, counted: bool) -> Option<f64> {
    let cpu = after.cpu_seconds? - before.cpu_seconds?;
    let units = if counted {
        after.requests?.checked_sub(before.requests?)? as f64
    } else {
        after.seconds - before.seconds
    };
    (units > 0.0 && cpu >= LEAST - 1e-9).then(|| cpu / units)
}

/// The share of anonymous memory in huge pages, in percent.
fn covered_share(sample: &WatchSample) -> Option<f64> {
    let (huge, all) = (sample.coverage.anon_huge.get(), sample.coverage.anon.get());
    (all > 0).then(|| huge as f64 / all as f64 * 100.0)
}

/// Returns the CPU usage in a phase. If blocks were collapsed in the phase, only the time after
/// that is considered.
fn usage_after_collapse(samples: &[WatchSample]) -> Option<f64> {
    let counted = is_counted(samples);
    let last = samples.last()?;
    let known = samples
        .iter()
        .filter(|sample| sample.cpu_seconds.is_some() && (!counted || sample.requests.is_some()));
    let (first, end) = (known.clone().next()?, known.clone().next_back()?);
    let mut known = known;
    let after = known.find(|sample| !is_much(sample.collapsed, last));
    let after = after.and_then(|first| usage_between(first, end, counted));
    after.or_else(|| usage_between(first, end, counted))
}
