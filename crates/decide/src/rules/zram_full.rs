// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a swap device in compressed RAM accepts no more pages, because its size is used up or its
//! memory limit is nearly reached.

use pagewise_facts::tiers;
use pagewise_model::{
    Bytes, Change, Driver, Evidence, Finding, Interval, Level, Reading, Severity, Snapshot,
    Subject, Tier, Zram,
};

use crate::Rule;
use crate::commands;
use crate::grade::headroom;
use crate::proof::EvidenceList;
use crate::text::{count, shorten_name, write_command_with_undo};

pub(super) const RULE: Rule = Rule {
    id: "zram-full",
    doc: "A zram or zmerge swap device has no room left, or the memory that it uses is near its mem_limit.",
    diagnose,
};

/// The limit counts as nearly reached if at least this share of it, in percent, is in use: the last
/// tenth of a compressed pool is filled within seconds.
const NEAR_LIMIT_PERCENT: f64 = 90.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let looked = tiers::in_ram(host).filter_map(|tier| {
        let device = tiers::device_of(host, tier);
        device
            .and_then(|device| find_near_limit(interval, device))
            .or_else(|| find_size_used_up(interval, tier, device))
    });
    looked.collect()
}

fn find_size_used_up(interval: &Interval, tier: &Tier, device: Option<&Zram>) -> Option<Finding> {
    let host = &interval.end;
    tier.is_full().filter(|&full| full)?;
    let (used, size) = (tier.used.get()?, tier.size.get()?);
    let overflow = next_free_tier(host, tier);
    let is_low = headroom::level_of_host(host) > Some(Level::Calm);
    let after = match overflow {
        Some(next) => format!("the kernel now swaps pages to {} instead", next.path),
        None => "no other swap area has room".to_owned(),
    };
    let ratio = device.and_then(|device| device.original_per_memory_used);
    let ratio = ratio
        .map_or_else(String::new, |ratio| format!(" (compression ratio {:.1} : 1)", ratio.get()));
    let driver = device.map_or(Driver::Zram, |device| device.driver).name();
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::Device(tier.path.clone())),
        severity: if overflow.is_none() && is_low { Severity::Critical } else { Severity::Warning },
        title: format!("{} is full", shorten_name(tier.path.as_str())),
        what: format!(
            "The device holds {used} of uncompressed data{ratio}, and its size is {size}; {after}."
        ),
        why: format!(
            "The size of a {driver} device limits how much uncompressed data it can hold, so the device can be full \
             while it uses little memory. When the device is full, the kernel swaps pages to a slower swap area or, \
             if there is none, keeps them in RAM until no memory is left and it has to kill a process."
        ),
        evidence: size_proof(tier, device),
        next: [
            commands::show_device(
                device.unwrap_or(&Zram::default()),
                "NAME,DISKSIZE,DATA,COMPR,TOTAL,MEM-LIMIT,ALGORITHM",
            ),
            "grep VmSwap /proc/[0-9]*/status | sort -k2 -n | tail".to_owned(),
        ]
        .into_iter()
        .chain(commands::open_trial(interval).filter(|_| overflow.is_some()))
        .collect(),
    })
}

fn size_proof(tier: &Tier, device: Option<&Zram>) -> Vec<Evidence> {
    let proof = EvidenceList::new().named("used", &tier.used).named("size", &tier.size);
    match device {
        Some(device) => proof.named("memory used", &device.mm_stat.memory_used),
        None => proof,
    }
    .into_evidence()
}

/// Returns the next swap area with free space, if there is one.
fn next_free_tier<'a>(host: &'a Snapshot, tier: &Tier) -> Option<&'a Tier> {
    let others = host.tiers.iter().filter(|other| other.path != tier.path);
    others.filter(|other| other.is_full() == Some(false)).max_by_key(|other| other.priority.get())
}

fn find_near_limit(interval: &Interval, device: &Zram) -> Option<Finding> {
    let used = device.mm_stat.memory_used.get()?;
    let limit = device.mm_stat.memory_limit.get().filter(|&limit| limit > Bytes::new(0))?;
    let percent = used.percent_of(limit)?.get();
    if percent < NEAR_LIMIT_PERCENT {
        return None;
    }
    let name = device.name();
    let failing = failed_writes(interval, device);
    let lost = failing.as_ref().map_or_else(String::new, |failed| {
        format!(
            ", and {} writes to the device failed in the last {:.1} s",
            count(failed.delta),
            failed.seconds
        )
    });
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::device(&device.path())),
        severity: if failing.is_some() || used >= limit {
            Severity::Critical
        } else {
            Severity::Warning
        },
        title: format!("{name} uses {percent:.0} % of the memory that its mem_limit allows"),
        what: format!("{name} uses {used} of RAM, and its mem_limit is {limit}{lost}."),
        why: format!(
            "When a {} device has reached its mem_limit, writing a page to it fails, but the kernel does not \
             regard the swap area as full. Therefore the kernel does not go on to the next swap area: it keeps \
             the page in RAM and tries to write it again later.",
            device.driver.name()
        ),
        evidence: limit_proof(device, failing.as_ref()),
        next: vec![
            write_command_with_undo(
                0,
                limit.get(),
                &format!("/sys/block/{name}/mem_limit"),
                "0 means no limit; until the device is reset, or the next boot",
            ),
            commands::show_device(device, "NAME,DISKSIZE,DATA,COMPR,TOTAL,MEM-LIMIT,MEM-USED"),
        ],
    })
}

/// Returns evidence that the device has reached its limit. Writes that failed during the interval
/// are better evidence than writes that failed since the device was set up.
fn limit_proof(device: &Zram, failing: Option<&Change>) -> Vec<Evidence> {
    let proof = EvidenceList::new()
        .named("memory used", &device.mm_stat.memory_used)
        .named("mem_limit", &device.mm_stat.memory_limit);
    match failing {
        Some(failing) => proof.change("failed_writes", failing),
        None => proof.named("failed_writes", &device.io_stat.failed_writes),
    }
    .into_evidence()
}

/// Number of writes to the device that failed over the interval; `None` if none failed.
fn failed_writes(interval: &Interval, device: &Zram) -> Option<Change> {
    let failed = |host: &Snapshot| {
        let same = host.compressed_devices().find(|other| other.name() == device.name());
        same.map_or_else(Reading::not_read, |zram| zram.io_stat.failed_writes.clone())
    };
    interval.change(failed).filter(|change| change.delta > 0)
}

#[cfg(test)]
#[path = "../../tests/rules/zram_full.rs"]
pub(super) mod tests;
