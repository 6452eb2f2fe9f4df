// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures from a later [`Snapshot`] whether the predicted gain of a step came true.

use pagewise_facts::ratio::ENOUGH_STORED;
use pagewise_model::plan::{
    Expected, GainMeasured, GainMetric, GainOutcome, HIGH_WATERMARKS, Step, ZRAM_RATIO,
};
use pagewise_model::{Bytes, Evidence, Quantity, Ratio, Reading, Snapshot, Zram};

use crate::expect::measured_high_watermarks;

/// The state of a step on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState<'a> {
    /// The step's change is in force.
    InForce {
        /// The swap area that the step created.
        area: Option<&'a str>,
    },
    /// The step's change is not in force, so its gain cannot be measured.
    NotInForce {
        /// What was found on the machine instead of the change.
        why: &'a str,
    },
}

/// Measures the gain that a step predicted. `None` if it predicted none, or if it predicted what
/// the step itself sets, as earlier versions did.
#[must_use]
pub fn measure_gain(step: &Step, state: StepState<'_>, host: &Snapshot) -> Option<GainMeasured> {
    let expected = step.expected.as_ref();
    let expected = expected.filter(|it| !GainMetric::is_name_of_set_value(&it.metric))?;
    let measured = match state {
        StepState::InForce { area } => measure(expected, area, host),
        StepState::NotInForce { why } => Err(format!("the step is not in force: {why}")),
    };
    let outcome = match measured {
        Ok((measured, evidence)) => {
            GainOutcome::Measured { measured, hit: expected.is_hit(measured), evidence }
        }
        Err(why) => GainOutcome::NotMeasured { why },
    };
    Some(GainMeasured::new(&step.id, expected, outcome))
}

type Measurement = Result<(f64, Vec<Evidence>), String>;

fn measure(expected: &Expected, area: Option<&str>, host: &Snapshot) -> Measurement {
    match expected.metric.as_str() {
        ZRAM_RATIO => measure_ratio(device(area, host)?),
        HIGH_WATERMARKS => measure_watermarks(host),
        other => Err(format!("this version of pagewise cannot measure {other}")),
    }
}

fn device<'a>(area: Option<&str>, host: &'a Snapshot) -> Result<&'a Zram, String> {
    let area = area.ok_or("the swap area of the step is not known")?;
    let mut devices = host.compressed_devices();
    devices.find(|device| device.path() == area).ok_or_else(|| format!("{area} is no zram device"))
}

fn measure_ratio(device: &Zram) -> Measurement {
    let stat = &device.mm_stat;
    let original = read_known(&stat.original, "the data that the device stores")?;
    let used = read_known(&stat.memory_used, "the memory that the device uses")?;
    if let Some(held) = device.bd_stat.held.get().filter(|&held| held > Bytes::new(0)) {
        return Err(format!(
            "{held} of its data are on the backing device: mm_stat counts them as stored data, but they use no \
             memory; the ratio is measured only while no data are on the backing device"
        ));
    }
    if original < ENOUGH_STORED {
        return Err(format!(
            "the device stores {original}, and a ratio is measured only if it stores {ENOUGH_STORED} or more"
        ));
    }
    let ratio = Ratio::from_sizes(original, used).ok_or("the device uses no memory")?;
    let evidence = [("original", &stat.original), ("memory used", &stat.memory_used)];
    Ok((ratio.get(), evidence.iter().filter_map(|(name, it)| exact_bytes(name, it)).collect()))
}

fn measure_watermarks(host: &Snapshot) -> Measurement {
    let pages = measured_high_watermarks(&host.zones);
    let pages = pages.ok_or("the high watermark of a zone could not be read")?;
    let readings = host.zones.iter().flat_map(|zone| {
        let (name, node) = (zone.name.as_str(), zone.node);
        let high = evidence(&format!("zone {name} of node {node}, high"), &zone.high_pages);
        let boosted = zone.boost_pages.get().is_some_and(|boost| boost.get() > 0);
        let boost = evidence(&format!("zone {name} of node {node}, boost"), &zone.boost_pages);
        [high, boost.filter(|_| boosted)]
    });
    Ok((pages.to_bytes(host.page_size()).get() as f64, readings.flatten().collect()))
}

fn read_known<T: Copy>(reading: &Reading<T>, what: &str) -> Result<T, String> {
    reading.get().ok_or_else(|| format!("{what} could not be read ({})", reading.source))
}

fn evidence<T: Quantity>(name: &str, reading: &Reading<T>) -> Option<Evidence> {
    let value = format!("{name} {}", reading.value()?.shown());
    Some(Evidence::new(&reading.source, value))
}

/// Returns evidence with a size in bytes that is not rounded, so that the measured value can be
/// recomputed from it.
fn exact_bytes(name: &str, reading: &Reading<Bytes>) -> Option<Evidence> {
    let value = format!("{name} {} bytes", reading.get()?.get());
    Some(Evidence::new(&reading.source, value))
}
