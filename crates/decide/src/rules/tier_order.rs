// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a slower swap tier is filled before a faster one, or alternately with it.
//!
//! Two cases are reported by other rules: an empty device in compressed RAM that is filled after a
//! disk with free space by `zram-unused`, and a disk in front of which zswap is enabled by
//! `zram-zswap-stacked`.

use pagewise_model::{Bytes, Cgroup, Finding, Interval, Limit, Severity, Snapshot, Tier, TierKind};

use crate::Rule;
use crate::grade::pressure;
use crate::proof::EvidenceList;
use crate::text::{mark_writing_with_undo, quoted, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: "tier-order",
    doc: "A slower swap area has the same or a higher priority than a faster one, so the kernel does not \
          fill the faster area first.",
    diagnose,
};

struct Inversion<'a> {
    slow: &'a Tier,
    fast: &'a Tier,
    slow_priority: i32,
    fast_priority: i32,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let worst = find_inversions(&interval.end).max_by_key(|inversion| inversion.slow.used.get());
    worst.map(|inversion| finding(interval, &inversion)).into_iter().collect()
}

fn find_inversions(host: &Snapshot) -> impl Iterator<Item = Inversion<'_>> {
    let pairs = host.tiers.iter().flat_map(|slow| host.tiers.iter().map(move |fast| (slow, fast)));
    pairs.filter_map(|(slow, fast)| find_inversion(slow, fast))
}

fn find_inversion<'a>(slow: &'a Tier, fast: &'a Tier) -> Option<Inversion<'a>> {
    let (slow_priority, fast_priority) = (slow.priority.get()?, fast.priority.get()?);
    let compressed_first = slow.zswap_in_front.get() == Some(true);
    let inverted = is_faster(fast, slow) && slow_priority >= fast_priority;
    let told_elsewhere = slow_priority > fast_priority
        && fast.used.get()? == Bytes::new(0)
        && fast.kind.is_ram()
        && !slow.is_full()?;
    (inverted && !compressed_first && !told_elsewhere).then_some(Inversion {
        slow,
        fast,
        slow_priority,
        fast_priority,
    })
}

fn finding(interval: &Interval, inversion: &Inversion<'_>) -> Finding {
    let Inversion { slow, fast, .. } = inversion;
    let (slow_name, fast_name) =
        (shorten_name(slow.path.as_str()), shorten_name(fast.path.as_str()));
    let title = if inversion.slow_priority > inversion.fast_priority {
        format!("swap fills {slow_name} before the faster {fast_name}")
    } else {
        format!("swap fills {slow_name} and the faster {fast_name} in turn")
    };
    Finding {
        id: RULE.id,
        about: None,
        severity: severity(interval, slow),
        title,
        what: describe(inversion),
        why:
            "The kernel fills the swap area with the highest priority first (areas of equal priority in turn), \
              and never moves a swapped page to another area. Pages that were swapped out to the slower area \
              stay there and are read back at its speed, even if the faster area has room."
                .to_owned(),
        evidence: EvidenceList::new()
            .named(&format!("{} priority", slow.path), &slow.priority)
            .named(&format!("{} used", slow.path), &slow.used)
            .named(&format!("{} size", slow.path), &slow.size)
            .named(&format!("{} priority", fast.path), &fast.priority)
            .named(&format!("{} used", fast.path), &fast.used)
            .into_evidence(),
        next: next(&interval.end, inversion),
    }
}

fn severity(interval: &Interval, slow: &Tier) -> Severity {
    let holds = slow.used.get().is_some_and(|used| used > Bytes::new(0));
    match pressure::present_severity(interval) {
        Some(_) if holds => Severity::Critical,
        _ if holds => Severity::Warning,
        _ => Severity::Info,
    }
}

fn describe(inversion: &Inversion<'_>) -> String {
    let shown = |tier: &Tier, priority| {
        let used = tier.used.get().zip(tier.size.get());
        let used =
            used.map_or_else(String::new, |(used, size)| format!(" and holds {used} of {size}"));
        let full = if tier.is_full() == Some(true) { " (full)" } else { "" };
        format!("{} has priority {priority}{used}{full}", tier.path)
    };
    format!(
        "The swap area {}. The faster swap area {}.",
        shown(inversion.slow, inversion.slow_priority),
        shown(inversion.fast, inversion.fast_priority)
    )
}

/// Returns commands that correct the order. swapoff and swapon are suggested only for a tier whose
/// pages certainly fit back into the memory of the machine and below the limits of the groups to
/// which they belong.
fn next(host: &Snapshot, inversion: &Inversion<'_>) -> Vec<String> {
    let look = "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned();
    let fits = |used: Bytes| {
        let room = host.memory.available.get().unwrap_or_default();
        used.get() <= room.get() / 2 && !would_any_exceed_limit(host)
    };
    let used = inversion.fast.used.get().filter(|used| fits(*used));
    let above = inversion.slow_priority.checked_add(1);
    let above = above.filter(|&priority| priority <= i32::from(i16::MAX));
    let Some((used, above)) = used.zip(above) else { return vec![look] };
    let path = quoted(inversion.fast.path.as_str());
    let set = |option: &str| format!("sudo swapoff {path} && sudo swapon {option}{path}");
    // negative priorities are assigned by the kernel; swapon does not accept them
    let before = match inversion.fast_priority {
        0.. => format!("-p {} ", inversion.fast_priority),
        _ => String::new(),
    };
    let caution = format!("swapoff brings {used} back into RAM; until the next boot");
    let set_above = set(&format!("-p {} ", above.max(100)));
    vec![mark_writing_with_undo(set_above, &caution, &set(&before)), look]
}

/// Whether there is a group whose memory in swap would not fit back under the group's limit.
fn would_any_exceed_limit(host: &Snapshot) -> bool {
    let held = |group: &Cgroup| {
        Some(group.current.get()?.get().saturating_add(group.swap_current.get()?.get()))
    };
    host.cgroups.groups.iter().any(|group| match (group.max.get(), held(group)) {
        (Some(Limit::Bytes(limit)), Some(held)) => {
            held > limit.get() && group.swap_current.get() > Some(Bytes::new(0))
        }
        _ => false,
    })
}

/// The speed of a swap tier; later variants are slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Speed {
    /// Compressed RAM, with a latency of microseconds.
    Ram,
    /// A non-rotational disk, with a latency of tens of microseconds and more.
    Flash,
    /// A rotational disk, with a latency of milliseconds.
    Spinning,
}

/// Returns the speed of a swap tier; `None` for a disk if the kernel does not say whether it is
/// rotational.
fn speed(tier: &Tier) -> Option<Speed> {
    match tier.kind {
        TierKind::Zram | TierKind::Zmerge => Some(Speed::Ram),
        TierKind::Partition | TierKind::File => {
            let spins = tier.disk.rotational.get()?;
            Some(if spins { Speed::Spinning } else { Speed::Flash })
        }
    }
}

/// Whether `this` is certainly faster than `that`. RAM is faster than any disk, even one of unknown
/// speed.
fn is_faster(this: &Tier, that: &Tier) -> bool {
    match (speed(this), speed(that)) {
        (Some(this), Some(that)) => this < that,
        (Some(Speed::Ram), None) => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "../../tests/rules/tier_order.rs"]
pub(super) mod tests;
