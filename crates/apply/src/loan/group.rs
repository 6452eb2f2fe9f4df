// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates and removes a memory cgroup of our own, in version 1 and 2.
//!
//! When the loan of the cgroup is returned, the processes in it are killed, because only our own
//! workload was put there. Therefore the cgroup must have the identity that the journal recorded,
//! and a folder on a disk is not accepted. Our own process is moved back to the cgroup that it came
//! from. In version 2 a group has the memory controller only if its parent enables it for its
//! children; if that has to be done, it is a loan of its own.

use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::lend::GroupSpec;

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};
use crate::journal::{Identity, MemoryController, NewGroup};
use crate::loan::run::{OURS, Run, check_stored, is_ours};
use pagewise_model::undo::Outcome;

/// Where memory cgroups are mounted, and whether they are of cgroup version 2.
pub(crate) fn find_mount(host: &dyn HostOps) -> Result<(String, bool), Error> {
    host.groups().ok_or(Error::Absent {
        what: "a memory cgroup".to_owned(),
        why: "no memory controller is mounted",
    })
}

/// The record of a new cgroup for the journal, written before the group is created.
pub(crate) fn new_group(host: &dyn HostOps, mount: &str, unified: bool, id: u64) -> NewGroup {
    let stem = format!("{mount}/{OURS}{}", host.pid());
    let names = (id..).map(|n| format!("{stem}-{n}"));
    let folder = names.into_iter().find(|folder| !host.exists(folder)).unwrap_or(stem);
    NewGroup { folder, home: own_group(host, mount, unified) }
}

/// Path of the cgroup that our own process is in.
fn own_group(host: &dyn HostOps, mount: &str, unified: bool) -> Option<String> {
    let text = host.read("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| {
        let mut columns = line.splitn(3, ':').skip(1);
        let (controllers, path) = (columns.next()?, columns.next()?);
        let is_it = if unified {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == MEMORY)
        };
        is_it.then_some(path)
    })?;
    Some(format!("{mount}{}", path.trim_end_matches('/')))
}

const MEMORY: &str = "memory";

/// The record of enabling the memory controller for the children of `mount`; `None` if they have
/// it already.
pub(crate) fn new_controller(
    host: &dyn HostOps,
    mount: &str,
) -> Result<Option<MemoryController>, Error> {
    let handed_down = is_controller_enabled(host, mount)?;
    Ok((!handed_down).then(|| MemoryController { folder: mount.to_owned() }))
}

fn is_controller_enabled(host: &dyn HostOps, folder: &str) -> Result<bool, Error> {
    let path = subtree_control(folder);
    let text = host.read(&path).doing(|| path.clone())?;
    Ok(text.split_whitespace().any(|controller| controller == MEMORY))
}

fn subtree_control(folder: &str) -> String {
    format!("{folder}/cgroup.subtree_control")
}

pub(crate) fn enable_controller(host: &mut dyn HostOps, folder: &str) -> Result<(), Error> {
    write(host, &subtree_control(folder), "+memory")
}

fn write(host: &mut dyn HostOps, path: &str, value: &str) -> Result<(), Error> {
    host.make_change(&HostChange::Write { path, value }).doing(|| format!("{path} = {value}"))
}

pub(crate) fn undo_controller(host: &mut dyn HostOps, folder: &str) -> Result<Outcome, Error> {
    if find_mount(host)?.0 != folder {
        let why = "memory cgroups are not mounted there".to_owned();
        return Err(Error::Uncertain { what: folder.to_owned(), why });
    }
    if !is_controller_enabled(host, folder)? {
        return Ok(Outcome::Gone);
    }
    if let Some(user) = find_controller_user(host, folder) {
        return Ok(Outcome::Kept { why: format!("{user} has a limit now") });
    }
    write(host, &subtree_control(folder), "-memory")?;
    Ok(Outcome::Returned)
}

/// A cgroup of somebody else that needs the memory controller, because it has a limit or enables
/// the controller for its own children.
fn find_controller_user(host: &dyn HostOps, folder: &str) -> Option<String> {
    let below = host.names(folder).ok()?.into_iter().map(|name| format!("{folder}/{name}"));
    let is_set = |group: &String, file: &str, usual: &str| {
        host.read(&format!("{group}/{file}")).is_ok_and(|value| value != usual)
    };
    below.into_iter().find(|group| {
        [("memory.max", "max"), ("memory.high", "max"), ("memory.low", "0"), ("memory.min", "0")]
            .iter()
            .any(|(file, usual)| is_set(group, file, usual))
            || is_controller_enabled(host, group).unwrap_or(false)
    })
}

/// Creates the cgroup with this folder.
pub(crate) fn make(host: &mut dyn HostOps, folder: &str) -> Result<Identity, Error> {
    host.make_change(&HostChange::MakeGroup(folder)).doing(|| folder.to_owned())?;
    Ok(host.entry(folder).doing(|| folder.to_owned())?.identity)
}

/// Writes the limits of a cgroup and reads them back.
pub(crate) fn set_limits(
    host: &mut dyn HostOps,
    folder: &str,
    unified: bool,
    spec: &GroupSpec,
) -> Result<(), Error> {
    for (file, value) in settings(unified, spec)? {
        let path = format!("{folder}/{file}");
        if !host.exists(&path) {
            return Err(Error::Absent { what: path, why: "this kernel has no such limit" });
        }
        write(host, &path, &value.to_string())?;
        let found = host.read(&path).doing(|| path.clone())?;
        check_stored(&path, value, &found)?;
    }
    Ok(())
}

/// Files and values of the limits, in an order that the kernel accepts: in version 1 the limit on
/// memory plus swap must never be below the limit on memory.
fn settings(unified: bool, spec: &GroupSpec) -> Result<Vec<(&'static str, u64)>, Error> {
    let refused = |what: &str, why| Err(Error::Absent { what: what.to_owned(), why });
    let bytes = |limit: Option<Bytes>| limit.map(Bytes::get);
    let (max, high, swap) = (bytes(spec.max), bytes(spec.high), bytes(spec.swap_max));
    let swappiness = spec.swappiness.map(u64::from);
    let (zswap, writeback) = (bytes(spec.zswap_max), spec.zswap_writeback.map(u64::from));
    if !unified && (zswap.is_some() || writeback.is_some()) {
        return refused("memory.zswap", "cgroup v1 has none");
    }
    let of_zswap = [("memory.zswap.max", zswap), ("memory.zswap.writeback", writeback)];
    let named: [(&'static str, Option<u64>); 3] = match (unified, high, swappiness, max) {
        (true, _, Some(_), _) => return refused("memory.swappiness", "cgroup v2 has none"),
        (false, Some(_), ..) => return refused("memory.high", "cgroup v1 has none"),
        (true, ..) => [("memory.max", max), ("memory.high", high), ("memory.swap.max", swap)],
        (false, _, _, None) if swap.is_some() => {
            return refused("a limit on swap", "cgroup v1 has it only beside one on memory");
        }
        (false, ..) => [
            ("memory.limit_in_bytes", max),
            ("memory.memsw.limit_in_bytes", swap.and_then(|swap| max?.checked_add(swap))),
            ("memory.swappiness", swappiness),
        ],
    };
    let all = named.into_iter().chain(of_zswap);
    Ok(all.filter_map(|(file, value)| Some((file, value?))).collect())
}

/// How often to check whether killed processes have exited: for five seconds.
const ROUNDS: u32 = 250;
const BETWEEN: Duration = Duration::from_millis(20);
/// Maximum number of child cgroups that are examined in one round.
const MAX_GROUPS: usize = 1000;

/// Removes the cgroup that a change created. Processes in it are killed.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    group: &NewGroup,
    made: Option<Identity>,
    run: Run,
) -> Result<Outcome, Error> {
    let NewGroup { folder, home } = group;
    if !host.exists(folder) {
        return Ok(Outcome::Gone);
    }
    let uncertain = |why: &str| Err(Error::Uncertain { what: folder.clone(), why: why.to_owned() });
    if !host.is_cgroup(folder) {
        return uncertain("it is no cgroup");
    }
    let (mount, _) = find_mount(host)?;
    let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
    if !is_ours(folder, "") || above != mount {
        return uncertain("no run makes a cgroup of that name");
    }
    let found = host.entry(folder).doing(|| folder.to_owned())?.identity;
    match made {
        Some(made) if made != found => return uncertain("it is not the cgroup that the run made"),
        Some(_) => {}
        None if run.is_early => {}
        // processes join a group only after the journal has recorded its identity
        None if is_empty(host, folder) => {}
        None => return uncertain("processes are in it, and the run had not begun to use it"),
    }
    let home = home.as_deref().filter(|home| host.is_cgroup(home));
    let mut refused = None;
    for _ in 0..ROUNDS {
        let groups = list_tree(host, folder);
        clear_processes(host, &groups, home)?;
        match remove(host, &groups) {
            Ok(()) => return Ok(Outcome::Returned),
            Err(error) => refused = Some(error),
        }
        host.pause(BETWEEN);
    }
    match refused {
        Some(source) => Err(Error::Kernel { doing: folder.to_owned(), source }),
        None => Ok(Outcome::Returned),
    }
}

fn is_empty(host: &dyn HostOps, folder: &str) -> bool {
    list_tree(host, folder).len() == 1
        && host.read(&format!("{folder}/cgroup.procs")).is_ok_and(|text| text.is_empty())
}

/// A cgroup and all its descendants, children before parents.
fn list_tree(host: &dyn HostOps, folder: &str) -> Vec<String> {
    let mut groups = vec![folder.to_owned()];
    let mut at = 0;
    while at < groups.len() && groups.len() < MAX_GROUPS {
        let names = host.names(&groups[at]).unwrap_or_default();
        let below = names.into_iter().map(|name| format!("{}/{name}", groups[at]));
        let found: Vec<String> =
            below.filter(|group| host.exists(&format!("{group}/cgroup.procs"))).collect();
        groups.extend(found);
        at += 1;
    }
    groups.reverse();
    groups
}

/// Kills the processes in these cgroups; our own process is moved out instead.
fn clear_processes(
    host: &mut dyn HostOps,
    groups: &[String],
    home: Option<&str>,
) -> Result<(), Error> {
    let ourselves = host.pid();
    // if our old cgroup no longer exists, the parent of our group is used
    let above = groups.last().and_then(|group| Some(group.rsplit_once('/')?.0));
    let home = home.filter(|home| host.exists(home)).or(above);
    for group in groups {
        let text = host.read(&format!("{group}/cgroup.procs")).unwrap_or_default();
        for pid in text.lines().filter_map(|line| line.parse::<u32>().ok()) {
            match home {
                Some(home) if pid == ourselves => {
                    write(host, &format!("{home}/cgroup.procs"), &pid.to_string())?;
                }
                _ => host
                    .make_change(&HostChange::Kill { pid, group })
                    .doing(|| format!("kill {pid}"))?,
            }
        }
    }
    Ok(())
}

fn remove(host: &mut dyn HostOps, groups: &[String]) -> std::io::Result<()> {
    groups.iter().try_for_each(|group| host.make_change(&HostChange::RemoveGroup(group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_zswap_are_of_version_2() {
        let spec = GroupSpec {
            max: Some(Bytes::new(1 << 20)),
            zswap_max: Some(Bytes::new(0)),
            zswap_writeback: Some(false),
            ..GroupSpec::default()
        };
        let expected =
            [("memory.max", 1 << 20), ("memory.zswap.max", 0), ("memory.zswap.writeback", 0)];
        assert_eq!(settings(true, &spec).unwrap(), expected);
        let refused = settings(false, &spec).unwrap_err().to_string();
        assert_eq!(refused, "memory.zswap: cgroup v1 has none");
    }
}
