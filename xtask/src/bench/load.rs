// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds processes and memory cgroups to the machine as a load for reports, and removes them
//! afterwards.
//!
//! Every process is a `cat` that reads from a socket whose other end only this process holds. If
//! this process ends, even by SIGKILL, the processes end, too, and [`WayBack`] removes the cgroups.
//! Works with cgroup v2 and v1.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use super::way_back::WayBack;
use crate::run;

/// Processes and cgroups that were added; they exist until this is dropped.
pub(crate) struct Load {
    groups: Groups,
    processes: Vec<Child>,
    leash: Option<UnixStream>,
}

impl Load {
    /// Adds `processes`, spread evenly over new memory cgroups, so that the machine then has
    /// `groups` cgroups.
    pub(crate) fn start(processes: u16, groups: u16) -> Result<Self> {
        let hierarchy = Hierarchy::find()?;
        let present = count_folders(&hierarchy.mount)? + 1; // 1: the parent of the added ones
        let groups = usize::from(groups).checked_sub(present).filter(|more| *more > 0);
        let groups =
            groups.with_context(|| format!("{present} memory cgroups are here already"))?;
        let (leash, end) = UnixStream::pair()?;
        let groups = Groups::make(&hierarchy, groups)?;
        let mut load = Self { groups, processes: Vec::new(), leash: Some(leash) };
        let end = OwnedFd::from(end);
        for group in (0..load.groups.count).cycle().take(usize::from(processes)) {
            let stdin = Stdio::from(end.try_clone()?);
            let child = run::program("cat").stdin(stdin).stdout(Stdio::null()).spawn()?;
            let id = child.id();
            load.processes.push(child);
            write(&load.groups.member(group).join("cgroup.procs"), &id.to_string())?;
        }
        Ok(load)
    }

    /// Removes the added processes and cgroups, and returns an error if that failed.
    pub(crate) fn end(self) -> Result<()> {
        let parent = self.groups.parent.clone();
        drop(self);
        ensure!(!parent.exists(), "{}: still in use", parent.display());
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.leash = None;
        for child in &mut self.processes {
            let _ = child.wait();
        }
    }
}

/// The number of folders in a tree: `folder` and all below it.
fn count_folders(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder)?.flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| count_folders(&entry.path())).sum::<Result<usize>>().map(|below| below + 1)
}

/// A cgroup hierarchy with the memory controller.
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

    /// All hierarchies that may have the memory controller: v1's own, and v2's.
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
}

/// A parent cgroup that was added, and its children.
struct Groups {
    parent: PathBuf,
    count: usize,
    _way_back: WayBack,
}

impl Groups {
    fn make(hierarchy: &Hierarchy, count: usize) -> Result<Self> {
        let way_back = WayBack::new()?;
        let parent = hierarchy.mount.join(format!("pagewise-bench-{}", std::process::id()));
        let switch = hierarchy.mount.join("cgroup.subtree_control");
        if hierarchy.unified && !lists_memory(&switch) {
            way_back.run_at_end(&format!("echo -memory > {}", switch.display()))?;
            write(&switch, "+memory")?;
        }
        // A process that has ended may still count as a member of its cgroup for a moment.
        let shown = parent.display();
        let remove = format!("find {shown} -depth -type d -exec rmdir {{}} + 2>/dev/null");
        way_back.run_at_end(&format!(
            "for i in $(seq 100); do [ -e {shown} ] || break; {remove} || sleep 0.1; done"
        ))?;
        let groups = Self { parent, count, _way_back: way_back };
        make_folder(&groups.parent)?;
        if hierarchy.unified {
            write(&groups.parent.join("cgroup.subtree_control"), "+memory")?;
        }
        (0..count).try_for_each(|at| make_folder(&groups.member(at)))?;
        Ok(groups)
    }

    fn member(&self, at: usize) -> PathBuf {
        self.parent.join(format!("group-{at}"))
    }
}

fn lists_memory(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|controller| controller == "memory")
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("{} (root?)", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}: writing {text}", path.display()))
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
