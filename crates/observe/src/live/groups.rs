// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes [`LiveGroup`]s with rates from repeated readings of memory cgroups.

use std::collections::BTreeMap;

use pagewise_hostfs::HostRoot;
use pagewise_model::{Bytes, Cgroup, LiveGroup, Name, Reading};

use crate::cgroup;
use crate::mounts::Mounts;
use crate::sizes::Sizes;

/// The cgroups at the last reading.
#[derive(Debug, Default)]
pub(super) struct LiveGroups(BTreeMap<Name, Known>);

#[derive(Debug, Default)]
struct Known {
    sizes: Sizes,
    refaults: Option<(f64, u64)>,
}

impl LiveGroups {
    /// Reads all cgroups except the root.
    pub(super) fn read(
        &mut self,
        host: &HostRoot,
        mounts: &Mounts,
        seconds: f64,
    ) -> Vec<LiveGroup> {
        let mut before = std::mem::take(&mut self.0);
        let groups = cgroup::read_live(host, mounts).groups.into_iter();
        let groups = groups.filter(|group| group.path.as_str() != "/");
        groups
            .filter_map(|group| {
                let mut known = before.remove(&group.path).unwrap_or_default();
                let live = known.take(&group, seconds);
                self.0.insert(group.path, known);
                live
            })
            .collect()
    }
}

impl Known {
    /// Takes a reading of a group and computes its rates since the last; `None` if the usage of the
    /// group cannot be read.
    fn take(&mut self, group: &Cgroup, seconds: f64) -> Option<LiveGroup> {
        let swap = group.swap_current.get();
        let held = group.anon.get().map(|anon| anon.saturating_add(swap.unwrap_or_default()));
        let refaults = [&group.refault_anon, &group.refault_file].into_iter();
        let refaults = refaults.filter_map(Reading::get).reduce(u64::saturating_add);
        let before = std::mem::replace(&mut self.refaults, refaults.map(|all| (seconds, all)));
        Some(LiveGroup {
            path: group.path.clone(),
            current: group.current.get()?,
            anon: group.anon.get(),
            swap,
            limit: group.max.get(),
            growth_per_second: held.map(Bytes::get).and_then(|held| self.sizes.add(seconds, held)),
            refaults_per_second: before.zip(refaults).and_then(|((then, before), now)| {
                let read_back = now.checked_sub(before)? as f64;
                (seconds > then).then(|| read_back / (seconds - then))
            }),
        })
    }
}
