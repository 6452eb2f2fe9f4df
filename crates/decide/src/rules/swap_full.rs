// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: all swap areas together are nearly full.

use pagewise_facts::room;
use pagewise_model::{Finding, Interval, Level, Percent, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::verdict::{self, Cause};

pub(super) const RULE: Rule = Rule {
    id: "swap-full",
    doc: "All swap areas together are nearly full, so the kernel has hardly any room to swap out more pages.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let full = verdict::signals(interval).into_iter().find_map(|signal| match signal.cause {
        Cause::Swap(filled) => finding(&interval.end, signal.level, filled),
        _ => None,
    });
    full.into_iter().collect()
}

fn finding(host: &Snapshot, level: Level, filled: Percent) -> Option<Finding> {
    // if the only swap area is in RAM, the rule `zram-full` reports it
    let only_tier = <&[_; 1]>::try_from(host.tiers.as_slice()).ok().map(|[tier]| tier);
    if only_tier.is_some_and(|tier| tier.kind.is_ram() && tier.is_full() == Some(true)) {
        return None;
    }
    let (total, free) = (host.memory.swap_total.get()?, host.memory.swap_free.get()?);
    let available = room::measure_headroom(host)?.available;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if level >= Level::Short { Severity::Warning } else { Severity::Info },
        title: format!("swap is {:.0} % full", filled.get().floor()),
        what: format!(
            "{} of swap are in use, so {free} are free, and {available} of memory are available.",
            total.saturating_sub(free).part_of(total)
        ),
        why: why(level),
        evidence: EvidenceList::new()
            .named("SwapTotal", &host.memory.swap_total)
            .named("SwapFree", &host.memory.swap_free)
            .named("MemAvailable", &host.memory.available)
            .into_evidence(),
        next: vec![
            "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned(),
            "grep VmSwap /proc/[0-9]*/status | sort -k2 -n | tail".to_owned(),
        ],
    })
}

fn why(level: Level) -> String {
    if level >= Level::Short {
        "The kernel can reclaim anonymous memory only by swapping it out, so when swap is full, no more of \
         it can leave RAM, whether programs use it or not. For further allocations, the kernel can only drop \
         pages of code and files, and when that is not enough, it kills a process."
            .to_owned()
    } else {
        "Swapped pages stay in swap until a program uses them again, so if swap is full while memory is \
         available, the reason is often an earlier peak of memory use; this does no harm now. At the next \
         peak, however, swap has no room for more pages."
            .to_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, TierKind};

    use super::*;
    use crate::testing::{assert_silent, calm, line, mib, only, tier, with};

    fn full(host: &mut Snapshot) {
        host.memory.swap_free = line("/proc/meminfo", 16, mib(160));
        host.tiers = vec![tier("/swapfile", TierKind::File, mib(3936), -2)];
        host.zram.clear();
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(full)
    }

    #[test]
    fn an_old_peak_is_worth_knowing() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            (finding.severity, finding.title.as_str()),
            (Severity::Info, "swap is 96 % full")
        );
        assert_eq!(
            finding.what,
            "3.8 of 4.0 GiB of swap are in use, so 160.0 MiB are free, and 9.0 GiB of memory are available."
        );
    }

    #[test]
    fn with_little_available_it_is_a_warning() {
        let low = with(|host| {
            full(host);
            host.memory.available = line("/proc/meminfo", 3, mib(1200));
        });
        assert_eq!(only(&RULE, &low).severity, Severity::Warning);
    }

    #[test]
    fn swap_with_room_and_none_at_all_are_silent() {
        assert_silent(&RULE, &calm());
        let none = with(|host| {
            host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
            host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
            host.tiers.clear();
        });
        assert_silent(&RULE, &none);
    }
}
