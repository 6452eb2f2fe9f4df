// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What follows from many machines at once ([`FleetReport`]): findings, levels, groups of machines that
//! are alike, what differs within them, and what compression and right limits would give in all.
//!
//! `machine.rs` makes a [`Machine`] of an interval, `document.rs` of a document of `report --json`.
//! Machines are only compared with machines of their group: with about as much RAM, the same
//! architecture, the same series of kernels, and the same kinds of swap.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod document;
mod gains;
mod machine;

use std::collections::BTreeMap;

use pagewise_model::{
    Bytes, DifferingSetting, FleetFinding, FleetGroup, FleetReport, Level, LevelCount, Machine,
    Name, Outlier, OutlierMeasure, Percent, SettingValue, Severity, SwapSetup, UnreadMachine,
};

pub use document::{DocumentError, machine_of_document};
pub use machine::machine_of_interval;

/// Number of machines that are named as examples.
const EXAMPLES: usize = 5;
/// A group with fewer machines has no outliers: its median says nothing.
const LEAST_FOR_OUTLIERS: usize = 5;
/// A machine is an outlier if it differs from the median by more than this many times the median
/// deviation, which is what 5 standard deviations of a normal distribution are.
const DEVIATIONS: f64 = 5.0 * 1.4826;
/// And by at least this many percentage points.
const LEAST_POINTS: f64 = 10.0;
/// Large numbers that differ by at most this share are the same: the kernel derives some of its defaults
/// from the size of RAM, which differs a little between equal machines.
const SAME_NUMBER: f64 = 0.1;
/// The smallest such number.
const LARGE_NUMBER: f64 = 1000.0;
/// Number of files that could not be read that are listed.
const LISTED: usize = 100;
const MIB: u64 = 1 << 20;

/// Machines that were read so far.
#[derive(Debug, Default)]
pub struct Fleet {
    machines: Vec<Known>,
    texts: Texts,
}

/// A machine without its settings, and these as numbers of texts: thousands of machines have mostly
/// the same ones.
#[derive(Debug)]
struct Known {
    machine: Machine,
    settings: Vec<(u32, u32)>,
}

/// Texts, each kept once.
#[derive(Debug, Default)]
struct Texts {
    numbers: BTreeMap<String, u32>,
    texts: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }

    fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }
}

impl Fleet {
    /// Adds a machine.
    pub fn add(&mut self, mut machine: Machine) {
        let settings = std::mem::take(&mut machine.settings);
        let numbers = |(name, value): (String, Name)| {
            (self.texts.number(&name), self.texts.number(value.as_str()))
        };
        let settings = settings.into_iter().map(numbers).collect();
        self.machines.push(Known { machine, settings });
    }

    /// Returns what follows from the machines; `unread` are the files that could not be read.
    pub fn into_report(self, unread: Vec<UnreadMachine>) -> FleetReport {
        let (machines, older_readings) = drop_older(self.machines);
        survey(&machines, &self.texts, unread, older_readings)
    }
}

fn survey(
    machines: &[Known],
    texts: &Texts,
    unread: Vec<UnreadMachine>,
    older_readings: u64,
) -> FleetReport {
    let mut groups: BTreeMap<GroupKey, Vec<&Known>> = BTreeMap::new();
    for known in machines {
        groups.entry(GroupKey::of(&known.machine)).or_default().push(known);
    }
    let mut surveyed: Vec<FleetGroup> =
        groups.into_iter().map(|(key, machines)| survey_group(key, &machines, texts)).collect();
    // stable: groups of equal size stay in the order of their keys
    surveyed.sort_by_key(|group| std::cmp::Reverse(group.machines));
    let machines: Vec<&Machine> = machines.iter().map(|known| &known.machine).collect();
    let times = machines.iter().map(|machine| machine.unix_seconds);
    let ends = times.fold(None, |ends: Option<[f64; 2]>, time| {
        let [first, last] = ends.unwrap_or([time, time]);
        Some([first.min(time), last.max(time)])
    });
    FleetReport {
        machines: machines.len() as u64,
        unix_seconds: ends,
        levels: count_levels(&machines),
        findings: count_findings(&machines),
        groups: surveyed,
        compression: gains::compression(&machines),
        limits: gains::limits(&machines),
        huge_pages: gains::huge_pages(&machines),
        unread_files: unread.len() as u64,
        unread: unread.into_iter().take(LISTED).collect(),
        older_readings,
    }
}

/// Of several readings of a machine since one boot, keeps the newest. Returns the machines by name, and
/// how many readings were dropped.
fn drop_older(machines: Vec<Known>) -> (Vec<Known>, u64) {
    let all = machines.len();
    let mut kept: BTreeMap<(Option<Name>, Option<Name>), Known> = BTreeMap::new();
    for known in machines {
        let machine = &known.machine;
        let name = machine.boot.is_none().then(|| machine.name.clone());
        let key = (machine.boot.clone(), name);
        match kept.get(&key) {
            Some(other) if other.machine.unix_seconds >= machine.unix_seconds => {}
            _ => _ = kept.insert(key, known),
        }
    }
    let mut kept: Vec<Known> = kept.into_values().collect();
    kept.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
    let dropped = (all - kept.len()) as u64;
    (kept, dropped)
}

fn count_levels(machines: &[&Machine]) -> Vec<LevelCount> {
    let mut counts: BTreeMap<Level, u64> = BTreeMap::new();
    for machine in machines {
        *counts.entry(machine.level).or_default() += 1;
    }
    counts.into_iter().rev().map(|(level, machines)| LevelCount { level, machines }).collect()
}

fn count_findings(machines: &[&Machine]) -> Vec<FleetFinding> {
    let mut by_id: BTreeMap<&str, Vec<(Severity, &Name)>> = BTreeMap::new();
    for machine in machines {
        for (id, severity) in &machine.findings {
            by_id.entry(id).or_default().push((*severity, &machine.name));
        }
    }
    let mut findings: Vec<FleetFinding> = by_id
        .into_iter()
        .map(|(id, mut found)| {
            found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
            FleetFinding {
                id: id.to_owned(),
                severity: found.first().map_or(Severity::Info, |(severity, _)| *severity),
                machines: found.len() as u64,
                examples: found.iter().take(EXAMPLES).map(|(_, name)| (*name).clone()).collect(),
            }
        })
        .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.severity, finding.machines)));
    findings
}

/// What the machines of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    ram: Option<Bytes>,
    architecture: Option<Name>,
    kernel: Option<Name>,
    swap: SwapSetup,
}

impl GroupKey {
    fn of(machine: &Machine) -> Self {
        Self {
            ram: machine.ram.map(sold_size),
            architecture: machine.architecture.clone(),
            kernel: machine.kernel.as_ref().map(|release| Name::from(series(release.as_str()))),
            swap: machine.swap,
        }
    }
}

/// The size of RAM that is sold: the next power of two, or one and a half times one. The kernel and the
/// firmware keep some of it to themselves.
fn sold_size(ram: Bytes) -> Bytes {
    let mebibytes = ram.get().div_ceil(MIB).max(1);
    let power = mebibytes.next_power_of_two();
    // 3/4 of a power of two is one and a half times the one before
    let between = power / 4 * 3;
    let size = if mebibytes <= between { between } else { power };
    Bytes::new(size.saturating_mul(MIB))
}

/// The first two numbers of a kernel's release: `6.12` of `6.12.9+deb13-amd64`.
fn series(release: &str) -> &str {
    let is_end = |(_, byte): &(usize, char)| !byte.is_ascii_digit();
    let dot = release.find('.').unwrap_or(release.len());
    let minor = release.get(dot + 1..).unwrap_or_default();
    let end = minor.char_indices().find(is_end).map_or(minor.len(), |(at, _)| at);
    release.get(..dot + 1 + end).unwrap_or(release)
}

fn survey_group(key: GroupKey, known: &[&Known], texts: &Texts) -> FleetGroup {
    let machines: Vec<&Machine> = known.iter().map(|it| &it.machine).collect();
    let mut available: Vec<f64> = machines.iter().filter_map(|it| available(it)).collect();
    FleetGroup {
        ram_bytes: key.ram,
        architecture: key.architecture,
        kernel: key.kernel,
        swap: key.swap,
        machines: machines.len() as u64,
        short: machines.iter().filter(|machine| machine.level >= Level::Short).count() as u64,
        available_percent: median(&mut available).map(Percent::new),
        settings: differing_settings(known, texts),
        outliers: outliers(&machines),
    }
}

fn share(part: Option<Bytes>, machine: &Machine) -> Option<f64> {
    Some(part?.percent_of(machine.ram?)?.get())
}

fn available(machine: &Machine) -> Option<f64> {
    share(machine.available, machine)
}

type Measure = fn(&Machine) -> Option<f64>;

const MEASURES: [(OutlierMeasure, Measure); 4] = [
    (OutlierMeasure::Available, available),
    (OutlierMeasure::SwapUsed, |machine| share(machine.swap_used, machine)),
    (OutlierMeasure::Waited, |machine| machine.waited.map(Percent::get)),
    (OutlierMeasure::Anonymous, |machine| share(machine.anon, machine)),
];

fn outliers(machines: &[&Machine]) -> Vec<Outlier> {
    let mut found = Vec::new();
    for (measure, value) in MEASURES {
        let known: Vec<(&Name, f64)> =
            machines.iter().filter_map(|machine| Some((&machine.name, value(machine)?))).collect();
        let mut values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        let Some(middle) = median(&mut values).filter(|_| values.len() >= LEAST_FOR_OUTLIERS)
        else {
            continue;
        };
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let deviation = median(&mut deviations).unwrap_or(0.0);
        let limit = (DEVIATIONS * deviation).max(LEAST_POINTS);
        let far = known.into_iter().filter(|(_, value)| (value - middle).abs() > limit);
        found.extend(far.map(|(name, value)| Outlier {
            machine: name.clone(),
            measure,
            percent: Percent::new(value),
            median_percent: Percent::new(middle),
        }));
    }
    found.sort_by(|a, b| (&a.machine, a.measure).cmp(&(&b.machine, b.measure)));
    found
}

/// The median; the mean of the two in the middle of an even number.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn differing_settings(machines: &[&Known], texts: &Texts) -> Vec<DifferingSetting> {
    let mut by_setting: BTreeMap<u32, BTreeMap<u32, Vec<&Name>>> = BTreeMap::new();
    for known in machines {
        for (setting, value) in &known.settings {
            let values = by_setting.entry(*setting).or_default();
            values.entry(*value).or_default().push(&known.machine.name);
        }
    }
    let joined =
        by_setting.into_iter().map(|(setting, values)| (setting, join_same(values, texts)));
    let differ = joined.filter(|(_, values)| values.len() > 1);
    let describe = |(setting, values): (u32, BTreeMap<u32, Vec<&Name>>)| {
        let value = |(value, names): (u32, Vec<&Name>)| SettingValue {
            value: Name::from(texts.get(value)),
            machines: names.len() as u64,
            examples: names.into_iter().take(EXAMPLES).cloned().collect(),
        };
        let mut values: Vec<SettingValue> = values.into_iter().map(value).collect();
        values.sort_by(|a, b| b.machines.cmp(&a.machines).then_with(|| a.value.cmp(&b.value)));
        DifferingSetting { setting: texts.get(setting).to_owned(), values }
    };
    let mut settings: Vec<DifferingSetting> = differ.map(describe).collect();
    settings.sort_by(|a, b| a.setting.cmp(&b.setting));
    settings
}

/// Joins values that hardly differ from the most frequent one.
fn join_same<'a>(
    values: BTreeMap<u32, Vec<&'a Name>>,
    texts: &Texts,
) -> BTreeMap<u32, Vec<&'a Name>> {
    let most = values.iter().max_by_key(|(_, names)| names.len()).map(|(value, _)| *value);
    let Some(most) = most else { return values };
    let number = |value: u32| texts.get(value).parse::<f64>().ok();
    let middle = number(most).filter(|middle| *middle >= LARGE_NUMBER);
    let mut joined: BTreeMap<u32, Vec<&Name>> = BTreeMap::new();
    for (value, names) in values {
        let is_near = middle
            .zip(number(value))
            .is_some_and(|(middle, number)| (number / middle - 1.0).abs() <= SAME_NUMBER);
        joined.entry(if is_near { most } else { value }).or_default().extend(names);
    }
    joined
}

#[cfg(test)]
mod tests;
