// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cgroups: which lies below which, which unit one is, what fits into one.

use pagewise_model::{Bytes, Cgroup, Limit, Snapshot};

/// Whether the swap of any group would not fit back under its limit.
pub(crate) fn any_would_burst(host: &Snapshot) -> bool {
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

/// Whether one group lies somewhere below the other.
pub(crate) fn is_below(group: &Cgroup, above: &Cgroup) -> bool {
    let rest = group.path.as_str().strip_prefix(above.path.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The unit of the system's systemd that this group is; a user's units are not for it to set.
pub(crate) fn system_unit(group: &Cgroup) -> Option<&str> {
    let path = group.path.as_str().trim_start_matches('/');
    let unit = path.strip_prefix("system.slice/").unwrap_or(path);
    let is_unit = !unit.contains('/') && (unit.ends_with(".service") || unit.ends_with(".slice"));
    is_unit.then_some(unit)
}
