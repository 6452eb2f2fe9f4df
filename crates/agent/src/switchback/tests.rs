// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Months of samples, restarts, clocks that are set, and suspends.

use super::*;

const START: u64 = 20_000 * DAY;
const END: u64 = START + 30 * DAY;
const HOUR: u64 = 3600;

fn settings(has_metric: bool) -> SwitchbackSettings {
    let metric =
        if has_metric { MetricSource::File("/run/web".to_owned()) } else { MetricSource::None };
    SwitchbackSettings { cgroup: "/web".to_owned(), metric, ..SwitchbackSettings::default() }
}

/// A month of samples every four minutes. With the loop on, a CPU second does `effect` more requests, and
/// the cgroup holds a fifth less memory if `saves`. Requests follow the time of day. Programs restart now
/// and then, and at some of these times the agent does as well: it goes on with what is on disk.
fn month(effect: f64, saves: bool, seed: u64) -> Switchback {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut switchback = Switchback::new(settings(true), None, seed, START).unwrap();
    let (mut cpu, mut requests, mut refaults, mut noise) = (0.0, 0.0, 0, 0.0);
    for minute in (0..31 * 1440).step_by(4) {
        let unix_seconds = START + minute * 60;
        let is_on = switchback.is_loop_on(unix_seconds).0;
        if minute % 240 == 0 {
            noise = 0.015 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
        }
        let course = 1.0 + 0.5 * (minute as f64 / 1440.0 * std::f64::consts::TAU).sin();
        let used = 60.0 * course;
        cpu += used;
        requests += used * 500.0 * (1.0 + noise + if is_on { effect } else { 0.0 });
        refaults += if is_on { 480 } else { 240 };
        match random.u32(0..2000) {
            0 => (cpu, requests, refaults) = (0.0, 0.0, 0),
            1 => {
                let text = serde_json::to_vec(switchback.record()).unwrap();
                let record = serde_json::from_slice(&text).unwrap();
                switchback =
                    Switchback::new(settings(true), Some(record), 99, unix_seconds).unwrap();
            }
            _ => {}
        }
        let memory = if is_on && saves { 80 } else { 100 } + random.u64(0..4);
        switchback.take(SwitchbackSample {
            unix_seconds,
            elapsed: Duration::from_secs(minute * 60),
            cpu: Duration::from_secs_f64(cpu),
            metric: Some(requests),
            refaults,
            memory: Bytes::new(memory << 20),
        });
        switchback.update(unix_seconds);
    }
    switchback
}

#[test]
fn a_month_of_samples_shows_what_was_planted() {
    let pays = month(0.05, false, 3).report(END);
    assert_eq!(pays.verdict, ProofVerdict::Pays);
    let (work, refaults) = (pays.work.unwrap(), pays.refaults.unwrap());
    assert!((work.ratio - 1.05).abs() < 0.01 && work.interval.unwrap()[0] > 1.0, "{work:?}");
    assert!((refaults.ratio - 2.0).abs() < 0.01, "{refaults:?}");
    assert!((70..=90).contains(&pays.pairs) && pays.days == 30, "{pays:?}");
    let saves = month(0.0, true, 4).report(END);
    assert_eq!(saves.verdict, ProofVerdict::Pays);
    assert!((saves.memory.unwrap().ratio - 0.8).abs() < 0.02, "{saves:?}");
    let none = month(0.0, false, 5).report(END);
    assert_eq!(none.verdict, ProofVerdict::DoesNotPay);
}

#[test]
fn a_loop_that_harms_is_switched_off_and_stays_so() {
    let harms = month(-0.05, true, 6);
    assert_eq!(harms.report(END).verdict, ProofVerdict::Harms);
    let at = harms.stopped().unwrap();
    assert!((0..400 * 24).all(|hour| !harms.is_loop_on(at + hour * HOUR).0));
    let mut again =
        Switchback::new(settings(true), Some(harms.record().clone()), 99, at + 500 * DAY).unwrap();
    assert_eq!((again.stopped(), again.report(END)), (harms.stopped(), harms.report(END)));
    assert!(!again.update(at + 501 * DAY) && !again.is_loop_on(at + 501 * DAY).0);
    // what counts as relevant changes nothing of it, and another measurement begins anew
    let tolerant = SwitchbackSettings { relevant_percent: 50.0, ..settings(true) };
    let record = || Some(harms.record().clone());
    let still = Switchback::new(tolerant, record(), 99, at).unwrap();
    assert_eq!(
        (still.stopped(), still.report(END).verdict),
        (harms.stopped(), ProofVerdict::Harms)
    );
    let other = Switchback::new(settings(false), record(), 99, at).unwrap();
    assert_eq!((other.stopped(), other.measured()), (None, 0));
}

#[test]
fn harm_is_found_when_the_agent_starts_after_the_month() {
    let mut record = month(-0.05, false, 6).record().clone();
    record.stopped = None;
    let late = START + 45 * DAY;
    let found = Switchback::new(settings(true), Some(record), 99, late).unwrap();
    assert_eq!(found.stopped(), Some(late));
}

/// Samples each minute of a block and beyond, changed by the function; how many blocks were measured.
fn measured(change: impl Fn(u64, &mut SwitchbackSample) -> bool) -> usize {
    let mut switchback = Switchback::new(settings(false), None, 1, START).unwrap();
    for minute in 0..245 {
        let mut sample = SwitchbackSample {
            unix_seconds: START + minute * 60,
            elapsed: Duration::from_secs(minute * 60),
            cpu: Duration::from_secs(minute),
            metric: None,
            refaults: minute,
            memory: Bytes::new(1),
        };
        if change(minute, &mut sample) {
            switchback.take(sample);
        }
    }
    switchback.measured()
}

#[test]
fn a_block_counts_only_if_it_was_watched_and_its_counters_rose() {
    assert_eq!(measured(|_, _| true), 1);
    assert_eq!(measured(|minute, _| minute >= 34), 1);
    assert_eq!(measured(|minute, _| minute >= 36), 0, "began too late");
    assert_eq!(measured(|minute, _| !(100..106).contains(&minute)), 0, "a gap");
    assert_eq!(measured(|minute, _| !(234..=240).contains(&minute)), 0, "ended too early");
    let is_restarted = |minute, sample: &mut SwitchbackSample| {
        if minute > 100 {
            sample.cpu = Duration::from_secs(minute - 100);
        }
        true
    };
    assert_eq!(measured(is_restarted), 0);
    let is_idle = |_: u64, sample: &mut SwitchbackSample| {
        sample.cpu = Duration::ZERO;
        true
    };
    assert_eq!(measured(is_idle), 0, "nothing was done");
}

#[test]
fn a_clock_that_is_set_and_a_suspend_drop_the_block() {
    let set = |by: i64| {
        measured(|minute, sample| {
            if minute > 100 {
                sample.unix_seconds = sample.unix_seconds.checked_add_signed(by).unwrap();
            }
            true
        })
    };
    assert_eq!(set(0), 1);
    assert_eq!(set(4), 1, "the clock is slewed");
    for by in [7, -7, 200, -3000, 86_400, -86_400, 9_000_000_000] {
        assert_eq!(set(by), 0, "{by}");
    }
    // the clock goes on in a suspend, and the time since the start does not
    let is_suspended = |minute, sample: &mut SwitchbackSample| {
        if minute > 100 {
            sample.elapsed -= Duration::from_secs(30);
        }
        true
    };
    assert_eq!(measured(is_suspended), 0);
}

/// Blocks of a clock that was decades ahead or behind count for nothing later.
#[test]
fn a_month_after_a_wrong_clock_is_judged_as_one_without() {
    for wrong in [0, 60_000] {
        let mut record = month(0.05, false, 3).record().clone();
        let values = MeasuredBlock { day: wrong, number: 0, work: 1.0, refaults: 1.0, memory: 1.0 };
        record.blocks.push(values);
        let judged = |record: SwitchbackRecord| {
            Switchback::new(settings(true), Some(record), 1, START + 40 * DAY).unwrap().report(END)
        };
        assert_eq!(judged(record), month(0.05, false, 3).report(END));
    }
    let mut switchback = Switchback::new(settings(false), None, 1, START).unwrap();
    switchback.record.start = Some(60_000);
    let open = |minute: u64| SwitchbackSample {
        unix_seconds: START + minute * 60,
        elapsed: Duration::from_secs(minute * 60),
        cpu: Duration::from_secs(minute),
        metric: None,
        refaults: 0,
        memory: Bytes::new(1),
    };
    (0..245).for_each(|minute| _ = switchback.take(open(minute)));
    assert_eq!(switchback.record.start, Some(20_000));
}

/// A record that another program wrote, or a damaged disk, is judged without a panic.
#[test]
fn absurd_records_are_judged_without_a_panic() {
    for (day, start) in [(u64::MAX, u64::MAX), (u64::MAX, 0), (0, u64::MAX - 1), (7, 3)] {
        let block =
            MeasuredBlock { day, number: u64::MAX, work: -1.0, refaults: 0.0, memory: f64::MAX };
        let record = SwitchbackRecord {
            subject: settings(true).subject(),
            start: Some(start),
            blocks: vec![block; 3],
            ..SwitchbackRecord::default()
        };
        for now in [0, START, u64::MAX] {
            let found = Switchback::new(settings(true), Some(record.clone()), 1, now).unwrap();
            assert_eq!(found.report(END).verdict, ProofVerdict::NotShownYet);
            found.is_loop_on(now);
        }
    }
}
