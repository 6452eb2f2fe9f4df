// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which units need how much `memory.low` or `memory.min`, so that the kernel protects the memory of one cgroup.
//!
//! The kernel limits the protection of a cgroup to that of each cgroup above it but the root, and the cgroups in one
//! share what that one has (`memory.low` in `Documentation/admin-guide/cgroup-v2.rst`; `effective_protection` in
//! `mm/page_counter.c`). So a service that is protected in a slice without protection is not protected at all.

use pagewise_model::{Bytes, Cgroup, Limit, Reading, Snapshot};

/// One of the two files.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name in the folder of a cgroup.
    pub file: &'static str,
    /// Its name in systemd.
    property: &'static str,
    /// Its Reading.
    pub reading: fn(&Cgroup) -> &Reading<Limit>,
}

/// Memory that reclaim leaves alone as long as other memory can be reclaimed.
pub const LOW: Kind =
    Kind { file: "memory.low", property: "MemoryLow", reading: |group| &group.low };
/// Memory that is never reclaimed.
pub const MIN: Kind =
    Kind { file: "memory.min", property: "MemoryMin", reading: |group| &group.min };

impl Kind {
    /// What a cgroup takes of the protection of the one above it: of its own size if that is all of it.
    pub fn claim(self, group: &Cgroup) -> Option<Bytes> {
        match (self.reading)(group).get()? {
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Max => group.current.get(),
        }
    }
}

/// A unit of systemd, and the protection that it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Its name, as `system.slice`.
    pub unit: String,
    /// `MemoryLow` or `MemoryMin`.
    pub property: &'static str,
    /// What it needs.
    pub size: Bytes,
    /// What it is now.
    pub now: Limit,
}

/// The units whose protection has to be raised so that this cgroup keeps `size` of its memory, the outermost
/// first. `None` if one of them is no unit of the system's systemd, or has no protection that could be read, as in version 1.
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
        // what it has more than it needs here, it takes of the one above too
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

/// The path of the cgroup above; empty for one below the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// The unit that a cgroup is, unless a user's systemd manages it.
fn unit_of(path: &str) -> Option<&str> {
    let (above, unit) = path.rsplit_once('/')?;
    let is_system = above.split('/').skip(1).all(|part| part.ends_with(".slice"));
    let is_unit = unit.ends_with(".service") || unit.ends_with(".slice");
    (is_system && is_unit).then_some(unit)
}

#[cfg(test)]
#[path = "../tests/unit/protection.rs"]
mod tests;
