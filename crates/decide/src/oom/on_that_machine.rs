// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes what would have prevented a kill, for a log from another machine. Each suggestion says
//! whether it removes the cause or only limits the damage, and uses the terms of the program that
//! manages the group. It contains no commands to paste, because the present limit and usage are not
//! known.

use pagewise_facts::groups;
use pagewise_model::{Bytes, Limit, OomConstraint, OomKill, OomZone};

use super::reason::{self, MIN_TTL, Request};
use super::{format_sizes, limit};
use crate::limit_change::{self, Resource};

/// Returns what would have prevented the kill; suggestions that remove the cause come first. Never
/// empty.
pub(super) fn advise_change(kill: &OomKill) -> Vec<String> {
    let mut all = Vec::new();
    if reason::is_by_hand(kill) {
        return vec!["# nothing to cure: somebody asked the kernel to kill (SysRq f)".to_owned()];
    }
    if kill.panic.as_ref().is_some_and(|panic| panic.as_str().contains("panic_on_oom")) {
        all.push("# cures the panic, not the shortage: vm.panic_on_oom=0 in /etc/sysctl.d, then sudo sysctl --system".to_owned());
    }
    if reason::is_by_min_ttl(kill) {
        all.push(format!(
            "# cures: a smaller {MIN_TTL}; 0 switches this kind of kill off (find what sets it in /etc/tmpfiles.d)"
        ));
    } else if let Some(zone) = reason::lacking_zone(kill) {
        all.extend(advise_for_zone(zone, &kill.zones));
    } else if reason::unusable_high_memory(kill).is_some() {
        all.push("# cures: a 64-bit kernel, which has no HighMem".to_owned());
        all.push("# not: more swap or another vm.swappiness; HighMem was free".to_owned());
    } else {
        match kill.constraint {
            Some(OomConstraint::Cgroup) => all.extend(advise_for_group(kill)),
            Some(OomConstraint::Cpuset | OomConstraint::Policy) => all.push(
                "# cures: more NUMA nodes for the task (cpuset.mems, numactl), or less memory bound to these"
                    .to_owned(),
            ),
            Some(OomConstraint::Host) | None => all.extend(advise_for_host(kill)),
        }
    }
    if all.is_empty() {
        all.push(
            "pagewise doctor  # on that machine: what uses its memory now, and what would help"
                .to_owned(),
        );
    }
    all
}

/// Suggests a higher limit, in the place where the group's manager stores it, and swap if the group
/// may not use any.
pub(super) fn advise_for_group(kill: &OomKill) -> Vec<String> {
    let mut all = Vec::new();
    let swap = kill.group_memory.as_ref().and_then(|memory| memory.swap);
    if swap.is_some_and(|swap| swap.limit == Limit::Bytes(Bytes::default())) {
        all.push(
            "# cures, if the machine has swap: let the group use it (memory.swap.max was 0)"
                .to_owned(),
        );
    }
    let Some(group) = &kill.group else { return all };
    let owner = limit_change::describe_owner(group.as_str(), Resource::Memory);
    let size = limit(kill);
    let size = size.map_or_else(String::new, |size| format!(" than {size}"));
    all.push(format!(
        "# cures, if the group needs it and does not leak: a higher limit{size}: {}",
        owner.unwrap_or_else(|| format!("memory.max of {group}, set by what creates the group"))
    ));
    all
}

/// Suggests swap before any limit, because a limit would only make another process, or the same
/// one, die sooner.
fn advise_for_host(kill: &OomKill) -> Vec<String> {
    let mut all = Vec::new();
    let Some(host) = &kill.host else { return all };
    let swappable = format_sizes(&[("anon", host.anon), ("shmem", host.shmem)]).join(" and ");
    match host.swap_total.zip(host.swap_free) {
        _ if swappable.is_empty() => {}
        Some((total, _)) if total.get() == 0 => all.push(format!(
            "# cures, if much of it is idle: swap, for instance zram; the machine had none, and held {swappable} that \
             only swap could have taken"
        )),
        Some((total, free)) if free.get() == 0 || free.get() < total.get() / 20 => all.push(format!(
            "# delays: more swap than {total}, which was full; the machine held {swappable}"
        )),
        _ => {}
    }
    all.extend(warn_of_limit(kill));
    all
}

/// Describes what a limit for the victim's unit would do. There is no command, because a limit
/// below the unit's need only kills it sooner, and this need is not known.
pub(super) fn warn_of_limit(kill: &OomKill) -> Option<String> {
    let unit = groups::unit_of_path(kill.victim_group.as_ref()?.as_str())?;
    let held = kill.victim.as_ref()?.resident()?;
    Some(format!(
        "# contains and cures nothing: a limit for {unit}, whose process held {held}; it then is killed alone when it \
         grows, and sooner"
    ))
}

/// Suggests what helps if one zone lacks memory.
fn advise_for_zone(zone: &str, zones: &[OomZone]) -> Vec<String> {
    let mut all = Vec::new();
    let cma: Bytes = zones.iter().filter_map(|zone| zone.free_cma).sum();
    if cma.get() > 0 {
        all.push(format!(
            "# cures: a smaller area for movable pages (kernel parameter cma=, or cma-N of the device tree): {cma} of \
             it were free in zone {zone} and could not be used"
        ));
    }
    if zones.iter().any(|zone| zone.name.as_str() == "HighMem") {
        all.push("# cures: a 64-bit kernel, which has no HighMem".to_owned());
    }
    all.push(
        "# not: more swap or another vm.swappiness; no page that could be swapped was in the way"
            .to_owned(),
    );
    all
}

/// Suggests what helps against failed allocations.
pub(super) fn advise_for_failure(request: Request<'_>, zones: &[OomZone]) -> Vec<String> {
    if reason::explain_by_zones(request, zones).is_some() {
        return advise_for_zone("of the request", zones);
    }
    vec![
        "# more free memory for the moment: a larger vm.min_free_kbytes (takes as much from programs), if it happens often"
            .to_owned(),
    ]
}
