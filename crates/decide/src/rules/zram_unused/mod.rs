// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: zram or zmerge could be used, or is configured, but stores nothing. The modules of this
//! folder find the reason.
//!
//! There is one finding per host, about the device that needs the fewest steps to be used as swap,
//! with the most fundamental reason. A device with a file system is in use, and a device whose use
//! is not known counts as used. A device that contains a single page is not in use, because
//! `mkswap` wrote that page. If zswap is the better choice, the rule `zswap-unused` reports that
//! instead.

mod cgroups;
mod missing;
mod never_short;
mod not_swap;
mod priority;
mod refused;
mod swappiness;
mod zones;

use pagewise_facts::swap_choice::{Compression, SwapEvidence, decide_swap};
use pagewise_facts::tiers;
use pagewise_model::{
    Bytes, Evidence, Finding, Interval, Reading, Severity, Snapshot, Tier, Zram, ZramUse,
};

use crate::Rule;
use crate::grade::pressure;
use crate::proof::EvidenceList;

pub(super) const RULE: Rule = Rule {
    id: "zram-unused",
    doc: "A zram or zmerge device could be used as swap but stores nothing; the finding names the reason.",
    diagnose,
};

/// Maximum size of the data in a device to which only `mkswap` has written: one page. No Linux page
/// is larger than this.
const SIGNATURE: Bytes = Bytes::new(64 << 10);

/// The host, and the device that is not used.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
    interval: &'a Interval,
    device: &'a Zram,
    /// The device's swap area, if swap on it is enabled.
    tier: Option<&'a Tier>,
}

/// Functions that find the reason why a device is not used, the most fundamental reason first. Each
/// returns `None` if its reason does not apply.
const REASONS: [fn(Case<'_>) -> Option<Finding>; 5] =
    [not_swap::reason, priority::reason, swappiness::reason, cgroups::reason, never_short::reason];

/// Whether the reason is that zram-generator rejects its configuration.
pub(super) fn is_refused(interval: &Interval) -> bool {
    refused::reason(interval).is_some()
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    if !is_refused(interval)
        && decide_swap(interval, &SwapEvidence::default()).choice == Some(Compression::Zswap)
    {
        return Vec::new();
    }
    let finding = if let Some(finding) = refused::reason(interval) {
        Some(finding)
    } else if host.compressed_devices().next().is_none() {
        missing::reason(interval)
    } else {
        unused_device(host).and_then(|device| {
            let case = Case { interval, device, tier: tiers::tier_of(host, device) };
            REASONS.into_iter().find_map(|reason| reason(case))
        })
    };
    finding.into_iter().collect()
}

/// Returns the device that needs the fewest steps to be used as swap; `None` if a device is in use.
/// If a device contains a file system, only devices that are swap areas are considered.
fn unused_device(host: &Snapshot) -> Option<&Zram> {
    if host.compressed_devices().any(|device| is_in_use(host, device)) {
        return None;
    }
    let mounted =
        |device: &Zram| matches!(device.used_as.value(), Some(ZramUse::FileSystem { .. }));
    let at_least =
        if host.compressed_devices().any(mounted) { Readiness::Swap } else { Readiness::Raw };
    let ready = host.compressed_devices().filter_map(|device| Some((readiness(device)?, device)));
    let asked = ready.filter(|&(readiness, _)| readiness >= at_least);
    // among equal devices the first one is needed, but `max_by_key` returns the last one
    asked.rev().max_by_key(|&(readiness, _)| readiness).map(|(_, device)| device)
}

/// How few steps a device needs to be used as swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Readiness {
    Raw,
    Sized,
    Signed,
    Swap,
}

fn readiness(device: &Zram) -> Option<Readiness> {
    Some(match device.used_as.value()? {
        ZramUse::NotInitialised => Readiness::Raw,
        ZramUse::Nothing => Readiness::Sized,
        ZramUse::SwapSignature => Readiness::Signed,
        ZramUse::Swap { .. } => Readiness::Swap,
        ZramUse::FileSystem { .. } => return None,
    })
}

/// Whether the device is a swap area and stores data, or is used in a way that is not known here.
fn is_in_use(host: &Snapshot, device: &Zram) -> bool {
    let stored = || device.mm_stat.original.get().is_none_or(|stored| stored > SIGNATURE);
    match device.used_as.value() {
        Some(ZramUse::NotInitialised | ZramUse::FileSystem { .. }) => false,
        Some(ZramUse::Swap { .. }) => match tiers::tier_of(host, device) {
            Some(tier) => tier.used.get() != Some(Bytes::new(0)),
            None => stored(),
        },
        Some(ZramUse::Nothing | ZramUse::SwapSignature) | None => stored(),
    }
}

/// Whether swap is configured on this host or would help it.
fn is_swap_wanted(interval: &Interval) -> bool {
    !interval.end.tiers.is_empty() || pressure::present_severity(interval).is_some()
}

/// Returns the severity of an unused device: it is a loss if pages are swapped to disk instead, or
/// if memory is short.
fn severity(interval: &Interval) -> Severity {
    let elsewhere = tiers::stored_on_disk(&interval.end) > Bytes::new(0);
    if elsewhere || pressure::present_severity(interval).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Number of pages swapped out since boot.
fn pages_swapped_out(host: &Snapshot) -> Reading<u64> {
    host.vmstat.get("pswpout")
}

/// Returns evidence that the device stores nothing. It includes the device's swap area, if there is
/// one.
fn prove_emptiness(case: Case<'_>) -> EvidenceList {
    let proof = match case.tier {
        Some(tier) => EvidenceList::new().named("used", &tier.used),
        None => EvidenceList::new().named("original", &case.device.mm_stat.original),
    };
    proof.named("slot table", &case.device.slot_table)
}

/// Adds the swap areas on disks that are in use to the evidence.
fn add_disk_tiers(proof: EvidenceList, host: &Snapshot) -> Vec<Evidence> {
    let used =
        |proof: EvidenceList, tier: &Tier| proof.named(&format!("{} used", tier.path), &tier.used);
    tiers::on_disk(host).fold(proof, used).into_evidence()
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Driver, Name, TierKind};

    use super::*;
    use crate::testing::{assert_silent, calm, host, mib, only, set_knob, still, tier, zram};

    pub(crate) use super::cgroups::tests::host_with_finding as cgroups;
    pub(crate) use super::missing::tests::{
        host_with_finding as not_loaded, host_with_in_container_finding,
    };
    pub(crate) use super::never_short::tests::host_with_finding as never_short;
    pub(crate) use super::not_swap::tests::{
        host_with_not_on_finding, host_with_raw_finding, interval_with_unsigned_device,
    };
    pub(crate) use super::priority::tests::host_with_finding as priority;
    pub(crate) use super::refused::tests::host_with_finding as refused;
    pub(crate) use super::swappiness::tests::host_with_finding as swappiness;

    /// A machine with one device that is used in this way, and without other swap.
    pub(super) fn device(used_as: ZramUse, stored: Bytes) -> Snapshot {
        let mut host = host();
        host.tiers.clear();
        host.zram = vec![zram(0, used_as, stored)];
        host
    }

    /// A machine with an empty zram swap area, on which nothing was ever swapped.
    pub(super) fn empty_tier() -> Snapshot {
        let mut host = device(ZramUse::Swap { priority: 5 }, Bytes::new(4096));
        host.tiers = vec![tier("/dev/zram0", TierKind::Zram, Bytes::new(0), 5)];
        set_knob(&mut host, "pswpout", 0);
        host
    }

    #[test]
    fn what_is_in_use_is_not_unused() {
        assert_silent(&RULE, &calm());
        let mounted = ZramUse::FileSystem { kind: Name::from("ext4") };
        assert_silent(&RULE, &still(device(mounted.clone(), mib(30))));
        let unseen = device(ZramUse::Nothing, mib(30));
        assert_silent(&RULE, &still(unseen));
        let mut beside = device(mounted, mib(30));
        beside.zram.push(zram(1, ZramUse::NotInitialised, Bytes::new(0)));
        assert_silent(&RULE, &still(beside));
    }

    #[test]
    fn a_second_device_does_not_matter_while_the_first_is_used() {
        let mut two = host();
        two.zram.push(zram(1, ZramUse::NotInitialised, Bytes::new(0)));
        assert_silent(&RULE, &still(two));
    }

    #[test]
    fn zmerge_in_use_is_as_good_as_zram() {
        let mut host = host();
        host.zmerge = host.zram.drain(..).map(|it| Zram { driver: Driver::Zmerge, ..it }).collect();
        host.tiers = vec![tier("/dev/zmerge0", TierKind::Zmerge, mib(300), 100)];
        assert_silent(&RULE, &still(host.clone()));
        host.zram = vec![zram(0, ZramUse::NotInitialised, Bytes::new(0))];
        assert_silent(&RULE, &still(host));
    }

    #[test]
    fn the_device_nearest_to_being_used_is_told() {
        let mut three = device(ZramUse::NotInitialised, Bytes::new(0));
        three.zram.push(zram(1, ZramUse::SwapSignature, Bytes::new(4096)));
        three.zram.push(zram(2, ZramUse::SwapSignature, Bytes::new(4096)));
        let title = only(&RULE, &still(three)).title;
        assert_eq!(title, "zram1 is prepared for swap but not enabled (swapon)");
    }
}
