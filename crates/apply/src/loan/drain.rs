// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disables a swap area, after checking that its contents fit elsewhere.
//!
//! Disabling swap reads all its pages back. If they do not fit, the kernel kills programs, or the
//! process that calls swapoff; for a cgroup at its limit this happens even if the machine has free
//! memory. So a swap area is disabled only if its pages certainly fit, and swapoff is aborted if a
//! program that grows meanwhile takes the memory that the remaining pages need; see [`Brake`].

use std::io::ErrorKind;
use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::plan::ZramSwap;

use crate::error::{Doing, Error};
use crate::host_ops::{Area, GroupCharge, HostChange, HostOps, MemoryFacts};
use crate::journal::ZramSetup;
use crate::loan::zram;

/// Least memory, in bytes, that must stay available while swap is disabled; if 1/50 of RAM is
/// more, that much must.
const LEAST: u64 = 32 << 20;
const PART: u64 = 50;

pub(crate) fn reserve(total: Bytes) -> Bytes {
    Bytes::new((total.get() / PART).max(LEAST))
}

/// How much memory stays available while swap is being disabled, and as long as `apply` observes
/// programs after it.
pub(crate) fn least_left(total: Bytes) -> Bytes {
    Bytes::new(reserve(total).get() / 2)
}

/// Reads what a [`Brake`] has to know, including the cgroups.
pub(crate) fn take_sample(host: &dyn HostOps, at: Duration) -> DrainSample {
    DrainSample {
        at,
        areas: host.swaps(),
        facts: host.memory_facts(),
        strain: host.memory_pressure(),
    }
}

/// The swap area at this path, if it is enabled.
pub(crate) fn find_area(host: &dyn HostOps, path: &str) -> Option<Area> {
    host.swaps().into_iter().find(|area| area.path == path)
}

/// Refuses unless the pages of the area fit into other swap (as far as cgroups may use it), or into
/// memory and the limit of each cgroup. `more` is swap on zram that the plan enables before.
pub(crate) fn check_fit(
    area: &Area,
    all: &[Area],
    more: Bytes,
    facts: &MemoryFacts,
) -> Result<(), Error> {
    let refused = |why: String| Err(Error::WontFit { area: area.path.clone(), why });
    let used = area.used.get();
    if facts.is_strict {
        let after = facts.committed.get().saturating_add(area.size.get());
        if after > facts.commit_limit.get() {
            return refused(format!(
                "vm.overcommit_memory is 2, and the kernel then tests the whole size of {} against the commit \
                 limit: {} of {} are committed",
                area.size, facts.committed, facts.commit_limit
            ));
        }
    }
    if used == 0 {
        return Ok(());
    }
    let reserve = reserve(facts.total).get();
    let Need { has_room, needed } = memory_needed(area, all, more, reserve);
    if facts.available.get() < needed {
        return refused(format!(
            "{} of it are in use and {} of memory are available; {} are needed, of which {} stay in reserve",
            area.used,
            facts.available,
            Bytes::new(needed),
            Bytes::new(reserve)
        ));
    }
    if !has_room && facts.groups_left_out > 0 {
        return refused(format!(
            "{} memory cgroups were not read, so whether its pages fit into their limits is unknown",
            facts.groups_left_out
        ));
    }
    harmed_group(used, has_room, &facts.groups).map_or(Ok(()), refused)
}

/// How much memory has to be available for reading back the pages of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Need {
    /// Whether the other swap areas have room for all of its pages.
    has_room: bool,
    /// The memory that is needed, in bytes, with the reserve.
    needed: u64,
}

fn memory_needed(area: &Area, all: &[Area], more: Bytes, reserve: u64) -> Need {
    let used = area.used.get();
    let (in_ram, on_disk) = free_swap_elsewhere(area, all);
    let has_room = in_ram.saturating_add(more.get()).saturating_add(on_disk) >= used;
    let needed = match (has_room, zram::number_of(&area.path).is_some()) {
        // pages that move from one zram device to another take as much RAM there
        (true, true) => reserve,
        // pages that move from a disk to zram take RAM: half of their size is a cautious guess
        (true, false) => used.saturating_sub(on_disk) / 2 + reserve,
        (false, _) => used + reserve,
    };
    Need { has_room, needed }
}

/// Refuses if disabling the area would make the kernel kill processes of a cgroup at its limit.
pub(crate) fn check_groups(host: &dyn HostOps, area: &Area) -> Result<(), Error> {
    let (in_ram, on_disk) = free_swap_elsewhere(area, &host.swaps());
    let used = area.used.get();
    let has_room = in_ram.saturating_add(on_disk) >= used;
    match harmed_group(used, has_room, &host.memory_facts().groups) {
        Some(why) => Err(Error::WontFit { area: area.path.clone(), why }),
        None => Ok(()),
    }
}

/// The cgroup whose processes the kernel would kill because up to `used` bytes of it are read back
/// from swap, and the reason.
fn harmed_group(used: u64, has_room: bool, groups: &[GroupCharge]) -> Option<String> {
    groups.iter().filter(|group| group.swap.get() > 0).find_map(|group| {
        let max = group.max?;
        let after = group.current.get().saturating_add(group.swap.get().min(used));
        let why = match why_not_swapped(group, groups) {
            Some(why) => why,
            None if has_room => return None,
            None => "no other swap has room".to_owned(),
        };
        (after > max.get()).then(|| {
            format!(
                "the cgroup {} has {} in memory and {} in swap, and may have {} in memory: the kernel would kill its \
                 processes, since {why}",
                group.path, group.current, group.swap, max
            )
        })
    })
}

/// Why the kernel cannot swap out more of this cgroup when it reaches its limit, although swap has
/// room. A page that is being read back counts as swap until it is in memory, so a cgroup at its
/// swap limit cannot swap out another page for it.
fn why_not_swapped(group: &GroupCharge, all: &[GroupCharge]) -> Option<String> {
    if group.swappiness == Some(0) {
        return Some(
            "swappiness is 0, with which the kernel swaps nothing out at the limit of a cgroup"
                .to_owned(),
        );
    }
    let is_part = |above: &&GroupCharge| {
        let rest = group.path.strip_prefix(&above.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let full = |it: &&GroupCharge| it.swap_max.is_some_and(|max| it.swap >= max);
    let above = all.iter().filter(is_part).find(full)?;
    let max = above.swap_max.unwrap_or_default();
    Some(format!("{} has as much swap as it may have ({max})", above.path))
}

/// Free space in the other swap areas, in bytes: on zram, and on disks.
fn free_swap_elsewhere(area: &Area, all: &[Area]) -> (u64, u64) {
    let others = all.iter().filter(|other| other.path != area.path);
    others.fold((0, 0), |(in_ram, on_disk), other| {
        let free = other.room.get();
        match zram::number_of(&other.path) {
            Some(_) => (in_ram + free, on_disk),
            None => (in_ram, on_disk + free),
        }
    })
}

/// Disables a swap area if its contents fit elsewhere.
pub(crate) fn disable_area(host: &mut dyn HostOps, area: &Area) -> Result<(), Error> {
    let facts = host.memory_facts();
    check_fit(area, &host.swaps(), Bytes::new(0), &facts)?;
    let path = area.path.as_str();
    let change = HostChange::Drain { area: path, reserve: least_left(facts.total) };
    match host.make_change(&change) {
        Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Interrupted) => {
            let left = host.swaps().into_iter().find(|it| it.path == path);
            let left =
                left.map_or_else(String::new, |left| format!("; {} are still in it", left.used));
            let why = format!("reading its pages back was stopped: {error}{left}");
            Err(Error::WontFit { area: path.to_owned(), why })
        }
        done => done.doing(|| format!("swapoff {path}")),
    }
}

/// The enabled swap area that is set up as planned. Its name may differ from that in the plan,
/// because a device may get another number at each boot.
pub(crate) fn area_as_planned(
    host: &dyn HostOps,
    path: &str,
    planned: &ZramSwap,
) -> Option<(Area, ZramSetup)> {
    let mut areas = host.swaps();
    areas.sort_by_key(|area| area.path != path);
    areas.into_iter().find_map(|area| {
        let setup = zram_setup(host, &area.path).ok()??;
        zram::is_as_planned(&setup, area.priority, planned).then_some((area, setup))
    })
}

/// The settings of the zram device of a swap area, as far as the kernel reports them; `None` if
/// the area is not on zram.
pub(crate) fn zram_setup(host: &dyn HostOps, path: &str) -> Result<Option<ZramSetup>, Error> {
    let Some(number) = zram::number_of(path) else { return Ok(None) };
    zram::read_setup(host, number).map(Some)
}

mod brake;
pub(crate) use brake::{Brake, DrainSample};

#[cfg(test)]
mod tests;
