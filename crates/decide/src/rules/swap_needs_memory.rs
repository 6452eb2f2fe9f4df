// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: swap is on a device that needs memory for writing, or that is itself in RAM.
//!
//! The kernel keeps a reserve of memory for writing to swap, but a loop device, ZFS and the network
//! stack allocate more than that. The documentation of each of them warns of such swap.
//!
//! A swap file on FUSE is not reported. If the file system has no block device, `fuse_bmap` returns
//! 0 and `swapon` refuses the file. If it has one (fuseblk), the kernel swaps directly to the block
//! device, without the process of the file system.

use pagewise_facts::tiers::{self, NeedsMemory};
use pagewise_model::{Finding, Interval, Severity, Subject, Tier};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{quoted, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: "swap-needs-memory",
    doc: "A swap area is on a device that needs memory to be written to (loop, ZFS volume, network), or that is \
          itself in RAM.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let tiers = interval.end.tiers.iter();
    tiers.filter_map(|tier| Some(finding(tier, tiers::needs_memory(tier)?))).collect()
}

fn finding(tier: &Tier, why: NeedsMemory) -> Finding {
    let path = shorten_name(tier.path.as_str());
    let used = tier.used.get().zip(tier.size.get());
    let used = used.map_or_else(String::new, |(used, size)| format!(" {}", used.part_of(size)));
    let holds = if used.is_empty() { String::new() } else { format!(" and holds{used}") };
    let device = quoted(tier.path.as_str());
    let behind = match (tier.disk.backing_file.value(), tier.disk.backing_file_system.value()) {
        (Some(file), Some(file_system)) => {
            format!(" with the file {file} on {file_system} behind it")
        }
        (Some(file), None) => format!(" with the file {file} behind it"),
        _ if why == NeedsMemory::Loop => "; which file is behind it is not known".to_owned(),
        _ => String::new(),
    };
    let what = match why {
        NeedsMemory::InRam | NeedsMemory::Loop => format!("is a loop device{behind}"),
        NeedsMemory::Zfs => "is a volume of ZFS".to_owned(),
        NeedsMemory::Network => "is reached over a network".to_owned(),
    };
    let what = if why == NeedsMemory::InRam && behind.is_empty() {
        "is a RAM disk".to_owned()
    } else {
        what
    };
    let look = match why {
        NeedsMemory::InRam | NeedsMemory::Loop => format!("losetup --list {device}"),
        NeedsMemory::Zfs | NeedsMemory::Network => format!("lsblk -s {device}"),
    };
    Finding {
        id: RULE.id,
        about: Some(Subject::Device(tier.path.clone())),
        severity: Severity::Warning,
        title: match why {
            NeedsMemory::InRam => format!("the swap area {path} is itself in RAM"),
            _ => format!("the kernel needs memory to write to the swap area {path}"),
        },
        what: format!("The swap area {} {what}{holds}.", tier.path),
        why: reason(why).to_owned(),
        evidence: EvidenceList::new()
            .named("size", &tier.size)
            .named("used", &tier.used)
            .value(&tier.disk.name)
            .value(&tier.disk.backing_file)
            .value(&tier.disk.backing_file_system)
            .into_evidence(),
        next: vec!["swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned(), look],
    }
}

fn reason(why: NeedsMemory) -> &'static str {
    match why {
        NeedsMemory::InRam => {
            "A page that is swapped out to a file in RAM takes as much RAM there as before, and more to manage it: such \
             swap frees nothing. If memory is short, swapping to it makes it shorter. Swap in compressed RAM (zram) \
             does what was probably intended."
        }
        NeedsMemory::Loop => {
            "To write to a loop device, the kernel writes to the file behind it, and its file system allocates memory \
             for that. The kernel swaps when memory is short, so that this allocation can wait for the very write that \
             needs it, and tasks hang. A swap file on the same file system needs no loop device."
        }
        NeedsMemory::Zfs => {
            "ZFS allocates memory to write to a volume, for checksums, compression and its log. The kernel swaps when \
             memory is short, so that this allocation can wait for the very write that needs it, and the machine hangs; \
             the documentation of ZFS warns of it. A partition or zram as swap does not have this trouble."
        }
        NeedsMemory::Network => {
            "Sending a page over a network allocates memory for packets, and the connection has to stay alive. The \
             kernel swaps when memory is short, so that this allocation can wait for the very write that needs it, and \
             the machine hangs. A local disk or zram as swap does not have this trouble."
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Name, TierKind};

    use super::*;
    use crate::testing::{assert_silent, calm, mib, only, proof_of, tier, with, word};

    fn on(name: &str, kind: TierKind, change: fn(&mut Tier)) -> Interval {
        with(|host| {
            let mut area = tier(&format!("/dev/{name}"), kind, mib(100), -2);
            area.disk.name = word("/sys/class/block/x/uevent", name);
            area.disk.lowest = word("/sys/class/block/x/uevent", name);
            change(&mut area);
            host.tiers.push(area);
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        on("loop7", TierKind::Partition, |area| {
            area.disk.backing_file = word("/sys/block/loop7/loop/backing_file", "/mnt/ram/swap");
            area.disk.backing_file_system = word("/proc/self/mountinfo", "tmpfs");
        })
    }

    pub(crate) fn host_with_zfs_finding() -> Interval {
        on("zd16", TierKind::Partition, |_| ())
    }

    /// A folder that contains nothing about the device except its line in /proc/swaps.
    #[test]
    fn the_name_of_the_device_is_enough() {
        let none =
            || pagewise_model::Reading::denied("not collected", pagewise_model::Source::none());
        let titles = |path: &str| {
            let interval = with(|host| {
                let mut area = tier(path, TierKind::Partition, mib(100), -2);
                (area.disk.name, area.disk.lowest) = (none(), none());
                host.tiers.push(area);
            });
            diagnose(&interval).len()
        };
        for path in ["/dev/zd0", "/dev/zvol/rpool/swap", "/dev/nbd3", "/dev/loop7", "/dev/drbd1"] {
            assert_eq!(titles(path), 1, "{path}");
        }
        for path in ["/dev/sda2", "/dev/zdisk", "/dev/zram-like", "/swap/zd0", "/dev/dm-1"] {
            assert_eq!(titles(path), 0, "{path}");
        }
    }

    #[test]
    fn swap_that_is_in_ram_is_told_with_its_file() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "the swap area /dev/loop7 is itself in RAM");
        assert_eq!(
            finding.what,
            "The swap area /dev/loop7 is a loop device with the file /mnt/ram/swap on tmpfs behind it and holds \
             100.0 MiB of 4.0 GiB."
        );
        assert!(proof_of(&finding).contains("/loop/backing_file = /mnt/ram/swap"));
        assert_eq!(finding.next[1], "losetup --list /dev/loop7");
    }

    #[test]
    fn devices_that_need_memory_are_told_with_the_reason() {
        let title = |interval: &Interval| only(&RULE, interval).title;
        for name in ["zd16", "nbd0", "loop3", "rbd1"] {
            let told = title(&on(name, TierKind::Partition, |_| ()));
            assert_eq!(
                told,
                format!("the kernel needs memory to write to the swap area /dev/{name}")
            );
        }
        let unknown = only(&RULE, &on("loop3", TierKind::Partition, |_| ())).what;
        assert!(unknown.contains("which file is behind it is not known"), "{unknown}");
        let ram = only(&RULE, &on("ram0", TierKind::Partition, |_| ())).what;
        assert!(ram.contains("is a RAM disk"), "{ram}");
        let nfs = on("swap", TierKind::File, |area| {
            area.path = Name::from("/nfs/swap");
            area.disk.file_system = word("/proc/self/mountinfo", "nfs4");
        });
        assert!(title(&nfs).ends_with("/nfs/swap"));
    }

    #[test]
    fn usual_disks_and_zram_are_no_trouble() {
        assert_silent(&RULE, &calm());
        for name in ["sda2", "nvme0n1p3", "vda", "dm-1", "zdx", "loopy"] {
            assert_silent(&RULE, &on(name, TierKind::Partition, |_| ()));
        }
    }
}
