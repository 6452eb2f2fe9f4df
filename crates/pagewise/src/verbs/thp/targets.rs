// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the processes that `--pid`, `--cgroup`, `--unit` or `--name` select.

use glob::Pattern;
use pagewise_facts::groups;
use pagewise_model::{Name, Process, Refusal, Snapshot};

use super::super::limits::find_by_unit;
use crate::cli::TargetArgs;

/// The selected processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThpTargets {
    pub(crate) processes: Vec<(u32, Name)>,
    /// The path of the selected cgroup, as in the snapshot.
    pub(crate) cgroup: Option<String>,
    /// The cgroups of all selected processes.
    pub(crate) cgroups: Vec<String>,
}

/// Finds the selected processes; `None` if nothing was selected.
pub(crate) fn resolve(
    whose: &TargetArgs,
    snapshot: &Snapshot,
) -> anyhow::Result<Option<ThpTargets>> {
    let all = &snapshot.processes.list;
    if let Some(path) = &whose.cgroup {
        return find_in_cgroup(path, snapshot).map(Some);
    }
    if let Some(unit) = &whose.unit {
        return find_in_unit(unit, snapshot).map(Some);
    }
    if let Some(glob) = &whose.name {
        let pattern = Pattern::new(glob)?;
        let found = all.iter().filter(|process| pattern.matches(process.name.as_str()));
        return require_targets(
            found,
            &format!("--name {glob}: expected a process of that name, found none"),
        )
        .map(Some);
    }
    let named = |pid: &u32| {
        let known = all.iter().find(|process| process.pid == *pid);
        let what = || format!("process {pid}: it has ended, or has no memory of its own");
        known.ok_or_else(|| Refusal::with_advice(what(), LIST))
    };
    let found: Result<Vec<&Process>, Refusal> = whose.pid.iter().map(named).collect();
    let found = found?;
    Ok((!found.is_empty()).then(|| collect_targets(found.into_iter())))
}

const LIST: &str = "ps -eo pid,comm lists processes; in a name * and ? stand for others";

fn require_targets<'a>(
    found: impl Iterator<Item = &'a Process>,
    none: &str,
) -> anyhow::Result<ThpTargets> {
    let own = std::process::id();
    let targets = collect_targets(found.filter(|process| process.pid != own));
    if targets.processes.is_empty() {
        anyhow::bail!(Refusal::with_advice(none.to_owned(), LIST));
    }
    Ok(targets)
}

fn collect_targets<'a>(found: impl Iterator<Item = &'a Process>) -> ThpTargets {
    let mut targets = ThpTargets::default();
    for process in found {
        targets.processes.push((process.pid, process.name.clone()));
        targets.cgroups.extend(process.cgroup.value().map(|path| path.as_str().to_owned()));
    }
    targets.cgroups.sort_unstable();
    targets.cgroups.dedup();
    targets
}

fn find_in_cgroup(path: &str, snapshot: &Snapshot) -> anyhow::Result<ThpTargets> {
    let none = format!("--cgroup {path}: expected a memory cgroup with processes, found none");
    let found = groups::find(snapshot, path);
    find_in_group(
        &found.map_or_else(|| Name::from(path), |group| group.path.clone()),
        &none,
        snapshot,
    )
}

fn find_in_unit(unit: &str, snapshot: &Snapshot) -> anyhow::Result<ThpTargets> {
    let group = find_by_unit(snapshot, unit)?;
    let none = format!("--unit {}: its cgroup has no processes", Name::from(unit));
    find_in_group(&group, &none, snapshot)
}

fn find_in_group(group: &Name, none: &str, snapshot: &Snapshot) -> anyhow::Result<ThpTargets> {
    let all = snapshot.processes.list.iter();
    let found = all.filter(|process| groups::contains_process(group, process));
    Ok(ThpTargets { cgroup: Some(group.as_str().to_owned()), ..require_targets(found, none)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::{Cgroup, Reading, Source};

    fn host() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for path in ["/", "/a", "/a/b"] {
            snapshot.cgroups.groups.push(Cgroup { path: Name::from(path), ..Cgroup::default() });
        }
        for (pid, path, name) in
            [(2, "/a", "redis-server"), (3, "/a/b", "redis-cli"), (4, "/ab", "x")]
        {
            let cgroup = Reading::found(Name::from(path), Source::none());
            let name = Name::from(name);
            snapshot.processes.list.push(Process { pid, name, cgroup, ..Process::default() });
        }
        snapshot
    }

    fn pids(whose: &TargetArgs) -> Vec<u32> {
        let targets = resolve(whose, &host()).unwrap().unwrap();
        targets.processes.iter().map(|(pid, _)| *pid).collect()
    }

    fn nobody() -> TargetArgs {
        TargetArgs { pid: Vec::new(), cgroup: None, unit: None, name: None }
    }

    #[test]
    fn groups_names_and_ids_are_processes() {
        let group = |path: &str| TargetArgs { cgroup: Some(path.to_owned()), ..nobody() };
        assert_eq!(pids(&group("/a")), [2, 3]);
        assert_eq!(pids(&group("/sys/fs/cgroup/memory/a/b")), [3]);
        assert_eq!(pids(&TargetArgs { name: Some("redis*".to_owned()), ..nobody() }), [2, 3]);
        assert_eq!(pids(&TargetArgs { pid: vec![4], ..nobody() }), [4]);
        assert!(resolve(&nobody(), &host()).unwrap().is_none());
    }

    #[test]
    fn who_is_not_there_is_named() {
        let error = resolve(&TargetArgs { pid: vec![9], ..nobody() }, &host()).unwrap_err();
        assert_eq!(error.to_string(), "process 9: it has ended, or has no memory of its own");
        assert!(
            resolve(&TargetArgs { name: Some("nobody".to_owned()), ..nobody() }, &host()).is_err()
        );
    }
}
