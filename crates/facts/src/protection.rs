// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes to which size `memory.low` or `memory.min` of systemd units must be raised, so that the
//! kernel protects the memory of a cgroup.
//!
//! The protection of a cgroup is limited to that of each ancestor except the root, and siblings
//! share the protection of their parent (`memory.low` in `Documentation/admin-guide/cgroup-v2.rst`;
//! `effective_protection` in `mm/page_counter.c`). A protected service in a slice without
//! protection is therefore not protected at all.

use pagewise_model::{Bytes, Cgroup, Limit, Reading, Snapshot};

/// One of the two kinds of memory protection of a cgroup, `memory.low` and `memory.min`.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name of the cgroup file that contains the protection.
    pub file: &'static str,
    /// Name of the systemd property that sets the protection.
    property: &'static str,
    /// Returns the Reading of this protection from a cgroup.
    pub reading: fn(&Cgroup) -> &Reading<Limit>,
}

/// `memory.low`: memory of the group that is not reclaimed as long as other memory can be
/// reclaimed.
pub const LOW: Kind =
    Kind { file: "memory.low", property: "MemoryLow", reading: |group| &group.low };
/// `memory.min`: memory of the group that is never reclaimed.
pub const MIN: Kind =
    Kind { file: "memory.min", property: "MemoryMin", reading: |group| &group.min };

impl Kind {
    /// How much of its parent's protection a cgroup uses; at most the cgroup's own size.
    pub fn claim(self, group: &Cgroup) -> Option<Bytes> {
        match (self.reading)(group).get()? {
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Max => group.current.get(),
        }
    }
}

/// A systemd unit, and the protection that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Name of the unit, such as `system.slice`.
    pub unit: String,
    /// The systemd property that sets the protection, `MemoryLow` or `MemoryMin`.
    pub property: &'static str,
    /// The size to which the protection has to be raised.
    pub size: Bytes,
    /// The current value of the protection.
    pub now: Limit,
}

/// Returns the units whose protection must be raised so that this cgroup keeps `size` of its
/// memory, outermost first. `None` if one of the cgroups is not a unit of the system's systemd, or
/// if its protection could not be read, as with cgroup version 1.
pub fn protections(
    host: &Snapshot,
    group: &Cgroup,
    kind: Kind,
    size: Bytes,
) -> Option<Vec<Protection>> {
    let groups = &host.cgroups.groups;
    let mut all = Vec::new();
    let (mut child, mut needed) = (group, size);
    loop {
        let now = (kind.reading)(child).get()?;
        if now < Limit::Bytes(needed) {
            let unit = unit_of(child.path.as_str())?.to_owned();
            all.push(Protection { unit, property: kind.property, size: needed, now });
        }
        // if the child's protection is higher than needed, it uses that much of its parent's
        // protection
        needed = needed.max(kind.claim(child)?);
        let above = parent(child.path.as_str());
        if above.is_empty() {
            all.reverse();
            return Some(all);
        }
        let siblings = groups.iter().filter(|it| {
            parent(it.path.as_str()) == above && it.path != child.path && it.path.as_str() != "/"
        });
        let claims = siblings
            .filter_map(|it| kind.claim(it))
            .fold(0u64, |sum, it| sum.saturating_add(it.get()));
        needed = needed.saturating_add(Bytes::new(claims));
        child = groups.iter().find(|it| it.path.as_str() == above)?;
    }
}

/// Memory of a cgroup that the kernel does not reclaim because the cgroup is protected.
#[derive(Debug)]
pub struct Protected<'a> {
    /// The protected cgroup.
    pub group: &'a Cgroup,
    /// The kind of the group's protection.
    pub kind: Kind,
    /// How much of the group's memory is protected.
    pub held: Bytes,
}

/// Protected memory below this share of RAM, in percent, leaves enough for everything else.
const MUCH_PERCENT: f64 = 30.0;

/// The cgroup with the most protected memory, if that is at least 30 % of RAM. If nearly all of it
/// belongs to a single descendant, that descendant is returned.
pub fn largest(host: &Snapshot) -> Option<Protected<'_>> {
    let total = host.memory.total.get()?;
    let is_much = |held: Bytes| held.percent_of(total).is_some_and(|it| it.get() >= MUCH_PERCENT);
    let groups = host.cgroups.groups.iter().filter(|group| group.path.as_str() != "/");
    let kinds = groups.flat_map(|group| [MIN, LOW].map(|kind| (group, kind)));
    // the usage is an upper bound of what is protected, which saves the search in the ancestors
    let candidates = kinds.filter(|(group, kind)| used_claim(*kind, group).is_some_and(is_much));
    let protected = candidates.filter_map(|(group, kind)| {
        let held = protected_memory(host, group, kind).filter(|&held| is_much(held))?;
        Some(Protected { group, kind, held })
    });
    // parents come before children, so that a child with nearly as much memory replaces its parent
    protected.reduce(|most, it| {
        let is_nearly = it.held.get() >= most.held.get() / 10 * 9;
        let is_child = crate::groups::is_below(it.group, most.group);
        if it.held > most.held || (is_nearly && is_child) { it } else { most }
    })
}

/// The memory in use of this group for which it uses its parent's protection.
fn used_claim(kind: Kind, group: &Cgroup) -> Option<Bytes> {
    Some(kind.claim(group)?.min(group.current.get()?))
}

/// How much memory of a group is protected: at most the parent's protection, which siblings share
/// in proportion to what each of them uses of it.
fn protected_memory(host: &Snapshot, group: &Cgroup, kind: Kind) -> Option<Bytes> {
    let own = used_claim(kind, group)?;
    let above = parent(group.path.as_str());
    if above.is_empty() {
        return Some(own);
    }
    let groups = &host.cgroups.groups;
    let of_parent =
        protected_memory(host, groups.iter().find(|it| it.path.as_str() == above)?, kind)?;
    let children = groups.iter().filter(|it| parent(it.path.as_str()) == above);
    let claimed = children.filter_map(|it| used_claim(kind, it)).map(|it| u128::from(it.get()));
    let claimed = claimed.sum::<u128>().max(1);
    let share = u128::from(own.get()) * u128::from(of_parent.get()) / claimed;
    Some(own.min(Bytes::new(u64::try_from(share).unwrap_or(u64::MAX))))
}

/// The path of the parent cgroup; empty for a child of the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// Name of the systemd unit of a cgroup; `None` if the cgroup is not a service or slice of the
/// system's systemd.
fn unit_of(path: &str) -> Option<&str> {
    let (above, unit) = path.rsplit_once('/')?;
    let is_system = above.split('/').skip(1).all(|part| part.ends_with(".slice"));
    let is_unit = unit.ends_with(".service") || unit.ends_with(".slice");
    (is_system && is_unit).then_some(unit)
}

#[cfg(test)]
#[path = "../tests/unit/protection.rs"]
mod tests;
