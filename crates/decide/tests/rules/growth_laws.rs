// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What two looks about one second apart make of ten thousand simulated programs of each kind.
//!
//! A program is a function of time. The looks see what the kernel would show: the size of the
//! process at both of them, in steps of 32 pages; its age; and its peak before each look, as the
//! kernel keeps it. Everything else is taken from a calm host, with as much memory left as the
//! program has for itself.
//!
//! The counts are printed: `cargo test -p pagewise-decide --lib growth_laws -- --nocapture`.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes in bytes")]

use pagewise_model::{Bytes, Interval, Millis, Reading, Severity, Source};

use super::RULE;
use crate::testing::{calm, file, line};

const RUNS: u32 = 10_000;
const MIB: f64 = 1_048_576.0;
/// Before Linux 6.16, the kernel adds the pages of a process to its size in steps of this size.
const STEP: f64 = 32.0 * 4096.0;

/// A generator of random numbers (SplitMix64), so that every run of the test is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number between two others, all equally likely.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// A number between two others, each order of magnitude equally likely.
    fn scaled(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn is(&mut self, share: f64) -> bool {
        self.between(0.0, 1.0) < share
    }
}

/// What the looks see of a program.
struct Looks {
    /// What there is for the program, in bytes.
    space: f64,
    age: f64,
    seconds: f64,
    before: f64,
    now: f64,
    /// The largest size before the first look; `None` if it was not read, because 32 other
    /// processes are larger.
    peak_before: Option<f64>,
    peak_now: f64,
}

impl Looks {
    /// Looks at a program whose size in bytes at a time is `size`, and whose largest size until
    /// then is `peak`.
    fn at(
        random: &mut Random,
        space: f64,
        age: f64,
        size: impl Fn(f64) -> f64,
        peak: impl Fn(f64) -> f64,
    ) -> Self {
        let seconds = random.between(1.0, 1.3);
        let age = age.max(seconds + 0.1);
        let then = age - seconds;
        Self {
            space,
            age,
            seconds,
            before: size(then),
            now: size(age),
            peak_before: Some(peak(then).max(size(then))),
            peak_now: peak(age).max(size(age)),
        }
    }

    fn interval(&self) -> Interval {
        const UPTIME: f64 = 10_000_000.0;
        let mut interval = calm();
        let bytes = |size: f64| Bytes::new((size / STEP) as u64 * STEP as u64);
        let shown = |size: f64, number| line("/proc/4121/status", number, bytes(size));
        let millis = |seconds: f64| Millis::new((seconds * 1000.0) as u64);
        let begun = Reading::found(millis(UPTIME - self.age), Source::file("/proc/4121/stat"));
        interval.end.taken.uptime = file("/proc/uptime", millis(UPTIME));
        let total = interval.end.memory.total.get().unwrap().max(Bytes::new(self.space as u64));
        interval.end.memory.total = line("/proc/meminfo", 1, total);
        interval.end.tiers.clear();
        interval.end.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
        interval.end.memory.available =
            line("/proc/meminfo", 3, Bytes::new((self.space - self.now).max(0.0) as u64));
        let end_seconds = interval.end.taken.monotonic_seconds;
        let start = interval.start.as_deref_mut().unwrap();
        start.taken.uptime = file("/proc/uptime", millis(UPTIME - self.seconds));
        start.taken.monotonic_seconds = end_seconds - self.seconds;
        for (host, size, peak) in [
            (start, self.before, self.peak_before),
            (&mut interval.end, self.now, Some(self.peak_now)),
        ] {
            host.processes.list.truncate(1);
            let process = &mut host.processes.list[0];
            process.start_time = begun.clone();
            process.rss_anon = shown(size, 23);
            process.rss_file = shown(0.0, 24);
            process.rss_shmem = shown(0.0, 25);
            process.swap = shown(0.0, 27);
            process.peak = peak.map_or_else(Reading::not_read, |peak| shown(peak, 19));
        }
        interval
    }

    /// The severity of the finding about this program.
    fn severity(&self) -> Option<Severity> {
        (RULE.diagnose)(&self.interval()).into_iter().map(|finding| finding.severity).max()
    }
}

/// How many of the runs gave a finding of any severity, and how many an alarm.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    runs: u32,
    /// Runs in which the program grew between the looks by 64 KiB or more.
    grew: u32,
    told: u32,
    alarms: u32,
}

fn count(what: &str, seed: u64, program: impl Fn(&mut Random) -> Looks) -> Counts {
    let (mut random, mut counts) = (Random(seed), Counts::default());
    for _ in 0..RUNS {
        let looks = program(&mut random);
        let severity = looks.severity();
        counts.runs += 1;
        counts.grew += u32::from(looks.now - looks.before >= 65_536.0);
        counts.told += u32::from(severity.is_some());
        counts.alarms += u32::from(severity > Some(Severity::Info));
    }
    let Counts { runs, grew, told, alarms } = counts;
    println!("{what}: {runs} runs, {grew} grew between the looks, {told} told, {alarms} alarms");
    counts
}

/// What there is for a program: from a small container to a large host.
fn space(random: &mut Random) -> f64 {
    random.scaled(128.0 * MIB, 262_144.0 * MIB)
}

/// A number from 0 to 1 that belongs to a seed and an index.
fn hashed(seed: u64, index: u64) -> f64 {
    Random(seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93)).between(0.0, 1.0)
}

/// A program that allocates and frees, seen from its second tooth on. The heights of its teeth
/// vary by `variation`. It never uses more than three quarters of what there is.
fn sawtooth(random: &mut Random, variation: f64) -> Looks {
    let space = space(random);
    let floor = space * random.between(0.0, 0.5);
    let height = (0.74 * space - floor) * random.scaled(0.02, 1.0) / (1.0 + variation);
    let (period, rising) = (random.scaled(0.2, 120.0), random.between(0.3, 1.0));
    let age = period * random.scaled(1.0, 1000.0);
    let seed = random.next();
    let top = |tooth: u64| height * (1.0 + variation * (2.0 * hashed(seed, tooth) - 1.0));
    let size = |time: f64| {
        let tooth = (time / period).floor();
        let phase = time / period - tooth;
        let part = if phase < rising { phase / rising } else { (1.0 - phase) / (1.0 - rising) };
        floor + part * top(tooth as u64)
    };
    let peak = |time: f64| {
        let teeth = (time / period) as u64;
        floor + (0..teeth).map(top).fold(0.0, f64::max)
    };
    Looks::at(random, space, age, size, peak)
}

#[test]
fn no_sawtooth_of_equal_teeth_is_an_alarm() {
    let counts = count("sawtooths, teeth equal to 0.3 %", 1, |random| sawtooth(random, 0.003));
    assert_eq!((counts.runs, counts.alarms), (RUNS, 0));
    assert!(counts.grew > RUNS / 2);
}

/// A tooth that is higher than all before looks like a leak while it is.
#[test]
fn one_in_a_thousand_sawtooths_of_varying_teeth_is_an_alarm() {
    let counts = count("sawtooths, teeth vary by 10 %", 2, |random| sawtooth(random, 0.1));
    assert!(counts.alarms <= RUNS / 1000, "{counts:?}");
}

#[test]
fn one_in_fifty_sawtooths_is_an_alarm_if_its_earlier_peak_is_not_known() {
    let counts = count("sawtooths, earlier peak not known", 7, |random| Looks {
        peak_before: None,
        ..sawtooth(random, 0.003)
    });
    assert!(counts.alarms <= RUNS / 50, "{counts:?}");
}

/// A program that starts: it reaches its size, at most 45 % of what there is, in at most 30 s, at a
/// constant or a falling rate, and then keeps it but for half a percent.
#[test]
fn no_start_is_an_alarm() {
    let counts = count("starts", 3, |random| {
        let space = space(random);
        let size = space * random.scaled(0.001, 0.45);
        let lasts = random.scaled(0.5, 29.0);
        let (is_even, seed) = (random.is(0.5), random.next());
        let age = lasts * random.between(0.0, 2.0);
        let at = |time: f64| {
            let part = match time / lasts {
                part if part >= 1.0 => 1.0 - 0.005 * hashed(seed, time.to_bits()),
                part if is_even => part,
                part => (1.0 - (-3.0 * part).exp()) / (1.0 - (-3.0f64).exp()),
            };
            size * part
        };
        Looks::at(random, space, age, at, |time| if time > lasts { size } else { at(time) })
    });
    assert_eq!((counts.runs, counts.alarms), (RUNS, 0));
    assert!(counts.grew > RUNS / 3);
}

/// A cache that fills and stops: in a program of any size up to a tenth of what there is, up to 40 %
/// more. It is filled by misses, which become rarer, or at a constant rate up to a seventh in all.
/// When it is full, 1 % of it comes and goes.
#[test]
fn no_cache_that_fills_and_stops_is_an_alarm() {
    let counts = count("caches", 4, |random| {
        let space = space(random);
        let (is_even, seed) = (random.is(0.3), random.next());
        let base = if is_even { 0.0 } else { space * random.between(0.0, 0.1) };
        let size =
            space * if is_even { random.scaled(0.01, 0.14) } else { random.scaled(0.01, 0.4) };
        let lasts = random.scaled(1.0, 2000.0);
        let age = lasts * if is_even { random.between(0.0, 1.5) } else { random.between(0.0, 8.0) };
        let at = |time: f64| {
            let part = if is_even { time / lasts } else { 1.0 - (-time / lasts).exp() };
            let part = if part > 0.99 { 0.99 - 0.01 * hashed(seed, time.to_bits()) } else { part };
            base + size * part
        };
        let full = if is_even { 0.99 * lasts } else { lasts * 100f64.ln() };
        let largest = base + 0.99 * size;
        Looks::at(random, space, age, at, |time| if time > full { largest } else { at(time) })
    });
    assert_eq!((counts.runs, counts.alarms), (RUNS, 0));
    assert!(counts.grew > RUNS / 2);
}

/// A leak of 0.1 to 500 MiB/s that would end within the hour, in a program that held `base` of its
/// size when it began: at the second look it holds a tenth to 95 % of what there is.
fn leak(random: &mut Random, base: f64) -> Looks {
    let rate = random.scaled(0.1, 500.0) * MIB;
    let filled = random.between(0.1, 0.95);
    let largest = (rate * 3600.0 / (1.0 - filled)).min(262_144.0 * MIB);
    let space = random.scaled((128.0 * MIB).min(largest), largest);
    let base = space * filled * base;
    let (age, seed) = ((space * filled - base) / rate, random.next());
    // requests of a tenth of a second hold up to a tenth of a second's growth, and the rate varies
    // within each
    let at = |time: f64| {
        let (tenth, rest) = ((time * 10.0).floor(), (time * 10.0).fract());
        let uneven = rest + (hashed(seed, tenth as u64) - 0.5) * rest * (1.0 - rest);
        base + rate * ((tenth + uneven) / 10.0 + 0.1 * hashed(seed ^ 1, tenth as u64))
    };
    Looks::at(random, space, age, at, |time| at(time).max(base + rate * time))
}

#[test]
fn leaks_that_end_within_the_hour_are_told() {
    let counts = count("leaks", 5, |random| {
        let base = random.between(0.0, 0.5);
        leak(random, base)
    });
    assert!(counts.told * 100 >= RUNS * 99, "{counts:?}");
    assert!(counts.alarms * 3 > RUNS, "{counts:?}");
    let random = &mut Random(6);
    for (low, high) in [(0.1, 0.3), (0.3, 1.0), (1.0, 10.0), (10.0, 100.0), (100.0, 500.0)] {
        let (mut all, mut told) = (0, 0);
        while all < 2000 {
            let base = random.between(0.0, 0.5);
            let looks = leak(random, base);
            if (low..high).contains(&((looks.now - looks.before) / looks.seconds / MIB)) {
                all += 1;
                told += u32::from(looks.severity().is_some());
            }
        }
        println!("leaks of {low} to {high} MiB/s: {told} of {all} told");
        assert!(told * 100 >= all * 98, "{low} MiB/s: {told} of {all}");
    }
}

/// A leak that was there from the start, for half a minute at least, and has filled a sixth.
#[test]
fn an_old_leak_from_the_start_is_an_alarm() {
    let counts = count("old leaks from the start", 8, |random| {
        let is_old = |looks: &Looks| {
            looks.age >= 31.0 && looks.now >= looks.space / 6.0 && looks.now - looks.before >= MIB
        };
        std::iter::repeat_with(|| leak(random, 0.05)).find(is_old).unwrap()
    });
    assert!(counts.alarms * 100 >= RUNS * 99, "{counts:?}");
}
