// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's log while a run lasts → which processes of the run's cgroup were killed for lack of memory.
//!
//! Every read of `/dev/kmsg` is one record: `6,1234,5678,-;message`, its dictionary on lines behind it.
//! Records that were overwritten before they were read are skipped by the kernel, which says so once.
//!
//! The log is that of the whole host. Before `Killed process PID (NAME)` the kernel prints a record with
//! the cgroup of that process, `task_memcg=PATH,task=NAME,pid=PID`: only processes of the run's cgroup are
//! kept. The kernel prints that record for at most ten kills in five seconds. A kill without it may be
//! anybody's and is left out; the cgroup's own counter has all.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use pagewise_model::Name;

use crate::treatment::Group;

/// More names are not kept.
const MOST: usize = 100;
/// More records are not read.
const RECORDS: usize = 100_000;

/// The log from here on; nothing where we may not read it, or where no cgroup tells whose a process is.
#[derive(Debug)]
pub(super) struct Log(Option<(File, Victims)>);

impl Log {
    pub(super) fn from_now(group: Option<&Group>) -> Self {
        let open = || {
            let mut options = OpenOptions::new();
            let flags = rustix::fs::OFlags::NONBLOCK.bits();
            let flags = i32::try_from(flags).map_err(std::io::Error::other)?;
            let mut file = options.read(true).custom_flags(flags).open("/dev/kmsg")?;
            file.seek(SeekFrom::End(0))?;
            Ok::<_, std::io::Error>(file)
        };
        let name = group.and_then(|group| group.folder.file_name());
        Self(name.and_then(|name| Some((open().ok()?, Victims::of(&name.to_string_lossy())))))
    }

    /// Names of those of the group that were killed since, the first first.
    pub(super) fn victims(self) -> Vec<String> {
        let Some((mut file, mut victims)) = self.0 else { return Vec::new() };
        let mut record = vec![0; 8 << 10];
        for _ in 0..RECORDS {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => victims.read(&String::from_utf8_lossy(&record[..length])),
                // records were lost; the next read goes on behind them
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
            if victims.names.len() == MOST {
                break;
            }
        }
        victims.names
    }
}

/// Those of one cgroup, record by record.
#[derive(Debug)]
struct Victims {
    /// The last part of the cgroup's path: it holds the number of our process and one of its own. The
    /// kernel prints paths from the hierarchy's root, which a container does not see.
    group: String,
    /// Whom the record before named, and whether it is of the group.
    next: Option<(u32, bool)>,
    names: Vec<String>,
}

impl Victims {
    fn of(group: &str) -> Self {
        Self { group: group.to_owned(), next: None, names: Vec::new() }
    }

    fn read(&mut self, record: &str) {
        let Some(message) = message(record) else { return };
        if let Some((pid, path)) = placed(message) {
            self.next = Some((pid, path.split('/').any(|part| part == self.group)));
        } else if let Some((pid, name)) = killed(message) {
            if self.next.take() == Some((pid, true)) {
                self.names.push(name);
            }
        }
    }
}

fn message(record: &str) -> Option<&str> {
    Some(record.lines().next()?.split_once(';')?.1)
}

/// `…,task_memcg=/group,task=name,pid=123,uid=0`; the beginning may have become a record of its own.
fn placed(message: &str) -> Option<(u32, &str)> {
    let (_, behind) = message.split_once("task_memcg=")?;
    let (path, behind) = behind.split_once(",task=")?;
    let (_, pid) = behind.rsplit_once(",pid=")?;
    Some((pid.split(',').next()?.parse().ok()?, path))
}

/// `… Killed process 123 (name) total-vm:…`; a name may hold anything, parentheses too.
fn killed(message: &str) -> Option<(u32, String)> {
    let (_, behind) = message.split_once("Killed process ")?;
    let (pid, behind) = behind.split_once(" (")?;
    let end = behind.find(") total-vm").or_else(|| behind.rfind(')'))?;
    Some((pid.parse().ok()?, Name::from(&behind[..end]).as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two as kernels 6.18 and 5.10 print them.
    #[test]
    fn names_of_the_killed_are_found() {
        for (record, found) in [
            (
                "3,931,88912345,-;Memory cgroup out of memory: Killed process 4711 (tail) \
                 total-vm:86012kB, anon-rss:62464kB, file-rss:1792kB, shmem-rss:0kB, UID:0 \
                 pgtables:212kB oom_score_adj:0\n",
                Some((4711, "tail")),
            ),
            (
                "3,5,6,-;Out of memory: Killed process 12 (a (b) c) total-vm:1kB, anon\n",
                Some((12, "a (b) c")),
            ),
            ("3,5,6,-;Killed process 12 (old)\n", Some((12, "old"))),
            ("6,5,6,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=tail,pid=4711,uid=0\n", None),
            ("6,5,6,-;Killed process x (a)\n", None),
            ("no record", None),
            ("", None),
        ] {
            let name = message(record).and_then(killed);
            assert_eq!(name, found.map(|(pid, name)| (pid, name.to_owned())), "{record}");
        }
    }

    /// As a kernel 6.18 prints it.
    const PLACED: &str = "6,930,88912340,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),\
        cpuset=/,mems_allowed=0,oom_memcg=/pagewise-7-2,task_memcg=/pagewise-7-2,task=tail,pid=4711,\
        uid=0\n";

    #[test]
    fn a_process_and_its_cgroup_are_found() {
        for (record, found) in [
            (PLACED, Some((4711, "/pagewise-7-2"))),
            // somebody else printed in between
            ("6,5,6,c;,task_memcg=/a/b,task=a,pid=1,pid=2,uid=0\n", Some((2, "/a/b"))),
            ("6,5,6,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/\n", None),
            ("6,5,6,-;task_memcg=/a,task=a,pid=x,uid=0\n", None),
        ] {
            assert_eq!(message(record).and_then(placed), found, "{record}");
        }
    }

    /// Processes with their cgroups; those without one were killed too fast for the kernel to say.
    fn victims(killed: &[(u32, &str, Option<&str>)]) -> Vec<String> {
        let mut victims = Victims::of("pagewise-7-2");
        for (pid, name, group) in killed {
            if let Some(group) = group {
                victims.read(&format!("6,1,1,-;task_memcg={group},task={name},pid={pid},uid=0\n"));
            }
            victims.read("6,1,1,-;some other line\n");
            victims.read(&format!(
                "3,1,1,-;Out of memory: Killed process {pid} ({name}) total-vm:1\n"
            ));
        }
        victims.names
    }

    #[test]
    fn only_those_of_the_group_are_kept() {
        let all = [
            (1, "neighbour", Some("/pagewise-7-20")),
            (2, "first", Some("/pagewise-7-2")),
            (3, "unplaced", None),
            (4, "below", Some("/docker/1/pagewise-7-2/child")),
            (5, "host", Some("/")),
            (2, "unplaced", None),
        ];
        assert_eq!(victims(&all), ["first", "below"]);
    }

    #[test]
    fn a_quiet_log_names_nobody() {
        assert!(Log(None).victims().is_empty());
        assert!(Log::from_now(None).victims().is_empty());
    }
}
