// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: the pages in swap do not fit into the available memory, so that swap cannot be turned off.
//!
//! swapoff reads all pages back. zram's memory for the compressed pages is freed meanwhile, and
//! therefore counts as available; pages in the swap cache are in RAM already. If little memory is
//! available, the rule `memory-low` is more useful.

use pagewise_facts::tiers;
use pagewise_model::{Bytes, Evidence, Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::grade::headroom;
use crate::proof::EvidenceList;

pub(super) const RULE: Rule = Rule {
    id: "swap-stuck",
    doc: "More data is in swap than would fit back into memory, so swapoff would make the machine run out of memory.",
    diagnose,
};

/// Minimum share of RAM, in percent, of the memory in swap for a finding. With less than this,
/// other findings are more useful.
const WORTH_PERCENT: f64 = 5.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    if headroom::level_of_host(host) != Some(Level::Calm) {
        return None;
    }
    let memory = &host.memory;
    let cached = memory.swap_cached.get().unwrap_or(Bytes::new(0));
    let used = memory.swap_total.get()?.saturating_sub(memory.swap_free.get()?);
    let back = used.saturating_sub(cached);
    let room = memory.available.get()?.saturating_add(compressed_bytes(host));
    if back <= room || back.percent_of(memory.total.get()?)?.get() < WORTH_PERCENT {
        return None;
    }
    let missing = back.saturating_sub(room);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!("swap cannot be switched off: {missing} would not fit into memory"),
        what: format!(
            "swapoff would have to read {back} from swap back into memory, but only {room} of memory are \
             available, including the RAM that compressed swap (zram) would free meanwhile."
        ),
        why: "swapoff reads all swapped pages back into memory. If they do not fit, the kernel kills swapoff \
              or other processes; resizing a zram device needs swapoff, and many shutdowns run it. Before \
              you switch swap off, add another swap area, or stop the programs that have the most memory in \
              swap."
            .to_owned(),
        evidence: proof(host),
        next: vec![
            "grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n -r | head".to_owned(),
            "cat /proc/swaps".to_owned(),
        ],
    })
}

/// Returns the RAM that all swap areas in compressed RAM use.
fn compressed_bytes(host: &Snapshot) -> Bytes {
    let devices = tiers::in_ram(host).filter_map(|tier| tiers::device_of(host, tier));
    devices.filter_map(|device| device.mm_stat.memory_used.get()).sum()
}

fn proof(host: &Snapshot) -> Vec<Evidence> {
    let memory = &host.memory;
    let proof = EvidenceList::new()
        .named("SwapTotal", &memory.swap_total)
        .named("SwapFree", &memory.swap_free)
        .named("MemAvailable", &memory.available);
    let devices = tiers::in_ram(host).filter_map(|tier| tiers::device_of(host, tier));
    devices
        .fold(proof, |proof, device| proof.named("memory used", &device.mm_stat.memory_used))
        .into_evidence()
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::TierKind;

    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, mib, only, tier, with};

    /// An interval with `used` bytes in a swap file of 32 GiB, and 9 GiB of memory available.
    fn interval_with(used: Bytes) -> Interval {
        with(|host| {
            host.tiers = vec![tier("/swap", TierKind::File, used, -2)];
            host.tiers[0].size = line("/proc/swaps", 2, gib(32));
            host.zram.clear();
            host.memory.swap_total = line("/proc/meminfo", 15, gib(32));
            host.memory.swap_free = line("/proc/meminfo", 16, gib(32).saturating_sub(used));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with(gib(10))
    }

    #[test]
    fn more_is_swapped_than_is_available() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "swap cannot be switched off: 1.0 GiB would not fit into memory");
        assert_eq!(finding.severity, Severity::Info);
    }

    #[test]
    fn what_fits_is_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with(gib(8)));
    }

    #[test]
    fn what_zram_frees_and_the_swap_cache_count_as_room() {
        let mut interval = host_with_finding();
        interval.end.memory.swap_cached = line("/proc/meminfo", 6, mib(1500));
        assert_silent(&RULE, &interval);
        let zram = |used: u64| {
            with(|host| {
                host.memory.available = line("/proc/meminfo", 3, mib(3000));
                host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
                host.zram[0].mm_stat.memory_used = line("/sys/block/zram0/mm_stat", 1, mib(used));
            })
        };
        assert_silent(&RULE, &zram(1100));
        assert_eq!(only(&RULE, &zram(900)).severity, Severity::Info);
    }
}
