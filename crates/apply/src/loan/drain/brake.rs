// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides from repeated samples whether a swapoff that runs may go on.
//!
//! While swapoff runs, the kernel stores no new page in the area. A program that grows can
//! therefore use up the memory that the pages still in the area need, although all of them fitted
//! at the start. So the check of the start is repeated with half of its reserve, and with the
//! memory that will be left once the kernel reacts to the signal: it reads back all pages of the
//! current process first.

use std::collections::VecDeque;
use std::time::Duration;

use pagewise_model::Bytes;

use super::{Need, free_swap_elsewhere, harmed_group, memory_needed};
use crate::host_ops::{Area, MemoryFacts, Strain};

/// The state of the machine at one moment of a swapoff.
#[derive(Debug, Clone)]
pub(crate) struct DrainSample {
    /// Time since swapoff began.
    pub(crate) at: Duration,
    /// All areas that are enabled. The one that is being disabled is listed until it is empty.
    pub(crate) areas: Vec<Area>,
    /// Facts about memory, without the cgroups in samples for which these were not read.
    pub(crate) facts: MemoryFacts,
    /// The kernel's counters of memory pressure.
    pub(crate) strain: Strain,
}

/// Time over which growth is measured: shorter times are dominated by the moment at which each
/// file is read.
const GROWTH_TIME: Duration = Duration::from_millis(200);
/// Time from a sample until swapoff has ended after a signal: at least the first; the second is
/// the longest that the process being read back is assumed to take.
const REACTION: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(750)];

/// The values that are kept of a sample: how much memory is available beyond what the pages in the
/// area need (negative if they do not fit), and how much of the area is in use, in bytes.
#[derive(Debug, Clone, Copy)]
struct Spare {
    at: Duration,
    spare: i128,
    used: u64,
    full_us: Option<u64>,
}

/// Decides whether a swapoff goes on.
#[derive(Debug)]
pub(crate) struct Brake {
    area: String,
    /// How much memory stays available, in bytes.
    reserve: u64,
    kills_before: u64,
    past: VecDeque<Spare>,
}

impl Brake {
    /// A brake for disabling the area with this path. `kills_before` is the number of processes
    /// that the kernel had killed for lack of memory before.
    pub(crate) fn new(area: &str, reserve: Bytes, kills_before: u64) -> Self {
        let (area, reserve) = (area.to_owned(), reserve.get());
        Self { area, reserve, kills_before, past: VecDeque::new() }
    }

    /// The reason why swapoff has to stop, as an error.
    pub(crate) fn check(&mut self, sample: &DrainSample) -> Result<(), String> {
        let kills = sample.strain.oom_kills.saturating_sub(self.kills_before);
        if kills > 0 {
            return Err(format!(
                "the kernel killed {kills} processes for lack of memory meanwhile"
            ));
        }
        // the area is empty and not listed any more: swapoff is about to return
        let Some(area) = sample.areas.iter().find(|it| it.path == self.area) else { return Ok(()) };
        let Need { has_room, needed } = memory_needed(area, &sample.areas, Bytes::new(0), 0);
        let available = sample.facts.available;
        let now = Spare {
            at: sample.at,
            spare: i128::from(available.get()) - i128::from(needed),
            used: area.used.get(),
            full_us: sample.strain.full_us,
        };
        self.check_spare(now, available, needed)?;
        harmed_group(now.used, has_room, &sample.facts.groups).map_or(Ok(()), Err)
    }

    /// For the time after swapoff has ended: the reason why the area has to be enabled again, as an
    /// error. Programs may grow into memory and into other swap, of which swap on zram holds about
    /// half of what it can if the pages compress badly.
    pub(crate) fn check_after(&mut self, sample: &DrainSample) -> Result<(), String> {
        let none = Area {
            path: self.area.clone(),
            used: Bytes::new(0),
            size: Bytes::new(0),
            room: Bytes::new(0),
            priority: 0,
        };
        let (in_ram, on_disk) = free_swap_elsewhere(&none, &sample.areas);
        let left = sample.facts.available.get().saturating_add(in_ram / 2).saturating_add(on_disk);
        let full_us = sample.strain.full_us;
        let now = Spare { at: sample.at, spare: i128::from(left), used: 0, full_us };
        self.check_spare(now, Bytes::new(left), 0)
    }

    fn check_spare(&mut self, now: Spare, available: Bytes, needed: u64) -> Result<(), String> {
        let soon = self.memory_lost_until_stopped(&now);
        let reserve = if self.are_all_waiting(&now) { 2 * self.reserve } else { self.reserve };
        self.remember(now);
        if now.spare - soon < i128::from(reserve) {
            let mut demands = vec![format!("{} stay in reserve", Bytes::new(reserve))];
            if needed > 0 {
                demands.push(format!("the pages left in it need {}", Bytes::new(needed)));
            }
            if let Ok(soon @ 1..) = u64::try_from(soon) {
                let soon = Bytes::new(soon);
                demands.push(format!("programs grow by {soon} until swap can be used again"));
            }
            return Err(format!(
                "a program grew meanwhile: {available} were available, of which {}",
                demands.join(", ")
            ));
        }
        Ok(())
    }

    /// How many bytes of spare memory programs will have used before swapoff ends, if it is told
    /// to end at the next sample and programs go on growing as in the last samples.
    fn memory_lost_until_stopped(&self, now: &Spare) -> i128 {
        let Some(then) = self.past.front() else { return 0 };
        let took = now.at.saturating_sub(then.at).as_millis();
        let lost = then.spare - now.spare;
        let Ok(took) = i128::try_from(took) else { return 0 };
        if took == 0 || lost <= 0 {
            return 0;
        }
        let read_back = then.used.saturating_sub(now.used);
        let rest = match u128::from(read_back) {
            _ if now.used == 0 => 0,
            0 => REACTION[1].as_millis(),
            read_back => {
                let rest = u128::from(now.used) * took.unsigned_abs() / read_back;
                rest.min(REACTION[1].as_millis())
            }
        };
        let until = REACTION[0].as_millis() + rest;
        lost * i128::try_from(until).unwrap_or_default() / took
    }

    /// Whether all tasks waited for memory for more than half of the time.
    fn are_all_waiting(&self, now: &Spare) -> bool {
        let Some(then) = self.past.front() else { return false };
        let (Some(before), Some(after)) = (then.full_us, now.full_us) else { return false };
        let took = now.at.saturating_sub(then.at).as_micros();
        took > 0 && u128::from(after.saturating_sub(before)) * 2 > took
    }

    /// Keeps the samples of the last [`GROWTH_TIME`].
    fn remember(&mut self, now: Spare) {
        self.past.push_back(now);
        while self.past.get(1).is_some_and(|next| next.at + GROWTH_TIME <= now.at) {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;
    const RESERVE: u64 = 16;

    fn area(path: &str, used: u64, room: u64) -> Area {
        let [used, room] = [used, room].map(|mib| Bytes::new(mib * MIB));
        Area {
            path: path.to_owned(),
            used,
            size: Bytes::new(used.get() + room.get()),
            room,
            priority: 5,
        }
    }

    fn sample(at: u64, used: u64, available: u64) -> DrainSample {
        DrainSample {
            at: Duration::from_millis(at),
            areas: vec![area("/dev/zram0", used, 100)],
            facts: MemoryFacts { available: Bytes::new(available * MIB), ..MemoryFacts::default() },
            strain: Strain { oom_kills: 7, ..Strain::default() },
        }
    }

    fn brake() -> Brake {
        Brake::new("/dev/zram0", Bytes::new(RESERVE * MIB), 7)
    }

    #[test]
    fn pages_that_move_to_memory_are_no_growth() {
        let mut brake = brake();
        for at in 0..10 {
            brake.check(&sample(at * 50, 100 - at * 10, 120 - at * 10)).unwrap();
        }
    }

    #[test]
    fn growth_stops_it_before_the_reserve_is_used() {
        let mut brake = brake();
        let stopped = (0..20)
            .map(|at| (at, brake.check(&sample(at * 50, 100, 160 - at * 2))))
            .find(|it| it.1.is_err());
        let (at, why) = stopped.unwrap();
        // 40 MiB a second are lost, of 54 that are spare at the fourth sample
        assert_eq!(at, 3, "{why:?}");
        let why = why.unwrap_err();
        for part in [
            "154.0 MiB were available",
            "the pages left in it need 100.0 MiB",
            "16.0 MiB stay in reserve",
            "programs grow by 40.0 MiB",
        ] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_kill_or_a_stall_stops_it_and_other_swap_with_room_lets_it_go_on() {
        let kill = |kills| Strain { oom_kills: kills, ..Strain::default() };
        let killed = DrainSample { strain: kill(8), ..sample(0, 1, 1000) };
        assert!(brake().check(&killed).unwrap_err().contains("killed 1 processes"));

        let mut waiting = brake();
        let stall = |at, full| DrainSample {
            strain: Strain { full_us: Some(full), ..kill(7) },
            ..sample(at, 10, 10 + RESERVE + 8)
        };
        waiting.check(&stall(0, 0)).unwrap();
        waiting.check(&stall(50, 10_000)).unwrap();
        assert!(waiting.check(&stall(100, 60_000)).unwrap_err().contains("32.0 MiB stay"));

        let mut short = sample(0, 100, 90);
        assert!(brake().check(&short).is_err());
        short.areas.push(area("/swap", 0, 100));
        brake().check(&short).unwrap();
    }

    #[test]
    fn a_group_that_reaches_its_limit_stops_it() {
        let group = crate::host_ops::GroupCharge {
            path: "/shop".to_owned(),
            current: Bytes::new(50 * MIB),
            swap: Bytes::new(20 * MIB),
            max: Some(Bytes::new(60 * MIB)),
            swap_max: None,
            swappiness: Some(60),
        };
        let mut short = sample(0, 100, 1000);
        brake().check(&short).unwrap();
        short.facts.groups.push(group);
        assert!(brake().check(&short).unwrap_err().contains("/shop"));
    }

    proptest! {
        /// Programs that grow at a steady rate from any moment on never find less than nothing,
        /// if the kernel reacts to the signal within 250 ms, and if the reserve covers the time
        /// until their growth is seen.
        #[test]
        fn steady_growth_never_uses_up_memory(
            used in 0u64..200,
            spare in 32u64..300,
            drained_per_step in 1u64..20,
            begins in 0u64..60,
            growth_per_step in 0u64..3,
        ) {
            let mut brake = brake();
            let (mut used, mut available) = (used, used + spare);
            for step in 0..200 {
                let is_stopped = brake.check(&sample(step * 50, used, available)).is_err();
                let more = if step >= begins { growth_per_step } else { 0 };
                if is_stopped {
                    // five steps of 50 ms
                    for _ in 0..5 {
                        let read_back = used.min(drained_per_step);
                        used -= read_back;
                        prop_assert!(available >= read_back + more);
                        available -= read_back + more;
                    }
                    break;
                }
                if used == 0 {
                    break;
                }
                let read_back = used.min(drained_per_step);
                prop_assert!(available >= read_back + more);
                (used, available) = (used - read_back, available - read_back - more);
            }
        }
    }
}
