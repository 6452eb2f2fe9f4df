// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moments of a program that is watched → what it used between them, and the phases that it went through.
//!
//! A phase begins where a fork that shares memory comes or goes, and where a good part was collapsed.
//! Processor time is told in ticks of 10 ms: so moments are joined until there is enough of it.

use pagewise_model::{Bytes, WatchSample};

/// A fork shares more than this part of the memory.
const SHARED: u64 = 50;
/// More than this part of the memory was collapsed.
const COLLAPSED: u64 = 20;
/// Less processor time tells too little.
const LEAST: f64 = 0.05;

/// Moments in which the same is true.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase<'a> {
    pub(crate) moments: &'a [WatchSample],
    /// Somebody else maps a good part of it.
    pub(crate) shared: bool,
    /// Blocks that were collapsed since the phase before.
    pub(crate) collapsed: u64,
}

/// Whether a fork of it lives.
pub(crate) fn is_shared(moment: &WatchSample) -> bool {
    let shared = moment.shared.unwrap_or_default().get();
    shared > 0 && shared > moment.coverage.anon.get() / SHARED
}

/// All of them, in order.
pub(crate) fn phases(moments: &[WatchSample]) -> Vec<Phase<'_>> {
    let (mut phases, mut start, mut before) = (Vec::new(), 0, 0);
    for (at, moment) in moments.iter().enumerate() {
        let Some(first) = moments.get(start) else { break };
        let has_begun = is_shared(moment) != is_shared(first)
            || (!is_much(before, first) && is_much(before, moment));
        if has_begun && at > start {
            phases.extend(phase(moments.get(start..at), before));
            before = moments.get(at - 1).map_or(0, |last| last.collapsed);
            start = at;
        }
    }
    phases.extend(phase(moments.get(start..), before));
    phases
}

fn phase(moments: Option<&[WatchSample]>, before: u64) -> Option<Phase<'_>> {
    let moments = moments?;
    let last = moments.last()?;
    let much = is_much(before, last);
    let collapsed = if much { last.collapsed.saturating_sub(before) } else { 0 };
    Some(Phase { moments, shared: is_shared(last), collapsed })
}

/// Whether what was collapsed since is a good part of the memory.
fn is_much(before: u64, now: &WatchSample) -> bool {
    let blocks = now.coverage.anon.get() >> 21;
    now.collapsed.saturating_sub(before) > blocks / COLLAPSED
}

/// The time in the middle of neighbours that are joined, and what was used between them: processor
/// seconds for a request, or for a second where nobody counts requests.
pub(crate) fn used(moments: &[WatchSample]) -> Vec<(f64, f64)> {
    let counted = is_counted(moments);
    let (mut found, mut rest) = (Vec::new(), moments);
    while let Some(first) = rest.first() {
        let enough = |later: &WatchSample| between(first, later, counted).is_some();
        // what a second brings nothing of is left out: nothing was asked of the program
        let mut near = rest.iter().take_while(|later| later.seconds - first.seconds < 5.0);
        let Some(at) = near.position(enough) else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let Some((last, used)) =
            rest.get(at).and_then(|last| Some((last, between(first, last, counted)?)))
        else {
            break;
        };
        found.push(((first.seconds + last.seconds) / 2.0, used));
        rest = rest.get(at..).unwrap_or_default();
    }
    found
}

/// Whether somebody counts requests.
pub(crate) fn is_counted(moments: &[WatchSample]) -> bool {
    moments.iter().any(|moment| moment.requests.is_some())
}

/// From one moment to a later one; none where too little was used to say.
fn between(before: &WatchSample, after: &WatchSample, counted: bool) -> Option<f64> {
    let cpu = after.cpu_seconds? - before.cpu_seconds?;
    let units = if counted {
        after.requests?.checked_sub(before.requests?)? as f64
    } else {
        after.seconds - before.seconds
    };
    (units > 0.0 && cpu >= LEAST - 1e-9).then(|| cpu / units)
}

/// The part of anonymous memory that is in huge pages, in percent.
pub(crate) fn covered(moment: &WatchSample) -> Option<f64> {
    let (huge, all) = (moment.coverage.anon_huge.get(), moment.coverage.anon.get());
    (all > 0).then(|| huge as f64 / all as f64 * 100.0)
}

impl Phase<'_> {
    /// In words.
    pub(crate) fn name(&self, is_first: bool) -> String {
        let blocks = self.collapsed;
        match (is_first, self.shared, blocks) {
            (true, _, 0) => "before".to_owned(),
            (_, true, 0) => "a fork shares its memory".to_owned(),
            (_, true, _) => format!("{blocks} blocks collapsed, a fork shares others"),
            (_, false, 0) => "the fork is gone".to_owned(),
            (_, false, _) => format!("{blocks} blocks collapsed"),
        }
    }

    /// From when to when.
    pub(crate) fn seconds(&self) -> Option<[f64; 2]> {
        Some([self.moments.first()?.seconds, self.moments.last()?.seconds])
    }

    /// Its last coverage in percent: what the phase led to.
    pub(crate) fn covered(&self) -> Option<f64> {
        self.moments.last().and_then(covered)
    }

    /// The most memory in it.
    pub(crate) fn most(&self) -> Option<Bytes> {
        self.moments.iter().filter_map(|moment| moment.memory).max()
    }

    /// What was used in it; where blocks were collapsed, after that.
    pub(crate) fn used(&self) -> Option<f64> {
        let counted = is_counted(self.moments);
        let last = self.moments.last()?;
        let known = self.moments.iter().filter(|moment| {
            moment.cpu_seconds.is_some() && (!counted || moment.requests.is_some())
        });
        let (first, end) = (known.clone().next()?, known.clone().next_back()?);
        let mut known = known;
        let after = known.find(|moment| !is_much(moment.collapsed, last));
        let after = after.and_then(|first| between(first, end, counted));
        after.or_else(|| between(first, end, counted))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use pagewise_model::Coverage;

    use super::*;

    /// A server that is collapsed after 5 s, forks from 10 to 15 s, and is collapsed again after 20 s.
    pub(crate) fn server() -> Vec<WatchSample> {
        let mib = |count: u64| Bytes::new(count << 20);
        let at = |second: u32| {
            let shared = (10..15).contains(&second);
            let (huge, collapsed) = match second {
                0..5 => (0, 0),
                5..10 => (360, 180),
                10..20 => (20, 180),
                _ => (360, 350),
            };
            WatchSample {
                seconds: f64::from(second),
                coverage: Coverage { anon: mib(362), anon_huge: mib(huge), ..Coverage::default() },
                memory: Some(if shared { mib(200) } else { mib(362 + collapsed / 180) }),
                shared: Some(if shared { mib(300) } else { mib(0) }),
                cpu_seconds: Some(f64::from(second) * 0.5),
                requests: Some(u64::from(second) * 250_000),
                collapsed,
            }
        };
        (0..25).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_told_apart() {
        let moments = testing::server();
        let phases = phases(&moments);
        let names: Vec<String> =
            phases.iter().enumerate().map(|(at, phase)| phase.name(at == 0)).collect();
        let expected = [
            "before",
            "180 blocks collapsed",
            "a fork shares its memory",
            "the fork is gone",
            "170 blocks collapsed",
        ];
        assert_eq!(names, expected);
        assert_eq!(phases[1].seconds(), Some([5.0, 9.0]));
        assert!(phases[1].covered().unwrap() > 99.0);
        assert!(phases.iter().all(|phase| (phase.used().unwrap() - 2e-6).abs() < 1e-12));
        assert_eq!(phases.iter().map(|phase| phase.moments.len()).sum::<usize>(), 25);
    }

    #[test]
    fn without_a_counter_it_is_a_share_of_a_processor() {
        let mut moments = testing::server();
        moments.iter_mut().for_each(|moment| moment.requests = None);
        assert_eq!(used(&moments)[0], (0.5, 0.5));
        moments[1].cpu_seconds = None;
        assert_eq!((used(&moments).len(), used(&moments)[0]), (23, (1.0, 0.5)));
        // an idle program used nothing that could be told
        moments.iter_mut().for_each(|moment| moment.cpu_seconds = Some(7.0));
        assert_eq!(used(&moments), []);
    }

    #[test]
    fn one_look_without_an_answer_is_left_out() {
        let mut moments = testing::server();
        moments[7].requests = None;
        moments[24].requests = None;
        let all = used(&moments);
        assert!(all.iter().all(|(_, used)| (used - 2e-6).abs() < 1e-12), "{all:?}");
        assert!(phases(&moments).iter().all(|phase| phase.used().is_some()));
        assert!(used(&[]).is_empty() && super::phases(&[]).is_empty());
    }
}
