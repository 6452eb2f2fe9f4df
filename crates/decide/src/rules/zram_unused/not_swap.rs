// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why a device is empty: it was never made a swap area. It has no size, it has no swap
//! signature, or swapon was not run.

use pagewise_model::{Bytes, Finding, Snapshot, Zram, ZramUse};

use super::{Case, RULE, add_disk_tiers, prove_emptiness, severity};
use crate::commands;
use crate::proof::EvidenceList;
use crate::text::mark_writing;
use crate::verdict::would_swap_help;

/// Priority of a new zram swap area: higher than the priorities that the kernel assigns (negative
/// numbers), so that it is filled before any disk.
const PRIORITY: i32 = 100;

/// The texts that differ between the three steps that make a zram device a swap area.
struct Step {
    title: &'static str,
    what: String,
    why: &'static str,
    proof: EvidenceList,
    command: String,
}

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let (host, device) = (&case.interval.end, case.device);
    let step = match device.used_as.value()? {
        ZramUse::NotInitialised => step_without_size(host, device)?,
        ZramUse::Nothing => step_without_signature(case)?,
        ZramUse::SwapSignature => step_not_enabled(case)?,
        ZramUse::Swap { .. } | ZramUse::FileSystem { .. } => return None,
    };
    let shown = commands::show_device(device, "");
    // a device that nobody has set up should be set up only if a plan would do so
    let is_wanted = device.disksize.get() != Some(Bytes::new(0)) || would_swap_help(case.interval);
    let next = if is_wanted { vec![mark_writing(step.command), shown] } else { vec![shown] };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: severity(case.interval),
        title: format!("{} {}", device.name(), step.title),
        what: step.what,
        why: step.why.to_owned(),
        evidence: add_disk_tiers(step.proof, host),
        next,
    })
}

fn step_without_size(host: &Snapshot, device: &Zram) -> Option<Step> {
    let unset = device.disksize.get() == Some(Bytes::new(0));
    if !unset && device.initialised.get() != Some(false) {
        return None;
    }
    let name = device.name();
    let path = device.path();
    Some(Step {
        title: "is not initialised: its disksize was never set",
        what: format!(
            "The device {name} exists, but nobody has set its disksize, so it cannot store anything."
        ),
        why: "When the zram module is loaded, it creates a device of size 0, which uses no memory and stores \
              nothing. To use the device as swap, set its disksize, write a swap signature to it (mkswap), and \
              enable it (swapon).",
        proof: EvidenceList::new()
            .named("initialised", &device.initialised)
            .value(&device.disksize),
        command: format!(
            "{} && sudo mkswap {path} && sudo swapon -p {PRIORITY} {path}",
            commands::set_size(host, device)
        ),
    })
}

/// Returns evidence of the device's size, of its use, and that it stores nothing. The last two may
/// come from the same file.
fn prove_size_and_emptiness(case: Case<'_>) -> EvidenceList {
    let (device, proof) = (case.device, EvidenceList::new().value(&case.device.disksize));
    let proof = if device.used_as.source == device.mm_stat.original.source {
        proof
    } else {
        proof.named("used as", &device.used_as)
    };
    proof.all(prove_emptiness(case).into_evidence())
}

fn step_without_signature(case: Case<'_>) -> Option<Step> {
    let device = case.device;
    let (name, size) = (device.name(), device.disksize.get()?);
    Some(Step {
        title: "has a size, but pagewise sees no swap signature on it",
        what: format!(
            "The device {name} has a size of {size}, but it is neither mounted nor used as swap."
        ),
        why: "The kernel swaps only to devices that were prepared with mkswap and enabled with swapon. Until \
              then, the device costs only the memory of its slot table (one entry for each page that the \
              device can hold).",
        proof: prove_size_and_emptiness(case),
        command: format!("sudo mkswap /dev/{name} && sudo swapon -p {PRIORITY} /dev/{name}"),
    })
}

fn step_not_enabled(case: Case<'_>) -> Option<Step> {
    let device = case.device;
    let (name, size) = (device.name(), device.disksize.get()?);
    Some(Step {
        title: "is prepared for swap but not enabled (swapon)",
        what: format!(
            "The device {name} has a size of {size} and a swap signature, but it is not used as swap."
        ),
        why: "A swap signature only marks a device as prepared for swap; the kernel uses the device only \
              after swapon, and only until the next boot. To enable the device at every boot, use a systemd \
              unit, a line in /etc/fstab or zram-generator.",
        proof: prove_size_and_emptiness(case),
        command: format!("sudo swapon -p {PRIORITY} /dev/{name}"),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Driver, Interval, Severity, TierKind};

    use super::super::tests::device;
    use super::*;
    use crate::testing::{assert_silent, erase, gib, line, mib, only, proof_of, still, tier};

    pub(crate) fn host_with_raw_finding() -> Interval {
        still(device(ZramUse::NotInitialised, Bytes::new(0)))
    }

    pub(crate) fn interval_with_unsigned_device() -> Interval {
        still(device(ZramUse::Nothing, Bytes::new(0)))
    }

    pub(crate) fn host_with_not_on_finding() -> Interval {
        still(device(ZramUse::SwapSignature, Bytes::new(4096)))
    }

    #[test]
    fn a_device_without_a_size() {
        let finding = only(&RULE, &host_with_raw_finding());
        assert_eq!(finding.title, "zram0 is not initialised: its disksize was never set");
        assert_eq!(finding.severity, Severity::Info);
        let proof = proof_of(&finding);
        assert_eq!(
            proof,
            "/sys/block/zram0/initstate = initialised off\n/sys/block/zram0/disksize = 0 B\n"
        );
        // a plan has no step for a host that is not short of memory
        assert_eq!(finding.next, ["zramctl"]);
        let finding = only(&RULE, &still(short(device(ZramUse::NotInitialised, Bytes::new(0)))));
        let command = "sudo zramctl --size 16384M --algorithm lz4 /dev/zram0 && \
                       sudo mkswap /dev/zram0 && sudo swapon -p 100 /dev/zram0  # writes; until the next boot";
        assert_eq!(finding.next[0], command);
    }

    fn short(mut host: Snapshot) -> Snapshot {
        host.memory.available = line("/proc/meminfo", 3, mib(64));
        host
    }

    #[test]
    fn an_empty_device_is_a_loss_while_a_disk_takes_swap() {
        let mut host = device(ZramUse::NotInitialised, Bytes::new(0));
        host.tiers = vec![tier("/swapfile", TierKind::File, gib(1), -2)];
        let finding = only(&RULE, &still(host));
        assert_eq!(finding.severity, Severity::Warning);
        assert!(proof_of(&finding).contains("/swapfile used 1.0 GiB"));
    }

    #[test]
    fn zmerge_without_a_size_is_set_up_through_its_files() {
        let mut host = device(ZramUse::NotInitialised, Bytes::new(0));
        host.zmerge = host.zram.drain(..).map(|it| Zram { driver: Driver::Zmerge, ..it }).collect();
        let finding = only(&RULE, &still(short(host)));
        assert_eq!(finding.title, "zmerge0 is not initialised: its disksize was never set");
        let command = "echo lz4 | sudo tee /sys/block/zmerge0/comp_algorithm && \
                       echo 16384M | sudo tee /sys/block/zmerge0/disksize && \
                       sudo mkswap /dev/zmerge0 && sudo swapon -p 100 /dev/zmerge0  # writes; until the next boot";
        assert_eq!(finding.next[0], command);
        assert!(!finding.next.iter().any(|command| command.contains("zramctl")));
    }

    #[test]
    fn a_size_without_a_signature() {
        let finding = only(&RULE, &interval_with_unsigned_device());
        assert_eq!(finding.title, "zram0 has a size, but pagewise sees no swap signature on it");
        assert!(finding.next[0].starts_with("sudo mkswap /dev/zram0 && sudo swapon"));
    }

    #[test]
    fn a_signature_that_nobody_switched_on() {
        let finding = only(&RULE, &host_with_not_on_finding());
        assert_eq!(finding.title, "zram0 is prepared for swap but not enabled (swapon)");
        assert_eq!(finding.next[0], "sudo swapon -p 100 /dev/zram0  # writes; until the next boot");
    }

    #[test]
    fn devices_with_contents_are_in_use() {
        for used_as in [ZramUse::Nothing, ZramUse::SwapSignature] {
            assert_silent(&RULE, &still(device(used_as, mib(1))));
        }
        let mut unknown = device(ZramUse::NotInitialised, Bytes::new(0));
        erase(&mut unknown.zram[0].disksize);
        erase(&mut unknown.zram[0].initialised);
        assert_silent(&RULE, &still(unknown));
    }
}
