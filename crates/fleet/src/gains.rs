// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What compression and right limits give, and could give, on all machines.
//!
//! A machine without compression does not show how well its memory would compress. The machines that
//! show it, by samples of their contents or by what they store, are a sample of all: the share of RAM
//! that is saved is the mean over them, with a 95 % interval by Student's t. Machines with about as much
//! RAM and the same architecture are a stratum of their own if enough of them show it; the others
//! share one estimate.

use std::collections::BTreeMap;

use pagewise_model::{
    Bytes, FleetCompression, FleetHugePages, FleetLimits, LimitSums, Machine, Name, Ratio,
    SwapSetup, WithInterval,
};

use super::sold_size;

/// The fewest machines from which a mean and its interval are computed.
const LEAST: usize = 5;
/// What a machine stores says nothing about its ratio if it is less than this.
const LEAST_STORED: u64 = 16 << 20;
/// The 97.5 % point of the normal distribution.
const NORMAL: f64 = 1.959_964;

type Stratum = (Option<Bytes>, Option<Name>);

fn stratum(machine: &Machine) -> Stratum {
    (machine.ram.map(sold_size), machine.architecture.clone())
}

/// The share of RAM that a machine saves for memory that it compresses, from 0 to 1.
fn saved_share(machine: &Machine) -> Option<f64> {
    let stored = machine
        .compressed
        .filter(|(stored, _)| stored.get() >= LEAST_STORED)
        .and_then(|(stored, pool)| Ratio::from_sizes(stored, pool));
    let ratio = machine.sampled_ratio.or(stored)?.get();
    (ratio > 0.0).then(|| (1.0 - 1.0 / ratio).clamp(0.0, 1.0))
}

pub(super) fn compression(machines: &[&Machine]) -> FleetCompression {
    let mut found = FleetCompression::default();
    let mut shares: BTreeMap<Stratum, Vec<f64>> = BTreeMap::new();
    let mut without: BTreeMap<Stratum, Bytes> = BTreeMap::new();
    for machine in machines {
        let stored = machine.compressed.filter(|(stored, _)| stored.get() > 0);
        if let Some((stored, pool)) = stored {
            found.storing_machines += 1;
            found.stored_bytes = found.stored_bytes.saturating_add(stored);
            found.pool_bytes = found.pool_bytes.saturating_add(pool);
        }
        if let Some(share) = saved_share(machine) {
            found.ratio_machines += 1;
            shares.entry(stratum(machine)).or_default().push(share);
        }
        let has_none = matches!(machine.swap, SwapSetup::None | SwapSetup::Disk);
        if let Some(inactive) = machine.inactive_anon.filter(|_| has_none) {
            found.without_machines += 1;
            found.inactive_bytes = found.inactive_bytes.saturating_add(inactive);
            let sum: &mut Bytes = without.entry(stratum(machine)).or_default();
            *sum = sum.saturating_add(inactive);
        }
    }
    found.saved_bytes = saved(&shares, &without);
    found
}

/// The sum over the strata of their inactive memory times the mean of their shares.
fn saved(
    shares: &BTreeMap<Stratum, Vec<f64>>,
    without: &BTreeMap<Stratum, Bytes>,
) -> Option<WithInterval<Bytes>> {
    let all: Vec<f64> = shares.values().flatten().copied().collect();
    let (mut value, mut variance, mut rest) = (0.0, 0.0, 0.0);
    for (stratum, inactive) in without {
        let inactive = inactive.get() as f64;
        match shares.get(stratum).and_then(|shares| mean(shares)) {
            Some(of_stratum) => {
                value += inactive * of_stratum.value;
                variance += (inactive * of_stratum.half).powi(2);
            }
            None => rest += inactive,
        }
    }
    if rest > 0.0 {
        let of_all = mean(&all)?;
        value += rest * of_all.value;
        variance += (rest * of_all.half).powi(2);
    }
    let most = without.values().map(|inactive| inactive.get() as f64).sum();
    let half = variance.sqrt();
    let bytes = |size: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        Bytes::new(size.clamp(0.0, most) as u64)
    };
    Some(WithInterval { value: bytes(value), low: bytes(value - half), high: bytes(value + half) })
        .filter(|_| !without.is_empty())
}

struct Mean {
    value: f64,
    /// Half of the width of the 95 % interval.
    half: f64,
}

fn mean(values: &[f64]) -> Option<Mean> {
    if values.len() < LEAST {
        return None;
    }
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|it| (it - value).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    Some(Mean { value, half: student(count - 1.0) * error })
}

/// The 97.5 % point of Student's t, by the first terms of its expansion (Abramowitz and Stegun
/// 26.7.5), which are less than 2 % too small from 4 degrees of freedom on.
fn student(degrees: f64) -> f64 {
    let z = NORMAL;
    z + (z.powi(3) + z) / (4.0 * degrees)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * degrees.powi(2))
}

pub(super) fn limits(machines: &[&Machine]) -> Option<FleetLimits> {
    let mut found = FleetLimits::default();
    for sums in machines.iter().filter_map(|machine| machine.limits) {
        found.machines += 1;
        found.sums = LimitSums {
            could_be_lower: found.sums.could_be_lower + sums.could_be_lower,
            freed_bytes: found.sums.freed_bytes.saturating_add(sums.freed_bytes),
            too_low: found.sums.too_low + sums.too_low,
        };
    }
    (found.machines > 0).then_some(found)
}

pub(super) fn huge_pages(machines: &[&Machine]) -> FleetHugePages {
    let mut found = FleetHugePages::default();
    for (anon, huge) in machines.iter().filter_map(|it| it.anon.zip(it.anon_huge)) {
        found.machines += 1;
        found.anon_bytes = found.anon_bytes.saturating_add(anon);
        found.huge_bytes = found.huge_bytes.saturating_add(huge);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From tables of Student's t.
    #[test]
    fn the_expansion_is_near_the_tables() {
        for (degrees, expected) in
            [(4.0, 2.776), (5.0, 2.571), (9.0, 2.262), (30.0, 2.042), (1e6, 1.960)]
        {
            let found = student(degrees);
            assert!((found / expected - 1.0).abs() < 0.02, "{degrees}: {found}");
        }
    }
}
