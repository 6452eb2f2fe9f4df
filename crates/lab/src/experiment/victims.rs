// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's log while a run lasts → who was killed for lack of memory.
//!
//! Every read of `/dev/kmsg` is one record: `6,1234,5678,-;message`, its dictionary on lines behind it.
//! Records that were overwritten before they were read are skipped by the kernel, which says so once.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use pagewise_model::Name;

/// More names are not kept.
const MOST: usize = 100;
/// More records are not read.
const RECORDS: usize = 100_000;

/// The log from here on; nothing where we may not read it.
#[derive(Debug)]
pub(super) struct Log(Option<File>);

impl Log {
    pub(super) fn from_now() -> Self {
        let open = || {
            let mut options = OpenOptions::new();
            let flags = rustix::fs::OFlags::NONBLOCK.bits();
            let flags = i32::try_from(flags).map_err(std::io::Error::other)?;
            let mut file = options.read(true).custom_flags(flags).open("/dev/kmsg")?;
            file.seek(SeekFrom::End(0))?;
            Ok::<_, std::io::Error>(file)
        };
        Self(open().ok())
    }

    /// Names of those that were killed since.
    pub(super) fn victims(self) -> Vec<String> {
        let Some(mut file) = self.0 else { return Vec::new() };
        let mut names = Vec::new();
        let mut record = vec![0; 8 << 10];
        for _ in 0..RECORDS {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => names.extend(victim(&String::from_utf8_lossy(&record[..length]))),
                // records were lost; the next read goes on behind them
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
            if names.len() == MOST {
                break;
            }
        }
        names
    }
}

/// `… Killed process 123 (name) total-vm:…`; a name may hold anything, parentheses too.
fn victim(record: &str) -> Option<String> {
    let (_, message) = record.lines().next()?.split_once(';')?;
    let (_, behind) = message.split_once("Killed process ")?;
    let (pid, behind) = behind.split_once(" (")?;
    pid.parse::<u32>().ok()?;
    let end = behind.find(") total-vm").or_else(|| behind.rfind(')'))?;
    Some(Name::from(&behind[..end]).as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two as kernels 6.18 and 5.10 print them.
    #[test]
    fn names_of_the_killed_are_found() {
        for (record, name) in [
            (
                "3,931,88912345,-;Memory cgroup out of memory: Killed process 4711 (tail) \
                 total-vm:86012kB, anon-rss:62464kB, file-rss:1792kB, shmem-rss:0kB, UID:0 \
                 pgtables:212kB oom_score_adj:0\n",
                Some("tail"),
            ),
            (
                "3,5,6,-;Out of memory: Killed process 12 (a (b) c) total-vm:1kB, anon\n",
                Some("a (b) c"),
            ),
            ("3,5,6,-;Killed process 12 (old)\n", Some("old")),
            ("6,5,6,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=tail,pid=4711,uid=0\n", None),
            ("6,5,6,-;Killed process x (a)\n", None),
            ("no record", None),
            ("", None),
        ] {
            assert_eq!(victim(record).as_deref(), name, "{record}");
        }
    }

    #[test]
    fn a_quiet_log_names_nobody() {
        assert!(Log(None).victims().is_empty());
        let _ = Log::from_now().victims();
    }
}
