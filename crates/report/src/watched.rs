// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moments of a program that is watched → what it used between them, and the phases that it went through.
//!
//! A phase begins where a fork that shares memory comes or goes, and where blocks were collapsed.

use pagewise_model::{Bytes, Moment};

/// A fork shares more than this part of the memory.
const SHARED: u64 = 8;
/// Phases shorter than this are a part of the next one.
const SHORTEST: usize = 3;

/// Moments in which the same is true.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase<'a> {
    pub(crate) moments: &'a [Moment],
    /// Somebody else maps a good part of it.
    pub(crate) shared: bool,
    /// Blocks that were collapsed since the phase before.
    pub(crate) collapsed: u64,
}

/// Whether a fork of it lives.
pub(crate) fn is_shared(moment: &Moment) -> bool {
    let shared = moment.shared.unwrap_or_default().get();
    shared > 0 && shared > moment.coverage.anon.get() / SHARED
}

/// All of them, in order.
pub(crate) fn phases(moments: &[Moment]) -> Vec<Phase<'_>> {
    let same = |a: &Moment, b: &Moment| a.collapsed == b.collapsed && is_shared(a) == is_shared(b);
    let (mut phases, mut start, mut end, mut before) = (Vec::new(), 0, 0, 0);
    for run in moments.chunk_by(same) {
        end += run.len();
        if run.len() < SHORTEST && end < moments.len() {
            continue;
        }
        let Some((last, moments)) = run.last().zip(moments.get(start..end)) else { continue };
        let collapsed = last.collapsed.saturating_sub(before);
        phases.push(Phase { moments, shared: is_shared(last), collapsed });
        (start, before) = (end, last.collapsed);
    }
    phases
}

/// The time in the middle of two neighbours, and what was used between them: processor seconds for a
/// request, or for a second where nobody counts requests. None where nothing was asked.
pub(crate) fn used(moments: &[Moment]) -> Vec<(f64, f64)> {
    let per = |pair: &[Moment]| {
        let [before, after] = pair else { return None };
        Some(((before.seconds + after.seconds) / 2.0, between(before, after)?))
    };
    moments.windows(2).filter_map(per).collect()
}

/// From one moment to a later one.
pub(crate) fn between(before: &Moment, after: &Moment) -> Option<f64> {
    let cpu = after.cpu_seconds? - before.cpu_seconds?;
    let units = match (before.requests, after.requests) {
        (Some(before), Some(after)) => after.checked_sub(before)? as f64,
        _ => after.seconds - before.seconds,
    };
    (units > 0.0 && cpu >= 0.0).then(|| cpu / units)
}

/// The part of anonymous memory that is in huge pages, in percent.
pub(crate) fn covered(moment: &Moment) -> Option<f64> {
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

    /// What was used over all of it.
    pub(crate) fn used(&self) -> Option<f64> {
        between(self.moments.first()?, self.moments.last()?)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use pagewise_model::Coverage;

    use super::*;

    /// A server that is collapsed after 5 s, forks from 10 to 15 s, and is collapsed again after 20 s.
    pub(crate) fn server() -> Vec<Moment> {
        let mib = |count: u64| Bytes::new(count << 20);
        let at = |second: u32| {
            let shared = (10..15).contains(&second);
            let (huge, collapsed) = match second {
                0..5 => (0, 0),
                5..10 => (360, 180),
                10..20 => (20, 180),
                _ => (360, 350),
            };
            Moment {
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
        assert_eq!(phases[0].used(), Some(2e-6));
        assert_eq!(phases.iter().map(|phase| phase.moments.len()).sum::<usize>(), 25);
    }

    #[test]
    fn without_a_counter_it_is_a_share_of_a_processor() {
        let mut moments = testing::server();
        moments.iter_mut().for_each(|moment| moment.requests = None);
        assert_eq!(used(&moments)[0], (0.5, 0.5));
        moments[1].cpu_seconds = None;
        assert_eq!(used(&moments).len(), 22);
        assert!(used(&[]).is_empty() && super::phases(&[]).is_empty());
    }
}
