// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of pressure, against averages that are computed as the kernel does.

use pagewise_model::{Bytes, Micros, Name, Percent, Reading, Source};
use pagewise_testkit::made_host::{calm, grow, stall};

use super::*;

/// The averages of a pressure file, computed in the fixed point of kernel/sched/psi.c.
#[derive(Default)]
struct Averages([u64; 3]);

impl Averages {
    const ONE: u64 = 1 << 11;
    const DECAY: [u64; 3] = [1677, 1981, 2034];

    /// Two seconds, of which tasks waited for a share in percent.
    fn pass(&mut self, percent: u64) {
        let active = percent * Self::ONE;
        for (average, decay) in self.0.iter_mut().zip(Self::DECAY) {
            let round_up = if active >= *average { Self::ONE - 1 } else { 0 };
            *average = (*average * decay + active * (Self::ONE - decay) + round_up) / Self::ONE;
        }
    }

    /// What the file prints, with two decimals.
    fn stall(&self) -> Stall {
        let shown = |average: u64| {
            let hundredths = average * 100 / Self::ONE;
            Reading::found(Percent::new(hundredths as f64 / 100.0), source())
        };
        let [ten, sixty, three_hundred] = self.0.map(shown);
        Stall { avg10: ten, avg60: sixty, avg300: three_hundred, ..Stall::default() }
    }
}

fn source() -> Source {
    Source::line("/proc/pressure/memory", 1)
}

#[test]
fn the_time_since_the_end_is_that_of_the_kernels_averages() {
    let (mut worst, mut looks) = (0.0f64, 0);
    for percent in [15, 40, 100] {
        for duration in [10u64, 20, 60, 240, 1200] {
            let mut averages = Averages::default();
            (0..duration / 2).for_each(|_| averages.pass(percent));
            for ago in (2..=40u64).step_by(2) {
                averages.pass(0);
                // smaller averages are not reported
                let [ten, sixty, _] = averages.0.map(|average| average / Averages::ONE);
                if ten < 10 && sixty < 5 {
                    continue;
                }
                looks += 1;
                let told = seconds_since_end(&averages.stall(), 1.0).unwrap();
                let miss = (told - ago as f64).abs();
                worst = worst.max(miss);
                assert!(miss <= 3.0, "{percent} % for {duration} s until {ago} s ago: {told:.1}");
            }
        }
    }
    println!("worst miss of {looks} looks: {worst:.1} s");
    assert!(looks > 100);
}

#[test]
fn averages_that_no_constant_pressure_has_give_a_time_that_is_possible() {
    let stall = |averages: [f64; 3]| {
        let [ten, sixty, long] = averages.map(|it| Reading::found(Percent::new(it), source()));
        Stall { avg10: ten, avg60: sixty, avg300: long, ..Stall::default() }
    };
    for averages in
        [[0.0, 0.0, 0.0], [100.0; 3], [0.0, 50.0, 0.0], [3.0, 90.0, 99.0], [90.0, 0.0, 0.0]]
    {
        let told = seconds_since_end(&stall(averages), 1.2).unwrap();
        assert!((1.2..=100.0).contains(&told), "{averages:?}: {told}");
    }
    // Linux 6.12, 4 s after the only process that waited had ended
    let told = seconds_since_end(&stall([23.5, 22.81, 6.73]), 1.05).unwrap();
    assert!((3.0..9.0).contains(&told), "{told}");
    assert_eq!(seconds_since_end(&Stall::default(), 1.0), None);
}

/// Pressure of this average over ten seconds and 20 % over a minute, and totals at both ends.
fn pressed(ten: f64, totals: [Option<u64>; 2]) -> Interval {
    let mut interval = calm();
    let [before, now] = totals;
    let start = interval.start.as_deref_mut().unwrap();
    for (host, total) in [(start, before), (&mut interval.end, now)] {
        let some = &mut host.psi.memory.some;
        stall(some, ten, 20.0);
        some.avg300 = Reading::found(Percent::new(6.0), source());
        some.total_us =
            total.map_or_else(Reading::not_read, |it| Reading::found(Micros::new(it), source()));
    }
    interval
}

#[test]
fn pressure_has_ended_if_its_total_stands_still_and_nothing_is_reclaimed() {
    let ended = |interval: &Interval| ended_seconds_ago(interval).is_some();
    let reclaiming = |ten, totals| {
        let mut interval = pressed(ten, totals);
        grow(&mut interval, "pgscan_direct", 5);
        interval
    };
    assert!(ended(&pressed(18.0, [Some(5_000_000), Some(5_000_000)])));
    assert!(!ended(&pressed(18.0, [Some(5_000_000), Some(6_000_000)])));
    // one task that waited for 2 ms
    assert!(ended(&pressed(18.0, [Some(5_000_000), Some(5_002_000)])));
    // tasks may pause for some seconds, or not
    assert!(!ended(&reclaiming(18.0, [Some(5_000_000), Some(5_000_000)])));
    assert!(ended(&reclaiming(8.0, [Some(5_000_000), Some(5_000_000)])));
    // the total was reset, is not known at the start, or not known at all
    assert!(!ended(&pressed(18.0, [Some(5_000_000), Some(4_000_000)])));
    assert!(ended(&pressed(18.0, [None, Some(5_000_000)])));
    assert!(!ended(&reclaiming(8.0, [None, Some(5_000_000)])));
    assert!(!ended(&pressed(18.0, [None, None])));
    let mut single = pressed(18.0, [Some(5_000_000), Some(5_000_000)]);
    single.start = None;
    assert!(!ended(&single));
}

/// As in a guest with Linux 6.12, where a task slept above memory.high for the whole look.
#[test]
fn pressure_has_not_ended_while_a_group_sleeps_above_its_memory_high() {
    let throttled = |used: u64, lately: f64, before: f64| {
        let mut interval = pressed(89.5, [Some(5_000_000), Some(5_000_000)]);
        let source = || Source::file("/sys/fs/cgroup/web/memory.pressure");
        let average = |it| Reading::found(Percent::new(it), source());
        let mut group = Cgroup { path: Name::from("/web"), ..Cgroup::default() };
        group.high = Reading::found(Limit::Bytes(Bytes::new(100 << 20)), source());
        group.current = Reading::found(Bytes::new(used << 20), source());
        group.pressure.some.avg10 = average(lately);
        group.pressure.some.avg60 = average(before);
        interval.end.cgroups.groups.push(group);
        ended_seconds_ago(&interval).is_some()
    };
    assert!(!throttled(128, 90.6, 33.8));
    // its usage fell, it waits less and less, or it does not wait
    assert!(throttled(99, 90.6, 33.8));
    assert!(throttled(128, 10.0, 33.8));
    assert!(throttled(128, 0.5, 0.5));
}
