// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: the watermarks are so high that much free memory cannot be used, or so low that the kernel
//! itself may run out of memory.
//!
//! khugepaged raises `vm.min_free_kbytes` by itself, to at most 5 % of memory
//! (`set_recommended_min_free_kbytes`), so that only a higher value must have been set by somebody.
//! With less than 1024 KiB the system may deadlock, according to the kernel's
//! `Documentation/admin-guide/sysctl/vm.rst`; the kernel itself chooses less only if it has less
//! than 64 MiB of RAM.

use pagewise_facts::settings::{self, Setting};
use pagewise_model::{
    Bytes, Evidence, Finding, Interval, Pages, Severity, Snapshot, Subject, Zone,
};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::mark_writing_with_caution;

pub(super) const RULE: Rule = Rule {
    id: "watermarks-extreme",
    doc: "vm.min_free_kbytes or vm.watermark_scale_factor keeps far too much or too little memory free.",
    diagnose,
};

const MIN_FREE: &str = "vm.min_free_kbytes";
const SCALE: &str = "vm.watermark_scale_factor";

/// Maximum share of memory, in percent, that khugepaged itself reserves by raising
/// `min_free_kbytes`.
const RESERVED_PERCENT: f64 = 5.0;
/// The distance from the low to the high watermark is extreme if it is at least this share of RAM,
/// in percent; by default it is 0.1 %.
const GAP_PERCENT: f64 = 10.0;
const LEAST: Bytes = Bytes::new(1 << 20);
/// The size of RAM for which the kernel's default of the reserve is [`LEAST`].
const SMALL: Bytes = Bytes::new(64 << 20);

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    let Some(total) = host.memory.total.get() else { return Vec::new() };
    [find_extreme_reserve(host, total), find_extreme_gap(host, total)]
        .into_iter()
        .flatten()
        .collect()
}

fn find_extreme_reserve(host: &Snapshot, total: Bytes) -> Option<Finding> {
    let set = settings::number(host, MIN_FREE)?;
    let bytes = Bytes::from_kib(set.value)?;
    let percent = bytes.percent_of(total)?.get();
    let (title, what, why) = if percent > RESERVED_PERCENT {
        (
            format!("the kernel keeps {bytes} of memory free as a reserve: {percent:.0} % of RAM"),
            format!(
                "vm.min_free_kbytes makes the kernel keep {} of RAM free.",
                bytes.part_of(total)
            ),
            "Programs cannot use this reserve, and when no other memory is free, each program that allocates \
             memory has to reclaim pages itself and waits meanwhile. The reserve only has to cover short \
             bursts of kernel allocations; the kernel's default is much smaller.",
        )
    } else if bytes < LEAST && total > SMALL {
        (
            format!("the kernel keeps only {bytes} of memory free as a reserve"),
            format!("vm.min_free_kbytes is {} on a host with {total} of RAM.", set.value),
            "Reclaim itself needs some memory, for example to write pages to a disk or over a network. With \
             less than 1024 KiB in reserve, the kernel may deadlock under load.",
        )
    } else {
        return None;
    };
    let usual = default_kib(total);
    let lower = format!("sudo sysctl vm.min_free_kbytes={usual}");
    let back =
        format!("until the next boot; undo with sudo sysctl vm.min_free_kbytes={}", set.value);
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part(MIN_FREE)),
        severity: Severity::Warning,
        title,
        what,
        why: why.to_owned(),
        evidence: proof(host, &set),
        next: vec![mark_writing_with_caution(lower, &back), command_that_shows_origin(MIN_FREE)],
    })
}

fn find_extreme_gap(host: &Snapshot, total: Bytes) -> Option<Finding> {
    let set = settings::number(host, SCALE)?;
    let all = |pick: fn(&Zone) -> Option<Pages>| -> Option<Bytes> {
        let pages: Option<Pages> = host.zones.iter().map(pick).sum();
        Some(pages?.to_bytes(host.page_size()))
    };
    let gap = all(|zone| zone.high_pages.get())?.saturating_sub(all(|zone| zone.low_pages.get())?);
    let percent = gap.percent_of(total)?.get();
    if percent <= GAP_PERCENT {
        return None;
    }
    let back = format!(
        "until the next boot; undo with sudo sysctl vm.watermark_scale_factor={}",
        set.value
    );
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part(SCALE)),
        severity: Severity::Warning,
        title: format!(
            "kswapd starts to reclaim while {gap} of memory are free: {percent:.0} % of RAM"
        ),
        what: format!(
            "With vm.watermark_scale_factor = {}, kswapd starts to reclaim memory when less than {gap} is free \
             above the reserve of vm.min_free_kbytes, and stops when twice as much is free.",
            set.value
        ),
        why:
            "The distances between the watermarks let kswapd reclaim memory before programs have to wait for \
              it. If these distances are too large, kswapd swaps out and drops memory that programs use, \
              only to keep memory free."
                .to_owned(),
        evidence: proof(host, &set),
        next: vec![
            mark_writing_with_caution("sudo sysctl vm.watermark_scale_factor=100", &back),
            command_that_shows_origin(SCALE),
        ],
    })
}

fn proof(host: &Snapshot, set: &Setting<'_>) -> Vec<Evidence> {
    EvidenceList::new().value(set.live).named("MemTotal", &host.memory.total).into_evidence()
}

fn command_that_shows_origin(knob: &str) -> String {
    format!("grep -rs {knob} /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d")
}

/// Returns the kernel's default of `min_free_kbytes` in KiB: the square root of 16 times the memory
/// in KiB, within limits.
fn default_kib(total: Bytes) -> u64 {
    (total.get() / 1024 * 16).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, gib, knob, line, only, with};

    /// A host with 16 GiB of RAM, of which 2 GiB are reserved.
    pub(crate) fn host_with_finding() -> Interval {
        with(|host| knob(host, MIN_FREE, "2097152"))
    }

    pub(crate) fn host_with_little_finding() -> Interval {
        with(|host| knob(host, MIN_FREE, "512"))
    }

    pub(crate) fn host_with_far_apart_finding() -> Interval {
        with(|host| {
            knob(host, SCALE, "3000");
            for zone in &mut host.zones {
                zone.high_pages = line("/proc/zoneinfo", 13, Pages::new(600_000));
                zone.free_pages = line("/proc/zoneinfo", 10, Pages::new(700_000));
            }
        })
    }

    #[test]
    fn a_large_reserve_is_lost_memory() {
        let finding = only(&RULE, &host_with_finding());
        let title = "the kernel keeps 2.0 GiB of memory free as a reserve: 12 % of RAM";
        assert_eq!(finding.title, title);
        assert_eq!(
            finding.next[0],
            "sudo sysctl vm.min_free_kbytes=16384  # writes; until the next boot; undo with sudo \
             sysctl vm.min_free_kbytes=2097152"
        );
    }

    #[test]
    fn a_small_reserve_is_a_danger_only_where_there_is_ram() {
        let finding = only(&RULE, &host_with_little_finding());
        assert_eq!(finding.title, "the kernel keeps only 512.0 KiB of memory free as a reserve");
        let mut tiny = host_with_little_finding();
        tiny.end.memory.total = line("/proc/meminfo", 1, Bytes::new(48 << 20));
        assert_silent(&RULE, &tiny);
    }

    #[test]
    fn watermarks_far_apart() {
        let finding = only(&RULE, &host_with_far_apart_finding());
        let title = "kswapd starts to reclaim while 4.5 GiB of memory are free: 28 % of RAM";
        assert_eq!(finding.title, title);
    }

    /// Both settings must be reported together. Otherwise a plan would change only the first, and a
    /// second plan would be needed for the other.
    #[test]
    fn both_settings_are_named_if_both_are_extreme() {
        let mut both = host_with_far_apart_finding();
        knob(&mut both.end, MIN_FREE, "512");
        let knobs = [MIN_FREE, SCALE];
        let found = diagnose(&both);
        assert_eq!(found.len(), 2);
        for (finding, knob) in found.iter().zip(knobs) {
            assert!(finding.what.contains(knob) && finding.next[0].contains(knob), "{finding:?}");
        }
    }

    #[test]
    fn what_khugepaged_reserves_is_no_fault() {
        // the values are those of a guest with 1 GiB of RAM and huge pages
        let interval = with(|host| {
            knob(host, MIN_FREE, "45056");
            knob(host, SCALE, "10");
            host.memory.total = line("/proc/meminfo", 1, gib(1));
        });
        assert_silent(&RULE, &interval);
        assert_silent(&RULE, &calm());
    }
}
