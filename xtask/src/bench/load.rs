// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds processes and memory cgroups to the machine, and gives them back.
//!
//! Every process is a `cat` that waits for the other end of a socket that only we hold: however we
//! end, also by SIGKILL, they end too. The cgroups carry our process id in their name; those of a
//! run that was killed are removed by the next one. cgroup v2 and v1 are served alike.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::run;

const PREFIX: &str = "pagewise-bench-";

/// Processes and cgroups that exist until this is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    groups: Groups,
    processes: Vec<Child>,
    leash: Option<UnixStream>,
}

impl Load {
    /// Adds `processes`, spread evenly over so many memory cgroups that the machine has `groups`.
    pub(crate) fn start(processes: u16, groups: u16) -> Result<Self> {
        let hierarchy = Hierarchy::find()?;
        hierarchy.remove_leftovers();
        let present = folders(&hierarchy.mount)? + 1; // 1: ours, around those that are added
        let groups = usize::from(groups).checked_sub(present).filter(|more| *more > 0);
        let groups =
            groups.with_context(|| format!("{present} memory cgroups are here already"))?;
        let groups = Groups::make(&hierarchy, groups)?;
        let (leash, end) = UnixStream::pair()?;
        let mut load = Self { groups, processes: Vec::new(), leash: Some(leash) };
        let end = OwnedFd::from(end);
        for at in 0..processes {
            let stdin = Stdio::from(end.try_clone()?);
            let child = run::program("cat").stdin(stdin).stdout(Stdio::null()).spawn()?;
            let id = child.id();
            load.processes.push(child);
            load.groups.put(usize::from(at), id)?;
        }
        Ok(load)
    }

    /// Gives everything back, and says where that did not work.
    pub(crate) fn end(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        self.leash = None;
        for mut child in self.processes.drain(..) {
            child.wait()?;
        }
        self.groups.remove()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            eprintln!("bench: {error:#}");
        }
    }
}

/// A folder and those below it.
fn folders(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder)?.flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| folders(&entry.path())).sum::<Result<usize>>().map(|below| below + 1)
}

/// Where memory cgroups live.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    unified: bool,
}

impl Hierarchy {
    fn find() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
        let found = Self::all(&mounts).into_iter().find(Self::has_memory);
        found.context("no cgroup hierarchy with the memory controller is mounted")
    }

    /// Hierarchies that may have the memory controller: v1's own, and v2's.
    fn all(mounts: &str) -> Vec<Self> {
        let hierarchy = |line: &str| {
            let mut words = line.split(' ');
            let (mount, kind) = (words.nth(1)?, words.next()?);
            let memory = words.next()?.split(',').any(|option| option == "memory");
            let unified = kind == "cgroup2";
            (unified || kind == "cgroup" && memory).then(|| Self { mount: mount.into(), unified })
        };
        mounts.lines().filter_map(hierarchy).collect()
    }

    fn has_memory(&self) -> bool {
        !self.unified || lists_memory(&self.mount.join("cgroup.controllers"))
    }

    /// Removes groups whose maker lives no more.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.mount).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if maker.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
                let _ = remove_tree(&entry.path());
            }
        }
    }
}

/// A parent group and its children.
#[derive(Debug)]
struct Groups {
    parent: PathBuf,
    members: Vec<PathBuf>,
    /// The file in which the memory controller was switched on, to be switched off again.
    switched: Option<PathBuf>,
}

impl Groups {
    fn make(hierarchy: &Hierarchy, count: usize) -> Result<Self> {
        let parent = hierarchy.mount.join(format!("{PREFIX}{}", std::process::id()));
        let mut groups = Self { parent, members: Vec::new(), switched: None };
        let made = groups.fill(hierarchy, count);
        if made.is_err() {
            groups.remove()?;
        }
        made.map(|()| groups)
    }

    fn fill(&mut self, hierarchy: &Hierarchy, count: usize) -> Result<()> {
        let switch = hierarchy.mount.join("cgroup.subtree_control");
        if hierarchy.unified && !lists_memory(&switch) {
            write(&switch, "+memory")?;
            self.switched = Some(switch);
        }
        make(&self.parent)?;
        if hierarchy.unified {
            write(&self.parent.join("cgroup.subtree_control"), "+memory")?;
        }
        for at in 0..count {
            let member = self.parent.join(format!("group-{at}"));
            make(&member)?;
            self.members.push(member);
        }
        Ok(())
    }

    fn put(&self, at: usize, process: u32) -> Result<()> {
        let member = self.members.get(at % self.members.len().max(1)).context("no groups")?;
        write(&member.join("cgroup.procs"), &process.to_string())
    }

    fn remove(&mut self) -> Result<()> {
        self.members.clear();
        if self.parent.exists() {
            remove_tree(&self.parent)?;
        }
        match self.switched.take() {
            Some(switch) => write(&switch, "-memory"),
            None => Ok(()),
        }
    }
}

fn lists_memory(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|controller| controller == "memory")
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("{} (root?)", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}: writing {text}", path.display()))
}

/// Removes a group and those in it; their files go with them.
fn remove_tree(group: &Path) -> Result<()> {
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    remove_group(group)
}

/// A process that has ended may be counted in its group for a moment longer.
fn remove_group(group: &Path) -> Result<()> {
    for _ in 0..100 {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error).with_context(|| group.display().to_string()),
        }
    }
    bail!("{}: still in use", group.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_hierarchy_may_be_v1_or_v2() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let v1 = Hierarchy { mount: "/sys/fs/cgroup/memory".into(), unified: false };
        let v2 = Hierarchy { mount: "/sys/fs/cgroup/unified".into(), unified: true };
        assert_eq!(Hierarchy::all(hybrid), [v1, v2]);
    }
}
