// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a [`Machine`] of what was read of it.

use std::collections::BTreeMap;

use pagewise_model::{
    Bytes, Finding, HostVerdict, Interval, Limit, LimitSums, LimitSurvey, LimitVerdict, Machine,
    Name, Severity, Snapshot, SwapSetup, knob,
};

/// Makes a machine of an interval and of what was derived from it. `name` is how the report names it.
pub fn machine_of_interval(
    name: Name,
    interval: &Interval,
    verdict: &HostVerdict,
    findings: &[Finding],
    limits: &LimitSurvey,
) -> Machine {
    let end = &interval.end;
    let memory = &end.memory;
    let effective = end.effective_memory().get();
    Machine {
        name,
        boot: end.taken.boot_id.value().cloned(),
        // documents have milliseconds
        unix_seconds: (end.taken.unix_seconds * 1e3).round() / 1e3,
        architecture: end.host.architecture.value().cloned(),
        kernel: end.taken.kernel.value().cloned(),
        ram: memory.total.get(),
        available: memory.available.get(),
        anon: memory.anon_pages.get(),
        inactive_anon: memory.inactive_anon.get(),
        anon_huge: memory.anon_huge_pages.get(),
        swap_used: difference(memory.swap_total.get(), memory.swap_free.get()),
        waited: end.psi.memory.some.avg60.get(),
        level: verdict.level,
        findings: worst_by_id(findings.iter().map(|it| (it.id.to_owned(), it.severity))),
        swap: swap_setup(end),
        compressed: effective.map(|known| (known.stored, known.pool)),
        sampled_ratio: None,
        settings: end
            .knobs
            .iter()
            .filter(|setting| is_of_host(setting.knob.name))
            .filter_map(|it| {
                Some((setting_key(it.knob.name, it.instance.as_ref()), it.live.value()?.clone()))
            })
            .collect(),
        limits: (!limits.groups.is_empty()).then(|| sum_limits(limits)),
    }
}

pub(super) fn difference(total: Option<Bytes>, free: Option<Bytes>) -> Option<Bytes> {
    Some(total?.saturating_sub(free?))
}

pub(super) fn worst_by_id(
    findings: impl Iterator<Item = (String, Severity)>,
) -> BTreeMap<String, Severity> {
    let mut worst = BTreeMap::new();
    for (id, severity) in findings {
        let known = worst.entry(id).or_insert(severity);
        *known = severity.max(*known);
    }
    worst
}

/// Whether a setting concerns the host as a whole, and not a cgroup, a NUMA node or a DAMON thread, of
/// which machines have different ones.
pub(super) fn is_of_host(name: &str) -> bool {
    let row = knob::KNOBS.iter().find(|row| row.name == name);
    row.is_some_and(|row| {
        !["{cgroup}", "{node}", "kdamonds"].iter().any(|part| row.path.contains(part))
    })
}

/// The name of a setting, with the device or the size of page that it is of.
pub(super) fn setting_key(name: &str, instance: Option<&Name>) -> String {
    instance.map_or_else(|| name.to_owned(), |instance| format!("{name} {instance}"))
}

fn swap_setup(end: &Snapshot) -> SwapSetup {
    let in_ram = end.tiers.iter().any(|tier| tier.kind.is_ram());
    let on_disk = end.tiers.iter().any(|tier| !tier.kind.is_ram());
    combine(in_ram, on_disk, end.zswap.enabled.get() == Some(true))
}

pub(super) const fn combine(in_ram: bool, on_disk: bool, zswap: bool) -> SwapSetup {
    match (in_ram, on_disk, zswap) {
        (true, true, _) => SwapSetup::ZramAndDisk,
        (true, false, _) => SwapSetup::Zram,
        (false, true, true) => SwapSetup::Zswap,
        (false, true, false) => SwapSetup::Disk,
        (false, false, _) => SwapSetup::None,
    }
}

/// Sums the advice over the cgroups. A cgroup below one that is counted is not counted again: what it
/// frees is a part of that.
fn sum_limits(limits: &LimitSurvey) -> LimitSums {
    let freed = limits.groups.iter().filter_map(|group| {
        let Limit::Bytes(limit) = group.limit.get()? else { return None };
        let size = group.advice.size.filter(|_| group.advice.verdict == LimitVerdict::CouldBe)?;
        Some((group.group.as_str(), limit.saturating_sub(size)))
    });
    let mut freed: Vec<(&str, Bytes)> = freed.filter(|(_, bytes)| bytes.get() > 0).collect();
    freed.sort_by_key(|(path, _)| path.len());
    let mut counted: Vec<(&str, Bytes)> = Vec::new();
    for (path, bytes) in freed {
        let is_below = |above: &str| {
            path.strip_prefix(above.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        };
        if !counted.iter().any(|(above, _)| is_below(above)) {
            counted.push((path, bytes));
        }
    }
    let too_low = |verdict| verdict == LimitVerdict::TooLow;
    LimitSums {
        could_be_lower: counted.len() as u64,
        freed_bytes: counted.into_iter().map(|(_, bytes)| bytes).sum(),
        too_low: limits.groups.iter().filter(|it| too_low(it.advice.verdict)).count() as u64,
    }
}
