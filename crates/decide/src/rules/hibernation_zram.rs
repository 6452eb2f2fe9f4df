// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: hibernation is configured, but all swap is in RAM.

use pagewise_model::{Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;

pub(super) const RULE: Rule = Rule {
    id: "hibernation-zram",
    doc: "Hibernation is set up (a device to resume from is set), but all swap is in compressed RAM, which \
          cannot keep the hibernation image.",
    diagnose,
};

/// The content of `/sys/power/resume` if no device is configured.
const NONE: &str = "0:0";

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let resume = &host.configuration.resume_device;
    let device = resume.value()?.as_str();
    let first = host.tiers.first()?;
    if device == NONE || host.tiers.iter().any(|tier| !tier.kind.is_ram()) {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: "hibernation is set up, but all swap is in compressed RAM".to_owned(),
        what: format!(
            "The kernel is set up to resume from device {device}, but all swap areas are in compressed RAM ({}).",
            first.path
        ),
        why: "Hibernation writes the memory in use to a swap area on a disk, because RAM loses its contents \
              while the machine is off. Without a swap area on a disk, hibernation fails."
            .to_owned(),
        evidence: EvidenceList::new().value(resume).named("size", &first.size).into_evidence(),
        next: vec![
            "cat /sys/power/resume /proc/swaps; lsblk -o NAME,MAJ:MIN,FSTYPE".to_owned(),
            "cat /sys/power/state  # if the word disk is missing, this kernel cannot hibernate".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, TierKind};

    use super::*;
    use crate::testing::{assert_silent, calm, tier, with, word};

    fn resumes(host: &mut Snapshot, device: &str) {
        host.configuration.resume_device = word("/sys/power/resume", device);
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| resumes(host, "259:3"))
    }

    #[test]
    fn zram_alone_cannot_hold_the_image() {
        let finding = crate::testing::only(&RULE, &host_with_finding());
        assert!(finding.what.starts_with(
            "The kernel is set up to resume from device 259:3, but all swap areas are in compressed RAM (/dev/zram0)"
        ));
        assert_eq!(finding.severity, Severity::Info);
    }

    #[test]
    fn a_disk_behind_it_or_no_wish_is_silent() {
        let disk = |host: &mut Snapshot| {
            resumes(host, "259:3");
            host.tiers.push(tier("/dev/sda2", TierKind::Partition, Bytes::new(0), -2));
        };
        assert_silent(&RULE, &with(disk));
        assert_silent(&RULE, &with(|host| resumes(host, NONE)));
        assert_silent(&RULE, &calm());
    }
}
