// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the settings of cgroups.
//!
//! Limits were already read with the groups and are taken from there; with cgroup version 1 from
//! the file of the same meaning. Every other file costs a read, so these files are read for a few
//! groups only, and not at all with version 1, which has none of them. Groups with a limit come
//! first in both cases, then the order of the tree. Groups beyond the maximum are left out here;
//! their limits are shown with the groups.

use pagewise_model::knob::{Knob, KnobReading};
use pagewise_model::{Bytes, Cgroup, Cgroups, Hierarchy, Limit, Name, Reading, Source};

use super::{absent_reading, make_reading};
use crate::limits::CGROUPS_WITH_LIMITS;
use pagewise_hostfs::{HostRoot, absolute_path};

pub(super) const PLACEHOLDER: &str = "{cgroup}";

/// The number of groups for which additional files of settings are read.
const MAX_READ: usize = 10;

pub(super) fn read(host: &HostRoot, cgroups: &Cgroups, rows: &[&'static Knob]) -> Vec<KnobReading> {
    let groups = sort_limited_first(&cgroups.groups);
    let is_version_1 = matches!(cgroups.hierarchy, Hierarchy::V1 | Hierarchy::Hybrid);
    let reading_of = |knob: &'static Knob| {
        let mut readings: Vec<_> = groups
            .iter()
            .enumerate()
            .filter_map(|(rank, group)| {
                let look = || read_live(host, knob, group, is_version_1);
                let live =
                    read_from_group(knob, group).or_else(|| (rank < MAX_READ).then(look)?)?;
                Some(make_reading(knob, Some(group.path.clone()), live))
            })
            .collect();
        if readings.is_empty() {
            readings.push(absent_reading(knob));
        }
        readings
    };
    rows.iter().flat_map(|knob| reading_of(knob)).collect()
}

fn sort_limited_first(groups: &[Cgroup]) -> Vec<&Cgroup> {
    let mut groups: Vec<&Cgroup> = groups.iter().collect();
    groups.sort_by_key(|group| !has_limit(group));
    groups.truncate(CGROUPS_WITH_LIMITS);
    groups
}

fn has_limit(group: &Cgroup) -> bool {
    let caps = [&group.high, &group.max, &group.swap_max, &group.zswap_max];
    let floors = [&group.min, &group.low];
    let bytes = |limit: &Reading<Limit>| limit.get().and_then(Limit::bytes);
    caps.iter().any(|cap| bytes(cap).is_some())
        || floors.iter().any(|floor| floor.get().is_some_and(|f| f != Limit::Bytes(Bytes::new(0))))
}

fn read_live(
    host: &HostRoot,
    knob: &'static Knob,
    group: &Cgroup,
    is_version_1: bool,
) -> Option<Reading<Name>> {
    let path = path_of(knob, group)?;
    Some(if is_version_1 {
        Reading::absent("cgroup v1 has no such setting", Source::file(absolute_path(&path)))
    } else {
        super::read_live(host, knob, &path)
    })
}

/// The value of a setting that was already read with the group.
fn read_from_group(knob: &Knob, group: &Cgroup) -> Option<Reading<Name>> {
    let limit = match knob.name {
        "cgroup.memory.min" => &group.min,
        "cgroup.memory.low" => &group.low,
        "cgroup.memory.high" => &group.high,
        "cgroup.memory.max" => &group.max,
        "cgroup.memory.swap.max" => &group.swap_max,
        "cgroup.memory.zswap.max" => &group.zswap_max,
        "cgroup.memory.peak" => return Some(group.peak.clone().map(format_bytes)),
        _ => return None,
    };
    Some(limit.clone().map(|limit| limit.bytes().map_or_else(|| Name::from("max"), format_bytes)))
}

fn format_bytes(bytes: Bytes) -> Name {
    Name::from(bytes.get().to_string().as_str())
}

/// The path of the setting's file in the folder from which the group was read, wherever the
/// hierarchy is mounted.
fn path_of(knob: &Knob, group: &Cgroup) -> Option<String> {
    let (_, file) = knob.path.rsplit_once('/')?;
    let sources = [&group.current.source, &group.max.source];
    let folder = sources.iter().find_map(|source| source.path().rsplit_once('/'))?.0;
    Some(format!("{}/{file}", folder.strip_prefix('/')?))
}

#[cfg(test)]
mod tests {
    use pagewise_model::Source;
    use pagewise_model::knob::KNOBS;

    use super::*;
    use crate::testing;
    use pagewise_hostfs::ReadHost;

    fn group(path: &str, max: Limit) -> Cgroup {
        let place = |file: &str| Source::file(format!("/sys/fs/cgroup{path}/{file}"));
        Cgroup {
            path: Name::from(path),
            current: Reading::found(Bytes::new(5), place("memory.current")),
            max: Reading::found(max, place("memory.max")),
            low: Reading::found(Limit::Bytes(Bytes::new(0)), place("memory.low")),
            ..Cgroup::default()
        }
    }

    fn per_cgroup_knobs() -> Vec<&'static Knob> {
        KNOBS.iter().filter(|knob| knob.path.contains(PLACEHOLDER)).collect()
    }

    fn readings_named<'a>(readings: &'a [KnobReading], name: &str) -> Vec<&'a KnobReading> {
        readings.iter().filter(|reading| reading.knob.name == name).collect()
    }

    #[test]
    fn a_limit_is_told_and_not_read_again() {
        let host = testing::host([("sys/fs/cgroup/a/memory.oom.group", "1\n")]);
        let groups = vec![group("/a", Limit::Bytes(Bytes::new(1 << 30))), group("/b", Limit::Max)];
        let cgroups = Cgroups { groups, ..Cgroups::default() };
        let readings = read(&host, &cgroups, &per_cgroup_knobs());
        let max = readings_named(&readings, "cgroup.memory.max");
        let lines: Vec<_> = max.iter().map(|r| r.live.value().unwrap().as_str()).collect();
        assert_eq!(lines, ["1073741824", "max"]);
        assert_eq!(max[0].live.source.to_string(), "/sys/fs/cgroup/a/memory.max");
        let oom = readings_named(&readings, "cgroup.memory.oom.group");
        assert_eq!(oom[0].live.value().map(Name::as_str), Some("1"));
        assert_eq!(oom[1].live.source.to_string(), "/sys/fs/cgroup/b/memory.oom.group");
        assert_eq!(host.take_bytes_read(), 2);
    }

    #[test]
    fn groups_with_a_limit_come_first_and_many_are_left_out() {
        let mut groups: Vec<Cgroup> =
            (0..100).map(|n| group(&format!("/{n}"), Limit::Max)).collect();
        groups.push(group("/limited", Limit::Bytes(Bytes::new(1))));
        let cgroups = Cgroups { groups, ..Cgroups::default() };
        let readings = read(&testing::host::<&str>([]), &cgroups, &per_cgroup_knobs());
        let max = readings_named(&readings, "cgroup.memory.max");
        assert_eq!(max[0].instance.as_ref().map(Name::as_str), Some("/limited"));
        assert_eq!(max.len(), CGROUPS_WITH_LIMITS);
        assert_eq!(readings_named(&readings, "cgroup.memory.oom.group").len(), MAX_READ);
        assert_eq!(readings_named(&readings, "cgroup.memory.reclaim").len(), MAX_READ);
    }

    /// Checks that each name matched in `held` is a row of the settings table.
    #[test]
    fn seven_rows_need_no_read() {
        let group = group("/a", Limit::Max);
        let held =
            per_cgroup_knobs().into_iter().filter(|knob| read_from_group(knob, &group).is_some());
        assert_eq!(held.count(), 7);
    }
}
