// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: devices in compressed RAM would use all of RAM before they are full, at their measured
//! compression ratio.

use pagewise_facts::{ratio, tiers};
use pagewise_model::{Bytes, Driver, Evidence, Finding, Interval, Severity, Snapshot, Zram};

use crate::Rule;
use crate::commands;
use crate::proof::EvidenceList;
use crate::text::{count_of, mark_writing};

pub(super) const RULE: Rule = Rule {
    id: "zram-oversized",
    doc: "If all zram and zmerge devices were full, they would use more memory than the machine has; their \
          slot tables use memory even while the devices are empty.",
    diagnose,
};

/// If the slot tables take at least this share of RAM, in percent, they are a loss even while the
/// devices are empty.
const TABLE_PERCENT: f64 = 2.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

/// Returns the zram devices whose size is set; others use no memory.
fn sized_devices(host: &Snapshot) -> impl Iterator<Item = (&Zram, Bytes)> {
    let known =
        host.compressed_devices().filter_map(|device| Some((device, device.disksize.get()?)));
    known.filter(|&(_, size)| size > Bytes::new(0))
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let ram = host.memory.total.get()?;
    let promised: Bytes = sized_devices(host).map(|(_, size)| size).sum();
    let ratio = ratio::ratio(host);
    let when_full = promised.get() as f64 / ratio;
    if when_full <= ram.get() as f64 || ram == Bytes::new(0) {
        return None;
    }
    let largest = sized_devices(host).max_by_key(|&(_, size)| size).map(|(device, _)| device)?;
    let times = promised.get() as f64 / ram.get() as f64;
    let tables: Bytes = sized_devices(host).filter_map(|(device, _)| device.slot_table.get()).sum();
    let heavy = tables.percent_of(ram).is_some_and(|percent| percent.get() >= TABLE_PERCENT);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if heavy { Severity::Warning } else { Severity::Info },
        title: format!("the disksize of {} is {times:.1} times the RAM of this machine", describe_drivers(host)),
        what: describe(host, promised, ram, tables, ratio),
        why: "The disksize limits how much uncompressed data a device can hold; as soon as disksize is set, \
              the kernel allocates the slot table for the whole device. A device that would use up all RAM \
              before it is full can make the machine run out of memory. A smaller disksize or a mem_limit \
              keeps the device from using up all RAM."
            .to_owned(),
        evidence: proof(host),
        next: next(host, largest),
    })
}

/// Names the kind of devices whose size is set: zram, zmerge or both.
fn describe_drivers(host: &Snapshot) -> &'static str {
    let of = |driver| sized_devices(host).any(|(device, _)| device.driver == driver);
    match (of(Driver::Zram), of(Driver::Zmerge)) {
        (true, true) => "compressed RAM",
        (false, true) => Driver::Zmerge.name(),
        _ => Driver::Zram.name(),
    }
}

fn describe(host: &Snapshot, promised: Bytes, ram: Bytes, tables: Bytes, ratio: f64) -> String {
    let (drivers, devices) = (describe_drivers(host), sized_devices(host).count());
    let known =
        if ratio::measured_ratio(host).is_some() { "measured on this host" } else { "assumed" };
    let take = match devices {
        1 => "The device's slot table (one entry for each page) takes",
        _ => "The slot tables of these devices (one entry for each page) take",
    };
    let cost = if tables > Bytes::new(0) {
        format!(" {take} {tables} of RAM even while nothing is stored.")
    } else {
        String::new()
    };
    let promise = match devices {
        1 => format!("The disksize of the {drivers} device is"),
        more => {
            let devices = count_of(more as u64, &format!("{drivers} device"));
            format!("The disksize of {devices} adds up to")
        }
    };
    format!(
        "{promise} {promised}; at a compression ratio of {ratio:.1} : 1 ({known}), that much data does not fit \
         into {ram} of RAM.{cost}"
    )
}

fn proof(host: &Snapshot) -> Vec<Evidence> {
    let first = EvidenceList::new().named("MemTotal", &host.memory.total);
    let each = |proof: EvidenceList, (device, _): (&Zram, Bytes)| {
        proof.value(&device.disksize).named("slot table", &device.slot_table)
    };
    sized_devices(host).fold(first, each).into_evidence()
}

/// Returns commands that set a smaller size. They are suggested only for an empty swap area,
/// because a new size needs a reset, which discards the content.
fn next(host: &Snapshot, device: &Zram) -> Vec<String> {
    let look = commands::show_device(device, "NAME,DISKSIZE,DATA,TOTAL,MOUNTPOINT");
    let tier = tiers::tier_of(host, device);
    let empty = tier.and_then(|tier| tier.used.get()) == Some(Bytes::new(0));
    let Some(priority) = tier.and_then(|tier| tier.priority.get()).filter(|_| empty) else {
        return vec![look];
    };
    let path = device.path();
    let command = format!(
        "sudo swapoff {path} && {} && {} && sudo mkswap {path} && sudo swapon -p {} {path}",
        commands::reset(device),
        commands::set_size(host, device),
        priority.max(0)
    );
    vec![mark_writing(command), look]
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{TierKind, ZramUse};

    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, only, tier, with, zram};

    fn set_size(host: &mut Snapshot, size: Bytes) {
        host.zram[0].disksize = file("/sys/block/zram0/disksize", size);
        host.zram[0].slot_table = file("/sys/block/zram0/disksize", Bytes::new(size.get() / 256));
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| set_size(host, gib(40)))
    }

    #[test]
    fn more_than_twice_ram_and_what_the_table_costs() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "the disksize of zram is 2.5 times the RAM of this machine");
        assert_eq!(
            finding.what,
            "The disksize of the zram device is 40.0 GiB; at a compression ratio of 2.0 : 1 (measured on this \
             host), that much data does not fit into 16.0 GiB of RAM. The device's slot table (one entry for \
             each page) takes 160.0 MiB of RAM even while nothing is stored."
        );
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(finding.next.len(), 1, "what holds data is not reset");
    }

    #[test]
    fn a_device_without_a_size_is_not_told() {
        let mut interval = host_with_finding();
        interval.end.zram.push(zram(1, ZramUse::NotInitialised, Bytes::new(0)));
        assert_eq!(only(&RULE, &interval), only(&RULE, &host_with_finding()));
    }

    #[test]
    fn only_an_empty_swap_device_may_be_made_anew() {
        let mut interval = host_with_finding();
        interval.end.tiers = vec![tier("/dev/zram0", TierKind::Zram, Bytes::new(0), 100)];
        let command = &only(&RULE, &interval).next[0];
        assert!(command.contains("--size 16384M --algorithm lz4 /dev/zram0"), "{command}");
        assert!(
            command.ends_with("swapon -p 100 /dev/zram0  # writes; until the next boot"),
            "{command}"
        );
    }

    #[test]
    fn a_device_that_compresses_well_may_be_larger_than_ram() {
        let mut interval = host_with_finding();
        interval.end.zram[0].mm_stat.memory_used =
            line("/sys/block/zram0/mm_stat", 1, Bytes::new((512 << 20) / 37));
        assert_silent(&RULE, &interval);
    }

    #[test]
    fn twice_ram_at_two_to_one_is_no_more_than_ram() {
        assert_silent(&RULE, &with(|host| set_size(host, gib(32))));
        assert_silent(&RULE, &calm());
    }
}
